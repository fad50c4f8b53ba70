//! Messages from the plugin to the sampler.

use crate::engine::overlap::Overlap;
use crate::engine::report::{Backward, Closed, Count, Fate, Report};

use super::codec::{Reader, put};

/// A message from the plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The plugin is in the emulator. The first message.
    Hello,
    /// A window of a thread is complete.
    Window(Box<WindowMessage>),
    /// Blocks and accesses of a thread, where they are handed out.
    Trace(TraceMessage),
    /// A block, before it is executed, where fetches are reported.
    Code(CodeMessage),
    /// What is mapped where in the emulator's memory, as the kernel lists it, before the program ends: it may be gone
    /// when the sampler comes to look.
    Mapped(String),
    /// The process is replaced by another program, given by its path; nothing more will be seen.
    Replaced(String),
    /// The process is about to execute a program, which is observed.
    Executes {
        /// The file.
        path: String,
        /// Its arguments, separated by spaces.
        command: String,
    },
    /// The process exits with this status.
    Exits(u8),
    /// The process has waited for a child.
    Reaped {
        /// Number of the child.
        process: u32,
        /// Its status as the kernel encodes it: the exit status times 256, or the number of a signal.
        status: u32,
    },
    /// A thread could not be halted; its last window is lost.
    Lost {
        /// The thread.
        thread: u32,
    },
    /// All threads were reported. The last message.
    End,
}

/// Blocks and accesses of a thread, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceMessage {
    /// Number of the thread, from 0 in the order of appearance.
    pub thread: u32,
    /// Whether these are its last ones.
    pub ended: bool,
    /// What it did: [words](super::word), or numbers of the blocks it executed where fetches are reported.
    pub words: Vec<u64>,
    /// Accesses beyond the first of each operand.
    pub further: u64,
}

/// A block and its instructions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeMessage {
    /// Its number, from 0 in the order in which they are reported.
    pub number: u64,
    /// Address of the first instruction.
    pub address: u64,
    /// Bytes of each instruction; there is one.
    pub sizes: Vec<u8>,
}

/// What was seen of a thread between two boundaries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowMessage {
    /// Number of the thread, from 0 in the order of appearance.
    pub thread: u32,
    /// Number of the window, unique over the run.
    pub index: u64,
    /// Where the thread waits for its next plan; none if this was its last window.
    pub slot: Option<u32>,
    /// Instructions executed.
    pub instructions: u64,
    /// Instructions executed in blocks whose accesses were shown to the tracker.
    pub seen_instructions: u64,
    /// Whether the plan asked for accesses to be seen.
    pub profiled: bool,
    /// Nanoseconds on the wall clock.
    pub elapsed: u64,
    /// (address, instructions executed there), each address once, ascending.
    pub code: Vec<(u64, u64)>,
    /// Accesses beyond the first of each operand.
    pub further: u64,
    /// What the tracker says.
    pub report: Report,
}

const HELLO: u64 = 0;
const WINDOW: u64 = 1;
const REPLACED: u64 = 2;
const LOST: u64 = 3;
const END: u64 = 4;
const MAPPED: u64 = 5;
const TRACE: u64 = 6;
const CODE: u64 = 7;
const EXECUTES: u64 = 8;
const EXITS: u64 = 9;
const REAPED: u64 = 10;

