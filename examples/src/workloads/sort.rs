//! Sorting 8-byte keys: quicksort, whose working set halves from level to level, and bottom-up merge sort,
//! which streams through all of its memory once per pass.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tracer::{Array, Block, Sink, Tracer};

const PIVOT: Block = Block::new(0, 0, "quicksort::pivot", 9);
const FROM_LEFT: Block = Block::new(0, 1, "quicksort::scan_left", 3);
const FROM_RIGHT: Block = Block::new(0, 2, "quicksort::scan_right", 3);
const SWAP: Block = Block::new(0, 3, "quicksort::swap", 5);
const PUSH: Block = Block::new(0, 4, "quicksort::push", 6);
const POP: Block = Block::new(0, 5, "quicksort::pop", 5);
const TAKE: Block = Block::new(0, 6, "quicksort::insertion_take", 4);
const SHIFT: Block = Block::new(0, 7, "quicksort::insertion_shift", 5);
const PUT: Block = Block::new(0, 8, "quicksort::insertion_put", 3);

const RUN: Block = Block::new(1, 0, "mergesort::run", 8);
const COMPARE: Block = Block::new(1, 1, "mergesort::compare", 5);
const OUTPUT: Block = Block::new(1, 2, "mergesort::output", 4);
const REST: Block = Block::new(1, 3, "mergesort::rest", 4);

pub(super) const CODE: &[Block] =
    &[PIVOT, FROM_LEFT, FROM_RIGHT, SWAP, PUSH, POP, TAKE, SHIFT, PUT, RUN, COMPARE, OUTPUT, REST];

/// Ranges up to this length are sorted by insertion.
const SHORT: usize = 16;

fn keys(count: usize, seed: u64) -> Vec<u64> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random.random()).collect()
}

/// Quicksort of `count` random keys, with an explicit stack of ranges in memory (the longer part is pushed,
/// so that it stays short), the median of three as pivot, and insertion sort of short ranges.
pub fn quicksort<S: Sink>(t: &mut Tracer<'_, S>, count: usize, seed: u64) -> Vec<u64> {
    let mut keys = t.place(keys(count, seed));
    let mut stack = t.zeros::<(u64, u64)>(usize::BITS as usize);
    let mut depth = 0;
    let (mut low, mut high) = (0, count); // the range in hand, high excluded
    loop {
        if high - low <= SHORT {
            insertion_sort(t, &mut keys, low, high);
            if depth == 0 {
                return keys.into_values();
            }
            t.block(POP);
            depth -= 1;
            let (next_low, next_high) = t.load(&stack, depth);
            (low, high) = (next_low as usize, next_high as usize);
        } else {
            let split = partition(t, &mut keys, low, high);
            let (left, right) = ((low, split), (split, high));
            let (short, long) = if split - low < high - split { (left, right) } else { (right, left) };
            t.block(PUSH);
            t.store(&mut stack, depth, (long.0 as u64, long.1 as u64));
            depth += 1;
            (low, high) = short;
        }
    }
}

/// Hoare's partition: afterwards nothing before the split exceeds anything after it. Two of the three keys
/// that the pivot is the median of are not above it, one of them not the first, so that neither part is empty.
fn partition<S: Sink>(t: &mut Tracer<'_, S>, keys: &mut Array<u64>, low: usize, high: usize) -> usize {
    t.block(PIVOT);
    let first = t.load(keys, low);
    let middle = t.load(keys, low + (high - low) / 2);
    let last = t.load(keys, high - 1);
    let pivot = first.max(middle).min(last).max(first.min(middle));
    let (mut i, mut j) = (low, high - 1);
    loop {
        let mut left;
        loop {
            t.block(FROM_LEFT);
            left = t.load(keys, i);
            if left >= pivot {
                break;
            }
            i += 1;
        }
        let mut right;
        loop {
            t.block(FROM_RIGHT);
            right = t.load(keys, j);
            if right <= pivot {
                break;
            }
            j -= 1;
        }
        if i >= j {
            return i;
        }
        t.block(SWAP);
        t.store(keys, i, right);
        t.store(keys, j, left);
        i += 1;
        j -= 1;
    }
}

fn insertion_sort<S: Sink>(t: &mut Tracer<'_, S>, keys: &mut Array<u64>, low: usize, high: usize) {
    for i in low + 1..high {
        t.block(TAKE);
        let key = t.load(keys, i);
        let mut hole = i;
        while hole > low {
            t.block(SHIFT);
            let before = t.load(keys, hole - 1);
            if before <= key {
                break;
            }
            t.store(keys, hole, before);
            hole -= 1;
        }
        t.block(PUT);
        t.store(keys, hole, key);
    }
}

/// Bottom-up merge sort of `count` random keys between two buffers.
pub fn mergesort<S: Sink>(t: &mut Tracer<'_, S>, count: usize, seed: u64) -> Vec<u64> {
    let mut from = t.place(keys(count, seed));
    let mut to = t.zeros::<u64>(count);
    let mut width = 1;
    while width < count {
        for low in (0..count).step_by(2 * width) {
            let middle = (low + width).min(count);
            merge(t, &from, &mut to, low, middle, (middle + width).min(count));
        }
        (from, to) = (to, from);
        width *= 2;
    }
    from.into_values()
}

fn merge<S: Sink>(
    t: &mut Tracer<'_, S>,
    from: &Array<u64>,
    to: &mut Array<u64>,
    low: usize,
    middle: usize,
    high: usize,
) {
    t.block(RUN);
    let (mut left, mut right) = (low, middle);
    let mut out = low;
    while left < middle && right < high {
        t.block(COMPARE);
        let (l, r) = (t.load(from, left), t.load(from, right));
        t.block(OUTPUT);
        if l <= r {
            t.store(to, out, l);
            left += 1;
        } else {
            t.store(to, out, r);
            right += 1;
        }
        out += 1;
    }
    for rest in (left..middle).chain(right..high) {
        t.block(REST);
        let key = t.load(from, rest);
        t.store(to, out, key);
        out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sort_what_the_standard_library_sorts() {
        for count in [0, 1, 2, 3, 15, 16, 17, 18, 40, 1000, 4096, 30_001] {
            for seed in 0..4 {
                let mut expected = keys(count, seed);
                expected.sort_unstable();
                let mut sink = |_| ();
                assert_eq!(quicksort(&mut Tracer::new(&mut sink, 0), count, seed), expected);
                assert_eq!(mergesort(&mut Tracer::new(&mut sink, 0), count, seed), expected);
            }
        }
    }

    #[test]
    fn merge_sort_moves_every_key_once_per_pass() {
        let mut stores = 0;
        let mut sink = |event| {
            if matches!(event, reuse_sampler::replay::Event::Access(a) if a.kind == reuse_sampler::AccessKind::Store)
            {
                stores += 1;
            }
        };
        mergesort(&mut Tracer::new(&mut sink, 0), 1000, 1);
        assert_eq!(stores, 10 * 1000); // 10 = log2(1000) rounded up
    }
}
