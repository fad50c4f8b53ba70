//! What was solved before: one answer for each set of phases that met, shared by all threads.
//!
//! A set is solved by whoever needs it first; the answer depends on the set alone, so it does not matter who that
//! was. (Van Biesbrouck, Sherwood and Calder, *A Co-Phase Matrix to Guide Simultaneous Multithreading Simulation*,
//! ISPASS 2004.)

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::CoRun;
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
    counts: Vec<usize>, // curves of each program
    table: Table,
}

enum Table {
    /// A cell for every set; few sets.
    Dense(Vec<OnceLock<Sharing>>),
    /// The sets that were met, of very many.
    Sparse(RwLock<HashMap<usize, Arc<Sharing>>>),
    /// Sets that cannot even be numbered: nothing is remembered.
    Endless,
}

const MOST_CELLS: usize = 1 << 18;

/// A borrowed or shared answer.
pub(super) enum Remembered<'a> {
    Cell(&'a Sharing),
    Entry(Arc<Sharing>),
}

impl std::ops::Deref for Remembered<'_> {
    type Target = Sharing;

    fn deref(&self) -> &Sharing {
        match self {
            Self::Cell(sharing) => sharing,
            Self::Entry(sharing) => sharing,
        }
    }
}

impl Memory {
    pub(super) fn new(counts: Vec<usize>) -> Self {
        let sets = counts.iter().try_fold(1_usize, |sets, &count| sets.checked_mul(count));
        let table = match sets {
            Some(sets) if sets <= MOST_CELLS => Table::Dense((0..sets).map(|_| OnceLock::new()).collect()),
            Some(_) => Table::Sparse(RwLock::default()),
            None => Table::Endless,
        };
        Self { counts, table }
    }

    /// Number of a set: its curve numbers as digits.
    fn number(&self, curves: &[usize]) -> usize {
        curves.iter().zip(&self.counts).fold(0, |number, (&curve, &count)| number.wrapping_mul(count) + curve)
    }

    /// The same, where sets can be numbered.
    pub(super) fn numbered(&self, curves: &[usize]) -> Option<usize> {
        (!matches!(self.table, Table::Endless)).then(|| self.number(curves))
    }

    /// The set of a number.
    pub(super) fn set(&self, mut number: usize) -> Vec<usize> {
        let mut set: Vec<usize> = self
            .counts
            .iter()
            .rev()
            .map(|&count| {
                let curve = number % count;
                number /= count;
                curve
            })
            .collect();
        set.reverse();
        set
    }

    /// The answer for `curves`, solved if it is new.
    #[inline]
    pub(super) fn get(&self, curves: &[usize], solve: impl FnOnce(&mut Sharing)) -> Remembered<'_> {
        let new = || {
            let mut sharing = Sharing::default();
            solve(&mut sharing);
            sharing
        };
        let number = self.number(curves);
        match &self.table {
            Table::Dense(cells) => Remembered::Cell(cells[number].get_or_init(new)),
            Table::Sparse(map) => {
                // The map is whole even if a thread died holding it: entries go in complete.
                let found = map.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
                Remembered::Entry(found.unwrap_or_else(|| {
                    let sharing = Arc::new(new());
                    let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
                    map.entry(number).or_insert(sharing).clone()
                }))
            }
            Table::Endless => Remembered::Entry(Arc::new(new())),
        }
    }

    /// The sets solved so far with their answers, in order.
    pub(super) fn solved(&self) -> Vec<(Vec<usize>, Sharing)> {
        match &self.table {
            Table::Dense(cells) => cells
                .iter()
                .enumerate()
                .filter_map(|(number, cell)| Some((self.set(number), cell.get()?.clone())))
                .collect(),
            Table::Sparse(map) => {
                let map = map.read().unwrap_or_else(PoisonError::into_inner);
                let mut numbers: Vec<usize> = map.keys().copied().collect();
                numbers.sort_unstable();
                let entry = |number| Some((self.set(number), map.get(&number)?.as_ref().clone()));
                numbers.into_iter().filter_map(entry).collect()
            }
            Table::Endless => Vec::new(),
        }
    }

    /// How many sets are solved so far.
    pub(super) fn len(&self) -> usize {
        match &self.table {
            Table::Dense(cells) => cells.iter().filter(|cell| cell.get().is_some()).count(),
            Table::Sparse(map) => map.read().unwrap_or_else(PoisonError::into_inner).len(),
            Table::Endless => 0,
        }
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
        let entry = |(set, sharing): (Vec<usize>, Sharing)| CoPhase {
            phases: set.iter().enumerate().map(phase).collect(),
            sharing,
        };
        memory.solved().into_iter().map(entry).collect()
    }

    /// How many sets of phases were solved so far, by all runs together; 0 for the methods that remember nothing,
    /// whose invocations each [`Outcome`](super::Outcome) tells.
    #[must_use]
    pub fn co_phases_solved(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::len)
    }
}
