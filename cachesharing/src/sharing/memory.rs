//! What a limited memory adds to the times per access that follow from the shares.

use super::Allocation;
use crate::{MemoryLimit, Waiting};

/// Stretches the times of programs that together ask for more than memory delivers, until they do not.
pub(super) fn stretch(limit: MemoryLimit, allocations: &mut [Allocation]) {
    let demand: f64 = allocations.iter().map(|a| a.inflow() / a.time).sum();
    let available = limit.bytes_per_time();
    if demand <= available {
        return;
    }
    match limit.waiting() {
        Waiting::PerProgram => {
            for a in allocations {
                a.time *= demand / available;
            }
        }
        Waiting::PerLine => {
            let each = allocations.iter();
            let fetchers: Vec<Fetcher> = each.map(|a| Fetcher::new(a, limit.latency())).collect();
            let times = waited(&fetchers, available, limit.backlog());
            for (a, time) in allocations.iter_mut().zip(times) {
                a.time = time;
            }
        }
    }
}

/// A program that fetches lines.
struct Fetcher {
    time: f64,    // per access, if nobody waits for others
    inflow: f64,  // bytes per access
    waits: f64,   // bytes per access that are waited for, as far as it is felt
    ahead: f64,   // the same of those prefetched, once they are dropped
    dropped: f64, // time per access that it costs if all are dropped and nobody waits for others
    line: f64,    // bytes
}

impl Fetcher {
    fn new(a: &Allocation, latency: Option<f64>) -> Self {
        let (of, inflow) = (a.at.fetching, a.inflow());
        let felt = match latency {
            Some(latency) if of.per_miss > 0.0 => (of.per_miss / latency).min(1.0),
            _ => 1.0,
        };
        let ahead = inflow * of.prefetched;
        let dropped = if ahead > 0.0 { felt * latency.unwrap_or(0.0) * ahead / of.line } else { 0.0 };
        Self {
            time: a.time,
            inflow,
            waits: felt * (inflow - ahead),
            ahead: felt * ahead,
            dropped,
            line: of.line,
        }
    }

    /// Time per access where a byte waits `wait` and a part of the prefetches is dropped.
    fn at(&self, wait: f64, part: f64) -> f64 {
        self.time + wait * (self.waits + part * self.ahead) + part * self.dropped
    }
}

/// Times per access at which the programs fetch no more than `available`: as many prefetches as possible are made.
fn waited(fetchers: &[Fetcher], available: f64, backlog: Option<f64>) -> Vec<f64> {
    let demand = |wait: f64, part: f64| fetchers.iter().map(|f| f.inflow / f.at(wait, part)).sum::<f64>();
    let line = fetchers.iter().map(|f| f.line).fold(0.0, f64::max);
    let behind = backlog.filter(|_| line > 0.0).map_or(f64::INFINITY, |backlog| backlog / line);
    let unhurried: f64 = fetchers.iter().filter(|f| f.waits <= 0.0).map(|f| f.inflow / f.time).sum();
    let unlimited = behind.is_infinite();
    let (wait, part) = if (unlimited && unhurried < available) || demand(behind, 0.0) <= available {
        (wait_per_byte(fetchers, 0.0, available), 0.0)
    } else if unlimited || demand(behind, 1.0) > available {
        (wait_per_byte(fetchers, 1.0, available), 1.0)
    } else {
        // The more are dropped, the less is fetched.
        let (mut few, mut many) = (0.0, 1.0);
        for _ in 0..50 {
            let part = f64::midpoint(few, many);
            if demand(behind, part) > available { few = part } else { many = part }
        }
        (behind, many)
    };
    fetchers.iter().map(|f| f.at(wait, part)).collect()
}

