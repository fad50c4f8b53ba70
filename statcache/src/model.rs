//! The fitted model: at which miss ratio replacements and reuses agree, for each cache size.

use reuse_sampler::{
    CacheLines, CacheModel, Clock, Evaluator, LineSize, MissRatioCurve, Reuse, ReuseDistance,
    ReuseDistribution, ReuseProfile,
};

use crate::Error;
use crate::filling::Filling;
use crate::law::Law;

/// Miss ratios of fully associative caches with random replacement, of every size, from reuse distances.
///
/// # Formula
/// Each replacement evicts a given line of L with probability 1/L, so that n replacements evict it with
/// probability f(n) = 1 - (1 - 1/L)^n. In i accesses there are i R replacements at miss ratio R. R solves
///
/// `R N = sum over i of h[i] f(i R) + dangling`
///
/// with `h[i]` of N samples reused at distance i. The right side is concave in R: the equation has one
/// solution above zero, or none besides zero if nothing dangles and the cache holds everything.
///
/// # Cost
/// O(bins of the profile) per iteration of Newton's method, some five iterations per size; a curve starts
/// each size from the solution of the one below it.
///
/// # References
/// Berg and Hagersten, *StatCache*, ISPASS 2004; Sembrant et al., CGO 2012, equation 1; Eklöv, thesis,
/// equation 3.1.
#[derive(Clone, Debug)]
pub struct StatCache {
    line_size: LineSize,
    distribution: ReuseDistribution,
    pieces: Vec<(f64, f64)>,  // distance > 0, probability
    near: f64,                // probability of distance 0
    filling: Option<Filling>, // of a cache that was empty at the beginning
}

impl StatCache {
    /// Fits the model to the samples of `profile`, for a cache that was full all along. This is the published
    /// model, and the right one for a window or a phase of a longer run.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`] without samples, [`Error::Clock`] if distances do not count accesses.
    pub fn fit(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, None)
    }

    /// Fits the model to the samples of a whole run that began with an empty cache: nothing is replaced until
    /// the cache is full.
    ///
    /// The time until then is the time in which the program is expected to touch as many different lines as
    /// the cache has. Up to it only first touches miss; after it, an access finds its line evicted only by the
    /// replacements since. A run that touches no more lines than fit misses exactly its first touches.
    ///
    /// The run's length is what the profile [stands for](ReuseProfile::accesses), or the weight of its samples
    /// if that is not known.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_from_empty(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::with(profile, Some(Filling::default()))
    }

    fn with(profile: &ReuseProfile, filling: Option<Filling>) -> Result<Self, Error> {
        let mut model = Self {
            line_size: profile.line_size(),
            distribution: ReuseDistribution::default(),
            pieces: Vec::new(),
            near: 0.0,
            filling,
        };
        model.refit(profile)?;
        Ok(model)
    }

    /// Fits the model anew, as it was fitted first, to a profile that has grown by another window or is another one
    /// altogether.
    ///
    /// The memory of the fit is used again: once it has seen as many different distances, nothing is allocated, and
    /// nothing by [`curve_into`](CacheModel::curve_into).
    ///
    /// # Errors
    /// As [`fit`](Self::fit); the model is then what it was.
    pub fn refit(&mut self, profile: &ReuseProfile) -> Result<(), Error> {
        if profile.is_empty() {
            return Err(Error::EmptyProfile);
        }
        if profile.clock() != Clock::Accesses {
            return Err(Error::Clock { found: profile.clock() });
        }
        self.line_size = profile.line_size();
        profile.distribution_into(&mut self.distribution);
        let masses = self.distribution.masses();
        let far = masses.partition_point(|mass| mass.high == 0);
        self.near = masses[..far].iter().map(|mass| mass.probability).sum();
        self.pieces.clear();
        self.pieces.extend(masses[far..].iter().map(|mass| (mass.middle() as f64, mass.probability)));
        if let Some(filling) = &mut self.filling {
            let accesses = if profile.accesses() > 0 { profile.accesses() } else { profile.total_weight() };
            filling.fit(&self.distribution, accesses);
        }
        Ok(())
    }

    /// Lowest and highest miss ratio that the samples leave possible: accesses lost sight of before their
    /// reuse may have been reused right away, or never. Both are [`miss_ratio`](CacheModel::miss_ratio) where
    /// nothing was left unresolved.
    #[must_use]
    pub fn miss_ratio_bounds(&self, size: CacheLines) -> (f64, f64) {
        let high = self.ratio(size, None);
        let horizon = self.distribution.horizon() as f64;
        (if self.distribution.unresolved() > 0.0 { self.ratio(size, Some(horizon)) } else { high }, high)
    }

    /// The miss ratio of all accesses; what is unresolved misses, or is reused at distance `unresolved_at`.
    fn ratio(&self, size: CacheLines, unresolved_at: Option<f64>) -> f64 {
        let Some(law) = self.law(size) else {
            return self.filling.as_ref().map_or(0.0, Filling::first_touches);
        };
        let ratio = self.solve(size, 1.0, unresolved_at, law);
        match law {
            Law::Full => ratio,
            // Up to the filling, one miss per line of the cache.
            Law::Filled { full_at, accesses } => {
                ((size.0 as f64 + (accesses - full_at) * ratio) / accesses).min(1.0)
            }
        }
    }

    /// `None` if the cache never becomes full.
    fn law(&self, size: CacheLines) -> Option<Law> {
        match &self.filling {
            None => Some(Law::Full),
            Some(filling) => {
                let accesses = filling.accesses();
                filling.full_at(size).map(|full_at| Law::Filled { full_at, accesses })
            }
        }
    }

    /// Largest R with R = sum of p f(i R) + first touches, both of the accesses since the cache was full.
    /// `above` is at least that R.
    fn solve(&self, size: CacheLines, above: f64, unresolved_at: Option<f64>, law: Law) -> f64 {
        let unresolved = self.distribution.unresolved();
        let lost = unresolved_at.map(|distance| (distance, unresolved));
        let never = self.distribution.dangling() + if lost.is_some() { 0.0 } else { unresolved };
        let pieces = || self.pieces.iter().copied().chain(lost);
        // Since the filling, only lines that did not fit are touched first, and the rest are reuses.
        let (certain, share) = match law {
            Law::Full => (never, 1.0),
            Law::Filled { full_at, accesses } => {
                let after = accesses - full_at;
                let certain = ((never * accesses - size.0 as f64) / after).clamp(0.0, 1.0);
                let far: f64 = pieces().map(|(i, p)| p * law.share(i)).sum();
                let reused = self.near * law.share(0.0) + far;
                (certain, if reused > 0.0 { (1.0 - certain) / reused } else { 0.0 })
            }
        };
        let pieces = || pieces().map(move |(i, p)| (i, share * p));
        if size.0 == 0 {
            return 1.0;
        }
        let per_miss = eviction_rate(size);
        if per_miss.is_infinite() {
            // One line: whatever comes in between evicts it.
            let far: f64 = pieces().filter(|&(distance, _)| distance > 0.0).map(|(_, p)| p).sum();
            return (certain + far).min(1.0);
        }
        // g(R) = sum p f(i R) + certain - R is concave, so Newton's method started to the right of its largest
        // root stays to the right of it and converges monotonically.
        let mut ratio = above;
        for _ in 0..ITERATIONS {
            let mut misses = certain;
            let mut slope = 0.0;
            for (distance, probability) in pieces() {
                let (evicted, by_rate) = law.evicted(distance, per_miss * ratio);
                misses += probability * evicted;
                slope += probability * by_rate * per_miss;
            }
            if slope >= 1.0 {
                break; // at a double root, to the precision of the sums
            }
            let next = ((misses - slope * ratio) / (1.0 - slope)).clamp(0.0, ratio);
            if ratio - next <= 1e-12 * ratio {
                return next;
            }
            ratio = next;
        }
        ratio
    }
}

