//! What each combination of phases costs: "phase C beside phase 2 of bwaves costs 17 % while they meet".

use std::collections::HashMap;
use std::hash::Hash;

use crate::corun::{CoRun, Until};
use crate::error::Error;
use crate::{Offsets, SharingModel};

/// Phases that ran together, and what that cost the target.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Culprit<P> {
    /// The target's phase.
    pub phase: P,
    /// The phases of the interferers, in order.
    pub beside: Vec<P>,
    /// Slowdown of the target while they meet.
    pub slowdown: f64,
    /// Share of the target's time with co-runners spent so.
    pub time_share: f64,
    /// What the meeting adds to the target's mean slowdown: all culprits' costs add up to the mean slowdown less 1.
    pub cost: f64,
}

/// Attributes the target's slowdown over the given offsets to the phases that ran together, the most expensive first.
///
/// The target's speed alone is that of its window with the whole cache, so that a phase whose windows differ may
/// show a small cost where the method averages them.
///
/// # Errors
/// [`Error::Count`] for no offsets.
///
/// # Cost
/// That of the runs, on one thread, and a hash lookup a step.
pub fn culprits<P: Clone + Eq + Hash, M: SharingModel>(
    run: &CoRun<'_, P, M>,
    offsets: &Offsets,
) -> Result<Vec<Culprit<P>>, Error> {
    let count = offsets.count();
    if count == 0 {
        return Err(Error::Count { what: "runs", count, remedy: "at least one" });
    }
    let alone = run.time_alone(0)?;
    // Of the target: time together, and the time the same work takes alone.
    let mut met: HashMap<Vec<usize>, (f64, f64)> = HashMap::new();
    let mut total = 0.0;
    for number in 0..count {
        let outcome = run.run(&offsets.of_run(number, run.programs().len()), Until::TargetEnds, |step| {
            let work = step.time / step.shares[0].cpi;
            let entry = match met.get_mut(step.phases) {
                Some(entry) => entry,
                None => met.entry(step.phases.to_vec()).or_default(),
            };
            entry.0 += step.time;
            entry.1 += work * step.cpi_alone;
        });
        total += outcome.time;
    }
    let phase = |program: usize, number: usize| run.programs()[program].phases()[number].0.clone();
    let mut culprits: Vec<Culprit<P>> = met
        .into_iter()
        .map(|(phases, (together, apart))| Culprit {
            phase: phase(0, phases[0]),
            beside: (1..phases.len()).map(|i| phase(i, phases[i])).collect(),
            slowdown: together / apart,
            time_share: together / total,
            cost: (together - apart) / (alone * count as f64),
        })
        .collect();
    // By cost; what costs the same, by time, so that the order does not depend on the table.
    culprits.sort_by(|a, b| b.cost.total_cmp(&a.cost).then(b.time_share.total_cmp(&a.time_share)));
    Ok(culprits)
}
