//! Hash join of two tables, as a database does it: build chained buckets over the smaller table, then probe
//! with every row of the larger one.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tracer::{Block, Sink, Tracer};

const BUILD: Block = Block::new(2, 0, "hash_join::build", 11);
const PROBE: Block = Block::new(2, 1, "hash_join::probe", 8);
const CHAIN: Block = Block::new(2, 2, "hash_join::chain", 6);
const MATCH: Block = Block::new(2, 3, "hash_join::match", 6);

pub(super) const CODE: &[Block] = &[BUILD, PROBE, CHAIN, MATCH];

/// A row: a key and a payload.
pub type Row = (u64, u64);

fn tables(build: usize, probe: usize, seed: u64) -> (Vec<Row>, Vec<Row>) {
    let mut random = StdRng::seed_from_u64(seed);
    let keys = 2 * build.max(1) as u64; // about every second probe finds nothing
    let mut table = |rows: usize| -> Vec<Row> {
        (0..rows).map(|_| (random.random_range(0..keys), random.random())).collect()
    };
    (table(build), table(probe))
}

/// Spreads keys over buckets: the upper bits of a product with an odd number (Fibonacci hashing).
fn bucket(key: u64, bits: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}

/// Joins a random table of `build` rows with one of `probe` rows; gives the pairs of payloads of equal keys.
pub fn hash_join<S: Sink>(t: &mut Tracer<'_, S>, build: usize, probe: usize, seed: u64) -> Vec<Row> {
    let (small, large) = tables(build, probe, seed);
    let bits = build.max(2).next_power_of_two().ilog2();
    let small = t.place(small);
    let large = t.place(large);
    let mut heads = t.zeros::<u32>(1 << bits); // 1 + row number of the bucket's first row, 0 for none
    let mut next = t.zeros::<u32>(build);
    for row in 0..build {
        t.block(BUILD);
        let (key, _) = t.load(&small, row);
        let head = t.load(&heads, bucket(key, bits));
        t.store(&mut next, row, head);
        t.store(&mut heads, bucket(key, bits), row as u32 + 1);
    }
    let mut output = t.zeros::<Row>(OUTPUT_ROWS);
    let mut joined = Vec::new();
    for row in 0..probe {
        t.block(PROBE);
        let (key, payload) = t.load(&large, row);
        let mut candidate = t.load(&heads, bucket(key, bits));
        while candidate != 0 {
            t.block(CHAIN);
            let other = candidate as usize - 1;
            let (other_key, other_payload) = t.load(&small, other);
            candidate = t.load(&next, other);
            if other_key == key {
                t.block(MATCH);
                let pair = (other_payload, payload);
                t.store(&mut output, joined.len() % OUTPUT_ROWS, pair);
                joined.push(pair);
            }
        }
    }
    joined
}

/// The output goes through a buffer of 64 KiB, as if a next operator consumed it.
const OUTPUT_ROWS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_what_nested_loops_join() {
        for (build, probe) in [(0, 10), (1, 10), (50, 0), (97, 400), (1000, 300)] {
            for seed in 0..4 {
                let (small, large) = tables(build, probe, seed);
                let mut expected = Vec::new();
                for &(key, payload) in &large {
                    expected.extend(small.iter().filter(|row| row.0 == key).map(|row| (row.1, payload)));
                }
                let mut sink = |_| ();
                let mut joined = hash_join(&mut Tracer::new(&mut sink, 0), build, probe, seed);
                assert!(build < 50 || probe == 0 || !joined.is_empty());
                joined.sort_unstable();
                expected.sort_unstable();
                assert_eq!(joined, expected);
            }
        }
    }
}
