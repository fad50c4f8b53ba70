//! What was solved before: one answer for each set of phases that met, shared by all threads.
//!
//! (Van Biesbrouck, Sherwood and Calder, *A Co-Phase Matrix to Guide Simultaneous Multithreading Simulation*,
//! ISPASS 2004.)

use std::hash::Hash;

use super::CoRun;
use super::table::{Remembered, Table};
use crate::{Sharing, SharingModel};

/// What happens while certain phases of the programs run together.
#[derive(Clone, Debug, PartialEq)]
pub struct CoPhase<P> {
    /// The phase of each program, in the order of the programs; of a phase-oblivious prediction, that of its
    /// first window.
    pub phases: Vec<P>,
    /// How they divide the cache.
    pub sharing: Sharing,
}

/// Answers by set of curve numbers.
pub(super) struct Memory {
    counts: Vec<usize>,  // curves of each program
    sets: Option<usize>, // their product, if there is one
    table: Table<Sharing>,
}

const MOST_CELLS: usize = 1 << 18;

impl Memory {
    pub(super) fn new(counts: Vec<usize>) -> Self {
        let sets = counts.iter().try_fold(1_usize, |sets, &count| sets.checked_mul(count));
        Self { counts, sets, table: Table::new(sets, MOST_CELLS, usize::MAX) }
    }

    /// How many sets there are, if they can be counted.
    pub(super) const fn sets(&self) -> Option<usize> {
        self.sets
    }

    /// Number of a set: its curve numbers as digits. Tells sets apart where they can be counted.
    #[inline]
    pub(super) fn number(&self, curves: &[usize]) -> usize {
        curves.iter().zip(&self.counts).fold(0, |number, (&curve, &count)| number.wrapping_mul(count) + curve)
    }

    /// The set of a number.
    pub(super) fn set(&self, mut number: usize) -> Vec<usize> {
        let digit = |&count: &usize| {
            let curve = number % count;
            number /= count;
            curve
        };
        let mut set: Vec<usize> = self.counts.iter().rev().map(digit).collect();
        set.reverse();
        set
    }

    /// The answer for `curves`, solved if it is new.
    #[inline]
    pub(super) fn get(&self, curves: &[usize], solve: impl FnOnce(&mut Sharing)) -> Remembered<'_, Sharing> {
        self.numbered(self.number(curves), solve)
    }

    /// The same for the set of that number.
    #[inline]
    pub(super) fn numbered(
        &self,
        number: usize,
        solve: impl FnOnce(&mut Sharing),
    ) -> Remembered<'_, Sharing> {
        self.table.get(number, || {
            let mut sharing = Sharing::default();
            solve(&mut sharing);
            sharing
        })
    }

    fn len(&self) -> usize {
        self.table.len()
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// The co-phase matrix as far as it was needed: every set of phases that met in the runs so far, in the order
    /// of the phases' numbers. Empty for the methods that remember nothing.
    #[must_use]
    pub fn co_phases(&self) -> Vec<CoPhase<P>> {
        let Some(memory) = &self.memory else { return Vec::new() };
        let phase = |(program, &curve): (usize, &usize)| {
            let timeline = &self.timelines[program];
            let phase = timeline.segments().iter().find(|s| s.curve == curve).map_or(curve, |s| s.phase);
            self.programs[program].phases()[phase].0
        };
        let entry = |(number, sharing): (usize, Sharing)| CoPhase {
            phases: memory.set(number).iter().enumerate().map(phase).collect(),
            sharing,
        };
        memory.table.entries().into_iter().map(entry).collect()
    }

    /// How many sets of phases were solved so far, by all runs together; 0 for the methods that remember nothing,
    /// whose invocations each [`Outcome`](super::Outcome) tells.
    #[must_use]
    pub fn co_phases_solved(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::len)
    }
}
