//! A frequency for each phase instance.

use std::hash::Hash;

use super::{Analysis, Goal, Level, Schedule};
use crate::error::{Error, not_negative};

/// Which level each phase instance of a run is executed at, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    levels: Vec<Level>,
}

/// When a schedule is not followed because it is not worth it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hysteresis {
    gain: f64, // >= 0
}

impl Hysteresis {
    /// A change must lower the objective of the coming phase instance by more than the share `gain`, the
    /// transition included: 0 for any gain at all.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and not negative.
    pub fn new(gain: f64) -> Result<Self, Error> {
        Ok(Self { gain: not_negative("the gain that makes a change worth it", gain)? })
    }
}

impl Plan {
    /// From the level of each instance. It is checked against an analysis when it is used with one.
    #[must_use]
    pub const fn new(levels: Vec<Level>) -> Self {
        Self { levels }
    }

    /// The level of each instance.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// The whole program at one level.
    #[must_use]
    pub fn uniform(&self, level: Level) -> Plan {
        Plan::new(vec![level; self.instances.len()])
    }

    /// Every phase instance at its phase's level. A phase that the schedule does not know runs at the fastest.
    #[must_use]
    pub fn follow(&self, schedule: &Schedule<P>) -> Plan {
        let levels = self.levels_of(schedule);
        Plan::new(self.instance_phases.iter().map(|&phase| levels[phase]).collect())
    }

    /// The same, but the level stays where it is through instances for which changing it does not pay. It
    /// changes in any case where staying would break the phase's bound.
    ///
    /// # Formula
    /// With `s` the level before and `l` the scheduled one, it changes if
    /// `J(cost_s) > (1 + gain) J(cost_l + transition)`, all of this instance.
    #[must_use]
    pub fn follow_reluctantly(&self, schedule: &Schedule<P>, goal: &Goal, hysteresis: Hysteresis) -> Plan {
        let levels = self.levels_of(schedule);
        let mut now: Option<Level> = None;
        let planned = self.instance_phases.iter().enumerate().map(|(instance, &phase)| {
            let scheduled = levels[phase];
            let next = match now {
                Some(now) if now != scheduled && self.allowed(phase, now.0, goal) => {
                    let costs = self.instance_costs(instance);
                    let stay = goal.objective().of(costs[now.0]);
                    let change = goal.objective().of(costs[scheduled.0] + goal.transition());
                    if stay > (1.0 + hysteresis.gain) * change { scheduled } else { now }
                }
                _ => scheduled,
            };
            now = Some(next);
            next
        });
        Plan::new(planned.collect())
    }

    /// Per phase of this analysis.
    fn levels_of(&self, schedule: &Schedule<P>) -> Vec<Level> {
        let fastest = self.fastest();
        self.phases.iter().map(|phase| schedule.level(&phase.phase).unwrap_or(fastest).min(fastest)).collect()
    }
}
