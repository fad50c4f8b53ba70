//! Laws that every implementation of a trait keeps, for the tests of those who write one.
//!
//! ```
//! use reuse_sampler::{CacheLines, CacheModel, Evaluator, LineSize, ReuseDistance, laws};
//!
//! /// Every access has so many other lines in between.
//! struct Scan(u64);
//! impl CacheModel for Scan {
//!     fn line_size(&self) -> LineSize {
//!         LineSize::B64
//!     }
//!     fn at(&self, size: CacheLines) -> Evaluator<'_> {
//!         Evaluator::step(ReuseDistance(size.0))
//!     }
//!     fn miss_ratio(&self, size: CacheLines) -> f64 {
//!         if self.0 >= size.0 { 1.0 } else { 0.0 }
//!     }
//! }
//! laws::cache_model(&Scan(100), 1)?;
//! # Ok::<(), laws::Violation>(())
//! ```

use thiserror::Error;

use crate::engine::random::Random;
use crate::{CacheLines, CacheModel, Reuse, ReuseDistance};

/// A law that an implementation breaks, and where.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{law}: {case}")]
pub struct Violation {
    /// The law.
    pub law: &'static str,
    /// Where it is broken, with the values found.
    pub case: String,
}

/// Rounding that is forgiven, in miss ratio.
const ROUNDING: f64 = 1e-8;
/// By how much a model prepared for a size may differ from a single probability: models may interpolate.
const PREPARED: f64 = 2e-3;

/// Holds `model` against the laws of [`CacheModel`], at cache sizes and distances that `seed` decides: ratios and
/// probabilities lie between 0 and 1, neither rises with the size, probabilities do not fall with the distance, a
/// dangling access and a cache of no lines always miss, and a curve is made of single ratios.
///
/// # Errors
/// The first [`Violation`] found.
pub fn cache_model(model: &(impl CacheModel + ?Sized), seed: u64) -> Result<(), Violation> {
    let mut random = Random::from_state(seed);
    let mut any = |count: u32| {
        let mut numbers = vec![0, 1, u64::MAX];
        numbers.extend((0..count).map(|k| {
            let magnitude = 1_u64 << (k % 40);
            magnitude + random.below(magnitude as usize) as u64
        }));
        numbers.sort_unstable();
        numbers
    };
    let (sizes, distances) = (any(40), any(40));
    let sizes: Vec<CacheLines> = sizes.into_iter().map(CacheLines).collect();
    let broken = |law, case: String| Err(Violation { law, case });
    let curve = model.curve(&sizes);
    let mut last: Option<(CacheLines, f64)> = None;
    for (&size, point) in sizes.iter().zip(&curve.points) {
        let ratio = model.miss_ratio(size);
        if !(0.0..=1.0).contains(&ratio) {
            return broken("a miss ratio lies between 0 and 1", format!("{ratio} in {size:?}"));
        }
        if point.0 != size || (point.1 - ratio).abs() > ROUNDING {
            return broken("a curve is made of single ratios", format!("{point:?} and {ratio} in {size:?}"));
        }
        if size.0 == 0 && ratio < 1.0 - ROUNDING {
            return broken("a cache of no lines always misses", format!("{ratio}"));
        }
        if let Some(smaller) = last.filter(|smaller| ratio > smaller.1 + ROUNDING) {
            return broken(
                "a miss ratio never rises with the size",
                format!("{smaller:?}, {ratio} in {size:?}"),
            );
        }
        last = Some((size, ratio));
    }
    let mut in_smaller = vec![1.0_f64; distances.len()];
    for &size in &sizes {
        let at = model.at(size);
        if at.miss_probability(Reuse::Dangling) < 1.0 || model.miss_probability(Reuse::Dangling, size) < 1.0 {
            return broken("a dangling access misses", format!("{size:?}"));
        }
        let mut nearer = 0.0_f64;
        for (&distance, smaller) in distances.iter().zip(&mut in_smaller) {
            let reuse = Reuse::Distance(ReuseDistance(distance));
            let (single, prepared) = (model.miss_probability(reuse, size), at.miss_probability(reuse));
            let case = || format!("{single} (prepared: {prepared}) at distance {distance} in {size:?}");
            if !(0.0..=1.0).contains(&single) || !(0.0..=1.0).contains(&prepared) {
                return broken("a probability lies between 0 and 1", case());
            }
            if (single - prepared).abs() > PREPARED {
                return broken("a prepared model gives single probabilities", case());
            }
            if single < nearer - ROUNDING {
                return broken("a probability does not fall with the distance", case());
            }
            if single > *smaller + ROUNDING {
                return broken("a probability never rises with the size", case());
            }
            (nearer, *smaller) = (single, single);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evaluator, LineSize};

    /// Misses as the function says.
    struct Any<F>(F);

    impl<F: Fn(u64, u64) -> f64> CacheModel for Any<F> {
        fn line_size(&self) -> LineSize {
            LineSize::B64
        }
        fn at(&self, size: CacheLines) -> Evaluator<'_> {
            Evaluator::function(move |distance| (self.0)(distance.0, size.0))
        }
        fn miss_ratio(&self, size: CacheLines) -> f64 {
            (self.0)(1000, size.0)
        }
    }

    #[test]
    fn each_law_is_broken_by_a_model_that_breaks_it() {
        let law = |model: &dyn CacheModel| cache_model(model, 3).map_err(|violation| violation.law);
        let lru = |distance: u64, size: u64| f64::from(u8::from(distance >= size));
        assert_eq!(law(&Any(lru)), Ok(()));
        assert_eq!(law(&&Box::new(Any(lru))), Ok(()));
        assert_eq!(law(&Any(|d, s| 2.0 * lru(d, s))), Err("a miss ratio lies between 0 and 1"));
        assert_eq!(law(&Any(|d, s| 0.5 * lru(d, s))), Err("a cache of no lines always misses"));
        let rises = |d, s: u64| if s > 4000 { 0.5 } else { lru(d, s) };
        assert_eq!(law(&Any(rises)), Err("a miss ratio never rises with the size"));
        let falls = |d: u64, s| if d > 5000 { 0.0 } else { lru(d, s) };
        assert_eq!(law(&Any(falls)), Err("a probability does not fall with the distance"));
        let not_a_number = |d: u64, s| if d == 0 && s > 0 { f64::NAN } else { lru(d, s) };
        assert_eq!(law(&Any(not_a_number)), Err("a probability lies between 0 and 1"));
    }
}
