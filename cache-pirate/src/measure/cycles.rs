//! Measurement cycles over all sizes, and a whole run at one size.

use crate::plan::{Pace, Plan, Threads};
use crate::testbed::Testbed;

use super::budget::Budget;
use super::random::Random;
use super::session::{Next, Session};
use super::{Measurements, capacity, threads};

/// Measures all sizes of `plan` in one run of the target.
///
/// A cycle goes from the largest size left to the target to the smallest, so that only the pirate needs a
/// warm-up between intervals, and the target one before each cycle. Cycles repeat until the target ends or the
/// plan has enough.
///
/// # Errors
/// Those of the testbed.
///
/// # References
/// Eklöv, thesis, Paper III, figure 6; the random gaps are the future work of its section III.4.5.
pub fn measure<T: Testbed>(testbed: &mut T, plan: &Plan) -> Result<Measurements, T::Error> {
    run(testbed, plan, &plan.stolen, |session, result| {
        let mut random = Random::new(match plan.pace {
            Pace::Continuous => 0,
            Pace::Sampling { seed, .. } | Pace::Budget { seed, .. } => seed,
        });
        let mut budget = match plan.pace {
            Pace::Budget { overhead, .. } => {
                Some(Budget::new(overhead, if plan.stolen.first() == Some(&0) { 0.0 } else { plan.interval }))
            }
            _ => None,
        };
        for cycle in 0..plan.cycles {
            let mut weight = 1.0;
            let mut rest = 0.0;
            if let Some(budget) = &mut budget {
                let gap = budget.gap();
                let before = gap * random.uniform();
                rest = gap - before;
                weight = gap;
                if wait(session, budget, before)? == Next::Ended {
                    return Ok(Next::Ended);
                }
            } else if let Pace::Sampling { mean_gap, .. } = plan.pace {
                if session.gap(random.exponential(mean_gap), |_, _| ())? == Next::Ended {
                    return Ok(Next::Ended);
                }
            }
            let first = result.intervals.len();
            let begin = session.read()?;
            let next = one_cycle(session, plan, cycle, result)?;
            let made = session.read()? - begin;
            if let Some(budget) = &mut budget {
                let intervals = &mut result.intervals[first..];
                // The whole stretch, in cycles of so many intervals.
                weight = (weight + made.target.work) / (plan.interval * plan.stolen.len() as f64);
                for interval in intervals.iter_mut() {
                    interval.weight = weight;
                }
                budget.measured(&made, intervals);
                if next == Next::Continue && wait(session, budget, rest)? == Next::Ended {
                    return Ok(Next::Ended);
                }
            }
            if next == Next::Ended {
                return Ok(Next::Ended);
            }
        }
        Ok(Next::Continue)
    })
}

/// Lets the target run alone for a part of a gap.
fn wait<T: Testbed>(session: &mut Session<'_, T>, budget: &mut Budget, work: f64) -> Result<Next, T::Error> {
    if work <= 0.0 {
        return Ok(Next::Continue);
    }
    session.gap(work, |made, warming| budget.waited(made, warming))
}

/// Measures each size once.
fn one_cycle<T: Testbed>(
    session: &mut Session<'_, T>,
    plan: &Plan,
    cycle: u64,
    result: &mut Measurements,
) -> Result<Next, T::Error> {
    for &stolen in &plan.stolen {
        if session.change_to(stolen, |_| ())? == Next::Ended {
            return Ok(Next::Ended);
        }
        let (interval, next) = session.interval(plan.interval)?;
        result.intervals.push(super::Interval { cycle, ..interval });
        if next == Next::Ended {
            return Ok(Next::Ended);
        }
    }
    Ok(Next::Continue)
}

/// Measures one size, `bytes` left to the target (rounded to whole lines, at least one), until the target ends
/// or has done as many intervals as the plan has cycles. The plan's sizes are not used.
///
/// # Errors
/// Those of the testbed.
pub fn measure_fixed<T: Testbed>(testbed: &mut T, plan: &Plan, bytes: u64) -> Result<Measurements, T::Error> {
    let line = u64::from(plan.cache.line_size);
    let stolen = plan.whole() - (bytes / line * line).clamp(line, plan.whole());
    run(testbed, plan, &[stolen], |session, result| {
        if session.change_to(stolen, |_| ())? == Next::Ended {
            return Ok(Next::Ended);
        }
        for cycle in 0..plan.cycles {
            let (interval, next) = session.interval(plan.interval)?;
            result.intervals.push(super::Interval { cycle, ..interval });
            if next == Next::Ended {
                return Ok(Next::Ended);
            }
        }
        Ok(Next::Continue)
    })
}

/// Finds what the pirate can hold of the `sizes` to be stolen, chooses the threads, makes a session for `body` and keeps the totals.
pub(super) fn run<T: Testbed>(
    testbed: &mut T,
    plan: &Plan,
    sizes: &[u64],
    body: impl FnOnce(&mut Session<'_, T>, &mut Measurements) -> Result<Next, T::Error>,
) -> Result<Measurements, T::Error> {
    let capacity = capacity::find(testbed, plan, sizes)?;
    let mut result = Measurements::begin(plan, testbed.placement(), capacity);
    let begin = testbed.read()?;
    let threads = match plan.threads {
        Threads::Fixed(threads) => threads.min(testbed.max_threads().max(1)),
        Threads::Auto => {
            let choice = threads::choose(testbed, plan, capacity)?;
            let threads = choice.threads;
            result.ended = choice.ended;
            result.threads = Some(choice);
            threads
        }
    };
    let mut session = Session::new(testbed, plan, capacity, threads);
    if !result.ended {
        result.ended = body(&mut session, &mut result)? == Next::Ended;
    }
    result.total = session.read()? - begin;
    result.suspended = session.suspended;
    result.capacity = capacity::confirm(testbed, plan, sizes, capacity);
    if result.capacity != capacity {
        for interval in result.intervals.iter_mut().filter(|interval| interval.trust.is_trusted()) {
            interval.trust = result.capacity.judge(interval.stolen);
        }
    }
    Ok(result)
}
