//! A frequency for each phase.

#[cfg(feature = "serde")]
use std::collections::HashSet;
use std::hash::Hash;

use super::{Analysis, Cost, Goal, Level, Transition};
use crate::Hertz;
#[cfg(feature = "serde")]
use crate::error::{Error, check_ascending};

/// Which level each phase runs at.
#[cfg_attr(
    feature = "serde",
    doc = r#"
# Saving
With the feature `serde`, a schedule can be saved where a program was analysed and read where it runs; so can plans,
analyses and models.

```
use powersleuth::analysis::{Analysis, Cost, Goal, Objective, Schedule};
use powersleuth::{Hertz, Joules, Seconds};

let cost = |s, j| Cost { time: Seconds(s), energy: Joules(j) };
let frequencies = [Hertz::from_ghz(1.0), Hertz::from_ghz(2.0)];
let intervals = [("parse", 1e9, [cost(2.0, 9.0), cost(1.0, 10.0)]), ("sort", 1e9, [cost(1.1, 5.0), cost(1.0, 9.0)])];
let schedule = Analysis::from_costs(&frequencies, intervals)?.schedule(&Goal::least(Objective::Edp));
let saved = serde_json::to_string(&schedule)?;
let read: Schedule<&str> = serde_json::from_str(&saved)?;
assert_eq!(read.frequency(&"sort"), Some(Hertz::from_ghz(1.0)));
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        try_from = "Saved<P>",
        bound(deserialize = "P: Clone + Eq + Hash + Ord + serde::Deserialize<'de>")
    )
)]
pub struct Schedule<P> {
    choices: Vec<(P, Level)>, // in the order of the analysis' phases
    frequencies: Vec<Hertz>,  // of the levels
}

/// A schedule as it is read: not yet known to have its levels.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<P> {
    choices: Vec<(P, Level)>,
    frequencies: Vec<Hertz>,
}

#[cfg(feature = "serde")]
impl<P: Clone + Eq + Hash + Ord> TryFrom<Saved<P>> for Schedule<P> {
    type Error = Error;

    fn try_from(Saved { choices, frequencies }: Saved<P>) -> Result<Self, Error> {
        check_ascending(&frequencies)?;
        let mut phases = HashSet::new();
        for (number, (phase, level)) in choices.iter().enumerate() {
            if level.0 >= frequencies.len() {
                return Err(Error::NoSuch { what: "level", index: level.0, count: frequencies.len() });
            }
            if !phases.insert(phase) {
                return Err(Error::Duplicate { what: "phase of choice", which: number.to_string() });
            }
        }
        Ok(Self { choices, frequencies })
    }
}

impl<P: Clone + Eq + Hash + Ord> Schedule<P> {
    pub(super) fn new(choices: Vec<(P, Level)>, frequencies: &[Hertz]) -> Self {
        Self { choices, frequencies: frequencies.to_vec() }
    }

    /// The phases with their levels, in the order in which they first appear in the program.
    #[must_use]
    pub fn choices(&self) -> &[(P, Level)] {
        &self.choices
    }

    /// The highest frequency that it could have chosen.
    #[must_use]
    pub fn fastest(&self) -> Option<Hertz> {
        self.frequencies.last().copied()
    }

    /// The level of a phase; `None` if the analysis does not have the phase.
    #[must_use]
    pub fn level(&self, phase: &P) -> Option<Level> {
        self.choices.iter().find(|(p, _)| p == phase).map(|&(_, level)| level)
    }

    /// The frequency of a phase; `None` if the analysis does not have the phase.
    #[must_use]
    pub fn frequency(&self, phase: &P) -> Option<Hertz> {
        self.frequencies.get(self.level(phase)?.0).copied()
    }

    /// The phases with their frequencies, in the order in which they first appear in the program.
    pub fn frequencies(&self) -> impl ExactSizeIterator<Item = (&P, Hertz)> {
        self.choices.iter().map(|(phase, level)| (phase, self.frequencies[level.0]))
    }
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// Whether phase number `phase` keeps the goal's bound at `level`, transitions apart. The fastest level always
    /// does.
    pub(super) fn allowed(&self, phase: usize, level: usize, goal: &Goal) -> bool {
        self.keeps(phase, level, 0.0, goal)
    }

    /// The same with `changes` changes of frequency at the phase's entries, which the fastest level must keep too.
    fn keeps(&self, phase: usize, level: usize, changes: f64, goal: &Goal) -> bool {
        let costs = &self.phases[phase].costs;
        let fastest = costs.len() - 1;
        let reference = costs[fastest].time.0;
        let time =
            self.guarded(costs, self.phase_doubts[phase], level, goal).0 + changes * goal.transition().time.0;
        // Equal times must not differ by rounding.
        (level == fastest && changes == 0.0) || time <= reference * (1.0 + goal.slowdown()) * (1.0 + 1e-12)
    }

    /// The frequency of each phase that minimises the phase's objective within its bound.
    ///
    /// # Formula
    /// Without transition costs, for each phase the level `l` with the least `J(l) = E_l t_l^n` among those with
    /// `t_l <= (1 + b) t_fastest`; of equals the fastest.
    ///
    /// With them, each entry from a phase with another level adds the transition to the phase that is entered,
    /// and choices depend on each other. What is minimised is `sum_p E_p J_p / J_p*`, where `J_p*` is the
    /// phase's own optimum and `E_p` the energy there: for energy that is the total energy; for the others
    /// a loss of one per cent in a phase counts as much as the energy of that phase. The time of the transitions
    /// into a phase counts towards its bound, and so does the goal's [margin](Goal::with_margin).
    ///
    /// # Accuracy
    /// Exact without transition costs, and with them where there are at most 20,000 ways to give each phase a
    /// level. Beyond that the best of several descents that change one phase, or two phases that follow each other,
    /// at a time: nearly always the optimum of an exhaustive search, but that is not guaranteed.
    ///
    /// # Cost
    /// Phases times levels without transitions; about the square of that with them, and up to 20,000 times the
    /// phases where the search is exhaustive.
    ///
    /// # References
    /// Thesis, Paper V, section V.6.2, figure V.12.
    #[must_use]
    pub fn schedule(&self, goal: &Goal) -> Schedule<P> {
        let free: Vec<usize> = (0..self.phases.len()).map(|phase| self.own_optimum(phase, goal)).collect();
        let levels = if goal.transition() == Transition::default() {
            free
        } else {
            Search::new(self, goal, &free).run(free)
        };
        let choices = self.phases.iter().zip(levels);
        let choices = choices.map(|(phase, level)| (phase.phase.clone(), Level(level))).collect();
        Schedule::new(choices, &self.frequencies)
    }

    fn own_optimum(&self, phase: usize, goal: &Goal) -> usize {
        let costs = &self.phases[phase].costs;
        let value = |level: usize| goal.objective().of(costs[level]);
        let mut best = costs.len() - 1;
        for level in (0..costs.len() - 1).rev() {
            if self.allowed(phase, level, goal) && value(level) < value(best) {
                best = level;
            }
        }
        best
    }
}

/// Most ways to give each phase a level that are all tried.
pub(super) const ALL: u64 = 20_000;

/// Finding levels that are good together.
struct Search<'a, P> {
    analysis: &'a Analysis<P>,
    goal: &'a Goal,
    entries: Vec<Vec<(usize, f64)>>, // of each phase: from which, how often
    exits: Vec<Vec<usize>>,          // of each phase: to which
    weights: Vec<f64>,               // E_p / J_p*
}

impl<'a, P: Clone + Eq + Hash + Ord> Search<'a, P> {
    fn new(analysis: &'a Analysis<P>, goal: &'a Goal, free: &[usize]) -> Self {
        let count = analysis.phases.len();
        let mut pairs: Vec<(usize, usize)> =
            analysis.instance_phases.windows(2).map(|pair| (pair[1], pair[0])).collect();
        pairs.sort_unstable();
        let mut entries = vec![Vec::new(); count];
        let mut exits = vec![Vec::new(); count];
        for same in pairs.chunk_by(|a, b| a == b) {
            let (to, from) = same[0];
            entries[to].push((from, same.len() as f64));
            exits[from].push(to);
        }
        let weights = analysis.phases.iter().zip(free).map(|(phase, &level)| {
            let best = phase.costs[level];
            let value = goal.objective().of(best);
            if value > 0.0 { best.energy.0 / value } else { 0.0 }
        });
        Self { analysis, goal, entries, exits, weights: weights.collect() }
    }

    /// Phase `phase`'s part of what is minimised; infinite if it breaks its bound.
    fn part(&self, phase: usize, levels: &[usize]) -> f64 {
        let changes: f64 = self.entries[phase]
            .iter()
            .filter(|(from, _)| levels[*from] != levels[phase])
            .map(|(_, times)| times)
            .sum();
        if !self.analysis.keeps(phase, levels[phase], changes, self.goal) {
            return f64::INFINITY;
        }
        let (own, transition) = (self.analysis.phases[phase].costs[levels[phase]], self.goal.transition());
        let cost = own + Cost { time: transition.time * changes, energy: transition.energy * changes };
        self.weights[phase] * self.goal.objective().of(cost)
    }

    fn total(&self, levels: &[usize]) -> f64 {
        (0..levels.len()).map(|phase| self.part(phase, levels)).sum()
    }

    fn allowed(&self, phase: usize, level: usize) -> bool {
        self.analysis.allowed(phase, level, self.goal)
    }

    /// All ways where there are few. Otherwise descents from the phases' own optima, and from each level for all
    /// phases that are allowed it: the fastest for all keeps every bound.
    fn run(&self, free: Vec<usize>) -> Vec<usize> {
        let width = self.analysis.frequencies.len();
        let ways = u32::try_from(free.len()).ok().and_then(|phases| (width as u64).checked_pow(phases));
        if ways.is_some_and(|ways| ways <= ALL) {
            return self.all(width);
        }
        let uniform = |level: usize| -> Vec<usize> {
            (0..free.len())
                .map(|phase| (level..width).find(|&l| self.allowed(phase, l)).unwrap_or(width - 1))
                .collect()
        };
        let starts = (0..width).map(uniform).chain([free.clone()]);
        let ends = starts.map(|levels| {
            let end = self.descend(levels);
            (self.total(&end), end)
        });
        ends.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(free, |(_, levels)| levels)
    }

    /// The best of all ways; of equals the one with the faster levels.
    fn all(&self, width: usize) -> Vec<usize> {
        let mut levels = vec![width - 1; self.weights.len()];
        let mut best = (self.total(&levels), levels.clone());
        // Counts down in a number system of `width` digits.
        while let Some(last) = levels.iter().rposition(|&level| level > 0) {
            levels[last] -= 1;
            levels[last + 1..].fill(width - 1);
            let total = self.total(&levels);
            if total < best.0 * (1.0 - 1e-12) {
                best = (total, levels.clone());
            }
        }
        best.1
    }

    fn descend(&self, mut levels: Vec<usize>) -> Vec<usize> {
        // Each step lowers the total, so this ends; the bound is for totals that differ by rounding.
        for _ in 0..100 {
            let mut improved = false;
            for phase in 0..levels.len() {
                improved |= self.improve(&[phase], &mut levels);
            }
            if improved {
                continue;
            }
            for phase in 0..levels.len() {
                for &(from, _) in &self.entries[phase] {
                    // Each pair once, if it goes both ways.
                    if from > phase || !self.exits[phase].contains(&from) {
                        improved |= self.improve(&[phase, from], &mut levels);
                    }
                }
            }
            if !improved {
                break;
            }
        }
        levels
    }

    /// Moves `moving` to the one level that lowers the total most, if any does.
    fn improve(&self, moving: &[usize], levels: &mut [usize]) -> bool {
        let mut touched: Vec<usize> = moving.to_vec();
        touched.extend(moving.iter().flat_map(|&phase| &self.exits[phase]));
        touched.sort_unstable();
        touched.dedup();
        let before: Vec<usize> = moving.iter().map(|&phase| levels[phase]).collect();
        let local = |levels: &[usize]| touched.iter().map(|&phase| self.part(phase, levels)).sum::<f64>();
        let (mut least, mut best) = (local(levels) * (1.0 - 1e-12), None);
        for level in 0..self.analysis.frequencies.len() {
            if moving.iter().all(|&phase| self.allowed(phase, level)) {
                for &phase in moving {
                    levels[phase] = level;
                }
                let value = local(levels);
                if value < least {
                    (least, best) = (value, Some(level));
                }
            }
        }
        for (&phase, &was) in moving.iter().zip(&before) {
            levels[phase] = best.unwrap_or(was);
        }
        best.is_some()
    }
}
