//! What to measure, checked once against the cache it is to be measured in.

use crate::error::PirateError;
use crate::testbed::SharedCache;
use crate::trust::Limits;

/// How many threads walk the stolen lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// This many, at least 1.
    Fixed(usize),
    /// As many as leave the target's CPI unchanged when they steal little
    /// ([`measure::threads`](crate::measure::choose_threads)), up to what the testbed has.
    Auto,
}

/// When measurement cycles follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Pace {
    /// One right after the other.
    Continuous,
    /// After gaps in which the target runs alone: exponentially distributed, so that no rhythm of the
    /// program can hide in them.
    Sampling {
        /// Mean work in a gap, finite and above 0.
        mean_gap: f64,
        /// Seed of the gaps.
        seed: u64,
    },
    /// After gaps in which the target runs alone, as long as it takes to keep what the measurement costs within a
    /// share of the target's time. Each cycle lies at a random place in its stretch of the run and counts for
    /// all of it, so that stretches in which cycles are cheap, and closer together, do not count twice.
    ///
    /// What a cycle costs is its time beyond that of the same work at the CPI of its interval with the whole
    /// cache (of the last gap, where the whole cache is not among the sizes): suspensions, what the target
    /// loses to smaller caches, and what it takes to regain the whole one. The first cycle begins at once, and
    /// only the following stretch pays for it: a run of a few cycles may end before it has.
    Budget {
        /// Time that may be lost over time without a measurement, finite and above 0: 0.05 for 5 %.
        overhead: f64,
        /// Seed of the places.
        seed: u64,
    },
}

/// Parameters of a measurement.
///
/// Work is in the testbed's unit: instructions where they can be counted.
#[derive(Clone, Debug, PartialEq)]
pub struct PirateParams {
    /// Sizes to measure at, in bytes left to the target; the whole cache is the pirate stealing nothing.
    /// Rounded to whole lines. Default: sixteenths of the cache (when checked).
    pub sizes: Option<Vec<u64>>,
    /// Work in a measurement interval, finite and above 0. Long against the warm-up of the pirate, short
    /// against the program's phases: the paper finds 100 M instructions best for 8 MiB; the default here is
    /// 12 instructions per byte of cache, which is the same.
    pub interval: Option<f64>,
    /// Most work that a target which gains space runs before it is measured; it stops earlier once it has
    /// fetched as many lines as the cache has. Finite, not negative. Default: four intervals.
    pub target_warm_up: Option<f64>,
    /// Most walks that a pirate which gains space makes alone, at least 1; it stops at the first walk that fetched
    /// no more than what was new to it and the fetch-ratio limit. Where fetches are not counted it makes two at
    /// least.
    pub pirate_warm_up: u32,
    /// Largest fetch ratio of the pirate in an interval that counts, in (0, 1].
    pub fetch_ratio_limit: f64,
    /// The same where fetches are inferred from time, in (0, 1].
    pub timed_limit: f64,
    /// Most fetches of the pirate per access of the target, in (0, 1], where both are counted. Each line that the
    /// pirate loses is one that the target keeps instead, and can spare it one fetch: the target's fetch ratio is
    /// not too low by more than this.
    pub spared_limit: f64,
    /// Number of pirate threads.
    pub threads: Threads,
    /// Bytes stolen while the number of threads is chosen. Default: 0.5 MiB or a sixteenth of the cache,
    /// whichever is less, as 0.5 MiB was in the paper.
    pub thread_test_bytes: Option<u64>,
    /// Relative change of the target's CPI up to which it counts as unchanged, finite and not negative.
    pub cpi_tolerance: f64,
    /// When cycles follow each other. Default: a budget of 5 %.
    pub pace: Pace,
    /// Most cycles; until the target ends if `None`.
    pub cycles: Option<u64>,
}

impl Default for PirateParams {
    fn default() -> Self {
        Self {
            sizes: None,
            interval: None,
            target_warm_up: None,
            pirate_warm_up: 8,
            fetch_ratio_limit: 0.01,
            timed_limit: 0.2,
            spared_limit: 0.02,
            threads: Threads::Auto,
            thread_test_bytes: None,
            cpi_tolerance: 0.01,
            pace: Pace::Budget { overhead: 0.05, seed: 0 },
            cycles: None,
        }
    }
}

/// Instructions per byte of cache in the paper's best interval: 100 M for 8 MiB.
const WORK_PER_BYTE: f64 = 12.0;

