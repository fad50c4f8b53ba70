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

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use thiserror::Error;

use crate::engine::random::Random;
use crate::{
    AccessCount, CacheLines, CacheModel, Reuse, ReuseDistance, ReusePlan, SampleGap, Sampler, SamplerError,
    Window, WindowIndex, WindowPlan,
};

/// A law that an implementation breaks, and where.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{law}: {case}")]
#[non_exhaustive]
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
/// probabilities lie between 0 and 1, neither rises with the size, a dangling access and a cache of no lines always miss,
/// and a curve is made of single ratios.
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
        let error = model.standard_error(size);
        if !(0.0..=1.0).contains(&error) {
            return broken("a standard error lies between 0 and 1", format!("{error} in {size:?}"));
        }
        last = Some((size, ratio));
    }
    let mut in_smaller = vec![1.0_f64; distances.len()];
    for &size in &sizes {
        let at = model.at(size);
        if at.miss_probability(Reuse::Dangling) < 1.0 || model.miss_probability(Reuse::Dangling, size) < 1.0 {
            return broken("a dangling access misses", format!("{size:?}"));
        }
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
            if single > *smaller + ROUNDING {
                return broken("a probability never rises with the size", case());
            }
            *smaller = single;
        }
    }
    Ok(())
}

/// Holds samplers of one target, each made by `start`, against the laws of [`Sampler`]: every window has a number of its
/// own, the same line size as the others, and code at ascending addresses; under [`ReusePlan::Off`] nothing is sampled;
/// under [`ReusePlan::Every`] each measured access is the beginning of one outcome, reported once, of a window that was
/// returned, also where observation is stopped early; a plan is for the next window of the thread whose window was returned
/// last; sparse samples are as many as their gap says; a run that has ended stays ended; and a second run returns the same
/// windows, but for the time they took.
///
/// Give a target of at least 10,000 accesses and three windows that does the same each time.
///
/// # Errors
/// The first [`Violation`] found; what a sampler refuses is one.
pub fn sampler<S: Sampler>(mut start: impl FnMut() -> Result<S, SamplerError>) -> Result<(), Violation> {
    let broken = |law, case: String| Err(Violation { law, case });
    let off = run(&mut start, ReusePlan::Off, usize::MAX)?;
    if let Some(window) = off.iter().find(|window| window.outcomes().next().is_some()) {
        return broken("nothing is sampled where nothing is to be", format!("window {}", window.index.0));
    }
    let every = run(&mut start, ReusePlan::Every, usize::MAX)?;
    let again = run(&mut start, ReusePlan::Every, usize::MAX)?;
    if let Some((one, _)) = every.iter().zip(&again).find(|(one, other)| one != other) {
        return broken("a second run is the same", format!("window {}", one.index.0));
    }
    if every.len() != again.len() {
        return broken("a second run is the same", format!("{} and {} windows", every.len(), again.len()));
    }
    let stopped = run(&mut start, ReusePlan::Every, 2)?;
    for windows in [&every, &stopped] {
        let measured = windows.iter().all(|window| matches!(window.accesses, AccessCount::Measured(_)));
        let (accesses, outcomes) = (accesses(windows), outcomes(windows));
        if measured && accesses != outcomes {
            return broken(
                "each access has one outcome",
                format!("{accesses} accesses, {outcomes} outcomes"),
            );
        }
    }
    planned(start().map_err(refused)?)?;
    let gap = 50.0;
    let sparse = run(&mut start, ReusePlan::Sparse(SampleGap::mean(gap).map_err(refused)?), usize::MAX)?;
    let expected = accesses(&every) as f64 / gap;
    let samples = outcomes(&sparse) as f64;
    // The number of geometric gaps in a run varies no more than a Poisson count: six deviations, and the last gap.
    if (samples - expected).abs() > 6.0 * expected.sqrt() + 1.0 {
        return broken(
            "samples are as many as their gap says",
            format!("{samples}, not about {expected:.0}"),
        );
    }
    Ok(())
}

