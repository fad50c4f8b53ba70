//! The text format of the Dinero cache simulators: `label address`, one record per line.

use std::io::{self, Read, Write};

use super::Side;
use super::digits::hexadecimal_digits;
use super::lines::{Lines, after_blanks, at_field_end, hexadecimal};
use crate::replay::{Event, EventSource};
use crate::{Access, AccessKind, SamplerError};

/// Reads Dinero's `din` text.
///
/// A record is a label (0 load, 1 store, 2 instruction fetch) and a hexadecimal address, with or without
/// `0x`, separated by blanks or tabs. What follows the address on the line is ignored, as Dinero does. An
/// instruction fetch is no memory access here: it becomes a block of one instruction, and the program counter
/// of the accesses that follow it. The format has no sizes, so every access is of 1 byte and touches one line.
/// Blank lines and lines that begin with `#` are skipped.
///
/// # Errors
/// [`SamplerError::Trace`] for any other line, [`SamplerError::EmptyTrace`] for a trace without a load or
/// store, [`SamplerError::Io`] if the input cannot be read.
///
/// ```
/// use reuse_sampler::trace::DinReader;
/// use reuse_sampler::replay::{Event, EventSource};
/// use reuse_sampler::Access;
///
/// let mut trace = DinReader::new(&b"2 400100\n0 7ffe10\n"[..]);
/// assert_eq!(trace.next_event()?, Some(Event::Block { address: 0x40_0100, instructions: 1 }));
/// assert_eq!(trace.next_event()?, Some(Event::Access(Access::load(0x7f_fe10, 0).at(0x40_0100))));
/// assert_eq!(trace.next_event()?, None);
/// # Ok::<(), reuse_sampler::SamplerError>(())
/// ```
///
/// # References
/// Edler and Hill, *Dinero IV Trace-Driven Uniprocessor Cache Simulator*, input format `d`.
#[derive(Debug)]
pub struct DinReader<R> {
    lines: Lines<R>,
    pc: u64,
    empty: bool, // no access so far
    side: Side,
    fetched: bool, // the block of `pc` was handed out, its fetch is next
}

const FORMAT: &str = "din";

impl<R: Read> DinReader<R> {
    /// A reader that has read nothing yet.
    pub const fn new(input: R) -> Self {
        Self { lines: Lines::new(FORMAT, input), pc: 0, empty: true, side: Side::Data, fetched: false }
    }

    /// The same for one side of the caches: with [`Side::Instruction`], every fetch is a load of the instruction by itself,
    /// after the block that it is, and loads and stores are passed over.
    #[must_use]
    pub const fn side(mut self, side: Side) -> Self {
        self.side = side;
        self
    }
}

impl<R: Read> EventSource for DinReader<R> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        if std::mem::take(&mut self.fetched) {
            return Ok(Some(Event::Access(Access::load(self.pc, 0).at(self.pc))));
        }
        let next = loop {
            match self.lines.next(record).inspect_err(|_| self.empty = false)? {
                Some((Label::Access(_), _)) if self.side == Side::Instruction => {}
                Some((Label::Access(kind), address)) => {
                    self.empty = false;
                    return Ok(Some(Event::Access(Access { address, bytes: 0, kind, pc: self.pc })));
                }
                fetch_or_end => break fetch_or_end,
            }
        };
        match next {
            Some((_, address)) => {
                self.pc = address;
                self.fetched = self.side == Side::Instruction;
                self.empty &= !self.fetched;
                Ok(Some(Event::Block { address, instructions: 1 }))
            }
            None if std::mem::take(&mut self.empty) => Err(SamplerError::EmptyTrace { format: FORMAT }),
            None => Ok(None),
        }
    }
}

enum Label {
    Access(AccessKind),
    Fetch,
}

