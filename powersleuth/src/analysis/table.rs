//! Time and energy of every part of a program at every frequency.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use super::{Cost, Level};
use crate::error::{Error, check_ascending, not_negative, positive};
use crate::{Hertz, Seconds};

/// Costs of a program's intervals at a number of frequencies, and of what they add up to.
///
/// Made by [`predict`](Self::predict) from a profile, or by [`from_costs`](Self::from_costs) from measurements:
/// everything that can be asked of the one can be asked of the other.
/// With the feature `serde` it can be saved and read.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        try_from = "super::saved::Saved<P>",
        into = "super::saved::Saved<P>",
        bound(
            serialize = "P: Clone + serde::Serialize",
            deserialize = "P: Clone + Eq + Hash + Ord + serde::Deserialize<'de>"
        )
    )
)]
pub struct Analysis<P> {
    pub(super) frequencies: Vec<Hertz>,     // ascending, never empty
    pub(super) costs: Vec<Cost>,            // one row of frequencies per interval; time > 0, energy >= 0
    pub(super) instances: Vec<Instance<P>>, // consecutive ones differ in phase
    pub(super) instance_phases: Vec<usize>, // number of its phase
    pub(super) instance_costs: Vec<Cost>,   // one row of frequencies per instance
    #[cfg_attr(not(feature = "serde"), allow(dead_code))]
    pub(super) doubts: Vec<f64>, // of each interval's time, see `PerformanceModel::doubt`
    pub(super) instance_doubts: Vec<Seconds>,
    pub(super) phase_doubts: Vec<Seconds>,
    pub(super) phases: Vec<Phase<P>>, // in order of first appearance, never empty
    program: Vec<Cost>,               // per frequency
}

/// Successive intervals of one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance<P> {
    /// The phase.
    pub phase: P,
    /// Numbers of the intervals.
    pub intervals: Range<usize>,
}

/// All intervals of one phase.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Phase<P> {
    /// The phase.
    pub phase: P,
    /// Number of intervals.
    pub intervals: usize,
    /// Number of instances.
    pub instances: usize,
    /// Instructions in all of them.
    pub instructions: f64,
    /// Costs, one per frequency.
    pub costs: Vec<Cost>,
}

/// What to rank by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// Time.
    Time,
    /// Energy.
    Energy,
    /// Average power.
    Power,
}

impl<P: Clone + Eq + Hash + Ord> Analysis<P> {
    /// From the costs of each interval: phase, instructions, and a cost for each of `frequencies`.
    ///
    /// # Errors
    /// [`Error::Empty`] without frequencies or intervals; [`Error::OutOfRange`] unless frequencies ascend, times
    /// and instructions are finite and above 0, and energies finite and not negative; [`Error::Length`] unless
    /// each interval has a cost for each frequency.
    pub fn from_costs<C: AsRef<[Cost]>>(
        frequencies: &[Hertz],
        intervals: impl IntoIterator<Item = (P, f64, C)>,
    ) -> Result<Self, Error> {
        check_ascending(frequencies)?;
        let mut sums = Sums::new(frequencies.len());
        for (phase, instructions, costs) in intervals {
            let costs = costs.as_ref();
            if costs.len() != frequencies.len() {
                let (expected, got) = (frequencies.len(), costs.len());
                return Err(Error::Length { what: "costs of an interval", expected, got });
            }
            positive("the number of instructions", instructions)?;
            for cost in costs {
                positive("the time of an interval in seconds", cost.time.0)?;
                not_negative("the energy of an interval in joules", cost.energy.0)?;
            }
            sums.push(phase, instructions, 1.0, costs.iter().copied());
        }
        sums.finish(frequencies.to_vec())
    }

    /// The frequencies, ascending: [`Level`] `i` is the `i`-th.
    #[must_use]
    pub fn frequencies(&self) -> &[Hertz] {
        &self.frequencies
    }

    /// Which level a frequency is.
    ///
    /// # Errors
    /// [`Error::UnknownFrequency`] if costs at it are not known.
    pub fn level(&self, frequency: Hertz) -> Result<Level, Error> {
        let found = self.frequencies.iter().position(|&f| f == frequency);
        found.map(Level).ok_or(Error::UnknownFrequency { hertz: frequency.0 })
    }

    /// The highest frequency, which slowdown is relative to.
    #[must_use]
    pub fn fastest(&self) -> Level {
        Level(self.frequencies.len() - 1)
    }

    /// Number of intervals.
    #[must_use]
    pub fn intervals(&self) -> usize {
        self.costs.len() / self.frequencies.len()
    }

    /// Costs of an interval, one per level. Empty beyond the last interval.
    #[must_use]
    pub fn interval_costs(&self, interval: usize) -> &[Cost] {
        self.row(&self.costs, interval)
    }

    /// Share of the program's time at the highest frequency for which a margin of 1 allows, see
    /// [`Goal::with_margin`](super::Goal::with_margin): 1 for costs that were measured.
    #[must_use]
    pub fn doubt(&self) -> f64 {
        let doubted: Seconds = self.phase_doubts.iter().copied().sum();
        doubted / self.program[self.fastest().0].time
    }

    /// The phase instances, in order.
    #[must_use]
    pub fn instances(&self) -> &[Instance<P>] {
        &self.instances
    }

