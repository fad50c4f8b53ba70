//! A distribution of slowdowns: what it says, how sure that is, and how far it is from another.

use super::{binomial, normal};
use crate::error::{Error, above_zero, open_unit};

/// Slowdowns of many runs, sorted.
#[cfg_attr(
    feature = "serde",
    doc = r#"
# Saving
With the feature `serde`, this and all other predictions and decisions can be saved and read. A list that is no
distribution is refused.

```
use cachesharing::SlowdownDistribution;

let slowdowns = SlowdownDistribution::new(vec![1.2, 1.05, 1.3])?;
let saved = serde_json::to_string(&slowdowns)?;
assert_eq!(saved, "[1.05,1.2,1.3]");
assert_eq!(serde_json::from_str::<SlowdownDistribution>(&saved)?, slowdowns);
assert!(serde_json::from_str::<SlowdownDistribution>("[1.05,-1.2]").is_err());
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Vec<f64>", into = "Vec<f64>"))]
pub struct SlowdownDistribution {
    sorted: Vec<f64>, // at least one, finite, > 0
}

#[cfg(feature = "serde")]
impl From<SlowdownDistribution> for Vec<f64> {
    fn from(distribution: SlowdownDistribution) -> Self {
        distribution.sorted
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Vec<f64>> for SlowdownDistribution {
    type Error = Error;

    fn try_from(slowdowns: Vec<f64>) -> Result<Self, Error> {
        Self::new(slowdowns)
    }
}

impl SlowdownDistribution {
    /// From slowdowns in any order: time with co-runners over time alone.
    ///
    /// # Errors
    /// [`Error::Count`] for none, [`Error::Value`] for one that is not finite and above 0.
    pub fn new(mut slowdowns: Vec<f64>) -> Result<Self, Error> {
        if slowdowns.is_empty() {
            return Err(Error::Count { what: "runs", count: 0, remedy: "at least one" });
        }
        for &slowdown in &slowdowns {
            above_zero("a slowdown", slowdown)?;
        }
        slowdowns.sort_by(f64::total_cmp);
        Ok(Self { sorted: slowdowns })
    }

    /// The slowdowns, rising.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Mean slowdown.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.sorted.len() as f64
    }

    /// Standard deviation, as of a sample; 0 for one run.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        let (n, mean) = (self.sorted.len() as f64, self.mean());
        let squares: f64 = self.sorted.iter().map(|s| (s - mean).powi(2)).sum();
        if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 }
    }

    /// Smallest slowdown.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    /// Largest slowdown.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }

    /// The slowdown that a fraction `p` of the runs stays below, interpolated between runs; `p` beyond 0 and 1 is
    /// taken as the nearest of the two.
    #[must_use]
    pub fn quantile(&self, p: f64) -> f64 {
        let position = p.clamp(0.0, 1.0) * (self.sorted.len() - 1) as f64;
        let (low, part) = (position.floor() as usize, position.fract());
        let high = (low + 1).min(self.sorted.len() - 1);
        self.sorted[low] + part * (self.sorted[high] - self.sorted[low])
    }

    /// Fraction of the runs with a slowdown of at most `x`.
    #[must_use]
    pub fn at_most(&self, x: f64) -> f64 {
        self.sorted.partition_point(|&s| s <= x) as f64 / self.sorted.len() as f64
    }

    /// Probability of a slowdown above `x`.
    #[must_use]
    pub fn exceeding(&self, x: f64) -> f64 {
        1.0 - self.at_most(x)
    }

    /// Kolmogorov-Smirnov distance: the largest difference between the fractions of runs that the two see below a
    /// slowdown, whichever slowdown shows it best.
    ///
    /// Where neither distribution varies it is 0 or 1, however near they are: look at
    /// [`mean_error`](Self::mean_error) or [`levy`](Self::levy) too.
    #[must_use]
    pub fn kolmogorov_smirnov(&self, other: &Self) -> f64 {
        let values = self.sorted.iter().chain(&other.sorted);
        values.map(|&x| (self.at_most(x) - other.at_most(x)).abs()).fold(0.0, f64::max)
    }

    /// Lévy distance with slowdowns measured in units of `resolution`: the smallest e such that either
    /// distribution function lies within e of the other once that is shifted by e * `resolution` to either side.
    ///
    /// With a resolution far below the spread it is the Kolmogorov-Smirnov distance; differences far below the
    /// resolution do not count.
    ///
    /// # Errors
    /// [`Error::Value`] for a resolution that is not above 0.
    pub fn levy(&self, other: &Self, resolution: f64) -> Result<f64, Error> {
        above_zero("a resolution", resolution)?;
        let within = |e: f64| {
            let shift = e * resolution;
            // F(x) <= G(x + shift) + e holds everywhere if it holds where F steps up; and the same with the two
            // exchanged.
            let covers =
                |f: &Self, g: &Self| f.sorted.iter().all(|&x| f.at_most(x) <= g.at_most(x + shift) + e);
            covers(self, other) && covers(other, self)
        };
        let (mut low, mut high) = (0.0, 1.0);
        if within(low) {
            return Ok(low);
        }
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if within(middle) { high = middle } else { low = middle }
        }
        Ok(high)
    }

    /// Relative error of the mean slowdown against a reference.
    #[must_use]
    pub fn mean_error(&self, reference: &Self) -> f64 {
        (self.mean() / reference.mean() - 1.0).abs()
    }

    /// Mean difference between slowdowns of equal rank: the area between the two distribution functions.
    #[must_use]
    pub fn mean_difference(&self, other: &Self) -> f64 {
        let mut values: Vec<f64> = self.sorted.iter().chain(&other.sorted).copied().collect();
        values.sort_by(f64::total_cmp);
        values.windows(2).map(|w| (self.at_most(w[0]) - other.at_most(w[0])).abs() * (w[1] - w[0])).sum()
    }

    /// An interval that holds the true mean with the given confidence, by the normal approximation: of
    /// independent random offsets, and of no use below a few tens of them.
    ///
    /// # Errors
    /// [`Error::Value`] unless the confidence lies between 0 and 1.
    pub fn mean_interval(&self, confidence: f64) -> Result<(f64, f64), Error> {
        let z = two_sided(confidence)?;
        let (mean, half) = (self.mean(), z * self.standard_deviation() / (self.sorted.len() as f64).sqrt());
        Ok((mean - half, mean + half))
    }

    /// An interval that holds the true `p`-quantile with at least the given confidence, whatever the distribution.
    /// A side is `None` if there are too few runs to bound it.
    ///
    /// # Errors
    /// [`Error::Value`] unless `p` and the confidence lie between 0 and 1.
    pub fn quantile_interval(&self, p: f64, confidence: f64) -> Result<(Option<f64>, Option<f64>), Error> {
        open_unit("a quantile", p)?;
        open_unit("a confidence", confidence)?;
        let (low, high) = binomial::enclosing(self.sorted.len(), p, confidence);
        let value = |rank: Option<usize>| rank.and_then(|rank| self.sorted.get(rank).copied());
        Ok((value(low), value(high)))
    }

    /// How many random offsets it takes to know the mean slowdown to within `error` of itself (0.01 for 1 %),
    /// judged by the spread of these runs.
    ///
    /// # Formula
    /// (z s / (error * mean))^2, at least 1.
    ///
    /// # Errors
    /// [`Error::Value`] unless the error is above 0 and the confidence between 0 and 1.
    pub fn offsets_for_mean(&self, error: f64, confidence: f64) -> Result<u64, Error> {
        above_zero("an error", error)?;
        let z = two_sided(confidence)?;
        Ok((z * self.standard_deviation() / (error * self.mean())).powi(2).ceil().max(1.0) as u64)
    }

    /// How many random offsets it takes to know the whole distribution function to within `error` (0.1 for ten
    /// points), whatever the distribution.
    ///
    /// # Formula
    /// ln(2 / (1 - confidence)) / (2 error^2).
    ///
    /// # Errors
    /// [`Error::Value`] unless both lie between 0 and 1.
    ///
    /// # References
    /// Massart, *The Tight Constant in the Dvoretzky-Kiefer-Wolfowitz Inequality*, Annals of Probability 18, 1990.
    pub fn offsets_for_distribution(error: f64, confidence: f64) -> Result<u64, Error> {
        open_unit("an error", error)?;
        open_unit("a confidence", confidence)?;
        Ok(((2.0 / (1.0 - confidence)).ln() / (2.0 * error * error)).ceil() as u64)
    }
}

/// Standard deviations around the mean that hold a normal variable with the given confidence.
fn two_sided(confidence: f64) -> Result<f64, Error> {
    Ok(normal::quantile(0.5 + open_unit("a confidence", confidence)? / 2.0))
}

#[cfg(test)]
mod tests;
