//! The fitted model: at which miss ratio replacements and reuses agree, for each cache size.

#[cfg(feature = "serde")]
mod saved;

use std::sync::Arc;

use reuse_sampler::{
    CacheLines, CacheModel, Clock, Evaluator, LineSize, MissRatioCurve, ModelError, ReuseDistance,
    ReuseDistribution, ReuseProfile, Scope, merge_alike,
};

use crate::Error;
use crate::concentration::Concentration;
use crate::course::{Course, eviction_rate};

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
#[cfg_attr(
    feature = "serde",
    doc = r"
# Saving
With the feature `serde`, a fitted model can be saved and read. What is read gives the same answers to the last bit, if the
format keeps numbers exactly (serde_json does with its feature `float_roundtrip`); a damaged model is refused.

```
use statcache::{CacheLines, CacheModel, LineSize, Outcome, ReuseDistance, ReuseProfile, StatCache};

let mut profile = ReuseProfile::new(LineSize::B64);
profile.record_many(Outcome::Reused(ReuseDistance(999)), 10_000, 1);
let model = StatCache::fit(&profile)?;
let read: StatCache = serde_json::from_str(&serde_json::to_string(&model)?)?;
assert_eq!(read.miss_ratio(CacheLines(500)), model.miss_ratio(CacheLines(500)));
# Ok::<(), Box<dyn std::error::Error>>(())
```
"
)]
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "saved::Saved", into = "saved::Saved"))]
pub struct StatCache {
    line_size: LineSize,
    scope: Scope,
    distribution: ReuseDistribution,
    pieces: Vec<(f64, f64)>, // distance > 0, probability
    taken: Vec<(f64, f64)>,  // distance and probability of what other threads take
    in_time: Option<InTime>, // of a run that begins with an empty cache
}

/// A run, followed through time.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct InTime {
    course: Course,
    lowest: Option<Course>, // if what is unresolved is reused as early as can be; `None` if nothing is unresolved
}

impl StatCache {
    /// Fits the model to the samples of `profile`, for a cache that was full all along. This is the published
    /// model, and the right one for a window or a phase of a longer run.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`] without samples, [`Error::Clock`] if distances do not count accesses.
    pub fn fit(profile: &ReuseProfile) -> Result<Self, Error> {
        let mut model = Self {
            line_size: profile.line_size(),
            scope: profile.scope(),
            distribution: ReuseDistribution::default(),
            pieces: Vec::new(),
            taken: Vec::new(),
            in_time: None,
        };
        model.refit(profile)?;
        Ok(model)
    }

