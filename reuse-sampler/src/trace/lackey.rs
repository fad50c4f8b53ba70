//! The text that `valgrind --tool=lackey --trace-mem=yes` writes.

use std::io::Read;

use super::Side;
use super::lines::{Lines, at_field_end, decimal, hexadecimal};
use crate::replay::{Event, EventSource};
use crate::{Access, AccessKind, SamplerError};

/// Reads valgrind's `lackey` text.
///
/// | line | meaning |
/// |---|---|
/// | `I  04001000,3` | the instruction at 0x4001000, 3 bytes long, is executed |
/// | ` L 1ffe8,8` | and loads 8 bytes at 0x1ffe8 |
/// | ` S 1ffe8,8` | and stores |
/// | ` M 1ffe8,8` | and modifies: a load, then a store |
/// | `==4711== ...` | valgrind speaks: skipped, as are blank lines, `--4711-- ...` and `**4711** ...` |
///
/// Instructions that follow each other in memory are merged into one block (of at most 32), which comes
/// before its accesses; every access has the program counter of its instruction. Let valgrind write to a file
/// of its own (`--log-file=FILE`): output of the program in between is refused, as nothing shows what it has
/// torn apart. lackey does not distinguish threads.
///
/// # Errors
/// [`SamplerError::Trace`] for any other line, for sizes of 0 or more than 4096 bytes,
/// [`SamplerError::EmptyTrace`] for a trace without a load or store, [`SamplerError::Io`] if the input cannot
/// be read.
///
/// ```
/// use reuse_sampler::trace::LackeyReader;
/// use reuse_sampler::replay::{Event, EventSource};
/// use reuse_sampler::Access;
///
/// let mut trace = LackeyReader::new(&b"I  04001000,3\nI  04001003,5\n S 1ffe8,8\n"[..]);
/// assert_eq!(trace.next_event()?, Some(Event::Block { address: 0x400_1000, instructions: 2 }));
/// assert_eq!(trace.next_event()?, Some(Event::Access(Access::store(0x1_ffe8, 8).at(0x400_1003))));
/// assert_eq!(trace.next_event()?, None);
/// # Ok::<(), reuse_sampler::SamplerError>(())
/// ```
///
/// # References
/// *Valgrind User Manual*, section "Lackey: an example tool", option `--trace-mem`.
#[derive(Debug)]
pub struct LackeyReader<R> {
    lines: Lines<R>,
    block: Block,
    ready: Vec<Event>, // a finished block and its accesses, at most FULL + 2
    taken: usize,      // <= ready.len(): how many of them were handed out
    empty: bool,       // no access so far
    side: Side,
}

const FORMAT: &str = "lackey";

/// Instructions after which a block ends if no jump ends it.
const LONGEST: u32 = 32;
/// Accesses after which a block is handed out unfinished, so that no trace makes it grow.
const FULL: usize = 256;
/// Largest size of an access: twice that of the largest register-save area valgrind knows.
const LARGEST: u32 = 4096;

impl<R: Read> LackeyReader<R> {
    /// A reader that has read nothing yet.
    pub const fn new(input: R) -> Self {
        let lines = Lines::new(FORMAT, input);
        Self { lines, block: Block::new(), ready: Vec::new(), taken: 0, empty: true, side: Side::Data }
    }

    /// The same for one side of the caches: with [`Side::Instruction`], every instruction is a load of its bytes by itself,
    /// and loads and stores are passed over.
    #[must_use]
    pub const fn side(mut self, side: Side) -> Self {
        self.side = side;
        self
    }

    /// Reads on until a block is finished, and puts it into `ready`. `false` at the end of the trace.
    fn fill(&mut self) -> Result<bool, SamplerError> {
        self.ready.clear();
        self.taken = 0;
        while self.ready.is_empty() {
            match self.lines.next(record).inspect_err(|_| self.block = Block::new())? {
                Some(Record::Instruction { address, bytes }) => {
                    if !self.block.extend(address, bytes) {
                        self.block.hand_over(&mut self.ready);
                        self.block.begin(address, bytes);
                    }
                    if self.side == Side::Instruction {
                        self.empty = false;
                        self.block.access(Access::load(address, bytes));
                        self.block.hand_over_if_full(&mut self.ready);
                    }
                }
                Some(Record::Access { .. } | Record::Modify { .. }) if self.side == Side::Instruction => {}
                Some(Record::Access { address, bytes, kind }) => {
                    self.empty = false;
                    self.block.access(Access { address, bytes, kind, pc: 0 });
                    self.block.hand_over_if_full(&mut self.ready);
                }
                Some(Record::Modify { address, bytes }) => {
                    self.empty = false;
                    self.block.access(Access::load(address, bytes));
                    self.block.access(Access::store(address, bytes));
                    self.block.hand_over_if_full(&mut self.ready);
                }
                None => {
                    self.block.hand_over(&mut self.ready);
                    return Ok(!self.ready.is_empty());
                }
            }
        }
        Ok(true)
    }
}