impl Message {
    /// Appends the message with its length in front, eight bytes, little end first.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend([0; 8]);
        match self {
            Self::Hello => put(to, HELLO),
            Self::Window(window) => {
                put(to, WINDOW);
                window.encode(to);
            }
            Self::Trace(trace) => {
                put(to, TRACE);
                trace.encode(to);
            }
            Self::Code(code) => {
                put(to, CODE);
                code.encode(to);
            }
            Self::Mapped(text) => {
                put(to, MAPPED);
                put_text(to, text);
            }
            Self::Replaced(path) => {
                put(to, REPLACED);
                put_text(to, path);
            }
            Self::Executes { path, command } => {
                put(to, EXECUTES);
                put_text(to, path);
                put_text(to, command);
            }
            Self::Exits(status) => {
                put(to, EXITS);
                put(to, u64::from(*status));
            }
            Self::Reaped { process, status } => {
                put(to, REAPED);
                put(to, u64::from(*process));
                put(to, u64::from(*status));
            }
            Self::Lost { thread } => {
                put(to, LOST);
                put(to, u64::from(*thread));
            }
            Self::End => put(to, END),
        }
        let length = (to.len() - start - 8) as u64;
        to[start..start + 8].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes one message from the front of `bytes`: `Ok(None)` if it is not complete yet, with the number of
    /// bytes it took otherwise.
    ///
    /// # Errors
    /// What is wrong with a message that cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
        let length = u64::from_le_bytes(*length) as usize;
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let mut reader = Reader(payload);
        let message = Self::read(&mut reader).ok_or("a message cannot be read")?;
        if !reader.0.is_empty() {
            return Err("a message is longer than its content");
        }
        Ok(Some((message, 8 + length)))
    }

    fn read(from: &mut Reader) -> Option<Self> {
        Some(match from.get()? {
            HELLO => Self::Hello,
            WINDOW => Self::Window(Box::new(WindowMessage::read(from)?)),
            TRACE => Self::Trace(TraceMessage::read(from)?),
            CODE => Self::Code(CodeMessage::read(from)?),
            MAPPED => Self::Mapped(get_text(from)?),
            REPLACED => Self::Replaced(get_text(from)?),
            EXECUTES => Self::Executes { path: get_text(from)?, command: get_text(from)? },
            EXITS => Self::Exits(from.get()? as u8),
            REAPED => Self::Reaped { process: from.get()? as u32, status: from.get()? as u32 },
            LOST => Self::Lost { thread: from.get()? as u32 },
            END => Self::End,
            _ => return None,
        })
    }
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, text.len() as u64);
    to.extend(text.as_bytes());
}

fn get_text(from: &mut Reader) -> Option<String> {
    let length = from.get()?;
    Some(String::from_utf8_lossy(from.bytes(length as usize)?).into_owned())
}

impl TraceMessage {
    fn encode(&self, to: &mut Vec<u8>) {
        put(to, u64::from(self.thread));
        put(to, u64::from(self.ended));
        put(to, self.further);
        put(to, self.words.len() as u64);
        // There are many, and most use most of their bits.
        to.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn read(from: &mut Reader) -> Option<Self> {
        let (thread, ended, further) = (from.get()? as u32, from.get()? != 0, from.get()?);
        let count = usize::try_from(from.get()?).ok()?;
        let bytes = from.bytes(count.checked_mul(8)?)?;
        let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        Some(Self { thread, ended, further, words: bytes.chunks_exact(8).filter_map(word).collect() })
    }
}

impl CodeMessage {
    fn encode(&self, to: &mut Vec<u8>) {
        put(to, self.number);
        put(to, self.address);
        put(to, self.sizes.len() as u64);
        to.extend(&self.sizes);
    }

