//! What a limited memory adds to the times per access that follow from the shares.

use reuse_sampler::MemoryDemand;

use super::Allocation;
use crate::{CacheCurve, MemoryLimit, SharedCache, Waiting};

/// Stretches the times of programs by what their lines wait for those of others, where `cache`'s memory has a limit.
pub(super) fn stretch<'c>(
    cache: &SharedCache,
    curves: impl Iterator<Item = &'c CacheCurve>,
    allocations: &mut [Allocation],
) {
    let Some(limit) = cache.memory() else { return };
    match limit.waiting() {
        Waiting::PerProgram => {
            let demand: f64 = allocations.iter().map(|a| a.inflow() / a.time).sum();
            let longer = (demand / limit.bytes_per_time()).max(1.0);
            for a in allocations {
                a.wait_for_memory(longer * a.time);
            }
        }
        Waiting::PerLine => {
            let demands: Vec<_> =
                allocations.iter().zip(curves).map(|(a, curve)| demand(a, curve, limit)).collect();
            for (a, time) in allocations.iter_mut().zip(limit.queue().times(&demands)) {
                a.wait_for_memory(time);
            }
        }
    }
}

impl Allocation {
    /// Takes `time` per access, because memory serves others meanwhile.
    fn wait_for_memory(&mut self, time: f64) {
        self.waiting = (1.0 - self.time / time).max(0.0);
        self.time = time;
    }
}