impl PirateParams {
    /// Checks all parameters against the cache.
    ///
    /// # Errors
    /// [`PirateError`] naming the first one that is out of range.
    pub fn check(&self, cache: SharedCache) -> Result<Plan, PirateError> {
        let SharedCache { bytes, line_size } = cache;
        if !line_size.is_power_of_two() || bytes < u64::from(line_size) {
            return Err(PirateError::Cache { bytes, line_size });
        }
        let interval = self.interval.unwrap_or(WORK_PER_BYTE * bytes as f64);
        positive("interval", interval)?;
        let target_warm_up = self.target_warm_up.unwrap_or(4.0 * interval);
        not_negative("target warm-up", target_warm_up)?;
        if self.pirate_warm_up == 0 {
            return Err(PirateError::Parameter {
                what: "pirate warm-up",
                value: 0.0,
                remedy: "at least 1 walk",
            });
        }
        for (what, value) in [
            ("fetch-ratio limit", self.fetch_ratio_limit),
            ("limit of timed fetch ratios", self.timed_limit),
            ("limit of spared fetches", self.spared_limit),
        ] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(PirateError::Parameter { what, value, remedy: "a ratio above 0 and up to 1" });
            }
        }
        not_negative("CPI tolerance", self.cpi_tolerance)?;
        if self.threads == Threads::Fixed(0) {
            return Err(PirateError::Parameter { what: "pirate threads", value: 0.0, remedy: "at least 1" });
        }
        match self.pace {
            Pace::Continuous => {}
            Pace::Sampling { mean_gap, .. } => positive("mean gap", mean_gap)?,
            Pace::Budget { overhead, .. } => positive("overhead", overhead)?,
        }
        let line = u64::from(line_size);
        let test = self.thread_test_bytes.unwrap_or((bytes / 16).min(512 << 10)).max(line);
        if test > bytes {
            return Err(PirateError::Size { bytes: test, cache_bytes: bytes });
        }
        Ok(Plan {
            stolen: self.stolen(cache)?,
            cache,
            interval,
            target_warm_up,
            pirate_warm_up: self.pirate_warm_up,
            limits: Limits {
                counted: self.fetch_ratio_limit,
                timed: self.timed_limit,
                spared: self.spared_limit,
            },
            threads: self.threads,
            thread_test: test / line * line,
            cpi_tolerance: self.cpi_tolerance,
            pace: self.pace,
            cycles: self.cycles.unwrap_or(u64::MAX),
        })
    }

    /// What the pirate steals, least first.
    fn stolen(&self, cache: SharedCache) -> Result<Vec<u64>, PirateError> {
        let line = u64::from(cache.line_size);
        let whole = cache.bytes / line * line;
        let sixteenths: Vec<u64>;
        let sizes = if let Some(sizes) = &self.sizes {
            sizes
        } else {
            sixteenths = (1..=16).map(|i| whole / line * i / 16 * line).filter(|&b| b > 0).collect();
            &sixteenths
        };
        let mut stolen = Vec::with_capacity(sizes.len());
        for &bytes in sizes {
            if bytes < line || bytes > cache.bytes {
                return Err(PirateError::Size { bytes, cache_bytes: cache.bytes });
            }
            stolen.push(whole - bytes / line * line);
        }
        if stolen.is_empty() {
            return Err(PirateError::NoSizes);
        }
        stolen.sort_unstable();
        stolen.dedup();
        Ok(stolen)
    }
}

/// A checked measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) cache: SharedCache,
    pub(crate) stolen: Vec<u64>, // whole lines, strictly rising, never empty
    pub(crate) interval: f64,    // > 0
    pub(crate) target_warm_up: f64,
    pub(crate) pirate_warm_up: u32, // >= 1
    pub(crate) limits: Limits,
    pub(crate) threads: Threads,
    pub(crate) thread_test: u64, // whole lines, >= 1
    pub(crate) cpi_tolerance: f64,
    pub(crate) pace: Pace,
    pub(crate) cycles: u64,
}

impl Plan {
    /// The cache it was checked against.
    #[must_use]
    pub const fn cache(&self) -> SharedCache {
        self.cache
    }

    /// Sizes left to the target, in bytes, the largest first: the order in which they are measured.
    pub fn sizes(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        let whole = self.whole();
        self.stolen.iter().map(move |stolen| whole - stolen)
    }

    /// Work in an interval.
    #[must_use]
    pub const fn interval(&self) -> f64 {
        self.interval
    }

    /// The cache in whole lines.
    pub(crate) const fn whole(&self) -> u64 {
        self.cache.bytes / self.cache.line_size as u64 * self.cache.line_size as u64
    }
}

fn positive(what: &'static str, value: f64) -> Result<(), PirateError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(PirateError::Parameter { what, value, remedy: "a finite number above 0" })
    }
}

fn not_negative(what: &'static str, value: f64) -> Result<(), PirateError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(PirateError::Parameter { what, value, remedy: "a finite number, 0 or more" })
    }
}