impl<R: Read> EventSource for LackeyReader<R> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        if self.taken == self.ready.len() && !self.fill().inspect_err(|_| self.empty = false)? {
            return if std::mem::take(&mut self.empty) {
                Err(SamplerError::EmptyTrace { format: FORMAT })
            } else {
                Ok(None)
            };
        }
        let event = self.ready[self.taken];
        self.taken += 1;
        Ok(Some(event))
    }
}

/// Instructions in a row, and their accesses.
#[derive(Debug)]
struct Block {
    start: u64,
    instructions: u32, // in [0, LONGEST]; 0: none yet, or already handed out
    pc: u64,           // of the last instruction
    next: u64,         // where the next instruction in a row would be
    accesses: Vec<Event>,
}

impl Block {
    const fn new() -> Self {
        Self { start: 0, instructions: 0, pc: 0, next: 0, accesses: Vec::new() }
    }

    fn begin(&mut self, address: u64, bytes: u32) {
        self.start = address;
        self.instructions = 1;
        self.step(address, bytes);
    }

    /// Adds an instruction if it continues the block.
    fn extend(&mut self, address: u64, bytes: u32) -> bool {
        let continues = address == self.next && (1..LONGEST).contains(&self.instructions);
        if continues {
            self.instructions += 1;
            self.step(address, bytes);
        }
        continues
    }

    fn step(&mut self, address: u64, bytes: u32) {
        self.pc = address;
        self.next = address.wrapping_add(u64::from(bytes));
    }

    fn access(&mut self, access: Access) {
        self.accesses.push(Event::Access(access.at(self.pc)));
    }

    /// Puts the block so far into `ready`, which is empty.
    fn hand_over(&mut self, ready: &mut Vec<Event>) {
        if self.instructions > 0 {
            ready.push(Event::Block { address: self.start, instructions: self.instructions });
            self.instructions = 0;
        }
        ready.append(&mut self.accesses);
    }

    fn hand_over_if_full(&mut self, ready: &mut Vec<Event>) {
        if self.accesses.len() >= FULL {
            self.hand_over(ready);
        }
    }
}

enum Record {
    Instruction { address: u64, bytes: u32 },
    Access { address: u64, bytes: u32, kind: AccessKind },
    Modify { address: u64, bytes: u32 },
}

