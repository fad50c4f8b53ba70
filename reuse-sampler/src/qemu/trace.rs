//! Every block and every access of a program, one after the other.

#[cfg(qemu_plugin)]
use std::collections::HashMap;
use std::ffi::OsStr;

#[cfg(qemu_plugin)]
use super::sampler::Run;
#[cfg(qemu_plugin)]
use super::shared::layout::Told;
#[cfg(qemu_plugin)]
use super::shared::message::TraceMessage;
#[cfg(qemu_plugin)]
use super::shared::word::{self, Word};
use super::{CodeLocation, QemuOptions, TargetExit};
use crate::SamplerError;
#[cfg(qemu_plugin)]
use crate::replay::Event;
use crate::replay::EventSource;
#[cfg(qemu_plugin)]
use crate::{Access, AccessKind, ThreadId};

/// A program that runs under the emulator, as a stream of [events](Event): for exact simulation, or to
/// record it once and replay it often.
///
/// Blocks and accesses are those a [`QemuSampler`](super::QemuSampler) counts, each access with the program counter of
/// its instruction; addresses keep 48 bits. Threads run in parallel and are told in stretches of
/// some thousand events, so that how they interleave is not what it was. When a thread ends the process, or a signal
/// does, up to 8192 events of each other thread are lost. The program waits while nobody asks for events; dropping
/// the trace kills it.
///
/// [`fetches`](Self::fetches) tells the instructions themselves instead, for instruction caches.
///
/// # Cost
/// The events pass through shared memory, eight bytes each, program counters included (they cost 4 %): on a run of
/// `sort`, 55 million events for each second of CPU time of both processes together, eight times what the emulator alone
/// takes.
///
/// ```no_run
/// use reuse_sampler::qemu::{QemuOptions, QemuTrace};
/// use reuse_sampler::replay::{ReplayOptions, ReplaySampler};
///
/// let trace = QemuTrace::spawn("sort", ["words.txt"], &QemuOptions::default())?;
/// let sampler = ReplaySampler::new(trace, ReplayOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QemuTrace {
    #[cfg(qemu_plugin)]
    run: Run,
    #[cfg(qemu_plugin)]
    stretch: TraceMessage,
    #[cfg(qemu_plugin)]
    told: usize, // words of the stretch
    #[cfg(qemu_plugin)]
    thread: u32,
    #[cfg(qemu_plugin)]
    place: Place, // of that thread
    #[cfg(qemu_plugin)]
    places: HashMap<u32, Place>, // of the other threads
    #[cfg(qemu_plugin)]
    fetches: bool,
    #[cfg(not(qemu_plugin))]
    run: std::convert::Infallible,
}

/// What a thread executes.
#[cfg(qemu_plugin)]
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    block: u64, // its address; its number where fetches are told
    site: u64,  // the instruction told last; where fetches are told, the one to tell next
    left: u32,  // instructions of the block not told yet, where fetches are
}

#[cfg(qemu_plugin)]
impl QemuTrace {
    /// Starts `program` (found as a shell finds it) with `arguments`. Of the options, the length of a window, the line
    /// size and the seed mean nothing here. Standard input, output and error are the caller's.
    ///
    /// # Errors
    /// As [`QemuSampler::spawn`](super::QemuSampler::spawn).
    pub fn spawn<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(program.as_ref(), arguments, options, Told::Accesses)
    }

    /// The same for instruction caches: each instruction executed is a load of its bytes, made by itself, and loads and
    /// stores are not told. This is what [`Side::Instruction`](crate::trace::Side) makes of a trace that records
    /// fetches. A block that a signal leaves half way is told whole. An iteration of a repeated string instruction is
    /// fetched again.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    ///
    /// # Cost
    /// Less than loads and stores: only blocks pass through shared memory.
    pub fn fetches<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Self::start(program.as_ref(), arguments, options, Told::Fetches)
    }

    fn start<A: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
        told: Told,
    ) -> Result<Self, SamplerError> {
        let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        Ok(Self {
            run: Run::start(program, &arguments, options, told)?,
            stretch: TraceMessage::default(),
            told: 0,
            thread: 0,
            place: Place::default(),
            places: HashMap::new(),
            fetches: told == Told::Fetches,
        })
    }

    /// Where the code at `address` comes from, if it belongs to a file. Known once the program has ended, unless a signal
    /// ended it.
    ///
    /// # Cost
    /// As [`QemuSampler::locate`](super::QemuSampler::locate).
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.run.locate(address)
    }

    /// How the program ended, once all events were told.
    #[must_use]
    pub fn exit_status(&self) -> Option<TargetExit> {
        self.run.exit_status()
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.run.warnings
    }

    /// The event that a word stands for, if it is one.
    #[inline]
    fn event(&mut self, packed: u64) -> Result<Option<Event>, SamplerError> {
        if self.fetches {
            let (address, sizes) = self.run.block(packed)?;
            let instructions = sizes.len() as u32;
            self.place = Place { block: packed, site: address, left: instructions };
            return Ok(Some(Event::Block { address, instructions }));
        }
        Ok(match word::read(packed) {
            Word::Block(address, instructions) => {
                self.place.block = address;
                Some(Event::Block { address, instructions })
            }
            Word::Site(pc) => {
                self.place.site = pc;
                None
            }
            Word::Access(address, bytes, store, within) => {
                let kind = if store { AccessKind::Store } else { AccessKind::Load };
                let pc = within.map_or(self.place.site, |bytes| self.place.block.wrapping_add(bytes));
                Some(Event::Access(Access { address, bytes, kind, pc }))
            }
        })
    }

    /// The next instruction of the block.
    fn fetch(&mut self) -> Result<Event, SamplerError> {
        let (_, sizes) = self.run.block(self.place.block)?;
        let (address, next) = (self.place.site, sizes.len() - self.place.left as usize);
        let bytes = sizes[next];
        self.place.left -= 1;
        self.place.site = address.wrapping_add(bytes.into());
        Ok(Event::Access(Access::load(address, bytes.into()).at(address)))
    }

    /// Goes on with the thread of the stretch, if it is another one.
    fn switch(&mut self) -> Option<Event> {
        let thread = self.stretch.thread;
        if thread == self.thread {
            return None;
        }
        let place = self.places.remove(&thread).unwrap_or_default();
        self.places.insert(self.thread, std::mem::replace(&mut self.place, place));
        self.thread = thread;
        Some(Event::Thread(ThreadId(thread)))
    }
}