/// The windows of a run without the time they took, checked one by one.
fn run<S: Sampler>(
    start: &mut impl FnMut() -> Result<S, SamplerError>,
    reuse: ReusePlan,
    stop_after: usize,
) -> Result<Vec<Window>, Violation> {
    let broken = |law, case: String| Err(Violation { law, case });
    let mut sampler = start().map_err(refused)?;
    let plan = WindowPlan::new(reuse);
    let mut windows: Vec<Window> = Vec::new();
    let mut known = HashSet::new();
    while let Some(mut window) = sampler.next_window(&plan).map_err(refused)? {
        window.elapsed = Duration::ZERO;
        let name = format!("window {}", window.index.0);
        if !known.insert(window.index) {
            return broken("a window's number is its own", name);
        }
        if windows.first().is_some_and(|first| first.line_size != window.line_size) {
            return broken("all windows have one line size", name);
        }
        let ascends = |code: &[(u64, u64)]| code.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !ascends(&window.code) || !ascends(&window.repeated) {
            return broken("code lies at ascending addresses", name);
        }
        windows.push(window);
        if windows.len() == stop_after {
            sampler.stop().map_err(refused)?;
        }
    }
    if sampler.next_window(&plan).map_err(refused)?.is_some() {
        return broken("a run that has ended stays ended", format!("after {} windows", windows.len()));
    }
    let stray = windows.iter().flat_map(Window::outcomes).map(|o| o.0).find(|window| !known.contains(window));
    if let Some(stray) = stray {
        return broken("a sample was started in a window that is returned", format!("window {}", stray.0));
    }
    Ok(windows)
}

/// Every other window is to be sampled.
fn planned(mut sampler: impl Sampler) -> Result<(), Violation> {
    #[derive(Default)]
    struct Seen {
        sampled: bool,
        measured: Option<u64>,
        outcomes: u64,
    }
    let mut plans = HashMap::new();
    let mut windows: HashMap<WindowIndex, Seen> = HashMap::new();
    let mut reuse = ReusePlan::Every;
    while let Some(window) = sampler.next_window(&WindowPlan::new(reuse)).map_err(refused)? {
        for (started_in, _, count, _) in window.outcomes() {
            windows.entry(started_in).or_default().outcomes += count;
        }
        let seen = windows.entry(window.index).or_default();
        seen.sampled = plans.get(&window.thread).is_none_or(|plan| *plan == ReusePlan::Every);
        seen.measured = match window.accesses {
            AccessCount::Measured(accesses) => Some(accesses),
            _ => None,
        };
        reuse = if windows.len() % 2 == 0 { ReusePlan::Every } else { ReusePlan::Off };
        plans.insert(window.thread, reuse);
    }
    let other = windows.iter().find(|(_, seen)| {
        if seen.sampled {
            seen.measured.is_some_and(|accesses| accesses != seen.outcomes)
        } else {
            seen.outcomes > 0
        }
    });
    other.map_or(Ok(()), |(window, Seen { sampled, outcomes, .. })| {
        let law = "a plan is for the next window of the thread whose window was returned last";
        Err(Violation {
            law,
            case: format!("window {}: sampled as planned: {sampled}, samples: {outcomes}", window.0),
        })
    })
}

fn accesses(windows: &[Window]) -> u64 {
    windows.iter().filter_map(|window| window.accesses.get()).sum()
}

fn outcomes(windows: &[Window]) -> u64 {
    windows.iter().flat_map(|window| window.outcomes().map(|(_, _, count, _)| count)).sum()
}

fn refused(error: impl std::fmt::Display) -> Violation {
    Violation { law: "the sampler works", case: error.to_string() }
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
        let grows = |d: u64, s: u64| if d < 900 && s > 5000 { 1.0 } else { lru(d, s) };
        assert_eq!(law(&Any(grows)), Err("a probability never rises with the size"));
        let not_a_number = |d: u64, s| if d == 0 && s > 0 { f64::NAN } else { lru(d, s) };
        assert_eq!(law(&Any(not_a_number)), Err("a probability lies between 0 and 1"));
    }
}
