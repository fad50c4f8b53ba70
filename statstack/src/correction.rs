//! By how much the stack distances of a program deviate from what its reuse distances let one expect.
//!
//! The expected stack distance takes every access between two touches of a line for an average one. Programs
//! touch many lines in bursts, and in bursts reuses are of another length than between them: the mean stack
//! distance of accesses with one reuse distance is off by tens of percent at small caches, and single
//! accesses scatter around it. Where samples overlap (see [`ReuseOverlap`](reuse_sampler::ReuseOverlap)) both
//! can be estimated, as functions of the reuse distance: the ratio of the mean to what is expected, and the
//! scatter, taken to be log-normal.
//!
//! Both are drawn towards what is usual where the counts show no more, by empirical Bayes: how much
//! the deviations of a profile exceed their noise, taken over all distances, says how much to believe of each.
//! Usual is "no deviation", or what the windows of a run have in common ([`PooledCorrection`](crate::PooledCorrection)), found
//! from the sums over all of them in the same way. A profile of few samples gives the plain model, and so does a regular
//! kernel that has no deviations.
//!
//! Where windows were sampled with gaps between them, samples overlap only within a window, or within a stretch that was
//! sampled throughout, such as the beginning of a run. So a deviation applies only to the share of the samples of its reuse
//! distance that it was measured on; the others are taken to have none.

use reuse_sampler::{DistanceMass, ReuseDistance, ReuseProfile, StackEstimate};

use crate::expected::ExpectedStack;

/// Neighbouring bins of fewer samples are put together until they have so many.
const SAMPLES: f64 = 32.0;
/// Counted samples that speak for no deviation, so that none counted is no infinite one.
const PRIOR: f64 = 3.0;
/// Share of the noise of a mean, which takes the samples inside one epoch for one count where epochs overlap in
/// part, that is believed to be there.
const NOISE: f64 = 0.3;
/// Standard deviations by which the sum of squared deviations must exceed what noise alone would make of it, before
/// anything is corrected: a scan over one line more than fit has no deviations, and half a line of noise would turn
/// all its misses into hits.
const SIGNIFICANT: f64 = 4.0;
/// Lines counted, had there been no deviation, from which on a distance is asked whether there are deviations at all: others
/// could not show any.
const FEWEST: f64 = 10.0;
/// Squared relative scatter beyond which an estimate is not believed.
const WIDEST: f64 = 4.0;

/// The deviation at one reuse distance.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Knot {
    at: f64,        // binary logarithm of distance + 1
    log_ratio: f64, // natural logarithm of mean stack distance / expected one
    variance: f64,  // of the logarithm of the stack distance, in [0, ln(1 + WIDEST)]
}

/// An estimate of a deviation from 0.
#[derive(Clone, Copy, Debug)]
struct Measured {
    value: f64,
    noise: f64, // variance of its error, > 0
}

/// What the samples of similar distances show by themselves.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: f64,      // as in `Knot`
    awaited: f64, // lines counted without deviation
    log_ratio: Measured,
    relative: Measured, // squared coefficient of variation of stack distance / expected one
}

/// The deviation at every reuse distance.
#[derive(Clone, Debug, Default)]
pub struct Correction {
    usual: Vec<Knot>, // towards which estimates are drawn; none: no deviation
    knots: Vec<Knot>, // ascending, at least one once anything was fitted
    seen: Vec<Seen>,  // scratch
}

/// Mean and scatter of the logarithm of the stack distance.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spread {
    /// Mean stack distance, in lines.
    pub mean: f64,
    /// Variance of its logarithm, 0 where all accesses of a reuse distance have the same.
    pub variance: f64,
}

#[cfg(feature = "serde")]
impl Correction {
    /// The deviations it was fitted to.
    pub fn knots(&self) -> &[Knot] {
        &self.knots
    }

    /// The usual ones.
    pub fn usual(&self) -> &[Knot] {
        &self.usual
    }

