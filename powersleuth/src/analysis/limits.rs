//! Bounds on the whole program: a deadline, an energy budget, a power cap, and how often the clock may change.
//!
//! Time and energy of a plan add up, so of two ways to reach the same level at the same instance the one that took
//! longer and cost more is never better: paths through instances and levels are extended in order, and dominated ones
//! dropped (label setting, as for shortest paths under resource constraints).

use std::hash::Hash;

use super::{Analysis, Cost, Goal, Level, Plan, Schedule};
use crate::error::{Error, not_negative, positive};
use crate::{Joules, Seconds, Watts};

/// What the whole program must keep to. Nothing is limited at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    deadline: Seconds, // > 0, may be infinite
    energy: Joules,    // > 0, may be infinite
    power: Watts,      // > 0, may be infinite
    dwell: Seconds,    // >= 0
}

impl Default for Limits {
    fn default() -> Self {
        let none = f64::INFINITY;
        Self { deadline: Seconds(none), energy: Joules(none), power: Watts(none), dwell: Seconds(0.0) }
    }
}

impl Limits {
    /// The program must end within `deadline`, transitions and the goal's [margin](Goal::with_margin) included.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and above 0.
    pub fn by(mut self, deadline: Seconds) -> Result<Self, Error> {
        self.deadline = Seconds(positive("the deadline in seconds", deadline.0)?);
        Ok(self)
    }

    /// The program must not take more than `energy`, transitions included.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and above 0.
    pub fn with_energy(mut self, energy: Joules) -> Result<Self, Error> {
        self.energy = Joules(positive("the energy budget in joules", energy.0)?);
        Ok(self)
    }

    /// No phase instance may draw more than `power` on average.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and above 0.
    pub fn below(mut self, power: Watts) -> Result<Self, Error> {
        self.power = Watts(positive("the power cap in watts", power.0)?);
        Ok(self)
    }

    /// After a change of frequency the next comes `dwell` later at the earliest. It may only come where a phase
    /// instance begins.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and not negative.
    pub fn with_dwell(mut self, dwell: Seconds) -> Result<Self, Error> {
        self.dwell = Seconds(not_negative("the least time between changes in seconds", dwell.0)?);
        Ok(self)
    }

    /// Least time between two changes of frequency.
    #[must_use]
    pub const fn dwell(&self) -> Seconds {
        self.dwell
    }
}

/// A way to the end of an instance, or of the last of several phases.
#[derive(Clone, Copy, Debug)]
struct Label {
    cost: Cost,
    guarded: f64, // seconds with the margin
    age: f64,     // seconds since the last change, at most the dwell; more is better
    came_from: usize,
}

/// More ways than these to one level are thinned out.
const MOST: usize = 300;

impl Label {
    const START: Self = Self {
        cost: Cost { time: Seconds(0.0), energy: Joules(0.0) },
        guarded: 0.0,
        age: f64::INFINITY,
        came_from: 0,
    };

    fn dominates(&self, other: &Self) -> bool {
        self.cost.time <= other.cost.time
            && self.cost.energy <= other.cost.energy
            && self.guarded <= other.guarded
            && self.age >= other.age
    }
}

/// The labels that no other dominates, the quickest first. Where they are `simple`, time and energy alone decide.
fn undominated(mut labels: Vec<Label>, simple: bool) -> Vec<Label> {
    let key = |label: &Label| (label.cost.time.0, label.cost.energy.0);
    labels.sort_by(|a, b| key(a).0.total_cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)));
    let mut kept: Vec<Label> = Vec::new();
    for label in labels {
        let dominated = if simple {
            kept.last().is_some_and(|last| last.cost.energy <= label.cost.energy)
        } else {
            kept.iter().rev().any(|other| other.dominates(&label))
        };
        if !dominated {
            kept.push(label);
        }
    }
    if kept.len() > MOST {
        // Evenly along the front; its two ends stay.
        let last = kept.len() - 1;
        kept = (0..MOST).map(|i| kept[i * last / (MOST - 1)]).collect();
    }
    kept
}