#[inline]
fn record(line: &[u8]) -> Result<Option<Record>, &'static str> {
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..] => return Ok(None),
        _ if line.trim_ascii().is_empty() => return Ok(None),
        _ => {
            return Err("expected 'I  address,size', ' L ', ' S ' or ' M ' \
                        (let valgrind write to a file of its own: --log-file=FILE)");
        }
    };
    let Some((address, [b',', rest @ ..])) = hexadecimal(rest) else {
        return Err("expected a hexadecimal address of at most 64 bits and a comma");
    };
    let bytes = match decimal(rest) {
        Some((bytes @ 1..=LARGEST, end)) if at_field_end(end) => bytes,
        _ => return Err("expected a size from 1 to 4096 after the comma"),
    };
    Ok(Some(match kind {
        b'I' => Record::Instruction { address, bytes },
        b'L' => Record::Access { address, bytes, kind: AccessKind::Load },
        b'S' => Record::Access { address, bytes, kind: AccessKind::Store },
        _ => Record::Modify { address, bytes },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Event>, SamplerError> {
        let mut reader = LackeyReader::new(text.as_bytes());
        let mut events = Vec::new();
        while let Some(event) = reader.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    const fn block(address: u64, instructions: u32) -> Event {
        Event::Block { address, instructions }
    }

    #[test]
    fn a_hand_made_trace_reads_as_it_was_meant() {
        let text = "==1== Lackey\n==1== \n L 5,1\nI  1000,3\n S 1ff0,8\nI  1003,5\r\nI  1008,2\n M 20,4\n\
                    --1-- a remark\n\nI  1003,5\nI  2000,1\n L 1ffeffffe8,16\n L 30,2";
        let expected = [
            Event::Access(Access::load(5, 1)),
            block(0x1000, 3),
            Event::Access(Access::store(0x1ff0, 8).at(0x1000)),
            Event::Access(Access::load(0x20, 4).at(0x1008)),
            Event::Access(Access::store(0x20, 4).at(0x1008)),
            block(0x1003, 1),
            block(0x2000, 1),
            Event::Access(Access::load(0x1f_feff_ffe8, 16).at(0x2000)),
            Event::Access(Access::load(0x30, 2).at(0x2000)),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn the_instruction_side_loads_every_instruction_and_nothing_else() {
        let text = "I  1000,3\n S 1ff0,8\nI  1003,5\nI  2000,1\n M 20,4\n";
        let mut reader = LackeyReader::new(text.as_bytes()).side(Side::Instruction);
        let fetch = |address, bytes| Event::Access(Access::load(address, bytes).at(address));
        let expected =
            [block(0x1000, 2), fetch(0x1000, 3), fetch(0x1003, 5), block(0x2000, 1), fetch(0x2000, 1)];
        for event in expected {
            assert_eq!(reader.next_event().unwrap(), Some(event));
        }
        assert_eq!(reader.next_event().unwrap(), None);
        let mut only_data = LackeyReader::new(&b" L 10,4\n"[..]).side(Side::Instruction);
        assert!(matches!(only_data.next_event(), Err(SamplerError::EmptyTrace { .. })));
    }

    #[test]
    fn no_instruction_and_no_access_is_lost_in_long_blocks() {
        let instruction = |i: u64| -> String {
            let loads = (0..i).map(move |j| format!(" L {:x},1\n", 64 * (100 * i + j)));
            std::iter::once(format!("I  {:x},1\n", 0x1000 + i)).chain(loads).collect()
        };
        let events = read(&(0..100).map(instruction).collect::<String>()).unwrap();
        let instructions: u32 = events
            .iter()
            .map(|e| if let Event::Block { instructions, .. } = e { *instructions } else { 0 })
            .sum();
        assert_eq!(instructions, 100);
        let accesses: Vec<(u64, u64)> = events
            .iter()
            .filter_map(|e| if let Event::Access(a) = e { Some((a.pc, a.address)) } else { None })
            .collect();
        let expected =
            (0..100).flat_map(|i| (0..i).map(move |j| (0x1000 + i, 64 * (100 * i + j)))).collect::<Vec<_>>();
        assert_eq!(accesses, expected);
    }

    #[test]
    fn bad_lines_are_refused_with_number_and_content() {
        for (line, problem) in [
            ("hello, world", "--log-file"),
            ("I 1000,3", "--log-file"),
            (" X 1000,3", "--log-file"),
            ("L 1000,3", "--log-file"),
            (" L zz,3", "address"),
            (" L 1000", "address"),
            (" L 1000 ,3", "address"),
            (" L ,3", "address"),
            (" L 11112222333344445,3", "address"),
            (" L 1000,", "size"),
            (" L 1000,0", "size"),
            (" L 1000,4097", "size"),
            (" S 1000,4x", "size"),
            (" M 1000,99999999999", "size"),
        ] {
            let error = read(&format!(" L 1000,8\n{line}\n")).unwrap_err();
            let SamplerError::Trace { format: "lackey", line: 2, problem: found, content } = error else {
                panic!("{line:?}: {error}")
            };
            assert!(found.contains(problem), "{line:?}: {found}");
            assert_eq!(content, line);
        }
    }

    #[test]
    fn after_an_error_there_is_nothing() {
        let mut reader = LackeyReader::new(&b"I  1000,3\n L 1,1\nbad\n L 2,2\n"[..]);
        assert!(matches!(reader.next_event(), Err(SamplerError::Trace { line: 3, .. })));
        assert!(matches!(reader.next_event(), Ok(None)));
    }

    #[test]
    fn a_trace_without_accesses_is_empty() {
        for text in ["", "==1== nothing\n", "\n"] {
            assert!(matches!(read(text), Err(SamplerError::EmptyTrace { format: "lackey" })), "{text:?}");
        }
        let mut reader = LackeyReader::new(&b"I  1000,3\n"[..]);
        assert!(matches!(reader.next_event(), Ok(Some(Event::Block { .. }))));
        assert!(matches!(reader.next_event(), Err(SamplerError::EmptyTrace { .. })));
        assert!(matches!(reader.next_event(), Ok(None)));
    }
}