    /// From deviations that were saved, and the usual ones; or what is wrong with them.
    pub fn of_knots(knots: Vec<Knot>, usual: Vec<Knot>) -> Result<Self, String> {
        for knots in [&knots, &usual] {
            let mut before = f64::NEG_INFINITY;
            for &Knot { at, log_ratio, variance } in knots {
                // Comparisons that a NaN fails. Counts of 64 bits have no ratio beyond e^100.
                let is_one = at >= before && (0.0..=64.0).contains(&at) && log_ratio.abs() <= 100.0;
                if !is_one || !(0.0..=WIDEST.ln_1p()).contains(&variance) {
                    return Err(format!("deviation {log_ratio} with variance {variance} at 2^{at}"));
                }
                before = at;
            }
        }
        Ok(Self { usual, knots, seen: Vec::new() })
    }
}

impl Correction {
    /// What `evidence`, by ascending distance, shows by itself.
    pub fn alone(evidence: impl Iterator<Item = Evidence>) -> Vec<Knot> {
        let mut alone = Self::default();
        alone.find(evidence);
        alone.knots
    }

    /// Draws estimates towards these from now on.
    pub fn expect(&mut self, usual: &[Knot]) {
        usual.clone_into(&mut self.usual);
    }

    /// Fits it anew to the overlaps in `profile`, and returns whether there are any that count. The memory is kept.
    pub fn fit(&mut self, profile: &ReuseProfile, masses: &[DistanceMass], expected: &ExpectedStack) -> bool {
        self.find(evidence(profile, masses, expected).map(|(_, one)| one));
        if self.knots.is_empty() {
            self.knots.clone_from(&self.usual);
        }
        !self.knots.is_empty()
    }

    /// Evidence is by ascending distance.
    fn find(&mut self, evidence: impl Iterator<Item = Evidence>) {
        self.seen.clear();
        let mut group = Evidence::default();
        for one in evidence {
            // A bin that has enough stays alone: what few samples of other distances show is not said of it.
            if group.samples.max(one.samples) >= SAMPLES {
                self.seen.extend(std::mem::take(&mut group).seen());
            }
            group = group.join(&one);
        }
        self.seen.extend(group.seen());
        for seen in &mut self.seen {
            let (log_ratio, relative) = usual_at(&self.usual, seen.at);
            seen.log_ratio.value -= log_ratio;
            seen.relative.value -= relative;
        }
        let telling = || self.seen.iter().filter(|seen| seen.awaited >= FEWEST);
        let ratios = prior_variance(telling().map(|seen| seen.log_ratio));
        let scatters = prior_variance(telling().map(|seen| seen.relative));
        let knot = |seen: &Seen| {
            let (log_ratio, relative) = usual_at(&self.usual, seen.at);
            let relative = relative + believed(seen.relative, scatters, 1.0);
            Knot {
                at: seen.at,
                log_ratio: log_ratio + believed(seen.log_ratio, ratios, NOISE),
                variance: relative.clamp(0.0, WIDEST).ln_1p(),
            }
        };
        self.knots.clear();
        self.knots.extend(self.seen.iter().map(knot));
    }

    /// The distance from which on deviations are the same.
    pub fn level_from(&self) -> u64 {
        self.knots.last().map_or(0, |knot| knot.at.exp2() as u64)
    }

    /// What accesses of `distance` have, if `expected` lines are expected of them.
    pub fn spread(&self, distance: ReuseDistance, expected: f64) -> Spread {
        let at = place(distance);
        let next = self.knots.partition_point(|knot| knot.at < at);
        self.spread_before(next, at, distance, expected)
    }

    /// The same, for distances that ascend from call to call: `from` is 0 at first and the knot found after that.
    pub fn spread_next(&self, distance: ReuseDistance, expected: f64, from: &mut usize) -> Spread {
        let at = place(distance);
        while self.knots.get(*from).is_some_and(|knot| knot.at < at) {
            *from += 1;
        }
        self.spread_before(*from, at, distance, expected)
    }