/// Solves sum of inflow / time = limit for the wait of a byte by Newton: the sum is convex and falls, so steps from the left
/// never pass the solution.
fn wait_per_byte(fetchers: &[Fetcher], part: f64, available: f64) -> f64 {
    let mut wait = 0.0;
    // Quadratic convergence: a handful of rounds; the bound is for inputs at the edge of what f64 holds.
    for _ in 0..100 {
        let (mut sum, mut slope) = (0.0, 0.0);
        for f in fetchers {
            let rate = f.inflow / f.at(wait, part);
            sum += rate;
            slope += rate * (f.waits + part * f.ahead) / f.at(wait, part);
        }
        if sum - available <= 1e-9 * available || slope <= 0.0 {
            break;
        }
        wait += (sum - available) / slope;
    }
    wait
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{Fetching, Lookup};

    fn allocation(time: f64, inflow: f64) -> Allocation {
        let mut at = Lookup::default();
        at.inflow = inflow;
        Allocation { time, at, ..Allocation::default() }
    }

    fn demand(allocations: &[Allocation]) -> f64 {
        allocations.iter().map(|a| a.at.inflow / a.time).sum()
    }

    #[test]
    fn below_the_limit_nobody_waits() {
        let mut two = [allocation(10.0, 8.0), allocation(20.0, 2.0)];
        let before = two;
        for waiting in [Waiting::PerLine, Waiting::PerProgram] {
            stretch(MemoryLimit::new(0.9).unwrap().with_waiting(waiting), &mut two);
            assert_eq!(two, before);
        }
    }

    #[test]
    fn above_the_limit_the_demand_comes_down_to_it() {
        for waiting in [Waiting::PerLine, Waiting::PerProgram] {
            let mut three = [allocation(2.0, 8.0), allocation(20.0, 2.0), allocation(5.0, 0.0)];
            stretch(MemoryLimit::new(1.3).unwrap().with_waiting(waiting), &mut three);
            // Newton stops at 1e-9.
            assert!((demand(&three) / 1.3 - 1.0).abs() < 1e-8, "{waiting:?} {three:?}");
        }
    }

    #[test]
    fn prefetched_lines_are_not_waited_for_until_they_are_dropped() {
        let of = |time: f64, inflow: f64, prefetched: f64| {
            let mut a = allocation(time, inflow);
            a.at.fetching = Fetching { line: 1.0, prefetched, per_miss: 0.0 };
            a
        };
        let both = || [of(2.0, 8.0, 1.0), of(4.0, 4.0, 0.0)];
        // The first takes 4 of 4.5 bytes per unit of time; the other waits for what is left.
        let limit = MemoryLimit::new(4.5).unwrap();
        let mut two = both();
        stretch(limit, &mut two);
        assert!((two[0].time - 2.0).abs() < 1e-9 && (two[1].time - 8.0).abs() < 1e-6, "{two:?}");
        // Once memory is half a unit behind, no longer: some of its lines are waited for, too.
        let mut two = both();
        stretch(limit.with_latency(10.0).unwrap().with_backlog(0.5).unwrap(), &mut two);
        assert!((demand(&two) / 4.5 - 1.0).abs() < 1e-6, "{two:?}");
        assert!((two[1].time - 6.0).abs() < 1e-9 && two[0].time > 2.0, "{two:?}");
        // Who hides nine tenths of a miss hides as much of the wait.
        let mut hidden = [of(4.0, 4.0, 0.0), of(4.0, 4.0, 0.0)];
        hidden[0].at.fetching.per_miss = 1.0;
        stretch(MemoryLimit::new(1.5).unwrap().with_latency(10.0).unwrap(), &mut hidden);
        let [few, all] = hidden.map(|a| a.time - 4.0);
        assert!((all / few - 10.0).abs() < 1e-6, "{hidden:?}");
    }

    #[test]
    fn one_program_alone_gets_what_memory_delivers() {
        for waiting in [Waiting::PerLine, Waiting::PerProgram] {
            let mut one = [allocation(2.0, 8.0)];
            stretch(MemoryLimit::new(0.5).unwrap().with_waiting(waiting), &mut one);
            assert!((one[0].time - 8.0 / 0.5).abs() < 1e-6, "{waiting:?}");
        }
    }

    #[test]
    fn who_fetches_nothing_waits_only_if_all_wait() {
        let mut two = [allocation(2.0, 8.0), allocation(5.0, 0.0)];
        stretch(MemoryLimit::new(1.0).unwrap(), &mut two);
        assert_eq!(two[1].time, 5.0);
        stretch(MemoryLimit::new(0.5).unwrap().with_waiting(Waiting::PerProgram), &mut two);
        assert!(two[1].time > 5.0);
    }
}
