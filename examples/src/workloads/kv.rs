//! A key-value store: an open-addressing index over a table of 64-byte records, nine reads to one write, keys
//! drawn by Zipf's law.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use super::tracer::{Array, Block, Sink, Tracer};

const REQUEST: Block = Block::new(8, 0, "key_value::request", 9);
const PROBE: Block = Block::new(8, 1, "key_value::probe", 5);
const READ: Block = Block::new(8, 2, "key_value::read", 12);
const WRITE: Block = Block::new(8, 3, "key_value::write", 12);

pub(super) const CODE: &[Block] = &[REQUEST, PROBE, READ, WRITE];

/// Words of a record.
const RECORD: usize = 8;

/// One request and its answer: the key, and the record's sum (read) or what it was filled with (write).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Sum of the words of the record read.
    Read(u64, u64),
    /// Every word of the record was set to this.
    Written(u64, u64),
}

struct Store {
    index: Array<(u64, u64)>, // (1 + key, record number), (0, 0) where free; at most half full
    records: Array<u64>,
}

impl Store {
    /// A store of the keys 0..`keys`, inserted in a scattered order. Loading it is not traced.
    fn new<S: Sink>(t: &mut Tracer<'_, S>, keys: u64) -> Self {
        let slots = (2 * keys as usize).next_power_of_two();
        let mut index = vec![(0, 0); slots];
        for record in 0..keys {
            let key = scatter(record, keys);
            let mut slot = Self::home(key, slots);
            while index[slot].0 != 0 {
                slot = (slot + 1) % slots;
            }
            index[slot] = (1 + key, record);
        }
        Self { index: t.place(index), records: t.zeros(keys as usize * RECORD) }
    }

    fn home(key: u64, slots: usize) -> usize {
        ((key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize % slots
    }

    /// Record of `key`, which is present.
    fn find<S: Sink>(&self, t: &mut Tracer<'_, S>, key: u64) -> usize {
        let mut slot = Self::home(key, self.index.len());
        loop {
            t.block(PROBE);
            let (tag, record) = t.load(&self.index, slot);
            if tag == key + 1 {
                return record as usize;
            }
            slot = (slot + 1) % self.index.len();
        }
    }

    fn read<S: Sink>(&self, t: &mut Tracer<'_, S>, key: u64) -> u64 {
        let record = self.find(t, key);
        t.block(READ);
        (0..RECORD).map(|word| t.load(&self.records, record * RECORD + word)).fold(0, u64::wrapping_add)
    }

    fn write<S: Sink>(&mut self, t: &mut Tracer<'_, S>, key: u64, value: u64) {
        let record = self.find(t, key);
        t.block(WRITE);
        for word in 0..RECORD {
            t.store(&mut self.records, record * RECORD + word, value);
        }
    }
}

/// A permutation of 0..`n` that scatters neighbours: multiplication by a number that shares no factor with n.
fn scatter(i: u64, n: u64) -> u64 {
    let mut factor = 0x9e37_79b1 % n;
    while gcd(factor, n) != 1 {
        factor = (factor + 1) % n;
    }
    (u128::from(i) * u128::from(factor) % u128::from(n)) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Serves `requests` requests to a store of `keys` keys (at least 1). The k-th most popular key is asked for
/// with a probability in proportion to `k^-s`, where s is `skew_percent` / 100 (0: all alike; 99: the usual
/// benchmark).
pub fn key_value<S: Sink>(
    t: &mut Tracer<'_, S>,
    keys: u64,
    requests: usize,
    skew_percent: u32,
    seed: u64,
) -> Vec<Answer> {
    let keys = keys.max(1);
    let mut store = Store::new(t, keys);
    let mut random = StdRng::seed_from_u64(seed);
    let mut requested = t.zeros::<u64>(REQUEST_QUEUE);
    // Zipf's law is refused only for less than one key or a negative exponent.
    let Ok(popularity) = Zipf::new(keys as f64, f64::from(skew_percent) / 100.0) else {
        return Vec::new();
    };
    (0..requests)
        .map(|number| {
            let rank = popularity.sample(&mut random) as u64 - 1; // from 1 to keys before
            let key = scatter(rank.min(keys - 1), keys);
            t.block(REQUEST);
            t.store(&mut requested, number % REQUEST_QUEUE, key);
            if random.random_range(0..10) == 0 {
                let value = random.random();
                store.write(t, key, value);
                Answer::Written(key, value)
            } else {
                Answer::Read(key, store.read(t, key))
            }
        })
        .collect()
}

/// Requests pass through a ring of 4 KiB.
const REQUEST_QUEUE: usize = 512;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn answers_are_those_of_a_standard_map() {
        for (keys, skew) in [(0, 99), (1, 99), (2, 0), (100, 99), (1000, 60), (1024, 150)] {
            let mut sink = |_| ();
            let answers = key_value(&mut Tracer::new(&mut sink, 0), keys, 5000, skew, 4);
            assert_eq!(answers.len(), 5000);
            let mut map: HashMap<u64, u64> = HashMap::new();
            for answer in answers {
                match answer {
                    Answer::Written(key, value) => {
                        map.insert(key, value);
                    }
                    Answer::Read(key, sum) => {
                        assert_eq!(sum, map.get(&key).copied().unwrap_or(0).wrapping_mul(RECORD as u64));
                    }
                }
            }
        }
    }

    #[test]
    fn keys_follow_zipfs_law() {
        let requests = 40_000;
        let mut sink = |_| ();
        let answers = key_value(&mut Tracer::new(&mut sink, 0), 1000, requests, 100, 8);
        let mut counts: HashMap<u64, f64> = HashMap::new();
        for answer in answers {
            let (Answer::Read(key, _) | Answer::Written(key, _)) = answer;
            *counts.entry(key).or_default() += 1.0;
        }
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [1_u64, 2, 3, 10] {
            let expected = requests as f64 / (rank as f64 * harmonic);
            let counted = counts[&scatter(rank - 1, 1000)];
            // Five standard deviations of a Poisson count.
            assert!((counted - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {counted} {expected}");
        }
    }

    #[test]
    fn scattering_is_a_permutation() {
        for n in [1, 2, 6, 97, 1000] {
            let mut images: Vec<u64> = (0..n).map(|i| scatter(i, n)).collect();
            images.sort_unstable();
            assert!(images.into_iter().eq(0..n));
        }
    }
}
