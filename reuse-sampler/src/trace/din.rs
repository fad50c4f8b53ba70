//! The text format of the Dinero cache simulators: `label address`, one record per line.

use std::io::{self, Read, Write};

use super::Side;
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
}

impl<W: Write> DinWriter<W> {
    /// A writer that has written nothing yet.
    pub const fn new(output: W) -> Self {
        Self { output }
    }

    /// Writes a load or store: its kind and first address.
    ///
    /// # Errors
    /// Whatever the output answers.
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
        self.record(b'2', address)
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// Whatever the output answers to flushing.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn record(&mut self, label: u8, address: u64) -> io::Result<()> {
        let mut line = [b' '; 19]; // label, blank, 16 digits, newline
        line[0] = label;
        let digits = (u64::BITS - address.leading_zeros()).div_ceil(4).max(1) as usize;
        for (place, byte) in line[2..2 + digits].iter_mut().rev().enumerate() {
            *byte = b"0123456789abcdef"[(address >> (4 * place)) as usize & 15];
        }
        line[2 + digits] = b'\n';
        self.output.write_all(&line[..digits + 3])
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
    }
}
