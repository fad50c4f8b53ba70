//! From the words that translated code writes to accesses.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::block::{Operand, Reach, Repeated};
use super::cache::Block;
use super::layout::shared;
use crate::engine::batch::{Kind, Room};
use crate::engine::tracker::Tracker;

/// Who is shown what blocks have written.
pub(super) trait Viewer {
    /// A block is executed.
    fn block(&mut self, block: &Block);
    /// It makes the accesses of `operand`, at `address`.
    fn access(&mut self, address: u64, operand: &Operand);
}

/// Shows the words that blocks have written.
#[inline]
pub(super) fn play(words: &[AtomicU64], blocks: &[Block], forms: &Forms, viewer: &mut impl Viewer) {
    let mut rest = words;
    while let Some(after) = play_first(rest, blocks, forms, viewer) {
        rest = after;
    }
}

/// Shows the words of the first block, or of the first run of blocks. Returns the rest.
#[inline]
fn play_first<'a>(
    words: &'a [AtomicU64],
    blocks: &[Block],
    forms: &Forms,
    viewer: &mut impl Viewer,
) -> Option<&'a [AtomicU64]> {
    let (number, mut after) = words.split_first()?;
    let number = number_of(number.load(Relaxed));
    if number < RUNS {
        return play_block(after, blocks.get(number)?, viewer);
    }
    for &block in forms.run(number)? {
        after = play_block(after, blocks.get(block as usize)?, viewer)?;
    }
    Some(after)
}

fn play_block<'a>(
    after: &'a [AtomicU64],
    block: &Block,
    viewer: &mut impl Viewer,
) -> Option<&'a [AtomicU64]> {
    let count = block.repeated.map_or(block.operands.len(), |_| Repeated::WORDS - 1);
    let (addresses, rest) = after.split_at_checked(count)?;
    viewer.block(block);
    if let Some(repeated) = block.repeated {
        let word = |index: usize| addresses[index - 1].load(Relaxed);
        play_repeated(repeated, block.pc, &word, viewer);
    } else {
        for (address, operand) in addresses.iter().zip(&block.operands) {
            viewer.access(address.load(Relaxed), operand);
        }
    }
    Some(rest)
}

/// The word that a block or a run is known by: its number, and how many words follow it, if they are operands. So the next
/// one is found without looking this one up.
const fn header(number: u32, operands: Option<usize>) -> u32 {
    let operands = match operands {
        Some(operands) if operands < OTHER => operands,
        _ => OTHER,
    };
    number | (operands as u32) << NUMBER_BITS
}

/// That of a repeated string instruction.
pub(super) const fn header_of_repeated(number: u32) -> u32 {
    header(number, None)
}

/// That of what makes the accesses of these operands.
pub(super) fn header_of(number: u32, operands: &[Operand]) -> u32 {
    header(number, operands.iter().all(Operand::is_plain).then_some(operands.len()))
}

const NUMBER_BITS: u32 = 24;
/// Blocks that there may be, and runs; numbers of runs begin here.
pub(super) const RUNS: usize = 1 << (NUMBER_BITS - 1);
/// In the place of the number of operands: there is more to the block. A header remains a positive number.
const OTHER: usize = 127;

const fn number_of(header: u64) -> usize {
    header as usize % (1 << NUMBER_BITS)
}

/// What is known of blocks and of runs by those who go through millions of them and want few.
#[derive(Debug, Default)]
pub(super) struct Forms {
    blocks: Vec<Form>,        // by number
    runs: Vec<Form>,          // by number
    members: Vec<(u32, u32)>, // of each run: from where in the list and how many
    list: Vec<u32>,           // numbers of blocks
    extents: Vec<Extent>,     // of the operands of all
}

#[derive(Clone, Copy, Debug, Default)]
struct Form {
    extents: u32, // where its operands' begin
    updates: u32,
}

/// Of an operand, the distance from its first byte to the last, and what it does.
#[derive(Clone, Copy, Debug)]
struct Extent {
    beyond: u8,
    kind: Kind,
}

impl Extent {
    fn new(operand: &Operand) -> Self {
        let kind = Kind::of(operand.loads, operand.stores);
        Self { beyond: operand.bytes.saturating_sub(1) as u8, kind }
    }

