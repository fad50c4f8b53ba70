//! What a cache model answers, and the curve it draws.

use std::fmt;

use crate::{
    CacheLines, Clock, Error, LineSize, Reuse, ReuseDistance, ReuseDistribution, ReuseProfile, Scope,
};

/// What a cache of a given size does to one access, and to all of them.
///
/// A model is fitted to a [`ReuseProfile`] once and then asked for any size. That it also answers for a single
/// reuse distance is what lets one fitted model serve a program, several programs that share the cache, loads
/// and stores apart, and single instructions: the stream decides the probability, and whoever asks weights it.
pub trait CacheModel {
    /// Line size of the profile the model was fitted to.
    fn line_size(&self) -> LineSize;

    /// Scope of the profile the model was fitted to: each thread by itself, as by default, or all threads together.
    fn scope(&self) -> Scope {
        Scope::Private
    }

    /// Prepares the answer for single accesses at one cache size.
    fn at(&self, size: CacheLines) -> Evaluator<'_>;

    /// Fraction of the fitted accesses that miss in a cache of `size`, from 0 to 1.
    fn miss_ratio(&self, size: CacheLines) -> f64;

    /// Standard error of the model itself at `size`: how far its [`miss_ratio`](Self::miss_ratio) may be from the cache's
    /// though every access were measured. [`Bootstrap`](crate::Bootstrap) adds it to what the choice of samples leaves
    /// open. 0 where it is not known, as by default.
    ///
    /// [`ModelError`] is the one of models that mistake a cache for a slightly smaller or larger one.
    fn standard_error(&self, _size: CacheLines) -> f64 {
        0.0
    }

    /// Probability that an access misses in a cache of `size`, given how long ago its line was touched.
    fn miss_probability(&self, reuse: Reuse, size: CacheLines) -> f64 {
        self.at(size).miss_probability(reuse)
    }

    /// Miss ratio at each of `sizes`, in their order.
    fn curve(&self, sizes: &[CacheLines]) -> MissRatioCurve {
        let points = sizes.iter().map(|&size| (size, self.miss_ratio(size))).collect();
        MissRatioCurve::new(self.line_size(), self.scope(), points)
    }

    /// Evaluates a curve anew, at the sizes it has: for whoever asks again and again, and must not allocate.
    fn curve_into(&self, curve: &mut MissRatioCurve) {
        (curve.line_size, curve.scope) = (self.line_size(), self.scope());
        for (size, miss_ratio) in &mut curve.points {
            *miss_ratio = self.miss_ratio(*size);
        }
    }

    /// Fraction of *another* profile's accesses that miss, if they are made in the stream this model was
    /// fitted to: loads only, one instruction, one program of several. What the other profile leaves
    /// unresolved counts as a miss; an empty one gives 0.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] if `other` does not count lines or
    /// distances as the model's profile.
    fn miss_ratio_of(&self, other: &ReuseProfile, size: CacheLines) -> Result<f64, Error> {
        ReuseProfile::with_units(self.line_size(), Clock::Accesses, self.scope()).check_alike(other)?;
        Ok(self.at(size).miss_ratio(&other.distribution()))
    }
}

/// A reference or pointer to a model is a model.
macro_rules! through_pointer {
    ($($pointer:ty),*) => {$(
        impl<M: CacheModel + ?Sized> CacheModel for $pointer {
            fn line_size(&self) -> LineSize {
                (**self).line_size()
            }
            fn scope(&self) -> Scope {
                (**self).scope()
            }
            fn at(&self, size: CacheLines) -> Evaluator<'_> {
                (**self).at(size)
            }
            fn miss_ratio(&self, size: CacheLines) -> f64 {
                (**self).miss_ratio(size)
            }
            fn standard_error(&self, size: CacheLines) -> f64 {
                (**self).standard_error(size)
            }
            fn miss_probability(&self, reuse: Reuse, size: CacheLines) -> f64 {
                (**self).miss_probability(reuse, size)
            }
            fn curve(&self, sizes: &[CacheLines]) -> MissRatioCurve {
                (**self).curve(sizes)
            }
            fn curve_into(&self, curve: &mut MissRatioCurve) {
                (**self).curve_into(curve);
            }
            fn miss_ratio_of(&self, other: &ReuseProfile, size: CacheLines) -> Result<f64, Error> {
                (**self).miss_ratio_of(other, size)
            }
        }
    )*};
}

