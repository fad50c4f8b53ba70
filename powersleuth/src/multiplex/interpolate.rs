//! Filling the holes: from the same instance, else the same phase, else the program.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use super::alike::Alike;
use super::{Complete, Record, Step};
use crate::Error;

/// Which of the counts of the same instance, or the same phase, a hole is filled from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filling {
    /// From all of them, averaged: the paper's. Best where a phase does the same all the time, with scatter.
    Averages,
    /// From those next to it in time and those next to it in cycles per instruction, which every interval has:
    /// where a phase drifts, or does now this and now that, they have most in common with it. The default, by
    /// measurement.
    #[default]
    Alike,
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
    fn of<P: Clone + Eq + Hash + Ord>(phases: &[P]) -> Self {
        let mut numbers: HashMap<P, usize> = HashMap::new();
        let number = |phase: &P| {
            let next = numbers.len();
            *numbers.entry(phase.clone()).or_insert(next)
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

    /// The intervals of each phase, in order.
    fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.count];
        for (interval, &phase) in self.phases.iter().enumerate() {
            members[phase].push(interval);
        }
        members
    }
}

impl<P: Clone + Eq + Hash + Ord> Record<P> {
    /// A count for every event of every interval.
    ///
    /// # Formula
    /// The first of these that exists: the count of this interval; the rate per instruction in those intervals
    /// of this instance of the phase (the run of equal phases around it) in which the event was counted; the
    /// same in all intervals of the phase; the average over all intervals of the program. `filling` says how the
    /// second and third are combined: averaged; or the nearest on either side in time and in cycles per
    /// instruction `c`, each weighted by `1 / (dt^2 + (100 ln(c1/c0))^2)`, `dt` in intervals. Rates are multiplied
    /// by the instructions of the interval.
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
        let cycles =
            || self.cycles.iter().zip(&self.instructions).map(|(cycles, instructions)| cycles / instructions);
        let instances = layout.instances.iter().map(|instance| instance.clone().collect()).collect();
        let scopes = [Alike::new(instances, cycles()), Alike::new(layout.members(), cycles())];
        self.fill(|record, event| match filling {
            Filling::Averages => record.averages(&layout, event),
            Filling::Alike => record.alike(&layout, event, &scopes),
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

    fn alike(&self, layout: &Layout, event: usize, scopes: &[Alike; 2]) -> Vec<(f64, Step)> {
        let column: Vec<Option<f64>> = (0..self.len()).map(|i| self.rate(i, event)).collect();
        let [instance, phase] = scopes;
        let inside = instance.fill(&column);
        // Most programs have every event counted in every instance.
        let left_open = column.iter().zip(&inside).any(|(counted, filled)| counted.or(*filled).is_none());
        let across = if left_open { phase.fill(&column) } else { vec![None; self.len()] };
        let (of_program, _) = self.means(layout, event);
        let filled = column.iter().zip(inside).zip(across).map(|((counted, inside), across)| {
            let at = |step| move |rate| (rate, step);
            counted
                .map(at(Step::Interval))
                .or(inside.map(at(Step::Instance)))
                .or(across.map(at(Step::Phase)))
                .unwrap_or((of_program, Step::Program))
        });
        filled.collect()
    }
}
