//! The fitted model: which reuse distances miss at a size, and how many accesses that is.

use reuse_sampler::{
    CacheLines, CacheModel, Clock, DistanceMass, Evaluator, LineSize, ReuseDistance, ReuseDistribution,
    ReuseProfile,
};

use crate::Error;
use crate::expected::ExpectedStack;

/// Miss ratios of fully associative LRU caches of every size, from reuse distances.
///
/// # Formula
/// With P(D >= j) the fraction of accesses whose line is not touched again by the next j accesses, dangling
/// ones included, the expected stack distance of an access with reuse distance r is
///
/// ES(r) = sum over j = 1..r of P(D >= j),
///
/// and the access misses in a cache of L lines if ES(r) >= L, or if it dangles.
///
/// The paper sums P(D > j). With distances that count the accesses strictly in between, j places back and not
/// touched for j or more accesses is what makes an access the last one to its line, so that the first formula
/// is the one that is exact where its assumption holds: a cyclic scan over L + 1 lines misses L lines on every
/// access. [`fit_published`](Self::fit_published) keeps the other.
///
/// # Cost
/// O(bins of the profile) to fit and for a curve of any number of sizes, O(log bins) for one size.
///
/// # References
/// Eklöv and Hagersten, *StatStack: Efficient Modeling of LRU Caches*, ISPASS 2010 (Eklöv, thesis, Paper I),
/// equations 1 to 7 and section I.3.5.
#[derive(Clone, Debug)]
pub struct StatStack {
    line_size: LineSize,
    expected: ExpectedStack,
    masses: Vec<DistanceMass>,
    beyond: Vec<f64>, // beyond[k] = probability of masses k.., dangling and unresolved
    unresolved: f64,
    horizon: u64,
    published: bool,
}

impl StatStack {
    /// Fits the model to the samples of `profile`.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`] without samples, [`Error::Clock`] if distances do not count accesses.
    pub fn fit(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, false)
    }

    /// Fits the model with the sum as the paper prints it: ES(r) = sum over j = 1..r of P(D > j).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_published(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, true)
    }

    fn with(profile: &ReuseProfile, published: bool) -> Result<Self, Error> {
        if profile.is_empty() {
            return Err(Error::EmptyProfile);
        }
        if profile.clock() != Clock::Accesses {
            return Err(Error::Clock { found: profile.clock() });
        }
        Ok(Self::of(profile.line_size(), &profile.distribution(), published))
    }

    fn of(line_size: LineSize, distribution: &ReuseDistribution, published: bool) -> Self {
        let masses = distribution.masses().to_vec();
        let mut beyond = vec![distribution.dangling() + distribution.unresolved(); masses.len() + 1];
        for (k, mass) in masses.iter().enumerate().rev() {
            beyond[k] = beyond[k + 1] + mass.probability;
        }
        Self {
            line_size,
            expected: ExpectedStack::new(distribution),
            masses,
            beyond,
            unresolved: distribution.unresolved(),
            horizon: distribution.horizon(),
            published,
        }
    }

    /// Expected number of distinct lines among the accesses between two to the same line, in lines.
    #[must_use]
    pub fn expected_stack_distance(&self, distance: ReuseDistance) -> f64 {
        if self.published {
            self.expected.at(distance.0.saturating_add(1)) - self.expected.at(1)
        } else {
            self.expected.at(distance.0)
        }
    }

    /// Smallest reuse distance that misses in a cache of `size`: every access reused later does too.
    #[must_use]
    pub fn first_miss(&self, size: CacheLines) -> ReuseDistance {
        if size.0 == 0 {
            return ReuseDistance(0);
        }
        let lines = size.0 as f64;
        ReuseDistance(if self.published {
            match self.expected.first_reaching(lines + self.expected.at(1)) {
                u64::MAX => u64::MAX,
                distance => distance.saturating_sub(1),
            }
        } else {
            self.expected.first_reaching(lines)
        })
    }

    /// Lowest and highest miss ratio that the samples leave possible: accesses lost sight of before their
    /// reuse may have been reused right away, or never. Both are [`miss_ratio`](CacheModel::miss_ratio) where
    /// nothing was left unresolved.
    #[must_use]
    pub fn miss_ratio_bounds(&self, size: CacheLines) -> (f64, f64) {
        let first_miss = self.first_miss(size);
        let high = self.ratio_from(first_miss);
        let low = if first_miss.0 > self.horizon { high - self.unresolved } else { high };
        (low.max(0.0), high)
    }

    fn ratio_from(&self, first_miss: ReuseDistance) -> f64 {
        if first_miss.0 == 0 {
            return 1.0; // not a sum that rounding could leave below
        }
        let next = self.masses.partition_point(|mass| mass.high < first_miss.0);
        let Some(mass) = self.masses.get(next) else { return self.beyond[next].min(1.0) };
        let width = (mass.high - mass.low) as f64 + 1.0;
        let missing = (mass.high - first_miss.0.max(mass.low)) as f64 + 1.0;
        (self.beyond[next + 1] + mass.probability * (missing / width)).min(1.0)
    }
}

impl CacheModel for StatStack {
    fn line_size(&self) -> LineSize {
        self.line_size
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        Evaluator::step(self.first_miss(size))
    }

    /// Accesses lost sight of count as misses: see [`miss_ratio_bounds`](StatStack::miss_ratio_bounds).
    fn miss_ratio(&self, size: CacheLines) -> f64 {
        self.ratio_from(self.first_miss(size))
    }
}
