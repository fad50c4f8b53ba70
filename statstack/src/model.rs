//! The fitted model: which reuse distances miss at a size, and how many accesses that is.

#[cfg(feature = "serde")]
mod saved;

use reuse_sampler::{
    CacheLines, CacheModel, Clock, DistanceMass, Evaluator, LineSize, ModelError, Reuse, ReuseDistance,
    ReuseDistribution, ReuseProfile, Scope,
};

use crate::Error;
use crate::correction::{self, Correction, Evidence, Knot, Spread};
use crate::expected::ExpectedStack;
use crate::normal;
use crate::prepared::Prepared;

/// Miss ratios of fully associative LRU caches of every size, from reuse distances.
///
/// # Formula
/// With P(D >= j) the fraction of accesses whose line is not touched again by the next j accesses, dangling
/// ones included, the expected stack distance of an access with reuse distance r is
///
/// ES(r) = sum over j = 1..r of P(D >= j),
///
/// and the access misses in a cache of L lines if ES(r) >= L, or if it dangles. A sample that another thread's store
/// [invalidated](reuse_sampler::Outcome::Invalidated) after r accesses counts in the sum as one reused after r, and misses.
///
/// The paper sums P(D > j). With distances that count the accesses strictly in between, j places back and not
/// touched for j or more accesses is what makes an access the last one to its line, so that the first formula
/// is the one that is exact where its assumption holds: a cyclic scan over L + 1 lines misses in L lines on
/// every access.
///
/// ES takes the accesses between two touches for average ones. Where the profile knows how its samples
/// [overlap](ReuseProfile::record_overlap), [`fit`](Self::fit) measures by how much they are not: the mean
/// stack distance at r is ES(r) times a ratio, single stack distances scatter around it log-normally, and an
/// access misses with the probability that its stack distance is at least L.
///
/// | constructor | sum | deviations |
/// |---|---|---|
/// | [`fit`](Self::fit) | P(D >= j) | where known |
/// | [`PooledCorrection::fit`](crate::PooledCorrection::fit) | P(D >= j) | where known, of the window or of the run |
/// | [`fit_distances`](Self::fit_distances) | P(D >= j) | left out |
/// | [`fit_published`](Self::fit_published) | P(D > j) | left out: the paper's model |
///
/// # Cost
/// O(bins of the profile) to fit and for each size of a curve; O(log bins) for one size where deviations are
/// left out or not known.
///
/// # References
/// Eklöv and Hagersten, *StatStack: Efficient Modeling of LRU Caches*, ISPASS 2010 (Eklöv, thesis, Paper I),
/// equations 1 to 7 and section I.3.5; its section I.5 on what the assumption leaves out.
#[cfg_attr(
    feature = "serde",
    doc = r"
# Saving
With the feature `serde`, a fitted model can be saved and read. What is read gives the same answers to the last bit, if the
format keeps numbers exactly (serde_json does with its feature `float_roundtrip`); a damaged model is refused.

```
use statstack::{CacheLines, CacheModel, LineSize, Outcome, ReuseDistance, ReuseProfile, StatStack};

let mut profile = ReuseProfile::new(LineSize::B64);
profile.record(Outcome::Reused(ReuseDistance(9)), 1);
profile.record(Outcome::Dangling, 1);
let saved = serde_json::to_string(&StatStack::fit(&profile)?)?;
let model: StatStack = serde_json::from_str(&saved)?;
assert_eq!(model.miss_ratio(CacheLines(100)), 0.5);
# Ok::<(), Box<dyn std::error::Error>>(())
```
"
)]
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "saved::Saved", into = "saved::Saved"))]
pub struct StatStack {
    line_size: LineSize,
    scope: Scope,
    distribution: ReuseDistribution,
    expected: ExpectedStack,
    beyond: Vec<f64>,      // beyond[k] = probability of masses k.., dangling and unresolved
    invalidated: Vec<f64>, // invalidated[k] = probability of masses ..k that is taken away by other threads
    asked: Law,
    law: Law, // as asked, or Distances where there is nothing to correct by
    correction: Correction,
    pieces: Vec<Piece>, // by mass, if corrected
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
enum Law {
    Published,
    Distances,
    Corrected,
}

/// What a mass needs to be judged at any size.
#[derive(Clone, Copy, Debug)]
struct Piece {
    probability: f64,
    high: u64,
    stack: Stack,
}

/// The stack distances of a mass.
#[derive(Clone, Copy, Debug)]
enum Stack {
    /// All alike: the means at its lower and at its upper end.
    Between(f64, f64),
    /// Scattered, as they are at its middle.
    Scattered(Scatter),
}

impl StatStack {
    /// Fits the model to the samples of `profile`, corrected by what overlapping samples show of stack
    /// distances, if there are any.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`] without samples, [`Error::Clock`] if distances do not count accesses.
    pub fn fit(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, Law::Corrected)
    }