through_pointer!(&M, Box<M>, std::sync::Arc<M>);

/// How a model errs that mistakes a cache for a slightly smaller or larger one: most where its curve is steep.
///
/// # Formula
/// With m(L) the miss ratio in L lines, the standard error is
///
/// sqrt((floor * min(1, m(L) / 0.001, (1 - m(L)) / 0.001))^2 + (slope * (m(L/2) - m(2L)))^2).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ModelError {
    /// Standard error where the curve is level and a thousandth of the accesses or more hit and miss.
    pub floor: f64,
    /// Share of the change between half and twice the size.
    pub slope: f64,
}

impl ModelError {
    /// The standard error of `model` in a cache of `size`.
    pub fn of(&self, model: &(impl CacheModel + ?Sized), size: CacheLines) -> f64 {
        let ratio = |lines: u64| model.miss_ratio(CacheLines(lines));
        let miss_ratio = ratio(size.0);
        let level = self.floor * (miss_ratio.min(1.0 - miss_ratio) / 0.001).clamp(0.0, 1.0);
        level.hypot(self.slope * (ratio(size.0 / 2) - ratio(size.0.saturating_mul(2))))
    }
}

/// A model prepared for one cache size: the probability that an access misses, by its reuse distance. Like a
/// [`ReuseDistribution`], it carries no units any more; [`CacheModel::miss_ratio_of`] checks them.
pub struct Evaluator<'a>(Kind<'a>);

enum Kind<'a> {
    Step { first_miss: u64 },
    Geometric { rate: f64 },
    Function(Box<dyn Fn(ReuseDistance) -> f64 + 'a>),
}

impl fmt::Debug for Evaluator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Step { first_miss } => f.debug_struct("Step").field("first_miss", first_miss).finish(),
            Kind::Geometric { rate } => f.debug_struct("Geometric").field("rate", rate).finish(),
            Kind::Function(_) => f.debug_struct("Function").finish_non_exhaustive(),
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Hits below the distance `first_miss`, misses from it on.
    #[must_use]
    pub const fn step(first_miss: ReuseDistance) -> Self {
        Self(Kind::Step { first_miss: first_miss.0 })
    }

    /// Misses with probability 1 - exp(-`rate` * distance): each access in between evicts the line with the
    /// same small probability.
    #[must_use]
    pub const fn geometric(rate: f64) -> Self {
        Self(Kind::Geometric { rate })
    }

    /// Any other law. It is given the distance and answers a probability.
    pub fn function(law: impl Fn(ReuseDistance) -> f64 + 'a) -> Self {
        Self(Kind::Function(Box::new(law)))
    }

    /// Probability that the access misses, from 0 to 1; a dangling one always does.
    #[inline]
    #[must_use]
    pub fn miss_probability(&self, reuse: Reuse) -> f64 {
        let Reuse::Distance(distance) = reuse else { return 1.0 };
        match &self.0 {
            Kind::Step { first_miss } => f64::from(u8::from(distance.0 >= *first_miss)),
            Kind::Geometric { rate } => -(-rate * distance.0 as f64).exp_m1(),
            Kind::Function(law) => law(distance),
        }
    }
}

impl Evaluator<'_> {
    /// Fraction of so distributed accesses that miss; what is unresolved does. 0 without accesses.
    #[must_use]
    pub fn miss_ratio(&self, distribution: &ReuseDistribution) -> f64 {
        let reused = distribution.masses().iter().map(|mass| {
            let miss = self.miss_probability(Reuse::Distance(ReuseDistance(mass.middle())));
            (mass.probability - mass.invalidated) * miss + mass.invalidated
        });
        (reused.sum::<f64>() + distribution.dangling() + distribution.unresolved()).clamp(0.0, 1.0)
    }
}

/// Miss ratio over cache size.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MissRatioCurve {
    /// Line size that converts lines to bytes.
    pub line_size: LineSize,
    /// Whose cache it is of, where there are several threads.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Scope::is_private"))]
    pub scope: Scope,
    /// Cache size and miss ratio (misses per access), in the order asked for.
    pub points: Vec<(CacheLines, f64)>,
}

impl MissRatioCurve {
    /// A curve of these points.
    #[must_use]
    pub const fn new(line_size: LineSize, scope: Scope, points: Vec<(CacheLines, f64)>) -> Self {
        Self { line_size, scope, points }
    }
}