    /// Has bits from `shift` on if the operand at `address` has its last byte in another line than its first.
    #[inline]
    fn differs(self, address: u64) -> u64 {
        address ^ address.wrapping_add(self.beyond.into())
    }

    /// Whether the second line of the operand at `address` is `held`, if it has one, and how many accesses are made to it.
    /// More lines stop.
    fn second(self, address: u64, shift: u32, held: impl Fn(u64) -> bool) -> (bool, u64) {
        let last = address.wrapping_add(self.beyond.into()) >> shift;
        match last.wrapping_sub(address >> shift) {
            0 => (false, 0),
            1 => (held(last), 1 + u64::from(self.kind == Kind::Update)),
            _ => (true, 0),
        }
    }
}

impl Forms {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn push(&mut self, block: &Block) {
        let form = self.form(&block.operands);
        self.blocks.push(form);
    }

    /// The number of the next run.
    pub(super) fn next_run(&self) -> u32 {
        (RUNS + self.runs.len()) as u32
    }

    /// Adds runs: each is so many of the first `members`, which make so many of the first accesses of `operands`.
    pub(super) fn push_runs(
        &mut self,
        members: &[u32],
        operands: &[Operand],
        runs: impl Iterator<Item = (usize, usize)>,
    ) {
        let (whole, first) = (self.form(operands), self.list.len() as u32);
        self.list.extend(members);
        for (members, accesses) in runs {
            self.runs.push(Form { updates: updates(&operands[..accesses]), ..whole });
            self.members.push((first, members as u32));
        }
    }

    fn form(&mut self, operands: &[Operand]) -> Form {
        let extents = self.extents.len() as u32;
        self.extents.extend(operands.iter().map(Extent::new));
        Form { extents, updates: updates(operands) }
    }

    /// The blocks of a run.
    pub(super) fn run(&self, number: usize) -> Option<&[u32]> {
        let &(first, count) = self.members.get(number.checked_sub(RUNS)?)?;
        self.list.get(first as usize..)?.get(..count as usize)
    }

    /// Goes through the blocks and runs that `words` begin with, up to one that `each` stops at or to which there is more.
    /// `each` is given the addresses of its operands, their extents, and the number of operands before; it returns whether to
    /// stop, and how many further accesses they make. Nor are more than `most` accesses gone through. Returns the rest, and
    /// the numbers of operands and of accesses.
    #[inline(always)]
    #[allow(clippy::inline_always)] // for the compiler to know `each`
    fn walk<'a>(
        &self,
        words: &'a [AtomicU64],
        mut each: impl FnMut(&[AtomicU64], &[Extent], usize) -> (bool, u64),
        most: u64,
    ) -> (&'a [AtomicU64], usize, u64) {
        let (mut rest, mut operands, mut updates) = (words, 0, 0);
        while let Some((header, after)) = rest.split_first() {
            let header = header.load(Relaxed);
            let own = (header >> NUMBER_BITS) as usize;
            let number = number_of(header);
            let (forms, at) =
                if number < RUNS { (&self.blocks, number) } else { (&self.runs, number - RUNS) };
            let Some((form, (addresses, after))) = forms.get(at).zip(after.split_at_checked(own)) else {
                break;
            };
            let extents = self.extents.get(form.extents as usize..).and_then(|extents| extents.get(..own));
            let Some(extents) = extents.filter(|_| own != OTHER) else { break };
            let (stop, further) = each(addresses, extents, operands);
            let more = updates + u64::from(form.updates) + further;
            if stop || (operands + own) as u64 + more > most {
                break;
            }
            (operands, updates, rest) = (operands + own, more, after);
        }
        (rest, operands, operands as u64 + updates)
    }
}

fn updates(operands: &[Operand]) -> u32 {
    operands.iter().filter(|operand| operand.loads && operand.stores).count() as u32
}

/// Shows accesses to a tracker, line by line.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    pub tracker: &'a mut Tracker,
    pub shift: u32,
    /// Accesses that are not the first of their operands.
    pub further: u64,
    /// Operands that may have touched other lines than was shown.
    pub unsure: u64,
}

