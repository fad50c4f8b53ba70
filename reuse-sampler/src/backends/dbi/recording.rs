//! From the words that translated code writes to accesses.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::block::{Operand, Reach, Repeated};
use super::cache::Block;
use super::layout::shared;
use crate::engine::tracker::Tracker;

/// Who is shown what blocks have written.
pub(super) trait Viewer {
    /// A block is executed.
    fn block(&mut self, block: &Block);
    /// It makes the accesses of `operand`, at `address`.
    fn access(&mut self, address: u64, operand: &Operand);
    /// It makes its accesses, at `addresses`.
    #[inline]
    fn accesses(&mut self, addresses: &[AtomicU64], block: &Block) {
        for (address, operand) in addresses.iter().zip(&block.operands) {
            self.access(address.load(Relaxed), operand);
        }
    }
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
    let block = blocks.get(number.load(Relaxed) as usize)?;
    let count = block.repeated.map_or(block.operands.len(), |_| Repeated::WORDS - 1);
    let (addresses, rest) = after.split_at_checked(count)?;
    viewer.block(block);
    if let Some(repeated) = block.repeated {
        let word = |index: usize| addresses[index - 1].load(Relaxed);
        play_repeated(repeated, block.pc, &word, viewer);
    } else {
        viewer.accesses(addresses, block);
    }
    Some(rest)
}

/// What most blocks are known by where few lines are watched.
#[derive(Debug, Default)]
pub(super) struct Briefs {
    blocks: Vec<Brief>, // by number
    /// Of each operand, the distance from its first byte to its last.
    widths: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Brief {
    first: u32, // of its widths
    operands: u16,
    accesses: u16,
    plain: bool, // there is nothing else to it
}

impl Briefs {
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.widths.clear();
    }

    pub(super) fn push(&mut self, block: &Block) {
        let widths =
            block.operands.iter().map_while(|operand| u8::try_from(operand.bytes.wrapping_sub(1)).ok());
        let first = self.widths.len();
        self.widths.extend(widths);
        let operands = self.widths.len() - first;
        let plain = operands == block.operands.len() && block.repeated.is_none() && block.scattered == 0;
        let (first, accesses) = (first as u32, operands as u16 + block.updates as u16);
        self.blocks.push(Brief { first, operands: operands as u16, accesses, plain });
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
    /// Shows the accesses of a block to a tracker that puts them by; nothing if one has lines beyond its first.
    #[inline]
    fn put_by(&mut self, addresses: &[AtomicU64], block: &Block, all: usize) -> bool {
        let Some(batch) = self.tracker.batch(all) else { return false };
        let room = batch.room();
        let (mut len, mut beyond) = (0, 0);
        for (address, operand) in addresses.iter().zip(&block.operands) {
            let address = address.load(Relaxed);
            let line = address >> self.shift;
            beyond |= line ^ (address.wrapping_add(u64::from(operand.bytes) - 1) >> self.shift);
            // The load of one that only stores is overwritten.
            room[len] = (line, false);
            len += usize::from(operand.loads && operand.stores);
            room[len] = (line, operand.stores);
            len += 1;
        }
        if beyond == 0 {
            batch.took(len);
        }
        beyond == 0
    }

    /// Shows the words that blocks have written.
    pub(super) fn play(&mut self, words: &[AtomicU64], blocks: &[Block], briefs: &Briefs) {
        let mut rest = words;
        loop {
            if self.tracker.starts_none_in(0) {
                rest = self.pass(rest, briefs);
            }
            match play_first(rest, blocks, self) {
                Some(after) => rest = after,
                None => break,
            }
        }
    }

    /// Passes over blocks that neither start nor end a sample, as most do. Returns the rest.
    fn pass<'a>(&mut self, words: &'a [AtomicU64], briefs: &Briefs) -> &'a [AtomicU64] {
        let (mut rest, shift) = (words, self.shift);
        while let Some((number, after)) = rest.split_first() {
            let Some(brief) = briefs.blocks.get(number.load(Relaxed) as usize) else { break };
            let (first, all) = (brief.first as usize, u64::from(brief.accesses));
            let widths = briefs.widths.get(first..first + usize::from(brief.operands));
            let (Some(widths), true) = (widths, brief.plain && self.tracker.starts_none_in(all)) else {
                break;
            };
            let Some((addresses, next)) = after.split_at_checked(widths.len()) else { break };
            let mut of_interest = 0;
            for (address, &width) in addresses.iter().zip(widths) {
                let address = address.load(Relaxed);
                let line = address >> shift;
                of_interest |= line ^ (address.wrapping_add(u64::from(width)) >> shift);
                of_interest |= u64::from(self.tracker.may_hold(line));
            }
            if of_interest != 0 {
                break;
            }
            self.tracker.pass(all);
            self.further += all - widths.len() as u64;
            rest = next;
        }
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
    fn accesses(&mut self, addresses: &[AtomicU64], block: &Block) {
        let all = block.operands.len() + block.updates as usize;
        if self.put_by(addresses, block, all) {
            return;
        }
        for (address, operand) in addresses.iter().zip(&block.operands) {
            self.access(address.load(Relaxed), operand);
        }
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
