//! From samples to a distribution: the plain fraction, or the product-limit estimate where samples were
//! censored.

use crate::engine::bins;

/// A piece of the distribution: the distances from `low` to `high` (equal below 1,024) together have this
/// probability.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DistanceMass {
    /// Smallest distance of the piece.
    pub low: u64,
    /// Largest distance of the piece.
    pub high: u64,
    /// Probability that the line of an access is touched again, or taken away by another thread's store, at one of these
    /// distances. Greater than 0.
    pub probability: f64,
    /// The part of it that is taken away: the next access misses at every size. At most `probability`.
    pub invalidated: f64,
}

impl DistanceMass {
    /// The distance that stands for the piece, within 0.4 % of all in it.
    #[must_use]
    pub const fn middle(&self) -> u64 {
        self.low + (self.high - self.low) / 2
    }
}

/// Distribution of the reuse distance of an access.
///
/// # Formula
/// Without censored samples, each probability is the plain fraction of the samples' weight. With them it is
/// the product-limit (Kaplan-Meier) estimate: with e(d) the weight of samples reused (or invalidated) at distance d, and n(d)
/// the weight of those still followed when d accesses had passed,
///
/// P(D > d) = product over d' <= d of (1 - e(d') / n(d')).
///
/// A sample censored with `at_least` = a counts in n(d) for d < a. Dangling samples are followed for ever.
/// Samples followed beyond the last reuse seen leave the rest of the probability: as
/// [`dangling`](Self::dangling) in proportion to the dangling ones among them, the others as
/// [`unresolved`](Self::unresolved): their line may be reused later than the [`horizon`](Self::horizon), or
/// never.
///
/// # References
/// Kaplan and Meier, *Nonparametric Estimation from Incomplete Observations*, JASA 53 (1958), section 2.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct ReuseDistribution {
    masses: Vec<DistanceMass>, // ascending, disjoint
    dangling: f64,             // in [0, 1]
    unresolved: f64,           // in [0, 1]
    horizon: u64,
}

/// A distribution as it is read: not yet known to be one.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    masses: Vec<DistanceMass>,
    dangling: f64,
    unresolved: f64,
    horizon: u64,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for ReuseDistribution {
    type Error = crate::Error;

    fn try_from(saved: Saved) -> Result<Self, Self::Error> {
        let malformed = |what: String| Err(crate::Error::MalformedProfile { what });
        let Saved { masses, dangling, unresolved, horizon } = saved;
        let mut next = Some(0); // smallest distance that the next piece may have
        for &DistanceMass { low, high, probability, invalidated } in &masses {
            if next.is_none_or(|next| low < next) || high < low {
                return malformed(format!("a piece from distance {low} to {high} out of order"));
            }
            // Comparisons that a NaN fails.
            if !(probability > 0.0 && probability <= 1.0 && (0.0..=probability).contains(&invalidated)) {
                return malformed(format!(
                    "distance {low} of probability {probability}, {invalidated} invalidated"
                ));
            }
            next = high.checked_add(1);
        }
        for (what, probability) in [("dangling", dangling), ("unresolved", unresolved)] {
            if !(0.0..=1.0).contains(&probability) {
                return malformed(format!("{what} of probability {probability}"));
            }
        }
        let sum = masses.iter().map(|mass| mass.probability).sum::<f64>() + dangling + unresolved;
        if sum != 0.0 && (sum - 1.0).abs() > 1e-6 {
            return malformed(format!("probabilities that add up to {sum}"));
        }
        Ok(Self { masses, dangling, unresolved, horizon })
    }
}

impl ReuseDistribution {
    /// Estimates the distribution anew; the memory is kept.
    pub(super) fn estimate(&mut self, ended: [&[u64]; 2], censored: &[u64], dangling: u64) {
        let [reused, invalidated] = ended;
        let weight = |bins: &[u64], bin: usize| bins.get(bin).copied().unwrap_or(0);
        let last_event = reused.len().max(invalidated.len());
        let length = last_event.max(censored.len());
        let all = reused.iter().chain(invalidated).chain(censored);
        // Still followed. Exact: differences of large numbers would leave samples that there are not.
        let mut followed = all.map(|&w| u128::from(w)).sum::<u128>() + u128::from(dangling);
        let total = followed as f64;
        let masses = &mut self.masses;
        masses.clear();
        let mut survival = 1.0;
        let plain = censored.is_empty();
        for bin in 0..length {
            let (reused, taken, lost) =
                (weight(reused, bin), weight(invalidated, bin), weight(censored, bin));
            if reused | taken | lost == 0 {
                continue; // most bins of a sparse profile
            }
            followed -= u128::from(lost);
            let ended = u128::from(reused) + u128::from(taken);
            if ended > 0 {
                let (events, taken) = (ended as f64, taken as f64);
                let hazard = events / followed as f64; // they are among those followed
                let probability = if plain { events / total } else { survival * hazard };
                survival = (survival - probability).max(0.0);
                if probability > 0.0 {
                    let (low, high) = bins::bounds(bin);
                    let invalidated = probability * (taken / events);
                    masses.push(DistanceMass { low, high, probability, invalidated });
                }
            }
            followed -= ended;
        }
        let lost_beyond: f64 = censored.iter().skip(last_event).map(|&w| w as f64).sum();
        let endless = dangling as f64;
        let (dangling, unresolved) = if plain {
            (if total > 0.0 { endless / total } else { 0.0 }, 0.0)
        } else if endless + lost_beyond > 0.0 {
            let share = endless / (endless + lost_beyond);
            (survival * share, survival * (1.0 - share))
        } else {
            // Everything followed to the last reuse was reused there: rounding is all that can be left, unless
            // there was no reuse at all to follow anything to.
            (0.0, if masses.is_empty() && total > 0.0 { survival } else { 0.0 })
        };
        self.horizon = if length == 0 { 0 } else { bins::bounds(length - 1).0 };
        (self.dangling, self.unresolved) = (dangling, unresolved);
    }

    /// The pieces with positive probability, by ascending distance.
    #[must_use]
    pub fn masses(&self) -> &[DistanceMass] {
        &self.masses
    }

    /// Probability that another thread's store takes the line away: the next access to it misses at every size.
    #[must_use]
    pub fn invalidated(&self) -> f64 {
        self.masses.iter().map(|mass| mass.invalidated).sum()
    }

    /// Probability that the line is never touched again.
    #[must_use]
    pub const fn dangling(&self) -> f64 {
        self.dangling
    }

    /// Probability that could not be resolved: the line is touched again later than the
    /// [`horizon`](Self::horizon), or never. 0 where nothing was censored.
    #[must_use]
    pub const fn unresolved(&self) -> f64 {
        self.unresolved
    }

    /// The longest age up to which samples were followed.
    #[must_use]
    pub const fn horizon(&self) -> u64 {
        self.horizon
    }

    /// P(D > distance): the probability that more than `distance` accesses come before the next one to the
    /// same line, never included. Within a piece of more than one distance it falls linearly. O(pieces).
    #[must_use]
    pub fn beyond(&self, distance: u64) -> f64 {
        let mut within = 0.0;
        for mass in &self.masses {
            if mass.high <= distance {
                within += mass.probability;
            } else if mass.low <= distance {
                let width = (mass.high - mass.low) as f64 + 1.0;
                within += mass.probability * (((distance - mass.low) as f64 + 1.0) / width);
            } else {
                break;
            }
        }
        (1.0 - within).clamp(0.0, 1.0)
    }
}
