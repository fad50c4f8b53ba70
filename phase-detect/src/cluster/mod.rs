//! Clusterers: which phase a window belongs to.
//!
//! Online ones ([`LeaderFollower`]) learn while they classify. Batch ones look at all windows at once and give back
//! a [`Frozen`] clusterer that no longer learns.

mod centres;
pub(crate) mod distance;
mod frozen;
pub(crate) mod kmeans;
mod leader_follower;
mod metric;
mod pop;
mod table;

pub use distance::Distance;
pub use frozen::Frozen;
pub use kmeans::{Batch, KMeans};
pub use leader_follower::{
    DEFAULT_CAPACITY, DEFAULT_THRESHOLD, DEFAULT_TRANSITION_THRESHOLD, LeaderFollower, LeaderFollowerConfig,
    SAMPLED_THRESHOLD,
};
pub use pop::{Pop, PopConfig};

use crate::{Error, PhaseId, Signature, SignatureKind};

/// Whether signatures of this kind can have this mean: what a saved centre must be.
#[cfg(feature = "serde")]
fn can_be_centre(kind: SignatureKind, values: &[f64]) -> bool {
    values.iter().all(|value| match kind {
        SignatureKind::Frequency => (0.0..=1.0 + 1e-6).contains(value),
        SignatureKind::Raw => value.is_finite(),
    })
}

/// Assigns windows to phases by their signatures.
///
/// Both operations refuse a signature of the wrong kind or length with a typed error, for a distance between such
/// vectors would be a number without a meaning.
pub trait Clusterer {
    /// Decides the phase of the next window, and learns from it if the clusterer learns.
    ///
    /// # Errors
    /// [`Error::Kind`] and [`Error::Length`] if the signature does not compare with those seen before. A refused
    /// window leaves the clusterer as it was.
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error>;

    /// The nearest phase and its distance, learning nothing; `None` while there are no phases.
    ///
    /// The distance is in the unit of the clusterer's own threshold.
    ///
    /// # Errors
    /// As [`classify`](Self::classify).
    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error>;

    /// Notes that a window was taken to be `phase` without being learned from.
    ///
    /// A bounded clusterer must not replace, as least recently used, a phase that a caller keeps matching with
    /// [`nearest`](Self::nearest) only. The default does nothing.
    fn note_match(&mut self, phase: PhaseId) {
        let _ = phase;
    }
}

impl<C: Clusterer + ?Sized> Clusterer for Box<C> {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        (**self).classify(signature)
    }
    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        (**self).nearest(signature)
    }
    fn note_match(&mut self, phase: PhaseId) {
        (**self).note_match(phase);
    }
}

/// What a [`Clusterer`] says about one window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Classification {
    /// The phase the window belongs to.
    pub phase: PhaseId,
    /// Distance between the window and the centre of its phase before the window moved it, in the unit of the
    /// clusterer's threshold; 0 if the window founded the phase.
    pub distance: f64,
    /// The phase is new: this window founded it.
    pub founded: bool,
    /// The phase has been seen in fewer windows than the transition threshold, this one included.
    pub in_transition: bool,
    /// Windows seen in this phase so far, this one included (for a frozen clusterer: windows it was fitted to).
    pub members: u64,
    /// The phase that was given up to make room, if the clusterer is bounded and was full.
    pub replaced: Option<PhaseId>,
}

impl Classification {
    /// A window that joined a settled phase of unknown size, for clusterers defined elsewhere; set the other fields as
    /// they apply.
    pub fn new(phase: PhaseId, distance: f64) -> Self {
        Self { phase, distance, founded: false, in_transition: false, members: 1, replaced: None }
    }

    /// The phase, unless it is still in transition.
    pub fn settled(&self) -> Option<PhaseId> {
        (!self.in_transition).then_some(self.phase)
    }
}

/// Kind and length of the signatures a clusterer has committed itself to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Shape {
    pub(crate) kind: SignatureKind,
    pub(crate) len: usize,
}

impl Shape {
    pub(crate) fn of(signature: &Signature) -> Self {
        Self { kind: signature.kind(), len: signature.len() }
    }

    pub(crate) fn check(self, signature: &Signature) -> Result<(), Error> {
        check_kind(self.kind, signature)?;
        if signature.len() == self.len {
            Ok(())
        } else {
            Err(Error::Length { expected: self.len, got: signature.len() })
        }
    }
}

pub(crate) fn check_kind(expected: SignatureKind, signature: &Signature) -> Result<(), Error> {
    if signature.kind() == expected { Ok(()) } else { Err(Error::Kind { expected, got: signature.kind() }) }
}
