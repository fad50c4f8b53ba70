//! The plan that minimises the objective of the *program*: a level for each phase instance.
//!
//! Energy and time add up over instances and transitions, so the least of `E + w t` for any exchange rate `w` is
//! a shortest path. `E t^n` does not add up, but its level curves bend so that the smallest value over any
//! set of plans lies on the lower left edge of the set's convex hull, whose corners are such shortest paths. The
//! corners are enumerated between the plans of least energy and of least time; a stretch of the edge is left
//! out where even the point that its two ends leave possible is no better than the best corner so far.

use std::hash::Hash;

use super::{Analysis, Cost, Goal, Level, Objective, Plan};
use crate::{Joules, Seconds};

/// What a joule and a second are worth.
#[derive(Clone, Copy, Debug)]
struct Rate {
    joule: f64,
    second: f64,
}

impl Rate {
    fn of(self, cost: Cost) -> f64 {
        self.joule * cost.energy.0 + self.second * cost.time.0
    }
}

/// A corner of the hull and the line through it below which there is nothing.
#[derive(Clone, Debug)]
struct Corner {
    cost: Cost,
    rate: Rate,
    plan: Plan,
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// The level of each phase instance that minimises energy, EDP or ED2P of the whole program, transitions
    /// included, while each phase keeps its bound at every level used for it.
    ///
    /// Unlike a [`schedule`](Self::schedule) it may give instances of a phase different levels, and it trades
    /// time in one phase against time in another.
    ///
    /// # Accuracy
    /// Exact.
    ///
    /// # Cost
    /// Instances times levels for energy; some ten to thirty times that for the others.
    ///
    /// # References
    /// The convex-hull argument is that of parametric search for quasi-concave objectives: Eisner and Severance,
    /// *Mathematical techniques for efficient record segmentation in large shared databases*, JACM 1976.
    #[must_use]
    pub fn best_plan(&self, goal: &Goal) -> Plan {
        let frugal = self.corner(Rate { joule: 1.0, second: 0.0 }, goal);
        if goal.objective() == Objective::Energy {
            return frugal.plan;
        }
        let quick = self.corner(Rate { joule: 0.0, second: 1.0 }, goal);
        let value = |cost: Cost| goal.objective().of(cost);
        let mut best = if value(quick.cost) <= value(frugal.cost) { quick.clone() } else { frugal.clone() };
        let mut stretches = vec![(frugal, quick)];
        while let Some((slow, fast)) = stretches.pop() {
            let (time, energy) = (slow.cost.time - fast.cost.time, fast.cost.energy - slow.cost.energy);
            if time.0 <= 0.0
                || energy.0 <= 0.0
                || value(meet(&slow, &fast)) >= value(best.cost) * (1.0 - 1e-12)
            {
                continue;
            }
            let rate = Rate { joule: time.0, second: energy.0 };
            let middle = self.corner(rate, goal);
            if rate.of(middle.cost) < rate.of(slow.cost) * (1.0 - 1e-12) {
                if value(middle.cost) < value(best.cost) {
                    best = middle.clone();
                }
                stretches.push((slow, middle.clone()));
                stretches.push((middle, fast));
            }
        }
        best.plan
    }

    /// The plan of least cost at `rate`: a shortest path through instances and levels.
    fn corner(&self, rate: Rate, goal: &Goal) -> Corner {
        let width = self.frequencies.len();
        let change = rate.of(goal.transition());
        let allowed: Vec<bool> = (0..self.phases.len())
            .flat_map(|phase| (0..width).map(move |level| (phase, level)))
            .map(|(phase, level)| self.allowed(phase, level, goal))
            .collect();
        let mut so_far = vec![0.0; width];
        let mut came_from: Vec<usize> = Vec::with_capacity(self.instances.len() * width);
        for (instance, &phase) in self.instance_phases.iter().enumerate() {
            let (cheapest, least) = least_of(&so_far);
            let here = self.instance_costs(instance);
            for level in 0..width {
                let stays = instance == 0 || so_far[level] <= least + change;
                came_from.push(if stays { level } else { cheapest });
                let before = if stays { so_far[level] } else { least + change };
                let own = if allowed[phase * width + level] { rate.of(here[level]) } else { f64::INFINITY };
                so_far[level] = before + own;
            }
        }
        let mut level = least_of(&so_far).0;
        let mut levels = vec![Level(0); self.instances.len()];
        let mut cost = Cost::default();
        for instance in (0..levels.len()).rev() {
            levels[instance] = Level(level);
            cost += self.instance_costs(instance)[level];
            let before = came_from[instance * width + level];
            if before != level {
                cost += goal.transition();
            }
            level = before;
        }
        Corner { cost, rate, plan: Plan::new(levels) }
    }
}

/// Of equals the fastest.
fn least_of(values: &[f64]) -> (usize, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (values.iter().rposition(|&v| v == least).unwrap_or(values.len() - 1), least)
}

/// Where the lines through two corners meet: no plan between them is better in both respects.
fn meet(a: &Corner, b: &Corner) -> Cost {
    let (va, vb) = (a.rate.of(a.cost), b.rate.of(b.cost));
    let determinant = a.rate.joule * b.rate.second - a.rate.second * b.rate.joule;
    Cost {
        energy: Joules((va * b.rate.second - vb * a.rate.second) / determinant),
        time: Seconds((a.rate.joule * vb - b.rate.joule * va) / determinant),
    }
}
