//! Time by the latencies of the caches.

use serde::Serialize;

use super::estimate::{Estimate, Figure};
use crate::cli::Failure;
use crate::machines::host::CacheLevel;

/// Cycles of an instruction without its accesses.
const INSTRUCTION: f64 = 1.0;
/// Cycles of a hit in a cache of at most so many bytes, as on current cores.
const HITS: [(u64, f64); 3] = [(128 << 10, 4.0), (4 << 20, 14.0), (u64::MAX, 50.0)];
/// Cycles of an access to memory.
const MEMORY: f64 = 250.0;

/// An in-order core that waits for every access, as [`statcc::LinearLatency`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Latencies {
    /// Cycles of a hit in each cache, the smallest first, then of memory.
    pub cycles: Vec<f64>,
    /// Positions of the caches by rising size.
    order: Vec<usize>,
}

/// Cycles on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct TimeChange {
    pub before: Figure,
    pub after: Figure,
    /// Relative.
    pub change: Figure,
}

impl Latencies {
    /// As given, or typical ones.
    pub fn new(given: &[f64], levels: &[CacheLevel]) -> Result<Self, Failure> {
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by_key(|&at| levels[at].bytes);
        let cycles = match given {
            [] => {
                let hit = |&at: &usize| {
                    HITS.iter().find(|(most, _)| levels[at].bytes <= *most).map_or(0.0, |h| h.1)
                };
                order.iter().map(hit).chain([MEMORY]).collect()
            }
            given => given.to_vec(),
        };
        if cycles.len() != levels.len() + 1 {
            return Err(Failure::Usage(format!(
                "--latencies has {} numbers for {} caches: give one for each, the smallest first, and one for memory",
                cycles.len(),
                levels.len()
            )));
        }
        if !(cycles.is_sorted() && cycles.iter().all(|c| (0.0..1e6).contains(c))) {
            return Err(Failure::Usage(format!(
                "--latencies {cycles:?}: give cycles from 0 to 1000000, none below the one before it"
            )));
        }
        Ok(Self { cycles, order })
    }

    /// Cycles of so many instructions with so many accesses, which miss as given at each level.
    pub fn time(&self, instructions: f64, accesses: f64, levels: &[Estimate]) -> Estimate {
        let slower = self.cycles.windows(2).map(|pair| pair[1] - pair[0]);
        let at_levels: Vec<(f64, Estimate)> = slower.zip(self.order.iter().map(|&at| levels[at])).collect();
        // The errors at the levels have the same causes: they add up.
        let sum = |of: fn(&Estimate) -> f64| {
            at_levels.iter().map(|(cycles, level)| cycles * of(level)).sum::<f64>()
        };
        Estimate {
            value: INSTRUCTION * instructions + accesses * (self.cycles[0] + sum(|level| level.value)),
            own: accesses * sum(|level| level.own),
            lent: accesses * sum(|level| level.lent),
            data: accesses * sum(|level| level.data),
        }
    }
}

impl TimeChange {
    pub fn between(before: Figure, after: Figure) -> Option<Self> {
        Some(Self { before, after, change: after.relative_to(before)? })
    }
}

#[cfg(test)]
mod tests {
    use statcc::{CpiModel, LinearLatency, PrivateLevel};

    use super::*;

    #[test]
    fn time_is_that_of_the_linear_model() {
        let level = |bytes| CacheLevel { name: String::new(), bytes };
        let latencies = Latencies::new(&[4.0, 50.0, 250.0], &[level(1 << 20), level(32 << 10)]).unwrap();
        let miss = |value| Estimate { value, own: value / 10.0, lent: 0.0, data: 0.0 };
        let time = latencies.time(1000.0, 400.0, &[miss(0.02), miss(0.1)]);
        let l1 = PrivateLevel { hit_ratio: 0.9, latency: 4.0 };
        let cpi = LinearLatency::new(INSTRUCTION, 0.4, &[l1], 50.0, 250.0).unwrap().cpi(0.02);
        assert!((time.value - 1000.0 * cpi).abs() < 1e-9, "{time:?}");
        assert!((time.own - 400.0 * (46.0 * 0.01 + 200.0 * 0.002)).abs() < 1e-9, "{time:?}");
    }
}