    /// `next` is the first knot that is not before `at`, the place of `distance`.
    fn spread_before(&self, next: usize, at: f64, distance: ReuseDistance, expected: f64) -> Spread {
        let Knot { log_ratio, variance, .. } = between(&self.knots, next, at);
        // There are at most as many lines as accesses, and one if there is any access.
        let mean = (expected * log_ratio.exp()).clamp(distance.0.min(1) as f64, distance.0 as f64);
        Spread { mean, variance }
    }
}

/// What lies at `at` between knots, of which there is one; `next` is the first that is not before.
fn between(knots: &[Knot], next: usize, at: f64) -> Knot {
    let after = knots[next.min(knots.len() - 1)];
    let before = knots[next.saturating_sub(1)];
    let share =
        if after.at > before.at { ((at - before.at) / (after.at - before.at)).clamp(0.0, 1.0) } else { 0.0 };
    let between = |a: f64, b: f64| a + (b - a) * share;
    let log_ratio = between(before.log_ratio, after.log_ratio);
    Knot { at, log_ratio, variance: between(before.variance, after.variance) }
}

/// The logarithm of the ratio and the squared coefficient of variation that are usual at `at`.
fn usual_at(usual: &[Knot], at: f64) -> (f64, f64) {
    if usual.is_empty() {
        return (0.0, 0.0);
    }
    let Knot { log_ratio, variance, .. } = between(usual, usual.partition_point(|knot| knot.at < at), at);
    (log_ratio, variance.exp_m1())
}

/// Where a distance lies between the knots.
fn place(distance: ReuseDistance) -> f64 {
    (distance.0 as f64 + 1.0).log2()
}

/// Variance of the true deviations around 0, from their estimates (DerSimonian and Laird's moments); 0 where noise
/// alone could have made them.
fn prior_variance(measured: impl Iterator<Item = Measured>) -> f64 {
    let (mut excess, mut weight, mut count) = (0.0, 0.0, 0.0_f64);
    for Measured { value, noise } in measured {
        excess += value * value / noise - 1.0;
        weight += 1.0 / noise;
        count += 1.0;
    }
    // The squares of `count` standard normal variables add up to `count` with a variance of twice that.
    if excess > SIGNIFICANT * (2.0 * count).sqrt() { excess / weight } else { 0.0 }
}

/// The deviation to expect after an estimate of it.
fn believed(measured: Measured, prior_variance: f64, share: f64) -> f64 {
    if prior_variance.is_infinite() {
        return measured.value; // all the noise is too large for a number, or none is
    }
    measured.value * prior_variance / (prior_variance + share * measured.noise)
}

/// What the samples of one distance, or of neighbouring ones, show: sums over them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    samples: f64,
    counted: f64, // lines
    awaited: f64, // lines that would be counted without deviation
    mean: f64,    // stack distances
    square: f64,  // squares of those
    first: f64,   // expected stack distances
    second: f64,  // squares of those
    covered: f64, // shares of accesses of this distance that were measured
    at: f64,      // as in `Knot`
    epochs: f64,  // no sum of samples: reuses of this distance that fit into the accesses one after the other
}

/// What `profile` shows, and from which distance on, ascending; `masses` are its distances.
pub fn evidence<'a>(
    profile: &'a ReuseProfile,
    masses: &'a [DistanceMass],
    expected: &'a ExpectedStack,
) -> impl Iterator<Item = (u64, Evidence)> + 'a {
    let accesses = profile.total_weight() as f64;
    let estimates = profile.stack_estimates().filter(|estimate| estimate.longest.0 > 0);
    estimates.map(move |one| (one.shortest.0, Evidence::of(&one, masses, expected, accesses)))
}