/// Newton's method doubles the digits in each step; at a double root it gains one bit per step.
const ITERATIONS: u32 = 60;

/// -ln(1 - 1/L): the rate at which misses evict a given line.
fn eviction_rate(size: CacheLines) -> f64 {
    -(-1.0 / size.0 as f64).ln_1p()
}

impl CacheModel for StatCache {
    fn line_size(&self) -> LineSize {
        self.line_size
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        if size.0 <= 1 {
            return Evaluator::step(ReuseDistance(size.0));
        }
        let Some(law) = self.law(size) else { return Evaluator::function(|_| 0.0) };
        let rate = self.solve(size, 1.0, None, law) * eviction_rate(size);
        match law {
            Law::Full => Evaluator::geometric(rate),
            Law::Filled { .. } => Evaluator::function(move |distance| law.evicted(distance.0 as f64, rate).0),
        }
    }

    fn miss_probability(&self, reuse: Reuse, size: CacheLines) -> f64 {
        let Reuse::Distance(distance) = reuse else { return 1.0 };
        if size.0 <= 1 {
            return f64::from(u8::from(distance.0 >= size.0));
        }
        let Some(law) = self.law(size) else { return 0.0 };
        let rate = self.solve(size, 1.0, None, law) * eviction_rate(size);
        match law {
            Law::Full => -(-rate * distance.0 as f64).exp_m1(),
            Law::Filled { .. } => law.evicted(distance.0 as f64, rate).0,
        }
    }

    /// Accesses lost sight of count as misses: see [`miss_ratio_bounds`](StatCache::miss_ratio_bounds).
    fn miss_ratio(&self, size: CacheLines) -> f64 {
        self.ratio(size, None)
    }

    fn curve(&self, sizes: &[CacheLines]) -> MissRatioCurve {
        let points = sizes.iter().map(|&size| (size, 0.0)).collect();
        let mut curve = MissRatioCurve { line_size: self.line_size, points };
        self.curve_into(&mut curve);
        curve
    }

    /// Quickest where sizes ascend.
    fn curve_into(&self, curve: &mut MissRatioCurve) {
        curve.line_size = self.line_size;
        let mut known = (CacheLines(0), 1.0);
        for (size, miss_ratio) in &mut curve.points {
            *miss_ratio = if self.filling.is_some() {
                self.ratio(*size, None)
            } else {
                // The miss ratio never rises with size; the margin is for rounding.
                let above = if *size >= known.0 { known.1 } else { 1.0 };
                let ratio = self.solve(*size, above, None, Law::Full);
                known = (*size, (ratio * (1.0 + 1e-9)).min(1.0));
                ratio
            };
        }
    }
}
