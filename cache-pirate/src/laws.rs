//! What every [`Testbed`] must do, as checks that an implementation runs in its own tests.

use crate::counts::Reading;
use crate::testbed::{Evidence, Outcome, Testbed, Until, Who};

/// A law that a testbed broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{law}: {found}")]
#[non_exhaustive]
pub struct Violation {
    /// The law.
    pub law: &'static str,
    /// What happened instead.
    pub found: String,
}

/// Checks a testbed whose target has not ended, with `work` units of its work at a time and a pirate of `stolen`
/// bytes, which must be at least a line and small enough to be held alone.
///
/// - the cache has whole lines of a power of two bytes, and the pirate at least one thread;
/// - nobody executes between runs: two readings in a row differ in nothing but the elapsed time;
/// - no count ever falls, and the pirate fetches no more lines than it touches;
/// - a run of the target does at least the work asked for, without a touch of the pirate, unless it ends;
/// - `n` walks of the pirate touch each stolen line at least `n` times, and the target does no work meanwhile;
/// - a pirate that steals nothing touches nothing;
/// - where fetches are counted, lines stay stolen when the pirate's part shrinks;
/// - a target that has ended does no more work.
///
/// # Errors
/// The first [`Violation`]; an error of the testbed counts as one.
///
/// # Cost
/// Four runs of `work`, and five walks. The target's end is checked if it is reached within them.
pub fn testbed<T: Testbed>(testbed: &mut T, work: f64, stolen: u64) -> Result<(), Violation> {
    let cache = testbed.cache();
    let line = u64::from(cache.line_size);
    let lines = (stolen / line.max(1)) as f64;
    law("the cache has whole lines", line.is_power_of_two() && cache.bytes >= line, || format!("{cache:?}"))?;
    law("the pirate has a thread", testbed.max_threads() > 0, || "none".to_owned())?;

    works(testbed.steal(0, 1))?;
    let (outcome, made) = ran(testbed, Who::Both, Until::Work(work))?;
    law("a pirate that steals nothing touches nothing", made.pirate.touches == 0.0, || format!("{made:?}"))?;
    did_its_work(outcome, &made, work)?;

    works(testbed.steal(stolen, 1))?;
    let (_, made) = ran(testbed, Who::Pirate, Until::Walks(2))?;
    law("walks touch every stolen line", made.pirate.touches >= 2.0 * lines, || format!("{made:?}"))?;
    stands_still(&made)?;
    if testbed.evidence() == Evidence::Counted {
        works(testbed.steal(stolen / 2 / line * line, 1))?;
        let (_, made) = ran(testbed, Who::Pirate, Until::Walks(1))?;
        law("a pirate alone keeps its first lines", made.pirate.fetches == 0.0, || format!("{made:?}"))?;
        works(testbed.steal(stolen, 1))?;
    }

    let (outcome, made) = ran(testbed, Who::Target, Until::Work(work))?;
    law("a run of the target alone moves no pirate", made.pirate.touches == 0.0, || format!("{made:?}"))?;
    did_its_work(outcome, &made, work)?;
    let (outcome, made) = ran(testbed, Who::Both, Until::Work(work))?;
    did_its_work(outcome, &made, work)?;
    let (ended, made) = ran(testbed, Who::Both, Until::Work(work))?;
    did_its_work(ended, &made, work)?;
    if outcome == Outcome::TargetEnded {
        law("an ended target stays ended", ended == outcome, || format!("{ended:?}"))?;
        stands_still(&made)?;
    }
    let (_, made) = ran(testbed, Who::Pirate, Until::Walks(2))?;
    law("walks touch every stolen line", made.pirate.touches >= 2.0 * lines, || format!("{made:?}"))?;
    stands_still(&made)
}

/// A run between two readings, and a third to see that nobody went on.
fn ran<T: Testbed>(testbed: &mut T, who: Who, until: Until) -> Result<(Outcome, Reading), Violation> {
    let before = works(testbed.read())?;
    let outcome = works(testbed.run(who, until))?;
    let after = works(testbed.read())?;
    let again = works(testbed.read())?;
    let idle = again - after;
    let moved = idle.target.work != 0.0 || idle.target.time != 0.0 || idle.pirate.touches != 0.0;
    law("nobody executes between runs", !moved, || format!("{idle:?}"))?;
    let made = after - before;
    let rising = made.elapsed >= 0.0
        && made.target.work >= 0.0
        && made.target.time >= 0.0
        && made.pirate.touches >= 0.0
        && made.pirate.fetches >= 0.0;
    law("counts never fall", rising, || format!("{made:?}"))?;
    law("a fetch is of a touched line", made.pirate.fetches <= made.pirate.touches, || format!("{made:?}"))?;
    Ok((outcome, made))
}

fn did_its_work(outcome: Outcome, made: &Reading, work: f64) -> Result<(), Violation> {
    // Sums of many small times may lose their last digits.
    let done = outcome == Outcome::TargetEnded || made.target.work >= work * (1.0 - 1e-9);
    law("a run does the work asked for", done, || format!("{} of {work}", made.target.work))
}

fn stands_still(made: &Reading) -> Result<(), Violation> {
    let still = made.target.work == 0.0 && made.target.time == 0.0;
    law("a target that is suspended or has ended does no work", still, || format!("{made:?}"))
}

fn works<V, E: std::error::Error>(result: Result<V, E>) -> Result<V, Violation> {
    result.map_err(|error| Violation { law: "the testbed works", found: error.to_string() })
}

fn law(law: &'static str, holds: bool, found: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { law, found: found() }) }
}
