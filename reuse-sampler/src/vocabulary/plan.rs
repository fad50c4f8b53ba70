//! What the caller wants measured in the next window.

use crate::Error;

/// How the reuse of memory is observed in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReusePlan {
    /// Accesses are not seen at all, at no cost. Samples still open are reported as censored.
    Off,
    /// No sample is started, but those still open are followed.
    Watch,
    /// Accesses are chosen at random gaps of this mean, and followed until their line is touched again.
    Sparse(SampleGap),
    /// Bursts of dense sampling with long random gaps between them.
    Hierarchical(Hierarchy),
    /// Every access is a sample: exact distances, reported as counts without program counters.
    Every,
}

impl ReusePlan {
    /// Whether samples are started in the window.
    #[must_use]
    pub const fn starts_samples(&self) -> bool {
        !matches!(self, Self::Off | Self::Watch)
    }
}

/// Mean number of accesses from one sample to the next. The gaps are exponentially distributed (in whole
/// accesses: geometric), so that each access is chosen with the same probability whatever the ones before it,
/// and no loop of the program can beat against the sampler.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct SampleGap {
    mean: f64, // finite, >= 1
}

impl SampleGap {
    /// One sample in `accesses` accesses on average.
    ///
    /// # Errors
    /// [`Error::SampleGap`] if `accesses` is below 1, infinite or not a number.
    pub fn mean(accesses: f64) -> Result<Self, Error> {
        if accesses.is_finite() && accesses >= 1.0 {
            Ok(Self { mean: accesses })
        } else {
            Err(Error::SampleGap { accesses })
        }
    }

    /// The mean gap in accesses.
    #[must_use]
    pub const fn accesses(self) -> f64 {
        self.mean
    }
}

/// Hierarchical sampling (s, h, n): bursts of `burst` accesses in which `samples` samples are taken on
/// average, separated by hibernations of exponentially distributed length with mean `hibernation`. The
/// StatStack paper's settings are [`S1`](Self::S1) and [`S2`](Self::S2).
///
/// # References
/// Eklöv, thesis, Paper I, section on sampling; burst sampling after Berg and Hagersten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    burst: u64,       // >= samples
    hibernation: u64, // any
    samples: u64,     // >= 1
}

impl Hierarchy {
    /// Bursts of 1 M accesses, hibernation of 14 M, 1,500 samples a burst.
    pub const S1: Self = Self { burst: 1_000_000, hibernation: 14_000_000, samples: 1_500 };
    /// Bursts of 1 M accesses, hibernation of 74 M, 1,500 samples a burst.
    pub const S2: Self = Self { burst: 1_000_000, hibernation: 74_000_000, samples: 1_500 };

    /// Bursts of `burst` accesses with `samples` samples each, `hibernation` accesses apart on average.
    ///
    /// # Errors
    /// [`Error::Hierarchy`] if there is no sample, or more samples than accesses in a burst.
    pub const fn new(burst: u64, hibernation: u64, samples: u64) -> Result<Self, Error> {
        if samples >= 1 && samples <= burst {
            Ok(Self { burst, hibernation, samples })
        } else {
            Err(Error::Hierarchy { burst, samples })
        }
    }

    /// Accesses in a burst.
    #[must_use]
    pub const fn burst(self) -> u64 {
        self.burst
    }

    /// Mean number of accesses between two bursts.
    #[must_use]
    pub const fn hibernation(self) -> u64 {
        self.hibernation
    }

    /// Mean number of samples in a burst.
    #[must_use]
    pub const fn samples(self) -> u64 {
        self.samples
    }
}

/// What is to be measured in the next window of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowPlan {
    /// How reuse is observed.
    pub reuse: ReusePlan,
}

impl WindowPlan {
    /// Observe reuse as `reuse` says.
    #[must_use]
    pub const fn new(reuse: ReusePlan) -> Self {
        Self { reuse }
    }

    /// Only count: code signature and instructions, no memory accesses.
    #[must_use]
    pub const fn count_only() -> Self {
        Self::new(ReusePlan::Off)
    }
}
