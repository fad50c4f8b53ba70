//! Filling the holes: from the same instance, else the same phase, else the program.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Complete, Record, Step};
use crate::Error;

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

impl<P: Copy + Eq + Hash> Record<P> {
    /// A count for every event of every interval.
    ///
    /// # Formula
    /// The first of these that exists: the count of this interval; the rate per instruction over the intervals
    /// of this instance of the phase (the run of equal phases around it) in which the event was counted; the
    /// same over all intervals of the phase; the same over all intervals of the program. Rates are multiplied by
    /// the instructions of the interval.
    ///
    /// # Errors
    /// [`Error::NeverCounted`] if an event was counted in no interval; [`Error::Empty`] without intervals.
    ///
    /// # Accuracy
    /// As good as phases are homogeneous, in the last step as good as the whole program is: look at the
    /// steps.
    ///
    /// # Cost
    /// Intervals times events.
    ///
    /// # References
    /// Thesis, Paper V, section V.3.2, figure V.3.
    pub fn interpolate(self) -> Result<Complete<P>, Error> {
        if self.is_empty() {
            return Err(Error::Empty { what: "intervals" });
        }
        let (n, events) = (self.len(), self.events);
        let mut rates = vec![(0.0, Step::Program); n * events];
        let mut numbers: HashMap<P, usize> = HashMap::new();
        let numbered: Vec<usize> = self
            .phases
            .iter()
            .map(|&phase| {
                let next = numbers.len();
                *numbers.entry(phase).or_insert(next)
            })
            .collect();
        for event in 0..events {
            let mut program = Mean::default();
            let mut phases = vec![Mean::default(); numbers.len()];
            for (i, &phase) in numbered.iter().enumerate() {
                if let Some(count) = self.count(i, event) {
                    program.add(count, self.instructions[i]);
                    phases[phase].add(count, self.instructions[i]);
                }
            }
            let Some(of_program) = program.rate() else { return Err(Error::NeverCounted { event }) };
            let mut begin = 0;
            for instance in numbered.chunk_by(|a, b| a == b) {
                let range = begin..begin + instance.len();
                begin = range.end;
                let mut here = Mean::default();
                for i in range.clone() {
                    if let Some(count) = self.count(i, event) {
                        here.add(count, self.instructions[i]);
                    }
                }
                let of_phase = phases[instance[0]].rate();
                let otherwise = match (here.rate(), of_phase) {
                    (Some(rate), _) => (rate, Step::Instance),
                    (None, Some(rate)) => (rate, Step::Phase),
                    (None, None) => (of_program, Step::Program),
                };
                for i in range {
                    rates[i * events + event] =
                        self.rate(i, event).map_or(otherwise, |rate| (rate, Step::Interval));
                }
            }
        }
        Ok(Complete::new(self, &rates))
    }

    /// The baseline: an event that was not counted has the rate it was last counted with, whatever the program
    /// did then; before its first count, the rate of that.
    ///
    /// Values that were counted are marked [`Step::Interval`], all others [`Step::Program`].
    ///
    /// # Errors
    /// As [`interpolate`](Self::interpolate).
    pub fn carry_forward(self) -> Result<Complete<P>, Error> {
        if self.is_empty() {
            return Err(Error::Empty { what: "intervals" });
        }
        let (n, events) = (self.len(), self.events);
        let mut rates = vec![(0.0, Step::Program); n * events];
        for event in 0..events {
            let first = (0..n).find_map(|i| self.rate(i, event));
            let Some(mut last) = first else { return Err(Error::NeverCounted { event }) };
            for i in 0..n {
                let counted = self.rate(i, event);
                last = counted.unwrap_or(last);
                let step = if counted.is_some() { Step::Interval } else { Step::Program };
                rates[i * events + event] = (last, step);
            }
        }
        Ok(Complete::new(self, &rates))
    }
}
