//! The fitted model: at which miss ratio replacements and reuses agree, for each cache size.

use reuse_sampler::{
    CacheLines, CacheModel, Clock, Evaluator, LineSize, MissRatioCurve, ReuseDistance, ReuseProfile,
};

use crate::Error;

/// Miss ratios of fully associative caches with random replacement, of every size, from reuse distances.
///
/// # Formula
/// Each replacement evicts a given line of L with probability 1/L, so that n replacements evict it with
/// probability f(n) = 1 - (1 - 1/L)^n. In i accesses there are i R replacements at miss ratio R. R solves
///
/// `R N = sum over i of h[i] f(i R) + dangling`
///
/// with `h[i]` of N samples reused at distance i. The right side is concave in R: the equation has one solution
/// above zero, or none besides zero if nothing dangles and the cache holds everything.
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
    pieces: Vec<(f64, f64)>, // distance > 0, probability
    dangling: f64,
    unresolved: f64,
    horizon: f64,
}

impl StatCache {
    /// Fits the model to the samples of `profile`.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`] without samples, [`Error::Clock`] if distances do not count accesses.
    pub fn fit(profile: &ReuseProfile) -> Result<Self, Error> {
        if profile.is_empty() {
            return Err(Error::EmptyProfile);
        }
        if profile.clock() != Clock::Accesses {
            return Err(Error::Clock { found: profile.clock() });
        }
        let distribution = profile.distribution();
        let pieces = distribution.masses().iter().filter(|mass| mass.high > 0);
        Ok(Self {
            line_size: profile.line_size(),
            pieces: pieces.map(|mass| (mass.middle() as f64, mass.probability)).collect(),
            dangling: distribution.dangling(),
            unresolved: distribution.unresolved(),
            horizon: distribution.horizon() as f64,
        })
    }

    /// Lowest and highest miss ratio that the samples leave possible: accesses lost sight of before their
    /// reuse may have been reused right away, or never. Both are [`miss_ratio`](CacheModel::miss_ratio) where
    /// nothing was left unresolved.
    #[must_use]
    pub fn miss_ratio_bounds(&self, size: CacheLines) -> (f64, f64) {
        let high = self.solve(size, 1.0);
        (if self.unresolved > 0.0 { self.solve_with(size, high, Some(self.horizon)) } else { high }, high)
    }

    fn solve(&self, size: CacheLines, above: f64) -> f64 {
        self.solve_with(size, above, None)
    }

    /// Largest R with R = sum of p f(i R) + dangling. `above` is at least that R. What is unresolved misses,
    /// or is reused at distance `unresolved_at`.
    fn solve_with(&self, size: CacheLines, above: f64, unresolved_at: Option<f64>) -> f64 {
        let lost = unresolved_at.map(|distance| (distance, self.unresolved));
        let certain = self.dangling + if lost.is_some() { 0.0 } else { self.unresolved };
        let pieces = || self.pieces.iter().copied().chain(lost);
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
                let rate = per_miss * distance;
                let survives = (-rate * ratio).exp();
                misses += probability * (1.0 - survives);
                slope += probability * rate * survives;
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
        match size.0 {
            0 => Evaluator::step(ReuseDistance(0)),
            1 => Evaluator::step(ReuseDistance(1)),
            _ => Evaluator::geometric(self.solve(size, 1.0) * eviction_rate(size)),
        }
    }

    /// Accesses lost sight of count as misses: see [`miss_ratio_bounds`](StatCache::miss_ratio_bounds).
    fn miss_ratio(&self, size: CacheLines) -> f64 {
        self.solve(size, 1.0)
    }

    fn curve(&self, sizes: &[CacheLines]) -> MissRatioCurve {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|&k| sizes[k]);
        let mut points: Vec<_> = sizes.iter().map(|&size| (size, 0.0)).collect();
        let mut above = 1.0;
        for k in order {
            // The miss ratio never rises with size; the margin is for rounding.
            above = self.solve(sizes[k], above);
            points[k].1 = above;
            above = (above * (1.0 + 1e-9)).min(1.0);
        }
        MissRatioCurve { line_size: self.line_size, points }
    }
}
