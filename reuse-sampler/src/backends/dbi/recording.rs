//! From the words that translated code writes to accesses.

use super::block::{Operand, Repeated};
use super::cache::Block;
use super::layout::shared;
use super::region::Region;
use crate::engine::tracker::Tracker;

/// Shows the words at `start..end` of the region to the tracker.
pub(super) fn play(
    region: &Region,
    mut start: u64,
    end: u64,
    blocks: &[Block],
    shift: u32,
    tracker: &mut Tracker,
) {
    while start < end {
        let Some(block) = blocks.get(region.get(start) as usize) else { return };
        if let Some(repeated) = block.repeated {
            let word = |index: u64| region.get(start + 8 * index);
            play_repeated(repeated, block.pc, &word, shift, tracker);
            start += 8 * Repeated::WORDS as u64;
        } else {
            start += 8;
            for operand in &block.operands {
                touch(region.get(start), operand, shift, tracker);
                start += 8;
            }
        }
    }
}

/// One access of `operand` at `address`.
#[inline]
pub(super) fn touch(address: u64, operand: &Operand, shift: u32, tracker: &mut Tracker) {
    let (first, last) = (address >> shift, address.wrapping_add(u64::from(operand.bytes) - 1) >> shift);
    for store in [false, true] {
        if if store { operand.stores } else { operand.loads } {
            tracker.access(first, operand.pc, store);
            for line in first + 1..=last {
                tracker.access(line, operand.pc, store);
            }
        }
    }
}

fn play_repeated(repeated: Repeated, pc: u64, word: &dyn Fn(u64) -> u64, shift: u32, tracker: &mut Tracker) {
    let [source, destination, before, source_after, destination_after, after] = [1, 2, 3, 4, 5, 6].map(word);
    let elements = before.wrapping_sub(after);
    let bytes = repeated.bytes;
    let ahead = source_after.wrapping_sub(source) as i64 > 0
        || destination_after.wrapping_sub(destination) as i64 > 0;
    let step = if ahead { u64::from(bytes) } else { u64::from(bytes).wrapping_neg() };
    let operand = |loads, stores| Operand { pc, bytes, loads, stores };
    for element in 0..elements {
        let at = |start: u64| start.wrapping_add(step.wrapping_mul(element));
        if repeated.source_loads {
            touch(at(source), &operand(true, false), shift, tracker);
        }
        if repeated.destination_loads || repeated.destination_stores {
            let operand = operand(repeated.destination_loads, repeated.destination_stores);
            touch(at(destination), &operand, shift, tracker);
        }
    }
}

/// The buffers, from the region's start: first word, and the last at which a block may begin.
pub(super) const fn buffer(number: u64) -> (u64, u64) {
    let start = super::layout::THREAD + shared::BUFFERS as u64 + number * shared::BUFFER_SIZE as u64;
    (start, start + (shared::BUFFER_SIZE - shared::BUFFER_RESERVE) as u64)
}
