//! The histogram of reuse samples that every cache model starts from.

mod distribution;
#[cfg(feature = "serde")]
mod format;
mod overlap;

pub use distribution::{DistanceMass, ReuseDistribution};
pub use overlap::StackEstimate;

use std::fmt;

use crate::engine::bins;
use crate::{Error, LineSize, Outcome, ReuseOverlap, Window};
use overlap::Sums;

/// What distances are counted in. Profiles of different clocks cannot be merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Clock {
    /// Memory accesses of the own thread: what the cache models are defined on.
    #[default]
    Accesses,
    /// Instructions of the own thread, where accesses cannot be counted.
    Instructions,
    /// Nanoseconds, where nothing can be counted: good for the far tail only.
    Time,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accesses => "accesses",
            Self::Instructions => "instructions",
            Self::Time => "nanoseconds",
        })
    }
}

/// Within what distances are counted and reuses found, where a program has several threads. Profiles of different scopes
/// cannot be merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Scope {
    /// Each thread by itself: profiles describe a private cache for each, without what other threads invalidate.
    #[default]
    Private,
    /// All threads of the process in the order of their accesses: profiles describe one cache for all.
    Shared,
}

impl Scope {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Shared => "shared",
        }
    }

    /// Whether it need not be written: what is read without a scope is private.
    #[cfg(feature = "serde")]
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
    pub(crate) const fn is_private(&self) -> bool {
        matches!(self, Self::Private)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "each thread by itself",
            Self::Shared => "all threads together",
        })
    }
}

/// Histogram of reuse samples: how many accesses are reused after how many others, how many never, and how
/// many were lost sight of.
///
/// Distances are exact below 1,024; beyond, they are kept in bins whose middle is within 0.4 % of every
/// distance in them. Each sample is recorded with the number of accesses it stands for, so that windows
/// sampled at different rates add up to one unbiased histogram.
///
/// # Laws
/// [`merge`](Self::merge) is associative and commutative (all counts are integers) and the
/// [empty](Self::new) profile of the same line size, clock and scope is its unit, so that profiles of windows can be
/// combined into those of phases and of the program in any order.
///
/// # Cost
/// 8 bytes per bin up to the largest distance seen: 30 KiB for distances up to a billion accesses. Recording a
/// sample takes a few nanoseconds.
///
/// ```
/// use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};
///
/// let mut profile = ReuseProfile::new(LineSize::B64);
/// profile.record(Outcome::Reused(ReuseDistance(3)), 1);
/// profile.record(Outcome::Dangling, 1);
/// let distribution = profile.distribution();
/// assert_eq!(distribution.beyond(3), 0.5); // half of the accesses are reused later than after 3 others
/// ```
#[cfg_attr(
    feature = "serde",
    doc = r#"
# Saving
With the feature `serde`, profiles, windows, distributions and groups of models can be saved and read. A profile that
contradicts itself is refused.