impl Lines<'_> {
    /// Shows the words that blocks have written.
    pub(super) fn play(&mut self, words: &[AtomicU64], blocks: &[Block], forms: &Forms) {
        let mut rest = words;
        loop {
            rest = if self.tracker.puts_by() { self.put_by(rest, forms) } else { self.pass(rest, forms) };
            match play_first(rest, blocks, forms, self) {
                Some(after) => rest = after,
                None => break,
            }
        }
    }

    /// Shows the accesses of the first blocks to a tracker that puts them by, up to a block with an access that has lines
    /// beyond its first. Returns the rest.
    #[inline(never)]
    fn put_by<'a>(&mut self, words: &'a [AtomicU64], forms: &Forms) -> &'a [AtomicU64] {
        let (mut rest, shift) = (words, self.shift);
        loop {
            let Room { lines, kinds } = self.tracker.room();
            let put = |addresses: &[AtomicU64], extents: &[Extent], before: usize| {
                let to = before..before + addresses.len();
                let (Some(lines), Some(kinds)) = (lines.get_mut(to.clone()), kinds.get_mut(to)) else {
                    return (true, 0);
                };
                let mut differ = 0;
                for ((address, extent), (line, kind)) in
                    addresses.iter().zip(extents).zip(lines.iter_mut().zip(kinds))
                {
                    let address = address.load(Relaxed);
                    (*line, *kind) = (address >> shift, extent.kind);
                    differ |= extent.differs(address);
                }
                (differ >> shift != 0, 0)
            };
            let (after, operands, accesses) = forms.walk(rest, put, u64::MAX);
            self.tracker.took(operands);
            self.further += accesses - operands as u64;
            if operands == 0 {
                return after;
            }
            rest = after;
        }
    }

    /// Passes over the first blocks, up to one that may start or end a sample, as few do. Returns the rest.
    #[inline(never)]
    fn pass<'a>(&mut self, words: &'a [AtomicU64], forms: &Forms) -> &'a [AtomicU64] {
        let (watches, shift, most) = (self.tracker.watches(), self.shift, self.tracker.starts_none_in());
        let near = watches.near();
        let look = |addresses: &[AtomicU64], extents: &[Extent], _| {
            let (mut count, mut differ) = (0, 0);
            for (address, extent) in addresses.iter().zip(extents) {
                let address = address.load(Relaxed);
                count |= near.count(address >> shift);
                differ |= extent.differs(address);
            }
            if count == 0 && differ >> shift == 0 {
                return (false, 0);
            }
            let each = addresses.iter().zip(extents);
            each.fold((false, 0), |(stop, further), (address, extent)| {
                let address = address.load(Relaxed);
                let (held, more) = extent.second(address, shift, |line| watches.holds(line));
                (stop || watches.holds(address >> shift) || held, further + more)
            })
        };
        let (rest, operands, accesses) = forms.walk(words, look, most);
        self.tracker.pass(accesses);
        self.further += accesses - operands as u64;
        rest
    }
}

impl Viewer for Lines<'_> {
    #[inline]
    fn block(&mut self, block: &Block) {
        self.further += u64::from(block.updates);
        self.unsure += u64::from(block.scattered);
    }

    #[inline]
    fn access(&mut self, address: u64, operand: &Operand) {
        let last = address.wrapping_add(u64::from(operand.bytes) - 1) >> self.shift;
        let first = address >> self.shift;
        self.tracker.operand(operand.pc, address, !operand.loads);
        if operand.loads && operand.stores {
            self.tracker.access(first, operand.pc, false);
        }
        // Which of the two an access is cannot be predicted.
        self.tracker.access(first, operand.pc, operand.stores);
        if first != last {
            self.unsure += u64::from(operand.reach == Reach::Masked);
            self.further += straddle(first + 1..last.saturating_add(1), operand, self.tracker);
        }
    }
}

/// The lines of an access beyond its first.
#[cold]
fn straddle(lines: std::ops::Range<u64>, operand: &Operand, tracker: &mut Tracker) -> u64 {
    let further = lines.clone().count() as u64 * (u64::from(operand.loads) + u64::from(operand.stores));
    for line in lines {
        if operand.loads {
            tracker.access(line, operand.pc, false);
        }
        if operand.stores {
            tracker.access(line, operand.pc, true);
        }
    }
    further
}

