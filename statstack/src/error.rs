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
}
