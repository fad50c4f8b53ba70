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
    /// A saved model of a newer format.
    #[error("the saved model has format {found}, this release reads {known}: read it with a newer one")]
    FormatVersion {
        /// The format of the saved model.
        found: u32,
        /// The newest one that this release reads.
        known: u32,
    },
    /// A saved model that contradicts itself.
    #[error("the saved model is damaged: {what}; fit it again from its profile")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
}
