//! How many threads the pirate may have.
//!
//! More threads touch the stolen lines more often, so that more can be held, but they also take bandwidth of
//! the shared cache. While little is stolen the target is at its fastest and needs most of that bandwidth; if
//! its CPI does not notice more threads then, it will not when more is stolen either, because the pirate's
//! bandwidth does not depend on how much it steals. (Eklöv, thesis, Paper III, section III.4.4.)

use crate::plan::Plan;
use crate::testbed::Testbed;

use super::session::{Next, Session};
use super::{Capacity, Interval, capacity};

/// How often a trial is repeated whose reference moved by itself.
const REPEATS: usize = 3;

/// One number of threads, tried between two intervals with one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadTrial {
    /// Threads tried, at least 2.
    pub threads: usize,
    /// The target's CPI with one thread, before and after.
    pub one: (f64, f64),
    /// The target's CPI with this many.
    pub many: f64,
}

impl ThreadTrial {
    /// Relative rise of the CPI over the mean of the intervals around it.
    #[must_use]
    pub fn rise(&self) -> f64 {
        self.many / (0.5 * (self.one.0 + self.one.1)) - 1.0
    }

    /// Whether the program itself changed its CPI by more than `tolerance` during the trial.
    fn moved(&self, tolerance: f64) -> bool {
        (self.one.1 / self.one.0 - 1.0).abs() > tolerance
    }
}

/// The outcome of the trials.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadChoice {
    /// Threads to use, at least 1.
    pub threads: usize,
    /// Whether one thread held what it was to steal: if not, hardly anything can be measured.
    pub one_thread_holds: bool,
    /// The trials in order.
    pub trials: Vec<ThreadTrial>,
    /// Whether the target ended meanwhile.
    pub ended: bool,
}

/// Finds the largest number of pirate threads that leaves the target's CPI unchanged while the pirate steals
/// little: [`thread_test_bytes`](crate::PirateParams::thread_test_bytes).
///
/// Each trial compares an interval with more threads against one-thread intervals before and after it, so that
/// a drift of the program is not taken for the pirate's doing; where those two differ by more than the
/// tolerance the trial is repeated, three times at most, and then counted as failed.
///
/// # Errors
/// Those of the testbed.
///
/// # Cost
/// One interval, and two per trial.
pub fn choose_threads<T: Testbed>(testbed: &mut T, plan: &Plan) -> Result<ThreadChoice, T::Error> {
    let capacity = capacity::find(testbed, plan, &[plan.thread_test])?;
    choose(testbed, plan, capacity)
}

/// The same where it is known what the pirate can hold.
pub(super) fn choose<T: Testbed>(
    testbed: &mut T,
    plan: &Plan,
    capacity: Capacity,
) -> Result<ThreadChoice, T::Error> {
    let most = testbed.max_threads().max(1);
    let mut session = Session::new(testbed, plan, capacity, 1);
    let mut choice = ThreadChoice { threads: 1, one_thread_holds: true, trials: Vec::new(), ended: false };
    if most == 1 {
        return Ok(choice);
    }
    let ended = |choice: ThreadChoice| Ok(ThreadChoice { ended: true, ..choice });
    if session.change_to(plan.thread_test, |_| ())? == Next::Ended {
        return ended(choice);
    }
    let measure = |session: &mut Session<'_, T>, threads| -> Result<(Interval, Next), T::Error> {
        session.set_threads(threads)?;
        session.interval(plan.interval)
    };
    let (mut reference, next) = measure(&mut session, 1)?;
    choice.one_thread_holds = reference.trust.is_trusted();
    if next == Next::Ended {
        return ended(choice);
    }
    if !choice.one_thread_holds {
        return Ok(choice);
    }
    for threads in 2..=most {
        let mut accepted = false;
        for _ in 0..REPEATS {
            let (many, next) = measure(&mut session, threads)?;
            if next == Next::Ended {
                return ended(choice);
            }
            let (again, next) = measure(&mut session, 1)?;
            let cpi = |interval: &Interval| interval.counts.target.cpi();
            let one = (cpi(&reference), cpi(&again));
            let trial = ThreadTrial { threads, one, many: cpi(&many) };
            choice.trials.push(trial);
            reference = again;
            if next == Next::Ended {
                return ended(choice);
            }
            if !trial.moved(plan.cpi_tolerance) {
                accepted = trial.rise() <= plan.cpi_tolerance;
                break;
            }
        }
        if !accepted {
            break;
        }
        choice.threads = threads;
    }
    Ok(choice)
}
