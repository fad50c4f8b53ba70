//! Intervals of a run that is modelled part by part: its bursts, or its phases.
//!
//! Each part is redrawn by itself, because it was sampled by itself: how much of the run it stands for is known. What
//! is redrawn depends on what chance decided. Where a part was observed throughout and one access in so many was
//! chosen, these are the *samples*; where some of its windows were chosen and observed, these are the *windows*.

use super::{Bootstrap, Interval, of_counts, poisson, quantile, widening};
use crate::engine::random::Random;
use crate::statistics::grouped::weight_of;
use crate::{CacheLines, CacheModel, Error, ReuseProfile};

/// Deviations of draws are smaller than those from the truth by this factor, since the parts were chosen to suit the samples
/// they are redrawn from. Chosen on cc1, gzip, python, sort, xz and four made-up streams, one access in 100 to 10,000.
const WIDER: f64 = 1.1;

/// What chance decided when a part of a run was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Redraw {
    /// Which of its accesses became samples, each with the same probability: the part was observed throughout.
    Samples,
    /// Which of its windows were observed: this share of them, from 0 to 1.
    Windows {
        /// Observed windows over all windows of the part.
        covered: f64,
    },
}

/// A part of a run.
#[derive(Clone, Copy, Debug)]
pub struct Stratum<'a> {
    /// Accesses it stands for, or any number in proportion to them.
    pub weight: f64,
    /// Its samples, window by window, or batches of about equally many windows. With [`Redraw::Samples`], one profile
    /// is enough.
    pub windows: &'a [ReuseProfile],
    /// What is redrawn.
    pub redraw: Redraw,
}

impl<'a> Stratum<'a> {
    /// A part that was observed throughout, weighted by its accesses, or by its samples' weight where those are unknown.
    #[must_use]
    pub fn sampled(profile: &'a ReuseProfile) -> Self {
        Self { weight: weight_of(profile), windows: std::slice::from_ref(profile), redraw: Redraw::Samples }
    }
}

/// Intervals of all parts of a run and of the whole.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stratified {
    /// Of each stratum, at each size; `None` where a single window out of several leaves everything open, and
    /// where there is no sample.
    pub parts: Vec<Option<Vec<Interval>>>,
    /// Of the strata's weighted mean, at each size.
    pub average: Vec<Interval>,
    /// Share of the weight that lies in strata with an interval: what `average` says of chance in the others is
    /// nothing.
    pub covers: f64, // in [0, 1]
}

/// Draws of one part: its miss ratios, and by how much those of each draw deviate.
struct Drawn {
    share: f64,
    miss_ratios: Vec<f64>,
    deviations: Option<Vec<f64>>, // draw by draw, the sizes of each
    least: Vec<(f64, f64)>,       // by size, how far the interval reaches down and up at least
    model: Vec<f64>,              // by size, standard error of the model itself
}