/// No schedule keeps the power cap, but those of `least` and more.
const fn no_cap(limits: &Limits, least: f64) -> Error {
    Error::Infeasible { what: "a power cap", limit: limits.power.0, unit: "W", least }
}

/// No schedule keeps the least time between changes.
const fn no_dwell(limits: &Limits) -> Error {
    let least = f64::INFINITY;
    Error::Infeasible { what: "a least time between changes", limit: limits.dwell.0, unit: "s", least }
}

/// The lowest of these powers, in watts.
fn lowest(powers: impl Iterator<Item = Watts>) -> f64 {
    powers.map(|power| power.0).fold(f64::INFINITY, f64::min)
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// The level of each phase instance that minimises the objective of the *program* within `limits`, transitions
    /// included, while each phase keeps its bound at every level used for it.
    ///
    /// # Accuracy
    /// Exact as long as no more than 300 ways to an instance and level are worth keeping; beyond that they are
    /// thinned out evenly, and limits are still kept.
    ///
    /// # Errors
    /// [`Error::Infeasible`] if no plan keeps to the limits, with the least that one of them would have to be.
    ///
    /// # Cost
    /// A tenth of a second to a second for a hundred instances at nine frequencies, where hundreds of ways are worth keeping.
    ///
    /// # References
    /// Irnich and Desaulniers, *Shortest Path Problems with Resource Constraints*, in Column Generation, 2005.
    pub fn plan_within(&self, goal: &Goal, limits: &Limits) -> Result<Plan, Error> {
        let width = self.frequencies.len();
        let simple = goal.margin() == 0.0 && limits.dwell.0 == 0.0;
        let mut steps: Vec<Vec<(usize, Label)>> = Vec::new(); // level and label, per instance
        for instance in 0..self.instances.len() {
            let costs = self.instance_costs(instance);
            let phase = self.instance_phases[instance];
            let mut here = Vec::new();
            for level in (0..width).filter(|&level| self.allowed(phase, level, goal)) {
                if costs[level].power() > limits.power {
                    continue;
                }
                let guarded = self.guarded(costs, self.instance_doubts[instance], level, goal).0;
                let extend = |from: Label, changes: bool, came_from: usize| {
                    let change = if changes { goal.transition() } else { Cost::default() };
                    let time = costs[level].time.0;
                    let age = if changes { time } else { from.age + time };
                    Label {
                        cost: from.cost + costs[level] + change,
                        guarded: from.guarded + guarded + change.time.0,
                        // What is above the dwell is all the same.
                        age: if age >= limits.dwell.0 { f64::INFINITY } else { age },
                        came_from,
                    }
                };
                let ways: Vec<Label> = match steps.last() {
                    None => vec![extend(Label::START, false, 0)],
                    Some(before) => before
                        .iter()
                        .enumerate()
                        .filter(|(_, (other, label))| *other == level || label.age >= limits.dwell.0)
                        .map(|(place, (other, label))| extend(*label, *other != level, place))
                        .collect(),
                };
                here.extend(undominated(ways, simple).into_iter().map(|label| (level, label)));
            }
            if here.is_empty() {
                let open = |instance: usize| {
                    let phase = self.instance_phases[instance];
                    let levels = (0..width).filter(move |&level| self.allowed(phase, level, goal));
                    levels.map(move |level| self.instance_costs(instance)[level].power())
                };
                if lowest(open(instance)) <= limits.power.0 {
                    return Err(no_dwell(limits)); // it is too soon to change to what is open
                }
                let least = (0..self.instances.len()).map(|instance| lowest(open(instance)));
                return Err(no_cap(limits, least.fold(0.0, f64::max)));
            }
            // All ways to an instance stay, also those beyond a limit: they say what the limit would have to be.
            steps.push(here);
        }
        let ends = steps.last().map_or(&[][..], Vec::as_slice);
        let mut place = best_end(&ends.iter().map(|(_, label)| label), goal, limits)?;
        let mut levels = vec![Level(0); steps.len()];
        for (slot, step) in levels.iter_mut().zip(&steps).rev() {
            let (level, label) = step[place];
            *slot = Level(level);
            place = label.came_from;
        }
        Ok(Plan::new(levels))
    }

    /// The frequency of each *phase* that minimises the objective of the program within `limits`, while each phase
    /// keeps its bound.
    ///
    /// # Accuracy
    /// Exact without transition costs and dwell, as [`plan_within`](Self::plan_within) is, and with them where there
    /// are at most 20,000 ways to give each phase a level. Beyond that transitions are left out of the search: the
    /// best schedule without them, if it keeps to the limits with them.
    ///
    /// # Errors
    /// [`Error::Infeasible`] if none keeps to the limits.
    pub fn schedule_within(&self, goal: &Goal, limits: &Limits) -> Result<Schedule<P>, Error> {
        let width = self.frequencies.len();
        // The average over a phase may be below a cap that one of its instances is not.
        let open: Vec<Vec<usize>> = (0..self.phases.len())
            .map(|phase| {
                let instances = (0..self.instances.len()).filter(|&i| self.instance_phases[i] == phase);
                let instances: Vec<&[Cost]> = instances.map(|i| self.instance_costs(i)).collect();
                let capped =
                    |&level: &usize| instances.iter().all(|costs| costs[level].power() <= limits.power);
                (0..width).filter(|&level| self.allowed(phase, level, goal)).filter(capped).collect()
            })
            .collect();
        if open.iter().any(Vec::is_empty) {
            let power = |phase: usize, level: usize| {
                let instances = (0..self.instances.len()).filter(|&i| self.instance_phases[i] == phase);
                Watts(instances.map(|i| self.instance_costs(i)[level].power().0).fold(0.0, f64::max))
            };
            let least = (0..self.phases.len()).map(|phase| {
                lowest(
                    (0..width)
                        .filter(|&level| self.allowed(phase, level, goal))
                        .map(|level| power(phase, level)),
                )
            });
            let least = least.fold(0.0, f64::max);
            return Err(no_cap(limits, least));
        }
        let schedule = |levels: &[usize]| {
            let choices =
                self.phases.iter().zip(levels).map(|(phase, &level)| (phase.phase.clone(), Level(level)));
            Schedule::new(choices.collect(), &self.frequencies)
        };
        let free = goal.transition() == Cost::default() && limits.dwell.0 == 0.0;
        let ways = open.iter().try_fold(1_u64, |ways, levels| ways.checked_mul(levels.len() as u64));
        if !free && ways.is_some_and(|ways| ways <= super::schedule::ALL) {
            return self.exhaustive(&open, goal, limits).map(|levels| schedule(&levels));
        }
        let mut steps: Vec<Vec<(usize, Label)>> = Vec::new();
        for ((phase, levels), &doubt) in self.phases.iter().zip(&open).zip(&self.phase_doubts) {
            let before: Vec<Label> = steps
                .last()
                .map_or(vec![Label::START], |step| step.iter().map(|(_, label)| *label).collect());
            let mut ways = Vec::new();
            for (place, from) in before.iter().enumerate() {
                for &level in levels {
                    let guarded = from.guarded + self.guarded(&phase.costs, doubt, level, goal).0;
                    let cost = from.cost + phase.costs[level];
                    ways.push(Label { cost, guarded, age: f64::INFINITY, came_from: place * width + level });
                }
            }
            let kept = undominated(ways, goal.margin() == 0.0).into_iter();
            steps.push(
                kept.map(|l| (l.came_from % width, Label { came_from: l.came_from / width, ..l })).collect(),
            );
        }
        let ends = steps.last().map_or(&[][..], Vec::as_slice);
        let mut place = best_end(&ends.iter().map(|(_, label)| label), goal, limits)?;
        let mut levels = vec![0; steps.len()];
        for (slot, step) in levels.iter_mut().zip(&steps).rev() {
            let (level, label) = step[place];
            *slot = level;
            place = label.came_from;
        }
        if !free {
            let end = self.walked(&levels, goal, limits);
            best_end(&end.iter(), goal, limits)?;
        }
        Ok(schedule(&levels))
    }

    /// Tries every way to give each phase one of its `open` levels.
    fn exhaustive(&self, open: &[Vec<usize>], goal: &Goal, limits: &Limits) -> Result<Vec<usize>, Error> {
        let mut digits = vec![0; open.len()];
        let (mut ends, mut ways) = (Vec::new(), Vec::new());
        loop {
            let levels: Vec<usize> = digits.iter().zip(open).map(|(&digit, levels)| levels[digit]).collect();
            if let Some(end) = self.walked(&levels, goal, limits) {
                ends.push(end);
                ways.push(levels);
            }
            let Some(next) = digits.iter().zip(open).rposition(|(&digit, levels)| digit + 1 < levels.len())
            else {
                break;
            };
            digits[next] += 1;
            digits[next + 1..].fill(0);
        }
        best_end(&ends.iter(), goal, limits).map(|place| ways.swap_remove(place))
    }

    /// Where a level for each phase leads; `None` if the clock changes too often.
    fn walked(&self, levels: &[usize], goal: &Goal, limits: &Limits) -> Option<Label> {
        let mut now = Label::START;
        let mut before: Option<usize> = None;
        for (instance, &phase) in self.instance_phases.iter().enumerate() {
            let (level, costs) = (levels[phase], self.instance_costs(instance));
            if before.is_some_and(|before| before != level) {
                if now.age < limits.dwell.0 {
                    return None;
                }
                now.age = 0.0;
                now.cost += goal.transition();
                now.guarded += goal.transition().time.0;
            }
            now.cost += costs[level];
            now.guarded += self.guarded(costs, self.instance_doubts[instance], level, goal).0;
            now.age += costs[level].time.0;
            before = Some(level);
        }
        Some(now)
    }

    /// Time at `level`, with what it may be more if the share of time that scales is larger than predicted: no more than
    /// if all of it scaled.
    pub(super) fn guarded(&self, costs: &[Cost], doubt: Seconds, level: usize, goal: &Goal) -> Seconds {
        let fastest = costs.len() - 1;
        let (time, reference) = (costs[level].time, costs[fastest].time);
        let slower = self.frequencies[fastest] / self.frequencies[level];
        let guarded = time + doubt * (goal.margin() * (slower - 1.0));
        Seconds(guarded.0.min((reference * slower).0).max(time.0))
    }
}

