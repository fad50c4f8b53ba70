//! What following a plan costs.

use std::hash::Hash;

use super::{Analysis, Cost, Level, Plan, Transition};
use crate::error::Error;

/// Costs of a run under a plan.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Outcome<P> {
    /// Of the whole program, transitions included.
    pub total: Cost,
    /// Number of changes of frequency.
    pub transitions: usize,
    /// Of each phase, in order of first appearance.
    pub phases: Vec<PhaseOutcome<P>>,
}

/// Costs of a phase under a plan.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PhaseOutcome<P> {
    /// The phase.
    pub phase: P,
    /// Its cost, transitions into it included.
    pub cost: Cost,
    /// How much longer it takes than at the highest frequency: 0.1 for ten per cent, transitions included.
    pub slowdown: f64,
}

impl<P: Clone> Outcome<P> {
    /// The phases that take longer than `slowdown` allows.
    pub fn violations(&self, slowdown: f64) -> impl Iterator<Item = &PhaseOutcome<P>> {
        // Equal times must not differ by rounding.
        self.phases.iter().filter(move |phase| phase.slowdown > slowdown + 1e-9)
    }
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// What `plan` costs if every change of level costs `transition`, which is added to the phase entered.
    /// The program is taken to begin at the plan's first level.
    ///
    /// With the analysis of what was *measured* it shows what a plan made from predictions really brings.
    ///
    /// # Errors
    /// [`Error::Length`] unless the plan has a level for each instance; [`Error::NoSuch`] for a level that is
    /// not there.
    ///
    /// # References
    /// Thesis, Paper V, section V.6.2.
    pub fn outcome(&self, plan: &Plan, transition: Transition) -> Result<Outcome<P>, Error> {
        self.check_plan(plan)?;
        let mut costs = vec![Cost::default(); self.phases.len()];
        let mut transitions = 0;
        let mut before: Option<Level> = None;
        for (instance, (&phase, &level)) in self.instance_phases.iter().zip(plan.levels()).enumerate() {
            costs[phase] += self.instance_costs(instance)[level.0];
            if before.is_some_and(|before| before != level) {
                costs[phase] += transition;
                transitions += 1;
            }
            before = Some(level);
        }
        let fastest = self.fastest().0;
        let phases = self.phases.iter().zip(&costs).map(|(phase, &cost)| PhaseOutcome {
            phase: phase.phase.clone(),
            cost,
            slowdown: cost.time / phase.costs[fastest].time - 1.0,
        });
        Ok(Outcome { phases: phases.collect(), total: costs.iter().copied().sum(), transitions })
    }

    /// Level and cost of each interval under `plan`, transitions left out: power over time.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub fn timeline(&self, plan: &Plan) -> Result<Vec<(Level, Cost)>, Error> {
        self.check_plan(plan)?;
        let instances = self.instances.iter().zip(plan.levels());
        Ok(instances
            .flat_map(|(instance, &level)| {
                instance.intervals.clone().map(move |i| (level, self.interval_costs(i)[level.0]))
            })
            .collect())
    }

    fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        let (expected, got) = (self.instances.len(), plan.levels().len());
        if expected != got {
            return Err(Error::Length { what: "levels of a plan", expected, got });
        }
        plan.levels().iter().try_for_each(|&level| self.check_level(level))
    }
}