#[inline]
fn record(line: &[u8]) -> Result<Option<(Label, u64)>, &'static str> {
    let (label, rest) = match after_blanks(line) {
        [b'0', rest @ ..] => (Label::Access(AccessKind::Load), rest),
        [b'1', rest @ ..] => (Label::Access(AccessKind::Store), rest),
        [b'2', rest @ ..] => (Label::Fetch, rest),
        [] | [b'#' | b'\r', ..] => return Ok(None),
        _ => return Err("expected label 0 (load), 1 (store) or 2 (instruction fetch)"),
    };
    let field = after_blanks(rest);
    if field.len() == rest.len() && !at_field_end(rest) {
        return Err("expected label 0 (load), 1 (store) or 2 (instruction fetch)");
    }
    match hexadecimal(field) {
        Some((address, rest)) if at_field_end(rest) => Ok(Some((label, address))),
        _ => Err("expected a hexadecimal address of at most 64 bits after the label"),
    }
}

/// Writes Dinero's `din` text: what a [`DinReader`] reads back.
///
/// The format has no sizes, no threads and no program counters but those of fetches. Give it a buffered
/// output; each record is one small write.
#[derive(Debug)]
pub struct DinWriter<W> {
    output: W,
    pc: u64, // of the last fetch
    fetches: u64,
    row: Vec<u8>,
}

impl<W: Write> DinWriter<W> {
    /// A writer that has written nothing yet.
    pub const fn new(output: W) -> Self {
        Self { output, pc: 0, fetches: 0, row: Vec::new() }
    }