impl Evidence {
    fn of(
        estimate: &StackEstimate,
        masses: &[DistanceMass],
        expected: &ExpectedStack,
        accesses: f64,
    ) -> Self {
        let StackEstimate { shortest, longest, effective: n, gap, weight, mean, factorial, .. } = *estimate;
        let (all, longest) = (estimate.samples as f64, longest.0);
        let Accesses { at, first, second, probability } = Accesses::of(shortest.0, longest, masses, expected);
        Self {
            samples: n,
            counted: n * mean / gap,
            awaited: n * first / gap,
            mean: n * mean,
            square: n * (factorial + mean),
            first: n * first,
            second: n * second,
            covered: n * (all * weight / (accesses * probability)).min(1.0), // 1 if there are no others
            at: n * at,
            epochs: accesses * (n * gap / (all * weight)) / (longest as f64 + 1.0),
        }
    }

    /// Of other accesses.
    pub fn add(&mut self, other: &Self) {
        let epochs = self.epochs + other.epochs;
        *self = Self { epochs, ..self.join(other) };
    }

    /// Of the same accesses, at longer distances.
    fn join(&self, other: &Self) -> Self {
        if self.samples == 0.0 {
            return *other;
        }
        Self {
            samples: self.samples + other.samples,
            counted: self.counted + other.counted,
            awaited: self.awaited + other.awaited,
            mean: self.mean + other.mean,
            square: self.square + other.square,
            first: self.first + other.first,
            second: self.second + other.second,
            covered: self.covered + other.covered,
            at: self.at + other.at,
            epochs: self.epochs.min(other.epochs),
        }
    }

    fn seen(&self) -> Option<Seen> {
        if self.samples == 0.0 {
            return None;
        }
        let covered = self.covered / self.samples;
        let ratio = 1.0 + covered * ((self.counted + PRIOR) / (self.awaited + PRIOR) - 1.0);
        // E[x^2] / E[x]^2 - 1 of x = stack distance / expected one.
        let relative = (self.square / self.second) / (self.mean / self.first).powi(2) - 1.0;
        let relative = if relative.is_finite() { covered * relative.max(0.0) } else { 0.0 };
        // Epochs that overlap share their samples: so many do not.
        let apart = self.samples.min(self.epochs).max(1.0);
        let count = (self.awaited / self.samples).max(f64::MIN_POSITIVE);
        let share = covered * covered; // of the variance
        let ratios = (1.0 / count + relative.min(WIDEST)) / apart;
        let scatters = (2.0 / count + 4.0 * relative) / (count * apart);
        Some(Seen {
            at: self.at / self.samples,
            awaited: self.awaited,
            // Rounding can leave nothing of a ratio; counts of 64 bits have none below e^-100.
            log_ratio: Measured { value: ratio.ln().max(-100.0), noise: share * ratios },
            relative: Measured { value: relative, noise: share * scatters },
        })
    }
}

/// A profile's accesses with similar reuse distances.
#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    at: f64,          // mean place
    first: f64,       // mean of the expected stack distance
    second: f64,      // mean of its square
    probability: f64, // their share
}

impl Accesses {
    fn of(shortest: u64, longest: u64, masses: &[DistanceMass], expected: &ExpectedStack) -> Self {
        let start = masses.partition_point(|mass| mass.high < shortest);
        let mut sums = Self::default();
        for mass in masses[start..].iter().take_while(|mass| mass.low <= longest) {
            let distance = mass.middle().clamp(shortest, longest);
            let stack = expected.at(mass.middle());
            sums.probability += mass.probability;
            sums.at += mass.probability * place(ReuseDistance(distance));
            sums.first += mass.probability * stack;
            sums.second += mass.probability * stack * stack;
        }
        let weight = sums.probability;
        if weight > 0.0 {
            let (at, first, second) = (sums.at / weight, sums.first / weight, sums.second / weight);
            return Self { at, first, second, probability: weight };
        }
        // Samples that the profile counts elsewhere.
        let middle = shortest + (longest - shortest) / 2;
        let stack = expected.at(middle);
        Self { at: place(ReuseDistance(middle)), first: stack, second: stack * stack, probability: 0.0 }
    }
}
