//! A clusterer that no longer learns: the result of a batch clustering, or of an online one that was stopped.

use super::{Classification, Clusterer, Distance, Shape};
use crate::{Error, PhaseId, Signature, SignatureKind};

/// Assigns every window to the nearest of a fixed set of centres.
///
/// Made by [`LeaderFollower::freeze`](super::LeaderFollower::freeze) and by the batch algorithms. It has no
/// threshold: a window far from all centres still belongs to the nearest, and the reported distance says how far it
/// is.
///
/// # Cost
/// Proportional to phases times entries; nothing is allocated.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct Frozen {
    distance: Distance,
    // distances are multiplied by this: 0.5 makes a Manhattan distance a fraction of the largest possible one
    scale: f64,
    shape: Shape,
    // at least one, all centres of shape.len entries
    phases: Vec<Phase>,
}

#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Phase {
    id: PhaseId,
    members: u64,
    centre: Vec<f64>,
}

impl Frozen {
    pub(crate) fn new(
        distance: Distance,
        kind: SignatureKind,
        scale: f64,
        phases: impl IntoIterator<Item = (PhaseId, u64, Vec<f64>)>,
    ) -> Result<Self, Error> {
        let phases: Vec<Phase> =
            phases.into_iter().map(|(id, members, centre)| Phase { id, members, centre }).collect();
        let len = phases.first().ok_or(Error::NoPhases)?.centre.len();
        Ok(Self { distance, scale, shape: Shape { kind, len }, phases })
    }

    /// The distance it compares by.
    pub fn distance(&self) -> Distance {
        self.distance
    }

    /// The phases: number, windows they were fitted to, centre.
    pub fn phases(&self) -> impl Iterator<Item = (PhaseId, u64, &[f64])> {
        self.phases.iter().map(|p| (p.id, p.members, &p.centre[..]))
    }

    fn find(&self, signature: &Signature) -> Result<(&Phase, f64), Error> {
        self.shape.check(signature)?;
        self.phases
            .iter()
            .map(|p| (p, self.scale * self.distance.between(signature.values(), &p.centre)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .ok_or(Error::NoPhases)
    }
}

impl Clusterer for Frozen {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        let (phase, distance) = self.find(signature)?;
        Ok(Classification {
            phase: phase.id,
            distance,
            founded: false,
            in_transition: false,
            members: phase.members,
            replaced: None,
        })
    }

    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        self.find(signature).map(|(phase, distance)| Some((phase.id, distance)))
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    distance: Distance,
    scale: f64,
    shape: Shape,
    phases: Vec<Phase>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Frozen {
    type Error = Error;
    fn try_from(saved: Saved) -> Result<Self, Error> {
        let damaged = |what| Err(Error::SavedState { what });
        if saved.phases.is_empty() {
            return Err(Error::NoPhases);
        }
        if saved.shape.len == 0 || saved.phases.iter().any(|p| p.centre.len() != saved.shape.len) {
            return damaged("a centre does not have the stated number of entries");
        }
        if !(saved.scale.is_finite() && saved.scale > 0.0) {
            return damaged("the scale is not a finite number above 0");
        }
        if !saved.phases.iter().all(|p| super::can_be_centre(saved.shape.kind, &p.centre)) {
            return damaged("a centre has an entry that is not finite, or is no frequency");
        }
        let ids: std::collections::BTreeSet<PhaseId> = saved.phases.iter().map(|p| p.id).collect();
        if ids.len() < saved.phases.len() {
            return damaged("a phase number occurs twice");
        }
        Ok(Self { distance: saved.distance, scale: saved.scale, shape: saved.shape, phases: saved.phases })
    }
}
