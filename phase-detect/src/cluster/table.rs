//! The phases of an online clusterer: numbers, centres, recency, replacement.
//!
//! What leader-follower clustering does whatever the distance: join or found, and give up the least recently used
//! phase when full.

use super::Classification;
use super::centres::Centres;
use super::metric::Metric;
use crate::{Error, PhaseId, Signature};

#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "saved::Table", into = "saved::Table"))]
pub(crate) struct Table {
    // at least 1
    capacity: Option<usize>,
    // as many as ids; of any length until the first is founded
    centres: Centres,
    // all different, all below `next`
    ids: Vec<PhaseId>,
    // when each phase was last seen; all different, at most `clock`
    used: Vec<u64>,
    clock: u64,
    next: u32,
}

impl Table {
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        Self { capacity, centres: Centres::new(0), ids: Vec::new(), used: Vec::new(), clock: 0, next: 0 }
    }

    #[cfg(feature = "serde")]
    pub(crate) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn phases(&self) -> impl Iterator<Item = (PhaseId, u64, &[f64])> {
        self.ids.iter().enumerate().map(|(i, &id)| (id, self.centres.members(i), self.centres.centre(i)))
    }

    pub(crate) fn classify<M: Metric>(
        &mut self,
        signature: &Signature,
        threshold: f64,
        transition_threshold: u64,
    ) -> Result<Classification, Error> {
        self.check_length(signature)?;
        let values = signature.values();
        match self.centres.find::<M>(values) {
            Some((index, distance)) if distance <= threshold => {
                self.centres.join::<M>(index, values, distance);
                self.mark_used(index);
                let members = self.centres.members(index);
                Ok(Classification {
                    phase: self.ids[index],
                    distance,
                    founded: false,
                    in_transition: members < transition_threshold,
                    members,
                    replaced: None,
                })
            }
            _ => {
                let (phase, replaced) = self.found::<M>(values)?;
                Ok(Classification {
                    phase,
                    distance: 0.0,
                    founded: true,
                    in_transition: 1 < transition_threshold,
                    members: 1,
                    replaced,
                })
            }
        }
    }

    pub(crate) fn nearest<M: Metric>(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        self.check_length(signature)?;
        let found = self.centres.nearest::<M>(signature.values());
        Ok(found.map(|(index, distance)| (self.ids[index], distance)))
    }

    /// Makes `phase`, if it is held, the most recently used.
    pub(crate) fn touch(&mut self, phase: PhaseId) {
        if let Some(index) = self.ids.iter().position(|&id| id == phase) {
            self.mark_used(index);
        }
    }

    fn mark_used(&mut self, index: usize) {
        self.clock += 1;
        self.used[index] = self.clock;
    }

    fn check_length(&self, signature: &Signature) -> Result<(), Error> {
        if self.len() == 0 || signature.len() == self.centres.entries() {
            return Ok(());
        }
        Err(Error::Length { expected: self.centres.entries(), got: signature.len() })
    }

    fn found<M: Metric>(&mut self, values: &[f64]) -> Result<(PhaseId, Option<PhaseId>), Error> {
        if self.next == u32::MAX {
            return Err(Error::PhasesExhausted { limit: u32::MAX });
        }
        let phase = PhaseId::new(self.next);
        self.next += 1;
        if self.len() == 0 {
            self.centres = Centres::new(values.len());
        }
        let full = Some(self.len()) == self.capacity;
        if let Some(index) = (0..self.len()).filter(|_| full).min_by_key(|&i| self.used[i]) {
            self.centres.replace(index, values);
            self.centres.keep_apart::<M>(index);
            let replaced = std::mem::replace(&mut self.ids[index], phase);
            self.mark_used(index);
            return Ok((phase, Some(replaced)));
        }
        self.centres.push(values, 1);
        self.centres.keep_apart::<M>(self.len());
        self.ids.push(phase);
        self.used.push(0);
        self.mark_used(self.len() - 1);
        Ok((phase, None))
    }
}

/// The form in which the table is saved, and the checks when it is loaded.
#[cfg(feature = "serde")]
pub(crate) mod saved {
    use super::{Centres, Error, PhaseId};

    /// Counts go on from what was saved, and must not overflow.
    const WINDOWS_AT_MOST: u64 = 1 << 60;

    #[derive(serde::Serialize, serde::Deserialize)]
    pub(crate) struct Table {
        capacity: Option<usize>,
        entries: usize,
        clock: u64,
        next: u32,
        phases: Vec<Phase>,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Phase {
        id: PhaseId,
        members: u64,
        used: u64,
        centre: Vec<f64>,
    }

    impl From<super::Table> for Table {
        fn from(table: super::Table) -> Self {
            let phases = table
                .phases()
                .zip(&table.used)
                .map(|((id, members, centre), &used)| Phase { id, members, used, centre: centre.to_vec() })
                .collect();
            Self {
                capacity: table.capacity,
                entries: table.centres.entries(),
                clock: table.clock,
                next: table.next,
                phases,
            }
        }
    }

    impl TryFrom<Table> for super::Table {
        type Error = Error;
        fn try_from(saved: Table) -> Result<Self, Error> {
            let damaged = |what| Err(Error::SavedState { what });
            if saved.capacity == Some(0) || saved.capacity.is_some_and(|c| saved.phases.len() > c) {
                return damaged("it holds more phases than its capacity");
            }
            if saved.phases.is_empty() && saved.entries != 0 {
                return damaged("a table without phases states a number of entries");
            }
            if saved.clock > WINDOWS_AT_MOST || saved.phases.iter().any(|p| p.members > WINDOWS_AT_MOST) {
                return damaged("more windows are counted than any run has");
            }
            let mut table = super::Table::new(saved.capacity);
            table.centres = Centres::new(saved.entries);
            table.clock = saved.clock;
            table.next = saved.next;
            for phase in saved.phases {
                if phase.centre.is_empty() || phase.centre.len() != saved.entries {
                    return damaged("a centre does not have the stated number of entries");
                }
                if !phase.centre.iter().all(|v| v.is_finite()) {
                    return damaged("a centre has an entry that is not finite");
                }
                if phase.members == 0 || phase.used > saved.clock {
                    return damaged("a phase has no members or was seen later than the last window");
                }
                if phase.id.number() >= saved.next || table.ids.contains(&phase.id) {
                    return damaged("a phase number occurs twice or was never handed out");
                }
                table.centres.push(&phase.centre, phase.members);
                table.ids.push(phase.id);
                table.used.push(phase.used);
            }
            Ok(table)
        }
    }
}
