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
            let wait = wait_per_byte(allocations, demand, available);
            for a in allocations {
                a.time += wait * a.inflow();
            }
        }
    }
}

/// Solves sum b / (w + d b) = limit for d by Newton: the sum is convex and falls with d, so steps from the left
/// never pass the solution.
fn wait_per_byte(allocations: &[Allocation], demand: f64, available: f64) -> f64 {
    let mut wait = 0.0;
    let mut sum = demand;
    // Quadratic convergence: a handful of rounds; the bound is for inputs at the edge of what f64 holds.
    for _ in 0..100 {
        let slope: f64 =
            allocations.iter().map(|a| (a.inflow() / (a.time + wait * a.inflow())).powi(2)).sum();
        wait += (sum - available) / slope;
        sum = allocations.iter().map(|a| a.inflow() / (a.time + wait * a.inflow())).sum();
        if sum - available <= 1e-9 * available {
            break;
        }
    }
    wait
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Lookup;

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
