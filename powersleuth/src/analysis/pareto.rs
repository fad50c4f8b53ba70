//! The schedules that no other beats in both time and energy.

use std::hash::Hash;

use super::{Analysis, Cost, Level, Schedule};
use crate::error::{Error, positive};

/// A schedule and what it costs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(bound(deserialize = "P: Clone + Eq + Hash + Ord + serde::Deserialize<'de>"))
)]
#[non_exhaustive]
pub struct ParetoPoint<P> {
    /// Of the whole program, without transitions.
    pub cost: Cost,
    /// How to get it.
    pub schedule: Schedule<P>,
}

/// A choice of levels for the phases so far: the last one, and which choice for those before it.
#[derive(Clone, Copy)]
struct Choice {
    cost: Cost,
    before: usize,
    level: usize,
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// The front of time and energy over all ways to give each phase a frequency, fastest first.
    ///
    /// There are as many ways as levels to the power of phases. Phases are added one at a time, and of choices
    /// that take about equally long only the one of least energy is kept.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `tolerance` is finite and above 0.
    ///
    /// # Accuracy
    /// For every schedule there is a point on the front that takes no more energy and at most `tolerance` longer
    /// (0.01 for one per cent), transitions apart. The fastest schedule is on the front.
    ///
    /// # Cost
    /// Points times levels times phases, and its logarithm for sorting; the front has at most
    /// `ln(slowest / fastest) / ln(1 + tolerance)` points per phase.
    pub fn pareto_front(&self, tolerance: f64) -> Result<Vec<ParetoPoint<P>>, Error> {
        positive("the tolerance of the front", tolerance)?;
        let step = tolerance.ln_1p() / self.phases.len() as f64;
        let mut layers: Vec<Vec<Choice>> = Vec::with_capacity(self.phases.len());
        let mut front = vec![Choice { cost: Cost::default(), before: 0, level: 0 }];
        for phase in &self.phases {
            let choices = front.iter().enumerate().flat_map(|(before, choice)| {
                phase.costs.iter().enumerate().map(move |(level, &cost)| Choice {
                    cost: choice.cost + cost,
                    before,
                    level,
                })
            });
            front = thin(undominated(choices.collect()), step.exp());
            layers.push(front.clone());
        }
        Ok((0..front.len())
            .map(|mut at| {
                let cost = front[at].cost;
                let mut choices = Vec::with_capacity(layers.len());
                for (layer, phase) in layers.iter().zip(&self.phases).rev() {
                    choices.push((phase.phase.clone(), Level(layer[at].level)));
                    at = layer[at].before;
                }
                choices.reverse();
                ParetoPoint { cost, schedule: Schedule::new(choices, &self.frequencies) }
            })
            .collect())
    }
}

/// Ascending in time, descending in energy.
fn undominated(mut choices: Vec<Choice>) -> Vec<Choice> {
    choices.sort_unstable_by(|a, b| {
        let by_energy = || a.cost.energy.0.total_cmp(&b.cost.energy.0);
        a.cost.time.0.total_cmp(&b.cost.time.0).then_with(by_energy)
    });
    let mut least = f64::INFINITY;
    choices.retain(|choice| {
        let better = choice.cost.energy.0 < least;
        least = least.min(choice.cost.energy.0);
        better
    });
    choices
}

/// Of successive choices within `ratio` in time, the last, which takes the least energy; and the first of all.
fn thin(choices: Vec<Choice>, ratio: f64) -> Vec<Choice> {
    let mut kept: Vec<Choice> = Vec::new();
    let mut begin = f64::NEG_INFINITY; // of the stretch whose choices replace each other
    for choice in choices {
        let time = choice.cost.time.0;
        if kept.len() > 1 && time <= begin * ratio {
            kept.pop();
        } else {
            begin = time;
        }
        kept.push(choice);
    }
    kept
}
