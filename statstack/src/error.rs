//! Why a profile cannot be modelled.

use reuse_sampler::Clock;
use thiserror::Error as ThisError;

/// A profile that the model refuses.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A profile without samples.
    #[error("the profile has no sample: sample more accesses, or leave this window out")]
    EmptyProfile,
    /// Distances that do not count accesses.
    #[error("distances are counted in {found}, the model needs accesses: scale them by accesses per unit")]
    Clock {
        /// The clock of the profile.
        found: Clock,
    },
    /// A combination of models that is refused.
    #[error(transparent)]
    Grouping(#[from] reuse_sampler::Error),
    /// A saved model or curve of a newer format.
    #[error("what was saved has format {found}, this release reads {known}: read it with a newer one")]
    FormatVersion {
        /// The format of what was saved.
        found: u32,
        /// The newest one that this release reads.
        known: u32,
    },
    /// A saved model or curve that contradicts itself.
    #[error("what was saved is damaged: {what}; fit or observe it again")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
}
