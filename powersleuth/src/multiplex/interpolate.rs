//! Filling the holes: from the same instance, else the same phase, else the program.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use super::{Complete, Record, Step};
use crate::Error;

/// Which of the counts of the same instance, or the same phase, a hole is filled from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filling {
    /// From all of them, averaged: the paper's. Best where a phase does the same all the time, with scatter.
    Averages,
    /// From the nearest before and the nearest after, on the straight line between the two. Best where a phase
    /// drifts, as one does that works its way through growing or cooling data; the default, by measurement.
    #[default]
    Neighbours,
}

/// Counts over the instructions in which they were counted.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: f64,
    instructions: f64,
}

impl Mean {
    fn add(&mut self, count: f64, instructions: f64) {
        self.count += count;
        self.instructions += instructions;
    }

    fn rate(self) -> Option<f64> {
        (self.instructions > 0.0).then(|| self.count / self.instructions)
    }
}

/// The intervals with their phases numbered from 0, cut into instances.
struct Layout {
    phases: Vec<usize>, // of each interval
    count: usize,
    instances: Vec<Range<usize>>,
}

impl Layout {
    fn of<P: Copy + Eq + Hash>(phases: &[P]) -> Self {
        let mut numbers: HashMap<P, usize> = HashMap::new();
        let number = |phase: &P| {
            let next = numbers.len();
            *numbers.entry(*phase).or_insert(next)
        };
        let phases: Vec<usize> = phases.iter().map(number).collect();
        let mut begin = 0;
        let instances = phases.chunk_by(|a, b| a == b).map(|instance| {
            let range = begin..begin + instance.len();
            begin = range.end;
            range
        });
        let instances = instances.collect();
        Self { phases, count: numbers.len(), instances }
    }
}

impl<P: Copy + Eq + Hash> Record<P> {
    /// A count for every event of every interval.
    ///
    /// # Formula
    /// The first of these that exists: the count of this interval; the rate per instruction in those intervals
    /// of this instance of the phase (the run of equal phases around it) in which the event was counted; the
    /// same in all intervals of the phase; the average over all intervals of the program. `filling` says how the
    /// second and third are combined. Rates are multiplied by the instructions of the interval.
    ///
    /// # Errors
    /// [`Error::NeverCounted`] if an event was counted in no interval; [`Error::Empty`] without intervals.
    ///
    /// # Accuracy
    /// As good as phases are homogeneous, in the last step as good as the whole program is: look at the
    /// [steps](Complete::steps).
    ///
    /// # Cost
    /// Intervals times events: 10,000 x 9 in some 4 ms.
    ///
    /// # References
    /// Thesis, Paper V, section V.3.2, figure V.3.
    pub fn interpolate(self, filling: Filling) -> Result<Complete<P>, Error> {
        let layout = Layout::of(&self.phases);
        self.fill(|record, event| match filling {
            Filling::Averages => record.averages(&layout, event),
            Filling::Neighbours => record.neighbours(&layout, event),
        })
    }

    /// The baseline: an event that was not counted has the rate it was last counted with, whatever the program
    /// did then; before its first count, the rate of that.
    ///
    /// Values that were counted are marked [`Step::Interval`], all others [`Step::Program`].
    ///
    /// # Errors
    /// As [`interpolate`](Self::interpolate).
    pub fn carry_forward(self) -> Result<Complete<P>, Error> {
        self.fill(|record, event| {
            let mut last = (0..record.len()).find_map(|i| record.rate(i, event)).unwrap_or(0.0);
            let carried = |i| {
                let counted = record.rate(i, event);
                last = counted.unwrap_or(last);
                (last, if counted.is_some() { Step::Interval } else { Step::Program })
            };
            (0..record.len()).map(carried).collect()
        })
    }

    /// Asks `rates` for the rate of each event in each interval.
    fn fill(self, mut rates: impl FnMut(&Self, usize) -> Vec<(f64, Step)>) -> Result<Complete<P>, Error> {
        if self.is_empty() {
            return Err(Error::Empty { what: "intervals" });
        }
        let mut columns = Vec::with_capacity(self.events);
        for event in 0..self.events {
            if (0..self.len()).all(|i| self.count(i, event).is_none()) {
                return Err(Error::NeverCounted { event });
            }
            columns.push(rates(&self, event));
        }
        Ok(Complete::new(self, &columns))
    }

    /// The rates over the whole program and over each phase.
    fn means(&self, layout: &Layout, event: usize) -> (f64, Vec<Mean>) {
        let mut program = Mean::default();
        let mut phases = vec![Mean::default(); layout.count];
        for (i, &phase) in layout.phases.iter().enumerate() {
            if let Some(count) = self.count(i, event) {
                program.add(count, self.instructions[i]);
                phases[phase].add(count, self.instructions[i]);
            }
        }
        (program.rate().unwrap_or(0.0), phases)
    }

    fn averages(&self, layout: &Layout, event: usize) -> Vec<(f64, Step)> {
        let (of_program, phases) = self.means(layout, event);
        let mut rates = Vec::with_capacity(self.len());
        for instance in &layout.instances {
            let mut here = Mean::default();
            for i in instance.clone() {
                if let Some(count) = self.count(i, event) {
                    here.add(count, self.instructions[i]);
                }
            }
            let otherwise = match (here.rate(), phases[layout.phases[instance.start]].rate()) {
                (Some(rate), _) => (rate, Step::Instance),
                (None, Some(rate)) => (rate, Step::Phase),
                (None, None) => (of_program, Step::Program),
            };
            let counted = |i| self.rate(i, event).map_or(otherwise, |rate| (rate, Step::Interval));
            rates.extend(instance.clone().map(counted));
        }
        rates
    }

    fn neighbours(&self, layout: &Layout, event: usize) -> Vec<(f64, Step)> {
        let (of_program, _) = self.means(layout, event);
        // Of each interval, the nearest counted one of its phase before and after.
        let nearest = |order: &mut dyn Iterator<Item = usize>| -> Vec<Option<usize>> {
            let mut last = vec![None; layout.count];
            let mut found = vec![None; self.len()];
            for i in order {
                let of_phase = &mut last[layout.phases[i]];
                if self.count(i, event).is_some() {
                    *of_phase = Some(i);
                }
                found[i] = *of_phase;
            }
            found
        };
        let before = nearest(&mut (0..self.len()));
        let after = nearest(&mut (0..self.len()).rev());
        let mut rates = Vec::with_capacity(self.len());
        for instance in &layout.instances {
            for i in instance.clone() {
                if let Some(rate) = self.rate(i, event) {
                    rates.push((rate, Step::Interval));
                    continue;
                }
                let inside = |neighbour: Option<usize>| neighbour.filter(|n| instance.contains(n));
                let here = self.between(i, inside(before[i]), inside(after[i]), event);
                let filled = here
                    .map(|rate| (rate, Step::Instance))
                    .or_else(|| Some((self.between(i, before[i], after[i], event)?, Step::Phase)));
                rates.push(filled.unwrap_or((of_program, Step::Program)));
            }
        }
        rates
    }

    /// On the straight line between two intervals, or like the only one there is.
    fn between(&self, at: usize, before: Option<usize>, after: Option<usize>, event: usize) -> Option<f64> {
        let rate = |neighbour: Option<usize>| self.rate(neighbour?, event);
        match (rate(before), rate(after)) {
            (Some(left), Some(right)) => {
                let (from, to) = (before? as f64, after? as f64);
                Some(left + (right - left) * (at as f64 - from) / (to - from))
            }
            (one, other) => one.or(other),
        }
    }
}