    /// Costs of a phase instance, one per level. Empty beyond the last instance.
    #[must_use]
    pub fn instance_costs(&self, instance: usize) -> &[Cost] {
        self.row(&self.instance_costs, instance)
    }

    /// The phases, in order of first appearance.
    #[must_use]
    pub fn phases(&self) -> &[Phase<P>] {
        &self.phases
    }

    /// Costs of the whole program, one per level.
    #[must_use]
    pub fn program_costs(&self) -> &[Cost] {
        &self.program
    }

    /// The phases, largest first, at frequency number `level`. The order may differ between time and energy,
    /// and from one frequency to the next.
    ///
    /// # Errors
    /// [`Error::NoSuch`] beyond the last level.
    ///
    /// # References
    /// Thesis, Paper V, figure V.11.
    pub fn rank(&self, by: Quantity, level: Level) -> Result<Vec<&Phase<P>>, Error> {
        self.check_level(level)?;
        let value = |phase: &Phase<P>| {
            let cost = phase.costs[level.0];
            match by {
                Quantity::Time => cost.time.0,
                Quantity::Energy => cost.energy.0,
                Quantity::Power => cost.power().0,
            }
        };
        let mut phases: Vec<&Phase<P>> = self.phases.iter().collect();
        phases.sort_by(|a, b| value(b).total_cmp(&value(a)));
        Ok(phases)
    }

    pub(super) fn check_level(&self, level: Level) -> Result<(), Error> {
        let count = self.frequencies.len();
        if level.0 < count { Ok(()) } else { Err(Error::NoSuch { what: "level", index: level.0, count }) }
    }

    fn row<'a>(&self, costs: &'a [Cost], number: usize) -> &'a [Cost] {
        let width = self.frequencies.len();
        costs.get(number * width..(number + 1) * width).unwrap_or(&[])
    }
}

/// Adds up intervals as they come.
pub(super) struct Sums<P> {
    width: usize, // > 0
    costs: Vec<Cost>,
    instances: Vec<Instance<P>>,
    instance_phases: Vec<usize>,
    instance_costs: Vec<Cost>,
    doubts: Vec<f64>,
    instance_doubts: Vec<Seconds>,
    phase_doubts: Vec<Seconds>,
    phases: Vec<Phase<P>>,
    numbers: HashMap<P, usize>,
}

impl<P: Clone + Eq + Hash + Ord> Sums<P> {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            costs: Vec::new(),
            instances: Vec::new(),
            instance_phases: Vec::new(),
            instance_costs: Vec::new(),
            doubts: Vec::new(),
            instance_doubts: Vec::new(),
            phase_doubts: Vec::new(),
            phases: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// `costs` yields one per frequency; `doubt` is how far their times are to be doubted, 1 for as far as others.
    pub(super) fn push(
        &mut self,
        phase: P,
        instructions: f64,
        doubt: f64,
        costs: impl Iterator<Item = Cost>,
    ) {
        let interval = self.costs.len() / self.width;
        self.costs.extend(costs);
        let continues = self.instances.last_mut().filter(|last| last.phase == phase);
        if let Some(instance) = continues {
            instance.intervals.end += 1;
        } else {
            let number = *self.numbers.entry(phase.clone()).or_insert(self.phases.len());
            if number == self.phases.len() {
                let costs = vec![Cost::default(); self.width];
                self.phases.push(Phase {
                    phase: phase.clone(),
                    intervals: 0,
                    instances: 0,
                    instructions: 0.0,
                    costs,
                });
                self.phase_doubts.push(Seconds(0.0));
            }
            self.phases[number].instances += 1;
            self.instances.push(Instance { phase, intervals: interval..interval + 1 });
            self.instance_phases.push(number);
            self.instance_costs.extend(std::iter::repeat_n(Cost::default(), self.width));
            self.instance_doubts.push(Seconds(0.0));
        }
        let number = self.instance_phases[self.instances.len() - 1];
        let of_phase = &mut self.phases[number];
        of_phase.intervals += 1;
        of_phase.instructions += instructions;
        let doubted = self.costs[(interval + 1) * self.width - 1].time * doubt;
        self.doubts.push(doubt);
        self.phase_doubts[number] += doubted;
        let last = self.instances.len() - 1;
        self.instance_doubts[last] += doubted;
        let begin = self.instance_costs.len() - self.width;
        let new = &self.costs[interval * self.width..];
        for ((&cost, phase), instance) in
            new.iter().zip(&mut of_phase.costs).zip(&mut self.instance_costs[begin..])
        {
            *phase += cost;
            *instance += cost;
        }
    }

    pub(super) fn finish(self, frequencies: Vec<Hertz>) -> Result<Analysis<P>, Error> {
        if self.instances.is_empty() {
            return Err(Error::Empty { what: "intervals" });
        }
        let program = (0..self.width).map(|level| self.phases.iter().map(|p| p.costs[level]).sum()).collect();
        Ok(Analysis {
            frequencies,
            costs: self.costs,
            instances: self.instances,
            instance_phases: self.instance_phases,
            instance_costs: self.instance_costs,
            doubts: self.doubts,
            instance_doubts: self.instance_doubts,
            phase_doubts: self.phase_doubts,
            phases: self.phases,
            program,
        })
    }
}