/// Number of the best of all ways that keep to the limits.
fn best_end<'a>(
    ends: &(impl Iterator<Item = &'a Label> + Clone),
    goal: &Goal,
    limits: &Limits,
) -> Result<usize, Error> {
    // Equal times must not differ by rounding.
    const ROUNDING: f64 = 1.0 + 1e-12;
    let soon = |label: &&Label| label.guarded <= limits.deadline.0 * ROUNDING;
    let cheap = |label: &&Label| label.cost.energy.0 <= limits.energy.0 * ROUNDING;
    let value = |label: &Label| goal.objective().of(label.cost);
    let good = ends.clone().enumerate().filter(|(_, label)| soon(label) && cheap(label));
    if let Some((place, _)) = good.min_by(|a, b| value(a.1).total_cmp(&value(b.1))) {
        return Ok(place);
    }
    let least = |of: fn(&Label) -> f64, labels: &mut dyn Iterator<Item = &'a Label>| {
        labels.map(of).fold(f64::INFINITY, f64::min)
    };
    let mut in_budget = ends.clone().filter(cheap);
    let shortest = least(|label| label.guarded, &mut in_budget);
    Err(if shortest.is_finite() {
        Error::Infeasible { what: "a deadline", limit: limits.deadline.0, unit: "s", least: shortest }
    } else if ends.clone().next().is_some() {
        let least = least(|label| label.cost.energy.0, &mut ends.clone());
        Error::Infeasible { what: "an energy budget", limit: limits.energy.0, unit: "J", least }
    } else {
        no_dwell(limits)
    })
}
