//! The co-phase matrix: one solution for each set of phases that met, shared by all threads. The slightly larger and
//! smaller caches that ranges are taken from have their own.
//!
//! (Van Biesbrouck, Sherwood and Calder, *A Co-Phase Matrix to Guide Simultaneous Multithreading Simulation*,
//! ISPASS 2004.)

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use super::CoRun;
use crate::{Sharing, SharingModel};

/// What happens while certain phases of the programs run together.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CoPhase<P> {
    /// The phase of each program, in the order of the programs; of a phase-oblivious prediction, that of its
    /// first window.
    pub phases: Vec<P>,
    /// How they divide the cache.
    pub sharing: Sharing,
}

/// Solutions by the programs' curve numbers. A solution depends on its key alone, so that it does not matter which
/// thread solved it.
#[derive(Default)]
pub(super) struct Memory {
    solutions: RwLock<HashMap<Vec<usize>, Arc<Sharing>>>,
}

/// Solutions kept; those of further sets are solved each time.
const MOST: usize = 1 << 18;

impl Memory {
    /// The solution of `curves`, solved if it is new.
    pub(super) fn get(&self, curves: &[usize], solve: impl FnOnce(&mut Sharing)) -> Arc<Sharing> {
        // The map is whole even if a thread died holding it: entries go in complete.
        let found = self.solutions.read().unwrap_or_else(PoisonError::into_inner).get(curves).cloned();
        found.unwrap_or_else(|| {
            let mut sharing = Sharing::default();
            solve(&mut sharing);
            let sharing = Arc::new(sharing);
            let mut solutions = self.solutions.write().unwrap_or_else(PoisonError::into_inner);
            if solutions.len() < MOST {
                solutions.insert(curves.to_vec(), Arc::clone(&sharing));
            }
            sharing
        })
    }

    fn len(&self) -> usize {
        self.solutions.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl<P: Clone + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// The co-phase matrix as far as the runs so far needed it, in the order of the phases' numbers. Empty for the
    /// window methods, which remember nothing.
    #[must_use]
    pub fn co_phases(&self) -> Vec<CoPhase<P>> {
        let Some([memory, ..]) = &self.memories else { return Vec::new() };
        let solutions = memory.solutions.read().unwrap_or_else(PoisonError::into_inner);
        let mut entries: Vec<(&Vec<usize>, &Arc<Sharing>)> = solutions.iter().collect();
        entries.sort_unstable_by_key(|&(curves, _)| curves);
        let phase = |(program, &curve): (usize, &usize)| {
            self.programs[program].phases()[self.timelines[program].phase_of(curve)].0.clone()
        };
        let entry = |(curves, sharing): (&Vec<usize>, &Arc<Sharing>)| CoPhase {
            phases: curves.iter().enumerate().map(phase).collect(),
            sharing: Sharing::clone(sharing),
        };
        entries.into_iter().map(entry).collect()
    }

    /// Number of sets of phases solved so far by all runs together; 0 for the window methods, whose invocations each
    /// [`Outcome`](super::Outcome) counts.
    #[must_use]
    pub fn co_phases_solved(&self) -> usize {
        self.memories.as_ref().map_or(0, |[memory, ..]| memory.len())
    }
}