impl Bootstrap {
    /// A confidence interval for the miss ratio of each part of a run and of the whole, at each of `sizes`. `fit` makes
    /// the model of one part from all its samples.
    ///
    /// # Formula
    /// Samples: each bin of the profile is redrawn from a Poisson distribution, its deviation times
    /// sqrt(1 - 1/m) where one access in m was chosen, and the model is fitted anew. Windows: n windows are drawn
    /// from the n with replacement, merged and fitted; deviations are multiplied by sqrt(1 - covered), and widened by
    /// sqrt(n / (n - 1)) t / z with Student's quantile t, because n windows spread less than those they are drawn from.
    /// The interval is the miss ratio of the original fit plus the (1 - level) / 2 and (1 + level) / 2 quantiles of the
    /// deviations; for the whole, of the weighted sums of the parts' deviations. It reaches at least as far as Wilson's
    /// interval for the number of samples, of the whole as far as the root of the sum of their squares: samples that
    /// are all alike do not show that all accesses are. The deviations are taken 1.1 times, and the model's own
    /// [standard error](CacheModel::standard_error) times the normal quantile is added to either side in squares; the
    /// parts' models are taken to err alike.
    ///
    /// # Errors
    /// What `fit` answers; [`Error::NoGroups`] if no part has a sample, [`Error::GroupWeight`] for a weight that is
    /// negative or not finite, [`Error::CoveredShare`], [`Error::MixedLineSizes`], [`Error::MixedClocks`] and
    /// [`Error::MixedScopes`] for windows that were observed otherwise than the first.
    ///
    /// # Limits
    /// Phases that no window fell into have no interval. What a model gets wrong is known from other programs than the
    /// one at hand. Fewer than some ten windows, or misses that sit in few samples, make the true level lower than the
    /// one asked for.
    ///
    /// # Cost
    /// A fit and a curve for each draw of each part.
    ///
    /// # References
    /// Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapters 8 and 13; Cochran, *Sampling
    /// Techniques*, 1977, section 2.6, on the factor of finite populations.
    pub fn stratified<M: CacheModel, E: From<Error>>(
        &self,
        strata: &[Stratum<'_>],
        fit: impl Fn(&ReuseProfile) -> Result<M, E>,
        sizes: &[CacheLines],
    ) -> Result<Stratified, E> {
        if let Some(stratum) = strata.iter().find(|s| !(s.weight.is_finite() && s.weight >= 0.0)) {
            return Err(Error::GroupWeight { weight: stratum.weight }.into());
        }
        for stratum in strata {
            match stratum.redraw {
                Redraw::Windows { covered } if !(0.0..=1.0).contains(&covered) => {
                    return Err(Error::CoveredShare { covered }.into());
                }
                _ => {}
            }
        }
        let mut windows = strata.iter().flat_map(|stratum| stratum.windows);
        if let Some(first) = windows.next() {
            windows.try_for_each(|other| first.check_alike(other))?;
        }
        let sampled = |s: &&Stratum<'_>| s.weight > 0.0 && s.windows.iter().any(|w| !w.is_empty());
        let largest = strata.iter().filter(sampled).map(|s| s.weight).fold(0.0, f64::max);
        if largest <= 0.0 {
            return Err(Error::NoGroups.into());
        }
        let total: f64 = strata.iter().filter(sampled).map(|s| s.weight / largest).sum();
        let mut random = Random::from_state(self.seed);
        let mut parts = Vec::with_capacity(strata.len());
        for stratum in strata {
            let drawn = if sampled(&stratum) {
                Some(self.draw(stratum, stratum.weight / largest / total, &fit, sizes, &mut random)?)
            } else {
                None
            };
            parts.push(drawn);
        }
        let average = self.average(&parts, sizes);
        let with_interval = parts.iter().flatten().filter(|part| part.deviations.is_some());
        Ok(Stratified {
            covers: with_interval.map(|part| part.share).sum::<f64>().min(1.0),
            parts: parts.iter().map(|part| self.part(part.as_ref()?, sizes)).collect(),
            average,
        })
    }

    /// Intervals of the whole around the miss ratios of `model`, which was fitted to the same samples as those that `drawn`
    /// is the [average](Stratified::average) of, in another way: the choice of samples leaves as much open, and the standard
    /// error of `model` takes the place of theirs.
    #[must_use]
    pub fn around(&self, model: &impl CacheModel, drawn: &[Interval]) -> Vec<Interval> {
        let interval = |drawn: &Interval| {
            let (size, miss_ratio) = (drawn.size, model.miss_ratio(drawn.size));
            let model_error = quantile(self.level) * model.standard_error(size);
            let reach = |end: f64| {
                let squares = (drawn.miss_ratio - end).powi(2) - drawn.model_error.powi(2);
                squares.max(0.0).sqrt().hypot(model_error)
            };
            // An end that was cut off does not say how far it would have reached.
            let low = if drawn.low == 0.0 { 0.0 } else { miss_ratio - reach(drawn.low) };
            let high = if drawn.high == 1.0 { 1.0 } else { miss_ratio + reach(drawn.high) };
            Interval {
                size,
                miss_ratio,
                low: low.clamp(0.0, miss_ratio),
                high: high.clamp(miss_ratio, 1.0),
                model_error,
            }
        };
        drawn.iter().map(interval).collect()
    }

    fn draw<M: CacheModel, E: From<Error>>(
        &self,
        stratum: &Stratum<'_>,
        share: f64,
        fit: &impl Fn(&ReuseProfile) -> Result<M, E>,
        sizes: &[CacheLines],
        random: &mut Random,
    ) -> Result<Drawn, E> {
        let windows: Vec<&ReuseProfile> = stratum.windows.iter().filter(|w| !w.is_empty()).collect();
        let whole = merged(windows.iter().copied())?;
        let ratios =
            |model: &M| -> Vec<f64> { model.curve(sizes).points.iter().map(|point| point.1).collect() };
        let fitted = fit(&whole)?;
        let miss_ratios = ratios(&fitted);
        let model = sizes.iter().map(|&size| fitted.standard_error(size)).collect();
        let n = windows.len();
        let (factor, covered) = match stratum.redraw {
            Redraw::Samples => (1.0, 1.0),
            Redraw::Windows { covered } if covered < 1.0 && n < 2 => {
                return Ok(Drawn { share, miss_ratios, deviations: None, least: Vec::new(), model });
            }
            Redraw::Windows { covered } => ((1.0 - covered).sqrt() * widening(self.level, n), covered),
        };
        // Of a finite number of accesses, those that are samples leave nothing open.
        let sampled = covered * whole.samples() as f64 / whole.total_weight().max(1) as f64;
        let independent = whole.samples() as f64 / (1.0 - sampled.min(1.0));
        let least = miss_ratios.iter().map(|&ratio| of_counts(ratio, independent, self.level)).collect();
        let mut deviations = Vec::with_capacity(self.resamples * sizes.len());
        for _ in 0..self.resamples {
            let drawn = match stratum.redraw {
                _ if factor == 0.0 => None,
                Redraw::Samples => Some(whole.redrawn(&mut |mean| poisson(random, mean))),
                Redraw::Windows { .. } => Some(merged((0..n).map(|_| windows[random.below(n)]))?),
            };
            // A draw of nothing at all, from a handful of samples, says nothing.
            match drawn.filter(|drawn| !drawn.is_empty()) {
                Some(drawn) => {
                    let redrawn = ratios(&fit(&drawn)?).into_iter().zip(&miss_ratios);
                    deviations.extend(redrawn.map(|(drawn, ratio)| factor * (drawn - ratio)));
                }
                None => deviations.extend(sizes.iter().map(|_| 0.0)),
            }
        }
        Ok(Drawn { share, miss_ratios, deviations: Some(deviations), least, model })
    }

    fn part(&self, drawn: &Drawn, sizes: &[CacheLines]) -> Option<Vec<Interval>> {
        let deviations = drawn.deviations.as_ref()?;
        let interval = |(k, &size): (usize, &CacheLines)| {
            let column = (0..self.resamples).map(|draw| deviations[draw * sizes.len() + k]).collect();
            self.interval(size, drawn.miss_ratios[k], column, drawn.least[k], drawn.model[k])
        };
        Some(sizes.iter().enumerate().map(interval).collect())
    }

    fn average(&self, parts: &[Option<Drawn>], sizes: &[CacheLines]) -> Vec<Interval> {
        let parts = || parts.iter().flatten();
        let interval = |(k, &size): (usize, &CacheLines)| {
            let miss_ratio: f64 = parts().map(|part| part.share * part.miss_ratios[k]).sum();
            let of_draw = |draw| -> f64 {
                let deviation = |part: &Drawn| {
                    let deviations = part.deviations.as_ref()?;
                    Some(part.share * deviations[draw * sizes.len() + k])
                };
                parts().filter_map(deviation).sum()
            };
            let squares = parts()
                .filter_map(|part| part.least.get(k).map(|least| (part.share, least)))
                .fold((0.0, 0.0), |sum, (share, least)| {
                    (sum.0 + (share * least.0).powi(2), sum.1 + (share * least.1).powi(2))
                });
            let deviations = (0..self.resamples).map(of_draw).collect();
            let least = (squares.0.sqrt(), squares.1.sqrt());
            let with_interval = parts().filter(|part| part.deviations.is_some());
            let model = with_interval.map(|part| part.share * part.model[k]).sum();
            self.interval(size, miss_ratio.clamp(0.0, 1.0), deviations, least, model)
        };
        sizes.iter().enumerate().map(interval).collect()
    }

    fn interval(
        &self,
        size: CacheLines,
        miss_ratio: f64,
        mut deviations: Vec<f64>,
        least: (f64, f64),
        model: f64,
    ) -> Interval {
        deviations.sort_unstable_by(f64::total_cmp);
        let tail = 0.5 - 0.5 * self.level;
        let end = |probability: f64| {
            let at = (probability * (deviations.len() - 1) as f64).round() as usize;
            deviations[at]
        };
        let model_error = quantile(self.level) * model;
        let reach = |sampling: f64| sampling.hypot(model_error);
        Interval {
            size,
            miss_ratio,
            low: (miss_ratio - reach((-WIDER * end(tail)).max(least.0))).clamp(0.0, miss_ratio),
            high: (miss_ratio + reach((WIDER * end(1.0 - tail)).max(least.1))).clamp(miss_ratio, 1.0),
            model_error,
        }
    }
}

/// All of `profiles` in one; there is at least one.
fn merged<'a>(mut profiles: impl Iterator<Item = &'a ReuseProfile>) -> Result<ReuseProfile, Error> {
    let mut all = profiles.next().ok_or(Error::NoGroups)?.clone();
    for profile in profiles {
        all.merge(profile)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of a Poisson distribution are equal, in both of the ways in which it is drawn.
    #[test]
    fn poisson_numbers_have_their_mean_and_variance() {
        for mean in [0.1, 3.0, 40.0, 64.0, 1e4] {
            let mut random = Random::from_state(5);
            let n = 40_000;
            let drawn: Vec<f64> = (0..n).map(|_| poisson(&mut random, mean)).collect();
            let average = drawn.iter().sum::<f64>() / f64::from(n);
            let variance = drawn.iter().map(|x| (x - average).powi(2)).sum::<f64>() / f64::from(n);
            // Five standard errors of the mean; of the variance, whose relative one is sqrt((2 + 1/mean) / n).
            assert!((average - mean).abs() < 5.0 * (mean / f64::from(n)).sqrt(), "{mean}: {average}");
            let within = 5.0 * ((2.0 + 1.0 / mean) / f64::from(n)).sqrt();
            assert!((variance / mean - 1.0).abs() < within, "{mean}: {variance}");
        }
    }
}