```
use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};

let mut profile = ReuseProfile::new(LineSize::B64);
profile.record(Outcome::Reused(ReuseDistance(3)), 1);
let saved = serde_json::to_string(&profile)?;
assert_eq!(serde_json::from_str::<ReuseProfile>(&saved)?, profile);
assert!(serde_json::from_str::<ReuseProfile>(&saved.replace("\"line_size\":64", "\"line_size\":65")).is_err());
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
#[derive(Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "format::Stored", into = "format::Stored"))]
pub struct ReuseProfile {
    line_size: LineSize,
    clock: Clock,
    scope: Scope,
    reused: Vec<u64>,      // weight by bin, at most BINS long, last entry not 0
    invalidated: Vec<u64>, // weight by bin, at most BINS long, last entry not 0
    censored: Vec<u64>,    // weight by bin of `at_least`, at most BINS long, last entry not 0
    dangling: u64,         // weight
    samples: u64,
    accesses: u64,
    overlaps: Vec<Sums>, // by coarse bin, at most 256 long, last entry not empty
}

impl ReuseProfile {
    /// An empty profile of each thread by itself, of distances counted in accesses.
    #[must_use]
    pub const fn new(line_size: LineSize) -> Self {
        Self::with_clock(line_size, Clock::Accesses)
    }

    /// An empty profile of each thread by itself, of distances counted by `clock`.
    #[must_use]
    pub const fn with_clock(line_size: LineSize, clock: Clock) -> Self {
        Self::with_units(line_size, clock, Scope::Private)
    }

    /// An empty profile of `scope`, of distances counted by `clock`.
    #[must_use]
    pub const fn with_units(line_size: LineSize, clock: Clock, scope: Scope) -> Self {
        Self {
            line_size,
            clock,
            scope,
            reused: Vec::new(),
            invalidated: Vec::new(),
            censored: Vec::new(),
            dangling: 0,
            samples: 0,
            accesses: 0,
            overlaps: Vec::new(),
        }
    }

    /// Takes what was recorded without a scope for what it is.
    #[cfg(any(feature = "replay", feature = "file"))]
    pub(crate) const fn adopt(&mut self, scope: Scope) {
        if matches!(self.scope, Scope::Private) {
            self.scope = scope;
        }
    }

    /// Adds one sample that stands for `weight` accesses (the mean gap between samples). A weight of 0 adds
    /// nothing.
    pub fn record(&mut self, outcome: Outcome, weight: u64) {
        self.record_many(outcome, 1, weight);
    }

    /// Adds `count` samples of one outcome that stand for `weight` accesses each. Sums saturate at
    /// `u64::MAX`.
    pub fn record_many(&mut self, outcome: Outcome, count: u64, weight: u64) {
        let total = count.saturating_mul(weight);
        if total == 0 {
            return;
        }
        self.samples = self.samples.saturating_add(count);
        match outcome {
            Outcome::Reused(distance) => add(&mut self.reused, bins::bin_of(distance.0), total),
            Outcome::Invalidated(distance) => add(&mut self.invalidated, bins::bin_of(distance.0), total),
            Outcome::Censored { at_least } => add(&mut self.censored, bins::bin_of(at_least), total),
            Outcome::Dangling => self.dangling = self.dangling.saturating_add(total),
        }
    }

    /// Adds what is known of how samples lay over each other: with it, models can correct the stack distances
    /// that they expect of reuse distances. It adds no sample.
    pub fn record_overlap(&mut self, overlap: &ReuseOverlap) {
        if overlap.samples > 0 && overlap.weight > 0 {
            let bin = bins::coarse_of(overlap.shortest.0) as usize;
            if bin >= self.overlaps.len() {
                self.overlaps.resize(bin + 1, Sums::default());
            }
            self.overlaps[bin].record(overlap);
        }
    }

    /// Adds every outcome that `window` reports, how its samples overlapped, and the accesses of the window where they
    /// are known.
    ///
    /// This is the profile of *samples reported in* the window. Where samples outlive their window and phases are kept
    /// apart, [`GroupedProfiles`](crate::GroupedProfiles) records each in the profile of the window that started it.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] if the window was not observed as the
    /// profile is recorded; nothing is added then.
    pub fn record_window(&mut self, window: &Window) -> Result<(), Error> {
        self.check(window.line_size, window.clock, window.scope)?;
        for (_, outcome, count, weight) in window.outcomes() {
            self.record_many(outcome, count, weight);
        }
        for overlap in &window.overlaps {
            self.record_overlap(overlap);
        }
        self.add_accesses(window.accesses.get().unwrap_or(0));
        Ok(())
    }

    /// Whether what was observed so can be added.
    pub(crate) fn check(&self, line_size: LineSize, clock: Clock, scope: Scope) -> Result<(), Error> {
        if self.line_size != line_size {
            return Err(Error::mixed_line_sizes(self.line_size, line_size));
        }
        if self.clock != clock {
            return Err(Error::MixedClocks { left: self.clock, right: clock });
        }
        if self.scope != scope {
            return Err(Error::MixedScopes { left: self.scope, right: scope });
        }
        Ok(())
    }

    /// Whether what `other` holds can be added.
    pub(crate) fn check_alike(&self, other: &Self) -> Result<(), Error> {
        self.check(other.line_size, other.clock, other.scope)
    }

    /// Says that the profile stands for `accesses` more accesses of the program.
    pub fn add_accesses(&mut self, accesses: u64) {
        self.accesses = self.accesses.saturating_add(accesses);
    }

    /// Adds all of `other`.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] if `other` was not recorded alike;
    /// `self` is then unchanged.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_alike(other)?;
        add_all(&mut self.reused, &other.reused);
        add_all(&mut self.invalidated, &other.invalidated);
        add_all(&mut self.censored, &other.censored);
        self.dangling = self.dangling.saturating_add(other.dangling);
        self.samples = self.samples.saturating_add(other.samples);
        self.accesses = self.accesses.saturating_add(other.accesses);
        if self.overlaps.len() < other.overlaps.len() {
            self.overlaps.resize(other.overlaps.len(), Sums::default());
        }
        for (sums, more) in self.overlaps.iter_mut().zip(&other.overlaps) {
            sums.add(more);
        }
        Ok(())
    }

    /// The same with samples of `other` that stand for `factor` times as many accesses each, where `other` is of some windows
    /// out of many. Samples and accesses that were observed count once. A factor that is negative or no number is 0.
    ///
    /// # Errors
    /// Those of [`merge`](Self::merge).
    pub fn merge_weighted(&mut self, other: &Self, factor: f64) -> Result<(), Error> {
        let factor = factor.max(0.0);
        let mut more = other.clone();
        let mut left = 0.0; // what rounding down has left out so far
        for weight in [&mut more.reused, &mut more.invalidated, &mut more.censored]
            .into_iter()
            .flatten()
            .chain([&mut more.dangling])
            .filter(|weight| **weight > 0)
        {
            left += *weight as f64 * factor;
            *weight = (left + 1e-9) as u64;
            left -= *weight as f64;
        }
        for bins in [&mut more.reused, &mut more.invalidated, &mut more.censored] {
            bins.truncate(bins.iter().rposition(|&weight| weight > 0).map_or(0, |last| last + 1));
        }
        more.overlaps.iter_mut().for_each(|sums| sums.weigh(factor));
        self.merge(&more)
    }

    /// Line size of the recorded distances.
    #[must_use]
    pub const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// What distances are counted in.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether it is of each thread by itself, or of all threads together.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Number of samples recorded.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Number of accesses the profile stands for.
    #[must_use]
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Samples per access, where the number of accesses is known.
    #[must_use]
    pub fn sample_rate(&self) -> Option<f64> {
        (self.accesses > 0).then(|| self.samples as f64 / self.accesses as f64)
    }

    /// Whether no sample was recorded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Weight of all samples together: the accesses they stand for by their sampling gaps.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        [&self.reused, &self.invalidated, &self.censored]
            .into_iter()
            .fold(self.dangling, |total, bins| total.saturating_add(sum(bins)))
    }

    /// Weight of the samples whose line was never touched again.
    #[must_use]
    pub const fn dangling_weight(&self) -> u64 {
        self.dangling
    }

    /// Weight of the samples whose line another thread stored to: accesses whose line is missing in the thread's private
    /// cache when it is touched next, whatever the size.
    #[must_use]
    pub fn invalidated_weight(&self) -> u64 {
        sum(&self.invalidated)
    }

    /// Weight of the samples that were lost sight of.
    #[must_use]
    pub fn censored_weight(&self) -> u64 {
        sum(&self.censored)
    }

    /// The bins with reused samples, ascending: smallest and largest distance in the bin, and the weight of
    /// its samples.
    pub fn reused_bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        occupied(&self.reused)
    }

    /// The bins with invalidated samples, ascending, by the accesses until another thread's store.
    pub fn invalidated_bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        occupied(&self.invalidated)
    }

    /// The bins with censored samples, ascending, by the age they had reached.
    pub fn censored_bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        occupied(&self.censored)
    }

    /// What overlapping samples show of stack distances, by ascending reuse distance. Empty where the
    /// backend does not report them.
    pub fn stack_estimates(&self) -> impl Iterator<Item = StackEstimate> + '_ {
        self.overlaps.iter().enumerate().filter_map(|(bin, sums)| sums.estimate(bin))
    }

    /// The profile that other samples of the same accesses might have given. `poisson` draws a number with the mean it
    /// is given and the same variance.
    ///
    /// Where one access in m was chosen, the number of samples in a bin varies by 1 - 1/m of its mean: not at all
    /// where every access is one. What the overlaps counted varies as a count does.
    pub(crate) fn redrawn(&self, poisson: &mut impl FnMut(f64) -> f64) -> Self {
        let each = self.total_weight() as f64 / self.samples.max(1) as f64; // accesses a sample stands for
        let chance = (1.0 - 1.0 / each.max(1.0)).sqrt();
        let mut samples = 0.0;
        let mut redraw = |weight: u64| {
            if weight == 0 || chance == 0.0 {
                samples += weight as f64 / each;
                return weight;
            }
            let mean = weight as f64 / each;
            let drawn = (mean + chance * (poisson(mean) - mean)).max(0.0);
            samples += drawn;
            (drawn * each).round() as u64
        };
        let reused = self.reused.iter().map(|&weight| redraw(weight)).collect();
        let invalidated = self.invalidated.iter().map(|&weight| redraw(weight)).collect();
        let censored = self.censored.iter().map(|&weight| redraw(weight)).collect();
        let dangling = redraw(self.dangling);
        Self {
            reused: without_empty_end(reused),
            invalidated: without_empty_end(invalidated),
            censored: without_empty_end(censored),
            dangling,
            samples: samples.round() as u64,
            overlaps: self.overlaps.iter().map(|sums| sums.redrawn(poisson)).collect(),
            ..*self
        }
    }

    /// The distribution of reuse distances that the samples estimate, censored ones accounted for.
    #[must_use]
    pub fn distribution(&self) -> ReuseDistribution {
        let mut distribution = ReuseDistribution::default();
        self.distribution_into(&mut distribution);
        distribution
    }

    /// The same in place of another distribution, whose memory is used again: once it has been as large, nothing is
    /// allocated.
    pub fn distribution_into(&self, distribution: &mut ReuseDistribution) {
        distribution.estimate([&self.reused, &self.invalidated], &self.censored, self.dangling);
    }
}

impl fmt::Debug for ReuseProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReuseProfile")
            .field("line_size", &self.line_size.bytes())
            .field("scope", &self.scope)
            .field("clock", &self.clock)
            .field("samples", &self.samples)
            .field("accesses", &self.accesses)
            .field("reused", &self.reused_bins().collect::<Vec<_>>())
            .field("invalidated", &self.invalidated_bins().collect::<Vec<_>>())
            .field("censored", &self.censored_bins().collect::<Vec<_>>())
            .field("dangling", &self.dangling)
            .field("overlaps", &self.stack_estimates().collect::<Vec<_>>())
            .finish()
    }
}

fn add(bins: &mut Vec<u64>, bin: usize, weight: u64) {
    if bin >= bins.len() {
        // To the end of the octave, where memory doubled each time would leave a half unused.
        bins.reserve_exact((bin + 1).next_multiple_of(bins::PER_OCTAVE as usize) - bins.len());
        bins.resize(bin + 1, 0);
    }
    bins[bin] = bins[bin].saturating_add(weight);
}

fn without_empty_end(mut bins: Vec<u64>) -> Vec<u64> {
    bins.truncate(bins.iter().rposition(|&weight| weight > 0).map_or(0, |last| last + 1));
    bins
}

fn add_all(into: &mut Vec<u64>, from: &[u64]) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (a, b) in into.iter_mut().zip(from) {
        *a = a.saturating_add(*b);
    }
}

fn sum(bins: &[u64]) -> u64 {
    bins.iter().fold(0, |sum: u64, &weight| sum.saturating_add(weight))
}

fn occupied(bins: &[u64]) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
    bins.iter().enumerate().filter(|&(_, &weight)| weight > 0).map(|(bin, &weight)| {
        let (low, high) = bins::bounds(bin);
        (low, high, weight)
    })
}