    /// Fits the model to the samples of a whole run that began with an empty cache: nothing is evicted until the cache
    /// is full. A run that touches no more lines than fit misses exactly its first touches.
    ///
    /// The run's length is its number of [accesses](ReuseProfile::accesses), or the weight of its samples if that is
    /// not known. Where the windows of the run are known, use [`fit_in_time`](Self::fit_in_time).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_from_empty(profile: &ReuseProfile) -> Result<Self, Error> {
        Self::fit_in_time(std::slice::from_ref(profile))
    }

    /// Fits the model to a whole run that began with an empty cache, window by window: the misses between two touches of
    /// a line are those of the time between them, not average ones.
    ///
    /// `windows` are consecutive and in order, each with the samples that it *started* (as
    /// [`GroupedProfiles`](reuse_sampler::GroupedProfiles) by window number gives them). Give many, up to a
    /// thousand, but not more than one for 50 samples: windows that the samples do not distinguish from their neighbours are
    /// [merged](merge_alike), and misses are spread evenly over those that are left.
    ///
    /// # Formula
    /// With E(t) evictions until access t, which are the misses so far beyond those that fill the cache, a line touched
    /// at s and e is gone with probability 1 - (1 - 1/L)^(E(e) - E(s)). E and the misses are iterated to a fixed point.
    ///
    /// # Limits
    /// [`at`](CacheModel::at) gives the mean over the run for each distance. Misses that cluster within a window are
    /// taken to be spread over it: caches of few lines gain nothing.
    ///
    /// # Cost
    /// A few milliseconds per size for 64 windows in which every access was measured.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), and [`Error::Grouping`] if the line sizes of the windows differ. Windows without samples
    /// are left out.
    pub fn fit_in_time(windows: &[ReuseProfile]) -> Result<Self, Error> {
        let windows = merge_alike(windows)?;
        let mut all = windows.first().ok_or(Error::EmptyProfile)?.clone();
        windows[1..].iter().try_for_each(|window| all.merge(window))?;
        let mut model = Self::fit(&all)?;
        let lowest = (model.distribution.unresolved() > 0.0).then(|| Course::fit(&windows, true));
        model.in_time = Some(InTime { course: Course::fit(&windows, false), lowest });
        Ok(model)
    }

    /// Prepares the answer for accesses that are reuses in one part of the run each, for consecutive parts of so many
    /// accesses. In a model that was not fitted in time, all parts are alike.
    ///
    /// What loads and stores miss differs in time, as what all accesses miss does: [`at`](CacheModel::at) gives the mean over
    /// the run for each distance.
    ///
    /// ```
    /// use statcache::{CacheLines, LineSize, Outcome, Reuse, ReuseDistance, ReuseProfile, StatCache};
    ///
    /// let window = |distance| {
    ///     let mut profile = ReuseProfile::new(LineSize::B64);
    ///     profile.record_many(Outcome::Reused(ReuseDistance(distance)), 10_000, 1);
    ///     profile.add_accesses(10_000);
    ///     profile
    /// };
    /// let model = StatCache::fit_in_time(&[window(50), window(5_000)])?;
    /// let parts = model.by_part(CacheLines(100), &[10_000, 10_000]);
    /// let [first, second] = [0, 1].map(|part| parts[part].miss_probability(Reuse::Distance(ReuseDistance(50))));
    /// assert!(first < 0.01 && second > 0.3);
    /// # Ok::<(), statcache::Error>(())
    /// ```
    #[must_use]
    pub fn by_part(&self, size: CacheLines, accesses: &[u64]) -> Vec<Evaluator<'_>> {
        let Some(InTime { course, .. }) = self.in_time.as_ref().filter(|_| size.0 > 1) else {
            return accesses.iter().map(|_| self.at(size)).collect();
        };
        let misses: Arc<[f64]> = course.solve(size).into();
        let mut end = 0.0;
        let part = |&accesses: &u64| {
            let (begin, misses) = (end, Arc::clone(&misses));
            end += accesses as f64;
            let end = end;
            Evaluator::function(move |distance| {
                let distance = distance.0 as f64;
                course.evicted(distance, size, &misses, (begin - distance, end - distance))
            })
        };
        accesses.iter().map(part).collect()
    }

    /// Fits the model anew to a profile that has grown by another window or is another one altogether; from an empty
    /// cache if it was fitted so, as [`fit_from_empty`](Self::fit_from_empty) does.
    ///
    /// For a cache that was full all along, the memory of the fit is used again: once it has seen as many different
    /// distances, nothing is allocated, and nothing by [`curve_into`](CacheModel::curve_into).
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
        if self.in_time.is_some() {
            *self = Self::fit_from_empty(profile)?;
            return Ok(());
        }
        (self.line_size, self.scope) = (profile.line_size(), profile.scope());
        profile.distribution_into(&mut self.distribution);
        self.split();
        Ok(())
    }

    /// What follows from the distribution.
    fn split(&mut self) {
        let masses = self.distribution.masses();
        let far = masses.iter().filter(|mass| mass.high > 0);
        self.pieces.clear();
        self.pieces.extend(far.map(|mass| (mass.middle() as f64, mass.probability)));
        let taken = masses.iter().filter(|mass| mass.invalidated > 0.0);
        self.taken.clear();
        self.taken.extend(taken.map(|mass| (mass.middle() as f64, mass.invalidated)));
    }

    /// Lowest and highest miss ratio that the samples leave possible: accesses lost sight of before their
    /// reuse may have been reused right away, or never. Both are [`miss_ratio`](CacheModel::miss_ratio) where
    /// nothing was left unresolved.
    #[must_use]
    pub fn miss_ratio_bounds(&self, size: CacheLines) -> (f64, f64) {
        let high = self.miss_ratio(size);
        let low = match &self.in_time {
            _ if self.distribution.unresolved() == 0.0 => high,
            Some(InTime { lowest: Some(course), .. }) if size.0 > 0 => course.miss_ratio(size),
            _ => self.with_taken(size, self.solve(size, 1.0, Some(self.distribution.horizon() as f64))),
        };
        (low.min(high), high)
    }

    /// The miss ratio, if so many misses for each access evict a line. A line that another thread takes from the cache, which
    /// had not evicted it, leaves a place that the next miss fills: as many misses evict nothing.
    fn with_taken(&self, size: CacheLines, evicting: f64) -> f64 {
        let held = |distance: f64| match size.0 {
            0 | 1 => f64::from(u8::from(distance == 0.0)),
            _ => (-eviction_rate(size) * evicting * distance).exp(),
        };
        let filled: f64 =
            self.taken.iter().map(|&(distance, probability)| probability * held(distance)).sum();
        (evicting + filled).min(1.0)
    }

    /// Largest R with R = sum of p f(i R) + first touches, in a cache that is full all along. `above` is at least that R.
    /// What is unresolved misses, or is reused at distance `unresolved_at`.
    fn solve(&self, size: CacheLines, above: f64, unresolved_at: Option<f64>) -> f64 {
        let unresolved = self.distribution.unresolved();
        let lost = unresolved_at.map(|distance| (distance, unresolved));
        let never = self.distribution.dangling() + if lost.is_some() { 0.0 } else { unresolved };
        let pieces = || self.pieces.iter().copied().chain(lost);
        if size.0 == 0 {
            return 1.0;
        }
        if size.0 == 1 {
            // Whatever comes in between evicts the line.
            let far: f64 = pieces().filter(|&(distance, _)| distance > 0.0).map(|(_, p)| p).sum();
            return (never + far).min(1.0);
        }
        let per_miss = eviction_rate(size);
        // g(R) = sum p f(i R) + never - R is concave, so Newton's method started to the right of its largest root stays
        // to the right of it and converges monotonically.
        let mut ratio = above;
        for _ in 0..ITERATIONS {
            let mut misses = never;
            let mut slope = 0.0;
            for (distance, probability) in pieces() {
                // Exact for small ratios too, so that a root at 0 is found as 0.
                let evicted = -(-per_miss * ratio * distance).exp_m1();
                misses += probability * evicted;
                slope += probability * distance * (1.0 - evicted) * per_miss;
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

/// Standard error of [`StatCache::fit`] where the curve is level. This and the constants below were chosen on cc1, gzip, python,
/// sort, xz and four made-up streams, modelled by windows that differ.
const FLOOR: f64 = 1e-3;
/// Share of the change between half and twice the size by which a model errs whose reuses are of all lengths, and by which
/// one errs, besides, whose reuses are all of one length: that is a loop, and its misses come in bursts.
const SLOPE: (f64, f64) = (0.012, 0.10);
/// The same of [`StatCache::fit_in_time`], which knows when the cache filled up, and shares of the slope: of what steps leave
/// unresolved, of what of that is concentrated, and of the roughness from step to step. `docs/model-accuracy.md` names the
/// programs and streams that these were chosen on.
const FLOOR_IN_TIME: f64 = 1.5e-4;
const SLOPE_IN_TIME: (f64, f64, f64) = (0.018, 0.12, 0.05);

impl CacheModel for StatCache {
    fn line_size(&self) -> LineSize {
        self.line_size
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        if size.0 <= 1 {
            return Evaluator::step(ReuseDistance(size.0));
        }
        match &self.in_time {
            None => Evaluator::geometric(self.solve(size, 1.0, None) * eviction_rate(size)),
            Some(InTime { course, .. }) => {
                let misses = course.solve(size);
                let anywhen = (0.0, course.accesses());
                Evaluator::function(move |distance| course.evicted(distance.0 as f64, size, &misses, anywhen))
            }
        }
    }

    /// How far the miss ratio of `size` lines may be off where every access was measured.
    ///
    /// # Formula
    /// That of [`ModelError`] with a slope of 0.012 + 0.10 c. The concentration c is the sum of squared shares of reuses, by
    /// quarters of octaves of their distance, each reuse weighted by x exp(-x) with x the evictions per line during it: 1
    /// if all reuses that more or fewer misses would decide are of one length.
    ///
    /// In time, the slope is 0.018 u + 0.12 u c + 0.05 r. A step of the run in which k lines are evicted for each line of the
    /// cache is unresolved by u = k / (k + 4): misses may come in bursts within. The roughness r is half the mean
    /// change of the miss ratio from one step to the next, over its mean.
    fn standard_error(&self, size: CacheLines) -> f64 {
        let error = match &self.in_time {
            Some(InTime { course, .. }) => {
                let (bursts, slope) = (course.bursts(size), SLOPE_IN_TIME);
                let slope =
                    slope.0 * bursts.unresolved + slope.1 * bursts.concentrated + slope.2 * bursts.roughness;
                ModelError { floor: FLOOR_IN_TIME, slope }
            }
            None if size.0 < 2 => ModelError { floor: FLOOR, slope: SLOPE.0 }, // exact
            None => {
                let rate = self.solve(size, 1.0, None) * eviction_rate(size);
                let mut reuses = Concentration::default();
                self.pieces
                    .iter()
                    .for_each(|&(distance, share)| reuses.add(distance, share, rate * distance));
                ModelError { floor: FLOOR, slope: SLOPE.0 + SLOPE.1 * reuses.share() }
            }
        };
        error.of(self, size)
    }

    /// Accesses lost sight of count as misses: see [`miss_ratio_bounds`](StatCache::miss_ratio_bounds).
    fn miss_ratio(&self, size: CacheLines) -> f64 {
        match &self.in_time {
            Some(InTime { course, .. }) if size.0 > 0 => course.miss_ratio(size),
            _ => self.with_taken(size, self.solve(size, 1.0, None)),
        }
    }

    fn curve(&self, sizes: &[CacheLines]) -> MissRatioCurve {
        let points = sizes.iter().map(|&size| (size, 0.0)).collect();
        let mut curve = MissRatioCurve::new(self.line_size, self.scope, points);
        self.curve_into(&mut curve);
        curve
    }

    /// Quickest where sizes ascend.
    fn curve_into(&self, curve: &mut MissRatioCurve) {
        (curve.line_size, curve.scope) = (self.line_size, self.scope);
        let mut known = (CacheLines(0), 1.0);
        for (size, miss_ratio) in &mut curve.points {
            // The miss ratio never rises with size; the margin is for rounding.
            let above = if *size >= known.0 { known.1 } else { 1.0 };
            *miss_ratio = match &self.in_time {
                Some(InTime { course, .. }) if size.0 > 0 => course.miss_ratio(*size),
                _ => {
                    let evicting = self.solve(*size, above, None);
                    known = (*size, (evicting * (1.0 + 1e-9)).min(1.0));
                    self.with_taken(*size, evicting)
                }
            };
        }
    }
}