/// What a program asks of memory.
fn demand(a: &Allocation, curve: &CacheCurve, limit: MemoryLimit) -> MemoryDemand {
    let size = f64::from(curve.line_size());
    MemoryDemand {
        time: a.time,
        misses: a.met.map_or_else(|| curve.miss_ratio(a.at.bytes), |met| met.misses),
        lines: a.inflow() / size,
        line_time: size / limit.bytes_per_time(),
        time_per_miss: curve.time_per_miss(a.at.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CurvePoint, MemoryQueue};

    /// Bytes of each curve's cache.
    const CACHE: u64 = 1 << 16;

    /// A program that takes `time` per access and fetches so many lines, of which it waits for `demanded`, and that
    /// misses for half of what it fetches with twice the cache, for `per_miss` each.
    fn curve(time: f64, demanded: f64, ahead: f64, per_miss: f64) -> CacheCurve {
        let point = |bytes: u64, part: f64| {
            CurvePoint::new(bytes, time - per_miss * demanded * (1.0 - part), demanded * part)
                .with_fetch_ratio(demanded * part + ahead)
        };
        CacheCurve::new(vec![point(CACHE, 1.0), point(2 * CACHE, 0.5)], 1.0, 64).unwrap()
    }

    /// Times per access of programs that hold as much as their curves begin with.
    fn together(limit: MemoryLimit, curves: &[CacheCurve]) -> Vec<f64> {
        let mut all: Vec<Allocation> =
            curves.iter().map(|curve| Allocation::holding(curve, CACHE as f64)).collect();
        stretch(&SharedCache::new(CACHE).unwrap().with_memory(limit), curves.iter(), &mut all);
        for (a, curve) in all.iter().zip(curves) {
            assert!((a.time * (1.0 - a.waiting) / curve.cpi(CACHE as f64) - 1.0).abs() < 1e-9);
        }
        all.iter().map(|a| a.time).collect()
    }

    /// Memory that delivers a line in `time`, and a single one in 100.
    fn lines(time: f64) -> MemoryLimit {
        MemoryLimit::new(64.0 / time).unwrap().with_queue(MemoryQueue::new().with_latency(100.0)).unwrap()
    }

    /// The same, where nothing is fetched ahead while lines wait for 200.
    fn fetching_ahead(time: f64) -> MemoryLimit {
        let queue = MemoryQueue::new().with_latency(100.0).with_prefetch_backlog(200.0);
        lines(time).with_queue(queue).unwrap()
    }

    fn load(line: f64, curves: &[CacheCurve], times: &[f64]) -> f64 {
        let lines = |curve: &CacheCurve| curve.fetch_ratio(CACHE as f64) * line;
        curves.iter().zip(times).map(|(curve, time)| lines(curve) / time).sum()
    }

    #[test]
    fn alone_a_program_takes_as_long_as_it_was_measured() {
        for (demanded, ahead) in [(0.1, 0.0), (0.02, 0.2), (0.0, 0.3), (0.0, 0.0)] {
            let one = [curve(12.0, demanded, ahead, 100.0)];
            for limit in [lines(20.0), fetching_ahead(20.0)] {
                assert!((together(limit, &one)[0] - 12.0).abs() < 0.1, "{demanded} {ahead} {limit:?}");
            }
        }
    }

    #[test]
    fn two_that_wait_for_each_line_wait_for_each_other_as_a_queue_has_it() {
        // Each has a line under way for a tenth of the time; the other one finds it there, half done.
        let two = [curve(100.0, 1.0, 0.0, 50.0), curve(100.0, 1.0, 0.0, 50.0)];
        let times = together(MemoryLimit::new(6.4).unwrap(), &two);
        for time in times {
            assert!((time - 100.5).abs() < 0.1, "{time}");
        }
        // Nobody waits for who fetches nothing.
        let with_nobody = [two[0].clone(), curve(100.0, 0.0, 0.0, 0.0)];
        assert!(
            together(MemoryLimit::new(6.4).unwrap(), &with_nobody).iter().all(|t| (t - 100.0).abs() < 1e-6)
        );
    }

    #[test]
    fn no_more_is_delivered_than_memory_can() {
        for per_miss in [100.0, 20.0] {
            let three = [
                curve(14.0, 0.1, 0.0, per_miss),
                curve(20.0, 0.1, 0.1, per_miss),
                curve(5.0, 0.0, 0.0, per_miss),
            ];
            for limit in [
                MemoryLimit::new(64.0 / 90.0).unwrap(),
                lines(90.0),
                fetching_ahead(90.0),
                lines(90.0).with_waiting(Waiting::PerProgram),
            ] {
                let times = together(limit, &three);
                assert!(load(90.0, &three, &times) < 1.0 + 1e-6, "{limit:?} {times:?}");
                assert_eq!(times[2] > 5.01, limit.waiting() == Waiting::PerProgram, "{limit:?} {times:?}");
            }
        }
    }

    #[test]
    fn who_overlaps_misses_waits_for_a_part_of_each() {
        let beside = curve(30.0, 0.2, 0.0, 100.0);
        let waits = |per_miss: f64| {
            let times = together(lines(25.0), &[curve(30.0, 0.2, 0.0, per_miss), beside.clone()]);
            times[0] - 30.0
        };
        let (all, half) = (waits(100.0), waits(50.0));
        assert!(half > 0.0 && half < 0.8 * all, "{half} {all}");

        // A program that misses as often with more cache does not show what a miss costs: its stalls do.
        let level = |stalled: Option<f64>| {
            let point = |bytes| CurvePoint { stall_rate: stalled, ..CurvePoint::new(bytes, 30.0, 0.2) };
            let curve = CacheCurve::new(vec![point(CACHE), point(2 * CACHE)], 1.0, 64).unwrap();
            together(lines(25.0), &[curve, beside.clone()])[0] - 30.0
        };
        assert_eq!(level(None), all);
        assert!((level(Some(50.0 * 0.2 / 30.0)) / half - 1.0).abs() < 1e-9);
    }

    #[test]
    fn prefetches_are_not_waited_for_until_they_are_dropped() {
        let with = |line: f64| {
            together(fetching_ahead(line), &[curve(10.0, 0.0, 0.2, 0.0), curve(20.0, 0.1, 0.0, 100.0)])
        };
        let enough = with(20.0);
        assert!(enough[0] == 10.0 && enough[1] > 20.2, "{enough:?}");
        let scarce = with(45.0);
        assert!(scarce[0] > 11.5 && scarce[1] > 25.0, "{scarce:?}");
    }
}
