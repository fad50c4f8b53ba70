//! Which cache model belongs to which replacement policy.

use statcc::walk;

use crate::cli::Replacement;

/// The model of the shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// LRU.
    StatStack,
    /// Random replacement.
    StatCache,
}

impl Model {
    /// The model of a policy, or the nearest to it: FIFO misses about as often as random replacement, and the
    /// accessed bit and the tree approximate LRU.
    pub const fn of(policy: Replacement) -> Self {
        match policy {
            Replacement::Lru | Replacement::Nehalem | Replacement::TreePlru | Replacement::Srrip => {
                Self::StatStack
            }
            Replacement::Random | Replacement::Fifo => Self::StatCache,
        }
    }

    /// Whether it only comes near to a policy.
    pub const fn approximates(self, policy: Replacement) -> bool {
        !matches!(policy, Replacement::Lru | Replacement::Random)
    }

    /// The policy that it models.
    pub const fn policy(self) -> &'static str {
        match self {
            Self::StatStack => "LRU",
            Self::StatCache => "random replacement",
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StatStack => "statstack",
            Self::StatCache => "statcache",
        }
    }

    /// How it takes lines to leave.
    pub const fn replacement(self) -> walk::Replacement {
        match self {
            Self::StatStack => walk::Replacement::Lru,
            Self::StatCache => walk::Replacement::Random,
        }
    }
}