    /// Fits the model anew, as it was fitted first, to a profile that has grown by another window or is another one
    /// altogether.
    ///
    /// The memory of the fit is used again: once it has seen as many different distances, nothing is allocated. With
    /// [`ReuseProfile::record_window`] or [`merge`](ReuseProfile::merge) before it and
    /// [`curve_into`](CacheModel::curve_into) after it, that is all a scheduler needs to do as windows arrive.
    ///
    /// ```
    /// use reuse_sampler::{CacheLines, CacheModel, LineSize, Outcome, ReuseDistance, ReuseProfile};
    /// use statstack::StatStack;
    ///
    /// let mut profile = ReuseProfile::new(LineSize::B64);
    /// profile.record(Outcome::Reused(ReuseDistance(9)), 1);
    /// let mut model = StatStack::fit(&profile)?;
    /// let mut curve = model.curve(&[CacheLines(4), CacheLines(16)]);
    /// profile.record(Outcome::Reused(ReuseDistance(99)), 1); // another window
    /// model.refit(&profile)?;
    /// model.curve_into(&mut curve);
    /// assert_eq!(curve, StatStack::fit(&profile)?.curve(&[CacheLines(4), CacheLines(16)]));
    /// # Ok::<(), statstack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`fit`](Self::fit); the model is then what it was.
    pub fn refit(&mut self, profile: &ReuseProfile) -> Result<(), Error> {
        check(profile)?;
        (self.line_size, self.scope) = (profile.line_size(), profile.scope());
        profile.distribution_into(&mut self.distribution);
        self.sum_up();
        if self.asked == Law::Corrected
            && self.correction.fit(profile, self.distribution.masses(), &self.expected)
        {
            self.correct();
        }
        Ok(())
    }

    /// Everything that follows from the distribution alone.
    fn sum_up(&mut self) {
        let masses = self.distribution.masses();
        // Summed up from the far end, so that a small tail keeps its relative precision.
        self.beyond.clear();
        self.beyond.resize(masses.len() + 1, self.distribution.dangling() + self.distribution.unresolved());
        for (k, mass) in masses.iter().enumerate().rev() {
            self.beyond[k] = self.beyond[k + 1] + mass.probability;
        }
        self.invalidated.clear();
        self.invalidated.push(0.0);
        let mut sum = 0.0;
        self.invalidated.extend(masses.iter().map(|mass| {
            sum += mass.invalidated;
            sum
        }));
        // A line that is taken away is on the stack no longer, as if its touch had been its last one.
        self.expected.fit(&self.distribution, &self.beyond);
        self.law = if self.asked == Law::Corrected { Law::Distances } else { self.asked };
    }

    /// Everything that follows from a correction that was fitted.
    fn correct(&mut self) {
        self.law = Law::Corrected;
        let masses = self.distribution.masses();
        let (mut segment, mut knot) = (0, 0);
        let mut spread = |distance| {
            let expected = self.expected.at_next(distance, &mut segment);
            self.correction.spread_next(ReuseDistance(distance), expected, &mut knot)
        };
        let piece = |mass: &DistanceMass| {
            let low = spread(mass.low);
            let middle = if mass.low == mass.high { low } else { spread(mass.middle()) };
            let stack = match Scatter::of(middle) {
                Some(scatter) => Stack::Scattered(scatter),
                None if mass.low == mass.high => Stack::Between(low.mean, low.mean),
                None => Stack::Between(low.mean, spread(mass.high).mean),
            };
            Piece { probability: mass.probability - mass.invalidated, high: mass.high, stack }
        };
        self.pieces.clear();
        self.pieces.extend(masses.iter().map(piece));
    }