    /// Writes what the format can say of an event: an access by its kind and first address, after a fetch of its
    /// program counter if that is known and not the last one fetched; a block as one fetch, whatever its number of
    /// instructions, so that instruction caches cannot be judged by it. Threads are merged.
    ///
    /// # Errors
    /// Whatever the output answers.
    #[inline]
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Access(access) => {
                if access.pc != self.pc && access.pc != 0 {
                    self.fetch(access.pc)?;
                }
                self.access(access)
            }
            Event::Block { address, .. } => self.fetch(*address),
            Event::Thread(_) | Event::Exit(_) => Ok(()),
        }
    }

    /// Writes a load or store: its kind and first address.
    ///
    /// # Errors
    /// Whatever the output answers.
    #[inline]
    pub fn access(&mut self, access: &Access) -> io::Result<()> {
        let label = match access.kind {
            AccessKind::Load => b'0',
            AccessKind::Store => b'1',
        };
        self.record(label, access.address)
    }

    /// Writes an instruction fetch.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn fetch(&mut self, address: u64) -> io::Result<()> {
        (self.pc, self.fetches) = (address, self.fetches + 1);
        self.record(b'2', address)
    }

    /// Fetches written so far.
    pub const fn fetches(&self) -> u64 {
        self.fetches
    }

    /// Writes a line that a [`DinReader`] skips (other readers may not). A remark of several lines becomes one.
    ///
    /// # Errors
    /// Whatever the output answers.
    pub fn remark(&mut self, remark: &str) -> io::Result<()> {
        writeln!(self.output, "# {}", remark.replace(['\n', '\r'], " "))
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// Whatever the output answers to flushing.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    #[inline]
    fn record(&mut self, label: u8, address: u64) -> io::Result<()> {
        self.row.clear();
        self.row.extend([label, b' ']);
        hexadecimal_digits(&mut self.row, address);
        self.row.push(b'\n');
        self.output.write_all(&self.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    fn read(text: &[u8]) -> Result<Vec<Event>, SamplerError> {
        let mut reader = DinReader::new(text);
        let mut events = Vec::new();
        while let Some(event) = reader.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    fn load(address: u64) -> Event {
        Event::Access(Access::load(address, 0))
    }

    #[test]
    fn a_hand_made_trace_reads_as_it_was_meant() {
        let text =
            b"# a comment\n0 10\n\n1 0xFF\r\n \t2\t400000 ignored 0\n1   ffffffffffffffff\n0 0\r\n\r\n1 0x0";
        let at = |event: Access| Event::Access(event.at(0x40_0000));
        let expected = [
            load(16),
            Event::Access(Access::store(255, 0)),
            Event::Block { address: 0x40_0000, instructions: 1 },
            at(Access::store(u64::MAX, 0)),
            at(Access::load(0, 0)),
            at(Access::store(0, 0)),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn bad_lines_are_refused_with_number_and_content() {
        let label = "expected label 0 (load), 1 (store) or 2 (instruction fetch)";
        let address = "expected a hexadecimal address of at most 64 bits after the label";
        for (line, problem) in [
            ("3 10", label),
            ("-1 10", label),
            ("r 10", label),
            ("0x10", label),
            ("01 10", label),
            ("0", address),
            ("0 ", address),
            ("1 xyz", address),
            ("1 10g", address),
            ("1 -10", address),
            ("0 11112222333344445", address),
            ("\u{1f}\u{8b}\u{8}", label),
        ] {
            let text = format!("0 1\n\n{line}\n0 2\n");
            let error = read(text.as_bytes()).unwrap_err();
            let SamplerError::Trace { format: "din", line: 3, problem: found, content } = error else {
                panic!("{line:?}: {error}")
            };
            assert_eq!((found, content.as_str()), (problem, line.trim_end()));
        }
    }

    #[test]
    fn a_trace_without_accesses_is_empty() {
        for text in ["", "\n\r\n", "# nothing\n", "2 400000\n"] {
            assert!(
                matches!(read(text.as_bytes()), Err(SamplerError::EmptyTrace { format: "din" })),
                "{text:?}"
            );
        }
    }

    quickcheck! {
        fn what_is_written_is_read_back(records: Vec<(u8, u64, u32)>) -> bool {
            let mut writer = DinWriter::new(Vec::new());
            let mut expected = vec![load(1)];
            let mut pc = 0;
            writer.access(&Access::load(1, 0)).unwrap(); // so that the trace is not empty
            for (label, address, bits) in records {
                let address = address >> (bits % 64);
                if label % 3 == 2 {
                    pc = address;
                    writer.fetch(address).unwrap();
                    expected.push(Event::Block { address, instructions: 1 });
                } else {
                    let kind = if label % 3 == 0 { AccessKind::Load } else { AccessKind::Store };
                    let access = Access { address, bytes: 0, kind, pc };
                    writer.access(&access).unwrap();
                    expected.push(Event::Access(access));
                }
            }
            read(&writer.finish().unwrap()).unwrap() == expected
        }

        fn events_keep_their_accesses_and_program_counters(events: Vec<(u64, u64, bool)>) -> bool {
            let mut writer = DinWriter::new(Vec::new());
            let mut expected = vec![Access::load(1, 0).at(2)];
            for (address, pc, store) in events {
                // A program counter of 0 is unknown: in the file it is that of the access before.
                let access = if store { Access::store(address, 0) } else { Access::load(address, 0) };
                expected.push(access.at(pc | 1));
            }
            for access in &expected {
                writer.event(&Event::Access(*access)).unwrap();
                writer.remark("0 10\n1 20").unwrap();
            }
            let events = read(&writer.finish().unwrap()).unwrap();
            let read: Vec<Access> =
                events.iter().filter_map(|e| if let Event::Access(a) = e { Some(*a) } else { None }).collect();
            read == expected
        }
    }

    #[test]
    fn blocks_and_accesses_become_fetches_and_labels() {
        let mut writer = DinWriter::new(Vec::new());
        let access = |address, pc| Event::Access(Access::load(address, 8).at(pc));
        for event in [
            Event::Thread(crate::ThreadId(1)),
            Event::Block { address: 0x400, instructions: 5 },
            access(0x10, 0x400),
            access(0x20, 0x408),
            access(0x30, 0x408),
            access(0x40, 0),
        ] {
            writer.event(&event).unwrap();
        }
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert_eq!(text, "2 400\n0 10\n2 408\n0 20\n0 30\n0 40\n");
    }
}
