//! A cache of the true size, to hold the pirate's curves against, and streams for it.

#![allow(dead_code)] // each test file uses a part

use cache_pirate::simple::SimpleMachine;
use cache_pirate::{Pace, PirateParams};

/// A small machine.
pub const MACHINE: SimpleMachine = SimpleMachine {
    sets: 64,
    ways: 16,
    line_size: 64,
    hit_time: 10.0,
    miss_time: 100.0,
    pirate_hit_time: 1.0,
    pirate_miss_time: 20.0,
    threads: 1,
    free_threads: 1,
};

/// Short intervals, all the time.
pub fn params() -> PirateParams {
    PirateParams { interval: Some(20_000.0), pace: Pace::Continuous, ..PirateParams::default() }
}

/// Bytes of a way.
pub const WAY: u64 = 64 * 64;

/// Misses of an LRU cache of `sets` sets and `ways` ways over `stream`, counted from access `from` on, as a
/// ratio. Written for clarity: a list per set, oldest last.
pub fn miss_ratio(sets: u64, ways: usize, stream: &[u64], from: usize) -> f64 {
    let mut cache = vec![Vec::new(); sets as usize];
    let mut misses = 0;
    for (i, &line) in stream.iter().enumerate() {
        let set: &mut Vec<u64> = &mut cache[(line % sets) as usize];
        let before = set.len();
        set.retain(|&l| l != line);
        if i >= from && set.len() == before {
            misses += 1;
        }
        set.insert(0, line);
        set.truncate(ways);
    }
    f64::from(misses) / (stream.len() - from) as f64
}

/// Uniformly random lines below `lines`.
pub fn random_lines(lines: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % lines
    })
}