    /// Fits the model to reuse distances alone.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_distances(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, Law::Distances)
    }

    /// Fits the model with the sum as the paper prints it: ES(r) = sum over j = 1..r of P(D > j).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_published(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, Law::Published)
    }

    /// As [`fit`](Self::fit), with these deviations where the samples do not show others.
    pub(crate) fn fit_expecting(profile: &ReuseProfile, usual: &[Knot]) -> Result<Self, Error> {
        let mut model = Self::unfitted(profile.line_size(), profile.scope(), Law::Corrected);
        model.correction.expect(usual);
        model.refit(profile)?;
        Ok(model)
    }

    /// What the overlaps of the profile that it was fitted to show, as [`correction::evidence`].
    pub(crate) fn evidence<'a>(
        &'a self,
        profile: &'a ReuseProfile,
    ) -> impl Iterator<Item = (u64, Evidence)> + 'a {
        correction::evidence(profile, self.distribution.masses(), &self.expected)
    }

    fn with(profile: &ReuseProfile, law: Law) -> Result<Self, Error> {
        let mut model = Self::unfitted(profile.line_size(), profile.scope(), law);
        model.refit(profile)?;
        Ok(model)
    }

    fn unfitted(line_size: LineSize, scope: Scope, law: Law) -> Self {
        Self {
            line_size,
            scope,
            distribution: ReuseDistribution::default(),
            expected: ExpectedStack::default(),
            beyond: Vec::new(),
            invalidated: Vec::new(),
            asked: law,
            law,
            correction: Correction::default(),
            pieces: Vec::new(),
        }
    }

    /// Mean number of distinct lines among the accesses between two touches of a line that are `distance`
    /// accesses apart, in lines: the expected stack distance, corrected if the model is.
    #[must_use]
    pub fn expected_stack_distance(&self, distance: ReuseDistance) -> f64 {
        match self.law {
            Law::Published => {
                let between = self.expected.at(distance.0.saturating_add(1)) - self.expected.at(1);
                between.min(distance.0 as f64) // beyond 2^53 the sums are rounded
            }
            Law::Distances => self.expected.at(distance.0),
            Law::Corrected => self.correction.spread(distance, self.expected.at(distance.0)).mean,
        }
    }

    /// The reuse distance at which the [expected stack distance](Self::expected_stack_distance) reaches
    /// `size`; the largest one if none does. Without a correction, every access reused later misses and every
    /// other hits.
    #[must_use]
    pub fn first_miss(&self, size: CacheLines) -> ReuseDistance {
        if size.0 == 0 {
            return ReuseDistance(0);
        }
        let lines = size.0 as f64;
        ReuseDistance(match self.law {
            Law::Published => match self.expected.first_reaching(lines + self.expected.at(1)) {
                u64::MAX => u64::MAX,
                distance => distance.saturating_sub(1),
            },
            Law::Distances => self.expected.first_reaching(lines),
            Law::Corrected => {
                let (mut low, mut high) = (0, u64::MAX); // reached at `high`, or nowhere
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if self.expected_stack_distance(ReuseDistance(middle)) < lines {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                high
            }
        })
    }

    /// Lowest and highest miss ratio that the samples leave possible: accesses lost sight of before their
    /// reuse may have been reused right away, or never. Both are [`miss_ratio`](CacheModel::miss_ratio) where
    /// nothing was left unresolved.
    #[must_use]
    pub fn miss_ratio_bounds(&self, size: CacheLines) -> (f64, f64) {
        let high = self.miss_ratio(size);
        let (unresolved, horizon) = (self.distribution.unresolved(), self.distribution.horizon());
        let at_horizon = match self.law {
            Law::Published | Law::Distances => f64::from(u8::from(horizon >= self.first_miss(size).0)),
            Law::Corrected => self.corrected(horizon, size),
        };
        ((high - unresolved * (1.0 - at_horizon)).max(0.0), high)
    }

    /// The ratio of accesses that are reused from `first_miss` on, never, or not before another thread takes the line.
    fn ratio_from(&self, first_miss: ReuseDistance) -> f64 {
        if first_miss.0 == 0 {
            return 1.0; // not a sum that rounding could leave below
        }
        let masses = self.distribution.masses();
        let next = masses.partition_point(|mass| mass.high < first_miss.0);
        let missing =
            self.beyond.get(next + 1).copied().unwrap_or(self.beyond[next]) + self.invalidated[next];
        let Some(mass) = masses.get(next) else { return missing.min(1.0) };
        let width = (mass.high - mass.low) as f64 + 1.0;
        let part = ((mass.high - first_miss.0.max(mass.low)) as f64 + 1.0) / width;
        (missing + mass.probability * part + mass.invalidated * (1.0 - part)).min(1.0)
    }

    /// The ratio of accesses whose stack distance is at least `size`.
    fn corrected_ratio(&self, size: CacheLines) -> f64 {
        if size.0 == 0 {
            return 1.0;
        }
        // A stack distance is never longer than the reuse distance.
        let start = self.pieces.partition_point(|piece| piece.high < size.0);
        let lines = size.0 as f64;
        let log_lines = (lines - 0.5).ln();
        let misses = |piece: &Piece| piece.probability * piece.misses(lines, log_lines);
        let reused: f64 = self.pieces[start..].iter().map(misses).sum();
        (reused + self.beyond[self.pieces.len()] + self.invalidated[self.pieces.len()]).min(1.0)
    }

    fn corrected(&self, distance: u64, size: CacheLines) -> f64 {
        if distance < size.0 {
            return 0.0;
        }
        let spread = self.correction.spread(ReuseDistance(distance), self.expected.at(distance));
        let lines = size.0 as f64;
        match Scatter::of(spread) {
            Some(scatter) if lines >= 1.0 => scatter.exceeds((lines - 0.5).ln()),
            _ => f64::from(u8::from(spread.mean >= lines * (1.0 - 1e-10))),
        }
    }
}

