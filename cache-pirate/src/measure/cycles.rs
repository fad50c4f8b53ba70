//! Measurement cycles over all sizes, and a whole run at one size.

use crate::plan::{Pace, Plan, Threads};
use crate::testbed::Testbed;

use super::gaps::Gaps;
use super::session::{Next, Session};
use super::{Measurements, choose_threads};

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
    run(testbed, plan, |session, result| {
        let mut gaps = match plan.pace {
            Pace::Continuous => None,
            Pace::Sampling { mean_gap, seed } => Some(Gaps::new(mean_gap, seed)),
        };
        for cycle in 0..plan.cycles {
            if let Some(gaps) = &mut gaps {
                if session.gap(gaps.draw(), |_| ())? == Next::Ended {
                    return Ok(Next::Ended);
                }
            }
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
        }
        Ok(Next::Continue)
    })
}

/// Measures one size, `bytes` left to the target (rounded to whole lines, at least one), until the target ends
/// or has done as many intervals as the plan has cycles. The plan's sizes are not used.
///
/// # Errors
/// Those of the testbed.
pub fn measure_fixed<T: Testbed>(testbed: &mut T, plan: &Plan, bytes: u64) -> Result<Measurements, T::Error> {
    let line = u64::from(plan.cache.line_size);
    let stolen = plan.whole() - (bytes / line * line).clamp(line, plan.whole());
    run(testbed, plan, |session, result| {
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

/// Chooses the threads, makes a session for `body` and keeps the totals.
pub(super) fn run<T: Testbed>(
    testbed: &mut T,
    plan: &Plan,
    body: impl FnOnce(&mut Session<'_, T>, &mut Measurements) -> Result<Next, T::Error>,
) -> Result<Measurements, T::Error> {
    let mut result = Measurements::begin(plan);
    let begin = testbed.read()?;
    let threads = match plan.threads {
        Threads::Fixed(threads) => threads.min(testbed.max_threads().max(1)),
        Threads::Auto => {
            let choice = choose_threads(testbed, plan)?;
            let threads = choice.threads;
            result.ended = choice.ended;
            result.threads = Some(choice);
            threads
        }
    };
    let mut session = Session::new(testbed, plan, threads);
    if !result.ended {
        result.ended = body(&mut session, &mut result)? == Next::Ended;
    }
    result.total = session.read()? - begin;
    result.suspended = session.suspended;
    Ok(result)
}