fn play_repeated(repeated: Repeated, pc: u64, word: &dyn Fn(usize) -> u64, viewer: &mut impl Viewer) {
    let [source, destination, before, source_after, destination_after, after] = [1, 2, 3, 4, 5, 6].map(word);
    let elements = before.wrapping_sub(after);
    let bytes = repeated.bytes;
    let ahead = source_after.wrapping_sub(source) as i64 > 0
        || destination_after.wrapping_sub(destination) as i64 > 0;
    let step = if ahead { u64::from(bytes) } else { u64::from(bytes).wrapping_neg() };
    let operand = |loads, stores| Operand { pc, bytes, loads, stores, reach: Reach::Whole };
    for element in 0..elements {
        let at = |start: u64| start.wrapping_add(step.wrapping_mul(element));
        if repeated.source_loads {
            viewer.access(at(source), &operand(true, false));
        }
        if repeated.destination_loads || repeated.destination_stores {
            let operand = operand(repeated.destination_loads, repeated.destination_stores);
            viewer.access(at(destination), &operand);
        }
    }
}

/// The buffers, from the start of the thread's block: first word, and the last at which a block may begin.
pub(super) const fn buffer(number: u64) -> (u64, u64) {
    let start = shared::BUFFERS as u64 + number * shared::BUFFER_SIZE as u64;
    (start, start + (shared::BUFFER_SIZE - shared::BUFFER_RESERVE) as u64)
}

impl Repeated {
    /// Words recorded, the block's own included.
    pub(super) const WORDS: usize = 7;
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::super::memory::Trust;
    use super::*;
    use crate::engine::gaps::Rate;
    use crate::engine::tracker::Mode;

    /// Bytes of operands: some have lines beyond their first, some are too wide to be gone through quickly.
    const BYTES: [u32; 6] = [1, 4, 8, 16, 32, 512];

    fn block(operands: &[(u8, u8)]) -> Block {
        let operand = |&(bytes, kind): &(u8, u8)| Operand {
            pc: 1,
            bytes: BYTES[usize::from(bytes) % BYTES.len()],
            loads: kind % 4 != 1,
            stores: kind % 4 < 2,
            reach: if kind < 250 { Reach::Whole } else { Reach::Scattered },
        };
        let operands: Vec<Operand> = operands.iter().map(operand).collect();
        let count = |of: fn(&Operand) -> bool| operands.iter().filter(|operand| of(operand)).count() as u32;
        Block {
            pc: 0,
            instructions: 1,
            lengths: Vec::new(),
            updates: count(|operand| operand.loads && operand.stores),
            scattered: count(|operand| operand.reach == Reach::Scattered),
            operands,
            repeated: None,
            trust: Trust::Fixed,
            bytes: Vec::new(),
        }
    }

    quickcheck! {
        /// Going through many blocks at once shows a tracker what going through one after the other does.
        fn walking_is_playing(blocks: Vec<Vec<(u8, u8)>>, picks: Vec<(u8, u16)>, mode: u8) -> bool {
            let blocks: Vec<Block> = blocks.iter().map(|operands| block(operands)).collect();
            if blocks.is_empty() {
                return true;
            }
            let mut forms = Forms::default();
            for block in &blocks {
                forms.push(block);
            }
            let mut words = Vec::new();
            for (step, &(pick, place)) in picks.iter().cycle().take(picks.len() * 20).enumerate() {
                let number = (usize::from(pick) + step / 7) % blocks.len();
                let operands = &blocks[number].operands;
                let plain = operands.iter().all(Operand::is_plain).then_some(operands.len());
                words.push(AtomicU64::new(header(number as u32, plain).into()));
                let address = |at: usize| 0x7F00_0000 + (u64::from(place) + 64 * step as u64 * at as u64) % 0x8000;
                words.extend((0..operands.len()).map(|at| AtomicU64::new(address(at))));
            }
            let mode = match mode % 3 {
                0 => Mode::Every,
                1 => Mode::Sample(Rate::Sparse { mean: 3.0 }),
                _ => Mode::Sample(Rate::Sparse { mean: 300.0 }),
            };
            let [fast, plain] = [true, false].map(|fast| {
                let mut tracker = Tracker::new(5, 0);
                tracker.begin_window(0, mode);
                let mut lines = Lines { tracker: &mut tracker, shift: 6, further: 0, unsure: 0 };
                if fast {
                    lines.play(&words, &blocks, &forms);
                } else {
                    play(&words, &blocks, &forms, &mut lines);
                }
                let (further, unsure) = (lines.further, lines.unsure);
                (format!("{:?}", tracker.end_window()), further, unsure)
            });
            fast == plain
        }
    }
}