#[cfg(qemu_plugin)]
impl EventSource for QemuTrace {
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        loop {
            if self.place.left > 0 {
                return self.fetch().map(Some);
            }
            if let Some(&packed) = self.stretch.words.get(self.told) {
                self.told += 1;
                match self.event(packed)? {
                    None => continue,
                    event => return Ok(event),
                }
            }
            if std::mem::take(&mut self.stretch.ended) {
                self.place = Place::default();
                return Ok(Some(Event::Exit(ThreadId(self.stretch.thread))));
            }
            match self.run.next_trace()? {
                Some(stretch) => self.stretch = stretch,
                None => return Ok(None),
            }
            self.told = 0;
            if let Some(event) = self.switch() {
                return Ok(Some(event));
            }
        }
    }
}

#[cfg(not(qemu_plugin))]
impl QemuTrace {
    /// Always an error: the emulator runs Linux programs on Linux.
    ///
    /// # Errors
    /// [`SamplerError::Unsupported`].
    pub fn spawn<A: AsRef<OsStr>>(
        _program: impl AsRef<OsStr>,
        _arguments: impl IntoIterator<Item = A>,
        _options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Err(SamplerError::Unsupported {
            backend: "qemu",
            missing: "qemu's user-mode emulation runs on 64-bit Linux only".into(),
        })
    }

    /// Always an error, as [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// [`SamplerError::Unsupported`].
    pub fn fetches<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        options: &QemuOptions,
    ) -> Result<Self, SamplerError> {
        Self::spawn(program, arguments, options)
    }

    /// Where the code at `address` comes from.
    pub fn locate(&mut self, _address: u64) -> Option<CodeLocation> {
        match self.run {}
    }

    /// How the program ended.
    #[must_use]
    pub fn exit_status(&self) -> Option<TargetExit> {
        match self.run {}
    }

    /// What the user should know about the run.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        match self.run {}
    }
}

#[cfg(not(qemu_plugin))]
impl EventSource for QemuTrace {
    fn next_event(&mut self) -> Result<Option<crate::replay::Event>, SamplerError> {
        match self.run {}
    }
}

#[cfg(all(test, qemu_plugin))]
mod tests {
    use quickcheck::quickcheck;

    use super::super::shared::message::{CodeMessage, Message};
    use super::*;

    quickcheck! {
        fn stretches_arrive_as_they_were_sent(thread: u32, ended: bool, words: Vec<u64>) -> bool {
            let sent = Message::Trace(TraceMessage { thread, ended, words });
            let mut bytes = Vec::new();
            sent.encode(&mut bytes);
            let cut = Message::decode(&bytes[..bytes.len() - 1]);
            cut == Ok(None) && Message::decode(&bytes) == Ok(Some((sent, bytes.len())))
        }

        fn blocks_arrive_as_they_were_sent(number: u64, address: u64, sizes: Vec<u8>) -> bool {
            let sent = Message::Code(CodeMessage { number, address, sizes });
            let mut bytes = Vec::new();
            sent.encode(&mut bytes);
            let cut = Message::decode(&bytes[..bytes.len() - 1]);
            cut == Ok(None) && Message::decode(&bytes) == Ok(Some((sent, bytes.len())))
        }
    }
}
