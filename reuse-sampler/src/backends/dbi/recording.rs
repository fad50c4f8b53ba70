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
pub(super) fn play(words: &[AtomicU64], blocks: &[Block], viewer: &mut impl Viewer) {
    let mut rest = words;
    while let Some(after) = play_first(rest, blocks, viewer) {
        rest = after;
    }
}

/// Shows the words of the first block. Returns the rest.
#[inline]
fn play_first<'a>(
    words: &'a [AtomicU64],
    blocks: &[Block],
    viewer: &mut impl Viewer,
) -> Option<&'a [AtomicU64]> {
    let (number, after) = words.split_first()?;
    let block = blocks.get(number_of(number.load(Relaxed)))?;
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

/// The word that a block is known by: its number, and how many words follow it, if they are operands. So the next block is
/// found without looking this one up.
pub(super) const fn header(number: u32, operands: Option<usize>) -> u32 {
    let operands = match operands {
        Some(operands) if operands < OTHER => operands,
        _ => OTHER,
    };
    number | (operands as u32) << NUMBER_BITS
}

const NUMBER_BITS: u32 = 24;
/// Blocks that there may be.
pub(super) const NUMBERS: usize = 1 << NUMBER_BITS;
/// In the place of the number of operands: there is more to the block. A header remains a positive number.
const OTHER: usize = 127;

const fn number_of(header: u64) -> usize {
    header as usize % NUMBERS
}

/// What is known of blocks by those who go through millions of them and want few.
#[derive(Debug, Default)]
pub(super) struct Forms {
    blocks: Vec<Form>, // by number
    more: Vec<Group>,  // of blocks with more operands than one group
}

/// Most blocks have no more operands than one group, so that how often a loop is gone through is no question for them: it
/// would be hard to predict.
#[derive(Clone, Copy, Debug, Default)]
struct Form {
    group: Group,
    updates: u32,
    more: u32, // where the others begin
}

const GROUP: usize = 4;

/// Of operands, the distances from the first byte to the last, and what they do; those that there are not have no width.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    widths: [u8; GROUP],
    kinds: [Kind; GROUP],
}

impl Group {
    fn new(operands: &[Operand]) -> Self {
        let mut group = Self::default();
        for (at, operand) in operands.iter().enumerate() {
            group.widths[at] = operand.bytes.saturating_sub(1) as u8;
            group.kinds[at] = Kind::of(operand.loads, operand.stores);
        }
        group
    }

    /// Whether one of the operands at `addresses` has its last byte in another line than its first: not 0 if so.
    #[inline]
    fn straddles(self, addresses: &[u64; GROUP], shift: u32) -> u64 {
        let differs = |at: usize| addresses[at] ^ addresses[at].wrapping_add(self.widths[at].into());
        (0..GROUP).fold(0, |all, at| all | differs(at)) >> shift
    }

    /// Of the operands at `addresses` that have a second line, whether it is `held`, and how many accesses are made to it.
    /// More lines stop.
    #[cold]
    fn beyond(self, addresses: &[u64; GROUP], shift: u32, held: impl Fn(u64) -> u64) -> (u64, u64) {
        (0..GROUP).fold((0, 0), |(stop, further), at| {
            let last = addresses[at].wrapping_add(self.widths[at].into());
            match (last >> shift).wrapping_sub(addresses[at] >> shift) {
                0 => (stop, further),
                1 => (stop | held(last), further + 1 + u64::from(self.kinds[at] == Kind::Update)),
                _ => (1, further),
            }
        })
    }
}

impl Forms {
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.more.clear();
    }

    pub(super) fn push(&mut self, block: &Block) {
        let mut groups = block.operands.chunks(GROUP).map(Group::new);
        let (group, more) = (groups.next().unwrap_or_default(), self.more.len() as u32);
        self.more.extend(groups);
        self.blocks.push(Form { group, updates: block.updates, more });
    }

    /// Goes through the blocks that `words` begin with, up to one for which `each` is not 0 or to which there is more, or to
    /// the last few. `each` is given the addresses of the operands of a group, which may be fewer, what is known of them, and
    /// the number of operands before; it returns how many further accesses they make, too. Nor are more than `most` accesses
    /// gone through. Returns the rest, and the numbers of operands and of accesses.
    #[inline(always)]
    #[allow(clippy::inline_always)] // for the compiler to know `each`
    fn walk<'a>(
        &self,
        words: &'a [AtomicU64],
        mut each: impl FnMut(&[u64; GROUP], &Group, usize) -> (u64, u64),
        most: u64,
    ) -> (&'a [AtomicU64], usize, u64) {
        let (mut rest, mut operands, mut updates) = (words, 0, 0);
        while let Some([header, first @ ..]) = rest.first_chunk::<{ 1 + GROUP }>() {
            let header = header.load(Relaxed);
            let own = (header >> NUMBER_BITS) as usize;
            let Some(form) = self.blocks.get(number_of(header)) else { break };
            let (mut stop, mut further) =
                each(&first.each_ref().map(|word| word.load(Relaxed)), &form.group, operands);
            if own > GROUP {
                let groups = self.more.get(form.more as usize..).unwrap_or_default();
                let others = rest.get(1 + GROUP..1 + own.next_multiple_of(GROUP)).filter(|_| own != OTHER);
                let Some(others) = others else { break };
                let mut before = operands;
                for (words, group) in others.chunks_exact(GROUP).zip(groups) {
                    before += GROUP;
                    let more = each(&std::array::from_fn(|at| words[at].load(Relaxed)), group, before);
                    (stop, further) = (stop | more.0, further + more.1);
                }
            }
            let after = updates + u64::from(form.updates) + further;
            if stop != 0 || (operands + own) as u64 + after > most {
                break;
            }
            (operands, updates, rest) = (operands + own, after, &rest[1 + own..]);
        }
        (rest, operands, operands as u64 + updates)
    }
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
            match play_first(rest, blocks, self) {
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
            let put = |addresses: &[u64; GROUP], group: &Group, before: usize| {
                let to = before..before + GROUP;
                let (Some(lines), Some(kinds)) = (lines.get_mut(to.clone()), kinds.get_mut(to)) else {
                    return (1, 0);
                };
                lines.copy_from_slice(&addresses.map(|address| address >> shift));
                kinds.copy_from_slice(&group.kinds);
                (group.straddles(addresses, shift), 0)
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
        let (watched, shift, most) = (self.tracker.watched(), self.shift, self.tracker.starts_none_in());
        let look = |addresses: &[u64; GROUP], group: &Group, _| {
            let held = |address: u64| u64::from(watched.may_be(address >> shift));
            let stop = addresses.iter().fold(0, |all, &address| all | held(address));
            if group.straddles(addresses, shift) == 0 {
                return (stop, 0);
            }
            let (more, further) = group.beyond(addresses, shift, held);
            (stop | more, further)
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
            updates: count(|operand| operand.loads && operand.stores),
            scattered: count(|operand| operand.reach == Reach::Scattered),
            operands,
            repeated: None,
            verified: None,
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
                    play(&words, &blocks, &mut lines);
                }
                let (further, unsure) = (lines.further, lines.unsure);
                (format!("{:?}", tracker.end_window()), further, unsure)
            });
            fast == plain
        }
    }
}