fn check(profile: &ReuseProfile) -> Result<(), Error> {
    if profile.is_empty() {
        return Err(Error::EmptyProfile);
    }
    if profile.clock() != Clock::Accesses {
        return Err(Error::Clock { found: profile.clock() });
    }
    Ok(())
}

impl Piece {
    fn misses(&self, lines: f64, log_lines: f64) -> f64 {
        match self.stack {
            Stack::Scattered(scatter) => scatter.exceeds(log_lines),
            Stack::Between(lowest, _) if lowest >= lines => 1.0,
            Stack::Between(lowest, highest) if highest <= lines => {
                f64::from(u8::from(highest == lines && lowest == highest))
            }
            Stack::Between(lowest, highest) => (highest - lines) / (highest - lowest),
        }
    }
}

/// Stack distances whose logarithms are normal.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    middle: f64,    // mean of the logarithm
    steepness: f64, // 1 / its standard deviation
}

impl Scatter {
    /// `None` without scatter.
    fn of(spread: Spread) -> Option<Self> {
        // The logarithm of the mean is half a variance above the mean of the logarithm.
        (spread.variance > 0.0).then(|| Self {
            middle: spread.mean.ln() - 0.5 * spread.variance,
            steepness: 1.0 / spread.variance.sqrt(),
        })
    }

    /// Probability that a stack distance is at least `size`, at least 1; `log_lines` is the logarithm of half a
    /// line less: stack distances are whole numbers.
    fn exceeds(&self, log_lines: f64) -> f64 {
        let z = (self.middle - log_lines) * self.steepness;
        if z > 6.0 {
            1.0
        } else if z < -6.0 {
            0.0
        } else {
            normal::below(z)
        }
    }
}

/// `docs/model-accuracy.md` names the programs and streams that these were chosen on, modelled by windows that differ.
const ERROR: ModelError = ModelError { floor: 5e-4, slope: 0.03 };

impl CacheModel for StatStack {
    fn line_size(&self) -> LineSize {
        self.line_size
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        match self.law {
            Law::Corrected if size.0 > 0 => {
                let law = move |distance| self.corrected(distance, size);
                let prepared = Prepared::new(size.0, self.correction.level_from(), law);
                Evaluator::function(move |distance| prepared.at(distance, law))
            }
            _ => Evaluator::step(self.first_miss(size)),
        }
    }

    fn miss_probability(&self, reuse: Reuse, size: CacheLines) -> f64 {
        let Reuse::Distance(distance) = reuse else { return 1.0 };
        match self.law {
            Law::Corrected if size.0 > 0 => self.corrected(distance.0, size),
            _ => f64::from(u8::from(distance >= self.first_miss(size))),
        }
    }

    fn standard_error(&self, size: CacheLines) -> f64 {
        ERROR.of(self, size)
    }

    /// Accesses lost sight of count as misses: see [`miss_ratio_bounds`](StatStack::miss_ratio_bounds).
    fn miss_ratio(&self, size: CacheLines) -> f64 {
        match self.law {
            Law::Corrected => self.corrected_ratio(size),
            Law::Published | Law::Distances => self.ratio_from(self.first_miss(size)),
        }
    }
}
