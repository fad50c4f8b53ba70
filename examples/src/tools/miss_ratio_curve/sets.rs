//! Whether a program's lines fall on the sets as evenly as the models take them to: sets are simulated beside them.

use reuse_sampler::{Access, CacheLines, LineSize};
use serde::Serialize;

use crate::machines::chip::{Cache, Geometry, Policy};

/// Of caches of more sets than this, those are simulated whose number leaves one of eight remainders when divided by 64.
/// In fewer sets misses may sit in a few of them: all are simulated.
const SMALL: u64 = 512;
const MODULUS: usize = 64;
/// Lines of the largest cache that is simulated: 128 MiB of memory.
const LARGEST: u64 = 1 << 24;
const REMAINDERS: usize = 8;
/// A simulation is reported if it differs from the model by more than this plus so many standard errors. With eight groups
/// of sets, chance exceeds five of them once in 600 times.
const APART: f64 = 0.01;
const ERRORS: f64 = 5.0;

/// One set in eight of the caches of each size, simulated, or all of small ones.
#[derive(Debug)]
pub struct SomeSets {
    line_size: LineSize,
    chosen: [bool; MODULUS],
    last: [u64; MODULUS], // the line touched last of each remainder: another touch of it hits everywhere
    caches: Vec<SomeCache>,
    accesses: u64,
}

#[derive(Debug)]
struct SomeCache {
    cache: Cache,
    all: bool, // or those of the chosen remainders: the number of sets is then a multiple of MODULUS
    misses: [u64; MODULUS], // by remainder
}

/// What the simulated sets say of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SetsSimulated {
    /// Size of the cache.
    pub bytes: u64,
    /// Miss ratio.
    pub miss_ratio: f64,
    /// Its standard error; 0 where all sets were simulated.
    pub standard_error: f64,
    /// It contradicts the model.
    pub flagged: bool,
}

impl SomeSets {
    /// Of caches of `sizes` with `ways` ways. Sizes that no whole number of sets makes, large ones without a multiple of 64
    /// sets, and those of more than 2^24 lines, are left out.
    pub fn new(sizes: &[CacheLines], ways: u32, line_size: LineSize, policy: Policy) -> Self {
        let cache = |lines: &CacheLines| {
            let geometry = Geometry::new(lines.bytes(line_size), u64::from(ways), line_size).ok()?;
            let all = geometry.sets() <= SMALL;
            let whole = lines.0 <= LARGEST && (all || geometry.sets() % MODULUS as u64 == 0);
            whole.then(|| SomeCache { cache: Cache::new(geometry, policy), all, misses: [0; MODULUS] })
        };
        let mut chosen = [false; MODULUS];
        // Apart by odd steps, so that no stride of a power of two meets all or none.
        (0..REMAINDERS).for_each(|k| chosen[19 * k % MODULUS] = true);
        let caches = sizes.iter().filter_map(cache).collect();
        Self { line_size, chosen, last: [u64::MAX; MODULUS], caches, accesses: 0 }
    }

    /// Plays an access.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        let (first, last) = self.line_size.span(access);
        for line in first..=last {
            self.accesses += 1;
            let remainder = (line % MODULUS as u64) as usize;
            if std::mem::replace(&mut self.last[remainder], line) == line {
                continue;
            }
            let chosen = self.chosen[remainder];
            for SomeCache { cache, misses, .. } in self.caches.iter_mut().filter(|some| some.all || chosen) {
                if !cache.touch(line) {
                    cache.insert(line);
                    misses[remainder] += 1;
                }
            }
        }
    }

    /// What they say, beside the model's `points`.
    pub fn against(&self, points: &[(CacheLines, f64)]) -> Vec<SetsSimulated> {
        let of = |some: &SomeCache| {
            let geometry = some.cache.geometry();
            let modelled = points.iter().find(|point| point.0 == geometry.lines())?.1;
            let ratio = |misses: &u64| (misses * MODULUS as u64) as f64 / self.accesses.max(1) as f64;
            let simulated = some.misses.iter().zip(&self.chosen).filter(|(_, chosen)| some.all || **chosen);
            let ratios: Vec<f64> = simulated.map(|(misses, _)| ratio(misses)).collect();
            let n = ratios.len() as f64;
            let miss_ratio = ratios.iter().sum::<f64>() / n;
            let squares: f64 = ratios.iter().map(|ratio| (ratio - miss_ratio).powi(2)).sum();
            let standard_error = (squares / (n - 1.0) / n * (1.0 - n / MODULUS as f64)).sqrt();
            let flagged = (miss_ratio - modelled).abs() > APART + ERRORS * standard_error;
            Some(SetsSimulated { bytes: geometry.bytes(), miss_ratio, standard_error, flagged })
        };
        self.caches.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets of small caches, one in eight of large ones, against whole simulated caches.
    #[test]
    fn they_agree_with_whole_caches() {
        let sizes = [CacheLines(256), CacheLines(8_192)];
        let mut some = SomeSets::new(&sizes, 4, LineSize::B64, Policy::Lru);
        let mut whole: Vec<_> = sizes
            .iter()
            .map(|size| Cache::new(Geometry::new(64 * size.0, 4, LineSize::B64).unwrap(), Policy::Lru))
            .collect();
        let (mut misses, mut state, accesses) = ([0_u64; 2], 1_u64, 400_000);
        for _ in 0..accesses {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A small part is used often.
            let line = (state >> 40) % if state >> 63 == 0 { 300 } else { 20_000 };
            some.access(&Access::load(64 * line, 4));
            for (cache, misses) in whole.iter_mut().zip(&mut misses) {
                if !cache.touch(line) {
                    cache.insert(line);
                    *misses += 1;
                }
            }
        }
        let truth = misses.map(|misses| misses as f64 / f64::from(accesses));
        let found = some.against(&[(sizes[0], truth[0]), (sizes[1], truth[1])]);
        assert!((found[0].miss_ratio - truth[0]).abs() < 1e-12 && found[0].standard_error < 1e-12);
        assert!(
            (found[1].miss_ratio - truth[1]).abs() < 4.0 * found[1].standard_error,
            "{found:?} {truth:?}"
        );
        assert!(found.iter().all(|sets| !sets.flagged));
        assert!(some.against(&[(sizes[0], truth[0] - 0.011)])[0].flagged);
    }
}
