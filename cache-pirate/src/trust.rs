//! Whether an interval measured what it was meant to: the pirate's lines were there throughout.

use crate::counts::{PirateCounts, TargetCounts};
use crate::testbed::{Evidence, SharedCache};

/// Why an interval does not count.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Distrust {
    /// The pirate had to fetch more of its lines than allowed: the target had more cache than asked for.
    LostLines {
        /// Fetches per touched line.
        fetch_ratio: f64,
        /// Limit.
        limit: f64,
    },
    /// Lines that the pirate lost may have spared the target more fetches than allowed: the fetches were few
    /// for the pirate, but not for the target.
    Spared {
        /// The pirate's fetches per access of the target.
        fetch_ratio: f64,
        /// Limit.
        limit: f64,
    },
    /// The pirate did not walk its lines even once in the interval, so nothing is known of them.
    NotWalked {
        /// Walks made, below 1.
        walks: f64,
    },
    /// The pirate could not hold this size even alone.
    NotHeld {
        /// Bytes that it held alone.
        held: u64,
    },
    /// Alone, the pirate could not even hold half of the cache: it is smaller than stated, and what is left to the
    /// target is not known at any size.
    CacheTooLarge {
        /// Bytes that the pirate held alone.
        held: u64,
        /// Size that the cache was stated to have.
        cache: u64,
    },
    /// Alone, the pirate held more than the cache: it is larger than stated, and more is left to the target than the size
    /// says.
    CacheTooSmall {
        /// Size that the cache was stated to have.
        cache: u64,
    },
    /// What was left to the target is known no better than this, because of where the pirate's lines lie or how the
    /// cache replaces lines, and the curve changes too much in between.
    Steep {
        /// Least number of bytes that may have been left.
        from: u64,
        /// Most.
        to: u64,
    },
    /// The cache keeps lines that were touched often while many others are brought in, each once. The pirate's lines
    /// are of the former kind, so that less is left to the target than the size says.
    ScanResistant {
        /// Share of the pirate's lines that outlived as many other lines as fill the cache.
        kept: f64,
    },
    /// The target was confined to its part of the cache, but still had lines of its own in the rest.
    OldLines {
        /// Share of the rest's lines that were the target's.
        share: f64,
        /// Limit.
        limit: f64,
    },
    /// The two sides did not share a cache before or after the interval.
    NotShared,
    /// The target ended before half of the interval's work was done.
    Truncated {
        /// Work done.
        work: f64,
    },
    /// The target did other work than at other sizes, where each has a run of its own: it ended otherwise, or read and
    /// wrote other amounts.
    OtherWork,
    /// No time passed, or no work was done.
    Empty,
}

/// The verdict on an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trust {
    /// It counts.
    Trusted,
    /// It does not.
    Untrusted(Distrust),
}

impl Trust {
    /// Whether it counts.
    #[must_use]
    pub const fn is_trusted(self) -> bool {
        matches!(self, Self::Trusted)
    }
}

/// Limits of the pirate's fetch ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub counted: f64, // in (0, 1]
    pub timed: f64,   // in (0, 1]
    pub spared: f64,  // in (0, 1]
}

impl Limits {
    pub(crate) const fn of(self, evidence: Evidence) -> f64 {
        match evidence {
            Evidence::Counted | Evidence::Confined => self.counted,
            Evidence::Timed => self.timed,
        }
    }
}

/// Judges the pirate by its own counts over an interval in which it was to hold `stolen` bytes.
pub(crate) fn judge_pirate(counts: PirateCounts, stolen: u64, cache: SharedCache, limit: f64) -> Trust {
    let lines = stolen / u64::from(cache.line_size);
    if lines == 0 {
        return Trust::Trusted;
    }
    let walks = counts.touches / lines as f64;
    if walks < 1.0 {
        return Trust::Untrusted(Distrust::NotWalked { walks });
    }
    let fetch_ratio = counts.fetch_ratio();
    if fetch_ratio > limit {
        return Trust::Untrusted(Distrust::LostLines { fetch_ratio, limit });
    }
    Trust::Trusted
}

/// Judges what the pirate's losses may have done to the target.
///
/// # Formula
/// A line of the target that goes in place of the pirate's would have been the target's own to lose. Until the
/// pirate takes its place back, touching it spares one fetch. So the target's fetch ratio is too low by at most
/// the pirate's fetches per access of the target.
pub(crate) fn judge_target(pirate: PirateCounts, target: TargetCounts, limit: f64) -> Trust {
    match spared(pirate, target) {
        Some(fetch_ratio) if fetch_ratio > limit => Trust::Untrusted(Distrust::Spared { fetch_ratio, limit }),
        _ => Trust::Trusted,
    }
}

/// Most by which the target's fetch ratio can be too low.
pub(crate) fn spared(pirate: PirateCounts, target: TargetCounts) -> Option<f64> {
    target.memory.filter(|memory| memory.accesses > 0.0).map(|memory| pirate.fetches / memory.accesses)
}

/// What the target may have had, if the pirate was to steal `stolen` bytes and fetched `fetch_ratio` of the
/// lines it touched.
///
/// # Formula
/// With `f` the pirate's fetch ratio, at least `1 - f` of its lines were in the cache at any time, so the
/// target had between `C - stolen` and `C - (1 - f) * stolen` bytes.
///
/// # References
/// Eklöv, thesis, Paper III, section III.4.3.
#[must_use]
pub fn effective_size(cache: SharedCache, stolen: u64, fetch_ratio: f64) -> (u64, u64) {
    let least = cache.bytes.saturating_sub(stolen);
    let lost = (fetch_ratio.clamp(0.0, 1.0) * stolen as f64).ceil() as u64;
    (least, least.saturating_add(lost).min(cache.bytes))
}
