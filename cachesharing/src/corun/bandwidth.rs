//! How much bandwidth programs ask for, and for how much of the time (the paper's figure IV.6).

use super::{Step, Until};
#[cfg(feature = "serde")]
use crate::error::{Error, finite};

/// Bandwidth demand, weighted by time.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct BandwidthDistribution {
    steps: Vec<(f64, f64)>, // bandwidth falling, time up to the end of the step
}

/// A distribution as it is read: not yet known to be in order.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    steps: Vec<(f64, f64)>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for BandwidthDistribution {
    type Error = Error;

    fn try_from(Saved { steps }: Saved) -> Result<Self, Error> {
        let mut before = (f64::INFINITY, 0.0);
        for &(bandwidth, until) in &steps {
            finite("a bandwidth", bandwidth)?;
            finite("the end of a step", until)?;
            if bandwidth > before.0 || until < before.1 || until == 0.0 {
                let (what, value) = ("a step of a distribution of bandwidths", bandwidth);
                return Err(Error::Value { what, value, remedy: "falling bandwidths and rising times" });
            }
            before = (bandwidth, until);
        }
        Ok(Self { steps })
    }
}

impl BandwidthDistribution {
    /// From pairs of bandwidth and the time it was asked for.
    ///
    /// Pairs whose time is not above 0, or whose bandwidth is not a number, are left out.
    pub fn new(demands: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut steps: Vec<(f64, f64)> =
            demands.into_iter().filter(|&(bandwidth, time)| !bandwidth.is_nan() && time > 0.0).collect();
        steps.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut total = 0.0;
        for step in &mut steps {
            total += step.1;
            step.1 = total;
        }
        Self { steps }
    }

    /// Of all programs of a run together.
    #[must_use]
    pub fn of_run<P, M>(run: &super::CoRun<'_, P, M>, offsets: &[f64], until: Until) -> Self
    where
        P: Clone + Eq + std::hash::Hash,
        M: crate::SharingModel,
    {
        let mut demands = Vec::new();
        run.run(offsets, until, |step: &Step<'_>| {
            demands.push((step.shares.iter().map(|s| s.bandwidth).sum(), step.time));
        });
        Self::new(demands)
    }

    /// The bandwidth that is exceeded during `fraction` of the time (0 to 1; beyond, the nearest of the two);
    /// 0 if there was no time.
    #[must_use]
    pub fn exceeded_during(&self, fraction: f64) -> f64 {
        let (Some(last), total) = (self.steps.last(), self.time()) else { return 0.0 };
        let after = self.steps.partition_point(|&(_, time)| time <= fraction * total);
        self.steps.get(after).unwrap_or(last).0
    }

    /// Fraction of the time during which more than `bandwidth` is asked for.
    #[must_use]
    pub fn fraction_above(&self, bandwidth: f64) -> f64 {
        let above = self.steps.partition_point(|&(b, _)| b > bandwidth);
        above.checked_sub(1).map_or(0.0, |last| self.steps[last].1 / self.time())
    }

    /// Mean bandwidth over time; 0 if there was no time.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for &(bandwidth, until) in &self.steps {
            sum += bandwidth * (until - before);
            before = until;
        }
        if before > 0.0 { sum / before } else { 0.0 }
    }

    /// The steps of the curve: bandwidth, falling, and the fraction of the time during which at least that is
    /// asked for.
    pub fn curve(&self) -> impl ExactSizeIterator<Item = (f64, f64)> + '_ {
        let total = self.time();
        self.steps.iter().map(move |&(bandwidth, time)| (bandwidth, time / total))
    }

    fn time(&self) -> f64 {
        self.steps.last().map_or(0.0, |s| s.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn against_a_hand_count() {
        let d = BandwidthDistribution::new([(2.0, 1.0), (8.0, 2.0), (4.0, 1.0), (9.0, 0.0)]);
        assert_eq!(d.mean(), (2.0 + 16.0 + 4.0) / 4.0);
        assert_eq!(
            [0.0, 0.49, 0.5, 0.74, 0.75, 1.0].map(|f| d.exceeded_during(f)),
            [8.0, 8.0, 4.0, 4.0, 2.0, 2.0]
        );
        assert_eq!(
            [9.0, 8.0, 7.9, 4.0, 3.9, 0.0].map(|b| d.fraction_above(b)),
            [0.0, 0.0, 0.5, 0.5, 0.75, 1.0]
        );
        let nothing = BandwidthDistribution::new([]);
        assert_eq!(
            (nothing.mean(), nothing.exceeded_during(0.5), nothing.fraction_above(1.0)),
            (0.0, 0.0, 0.0)
        );
    }
}