    fn read(from: &mut Reader) -> Option<Self> {
        let (number, address, count) = (from.get()?, from.get()?, from.get()?);
        Some(Self { number, address, sizes: from.bytes(usize::try_from(count).ok()?)?.to_vec() })
    }
}

impl WindowMessage {
    fn encode(&self, to: &mut Vec<u8>) {
        let slot = self.slot.map_or(0, |slot| u64::from(slot) + 1);
        let profiled = u64::from(self.profiled);
        for value in [u64::from(self.thread), self.index, slot, self.instructions, self.seen_instructions] {
            put(to, value);
        }
        put(to, profiled);
        put(to, self.elapsed);
        put(to, self.further);
        put(to, self.code.len() as u64);
        let mut before = 0;
        for &(address, weight) in &self.code {
            put(to, address.wrapping_sub(before));
            put(to, weight);
            before = address;
        }
        let report = &self.report;
        put(to, report.accesses);
        put(to, report.open);
        put(to, report.closed.len() as u64);
        for closed in &report.closed {
            put_fate(to, closed.fate);
            put(to, closed.window);
            put(to, closed.weight);
            put_site(to, closed.begin);
            if let Some(end) = closed.end {
                put_site(to, end);
            }
        }
        put(to, report.counts.len() as u64);
        for count in &report.counts {
            put_fate(to, count.fate);
            put(to, count.window);
            put(to, count.samples);
        }
        put(to, report.overlaps.len() as u64);
        for o in &report.overlaps {
            for value in [o.window, u64::from(o.bin), o.weight, o.samples, o.open, o.pairs] {
                put(to, value);
            }
        }
        put(to, report.strides.len() as u64);
        for &(pc, stride) in &report.strides {
            put(to, pc);
            put(to, stride as u64);
        }
        put(to, u64::from(report.arrivals.is_some()));
        for fates in report.arrivals.iter().flatten() {
            put(to, fates.len() as u64);
            for &(fate, count) in fates {
                put_fate(to, fate);
                put(to, count);
            }
        }
    }

    fn read(from: &mut Reader) -> Option<Self> {
        let mut window = Self {
            thread: from.get()? as u32,
            index: from.get()?,
            slot: from.get()?.checked_sub(1).map(|slot| slot as u32),
            instructions: from.get()?,
            seen_instructions: from.get()?,
            profiled: from.get()? != 0,
            elapsed: from.get()?,
            further: from.get()?,
            ..Self::default()
        };
        let mut before = 0_u64;
        for _ in 0..from.get()? {
            before = before.wrapping_add(from.get()?);
            window.code.push((before, from.get()?));
        }
        let report = &mut window.report;
        report.accesses = from.get()?;
        report.open = from.get()?;
        for _ in 0..from.get()? {
            let fate = get_fate(from)?;
            let (window, weight, begin) = (from.get()?, from.get()?, get_site(from)?);
            let end = if matches!(fate, Fate::Reused(_)) { Some(get_site(from)?) } else { None };
            report.closed.push(Closed { fate, window, weight, begin, end });
        }
        for _ in 0..from.get()? {
            report.counts.push(Count { fate: get_fate(from)?, window: from.get()?, samples: from.get()? });
        }
        for _ in 0..from.get()? {
            report.overlaps.push(Overlap {
                window: from.get()?,
                bin: from.get()? as u32,
                weight: from.get()?,
                samples: from.get()?,
                open: from.get()?,
                pairs: from.get()?,
            });
        }
        for _ in 0..from.get()? {
            report.strides.push((from.get()?, from.get()? as i64));
        }
        if from.get()? != 0 {
            report.arrivals = Some([get_backward(from)?, get_backward(from)?]);
        }
        Some(window)
    }
}

fn get_backward(from: &mut Reader) -> Option<Backward> {
    (0..from.get()?).map(|_| Some((get_fate(from)?, from.get()?))).collect()
}

fn put_fate(to: &mut Vec<u8>, fate: Fate) {
    match fate {
        Fate::Dangling => put(to, 0),
        Fate::Reused(distance) => {
            put(to, 1);
            put(to, distance);
        }
        Fate::Censored(age) => {
            put(to, 2);
            put(to, age);
        }
        Fate::Invalidated(distance) => {
            put(to, 3);
            put(to, distance);
        }
    }
}

fn get_fate(from: &mut Reader) -> Option<Fate> {
    Some(match from.get()? {
        0 => Fate::Dangling,
        1 => Fate::Reused(from.get()?),
        2 => Fate::Censored(from.get()?),
        3 => Fate::Invalidated(from.get()?),
        _ => return None,
    })
}

fn put_site(to: &mut Vec<u8>, (pc, store): (u64, bool)) {
    put(to, pc);
    put(to, u64::from(store));
}

fn get_site(from: &mut Reader) -> Option<(u64, bool)> {
    Some((from.get()?, from.get()? != 0))
}
