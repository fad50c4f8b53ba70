//! Dynamic sample rate: fewer samples while nothing changes.
//!
//! Recognising a known phase takes fewer samples than learning a new one. While a program stays in a stable phase and
//! is predicted to stay, the sample period doubles window by window up to a limit; a change, a predicted change or a
//! window that matches nothing brings it back. Windows measured with few samples are matched with known phases, at a
//! looser threshold, and never learned from.

use crate::{Error, PhaseId, Prediction};

/// Parameters of [`DynamicRate`]; checked by [`DynamicRate::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DynamicRateConfig {
    /// Longest sample period, in multiples of the normal one: at least 1.
    pub max_factor: u32,
    /// Largest distance at which a window of few samples still matches a phase, in the unit of the clusterer's
    /// threshold. Positive and finite.
    pub match_threshold: f64,
    /// Least confidence of a prediction that lets the period grow, from 0 to 1.
    pub min_confidence: f64,
}

impl Default for DynamicRateConfig {
    /// Up to 8 times the period (200 samples become 25), matching at half the largest distance, after one right
    /// answer of the predictor. 25 samples spread evenly over 32 entries lie 0.45 from the centre of their own phase.
    fn default() -> Self {
        Self { max_factor: 8, match_threshold: 0.5, min_confidence: 0.1 }
    }
}

/// Decides, window by window, by how much to lengthen the sample period.
///
/// Independent of any sampler: whoever takes the samples multiplies its period by [`factor`](Self::factor), and
/// classifies if [`learning`](Self::learning), otherwise only matches.
///
/// ```
/// use phase_detect::online::{DynamicRate, DynamicRateConfig};
/// use phase_detect::{PhaseId, Prediction};
///
/// let mut rate = DynamicRate::new(DynamicRateConfig::default())?;
/// let stay = Prediction { phase: PhaseId::new(0), confidence: 1.0 };
/// let factors: Vec<u32> = (0..5).map(|_| rate.observe(Some(PhaseId::new(0)), false, Some(stay))).collect();
/// assert_eq!(factors, [1, 2, 4, 8, 8]); // the first window has nothing to be compared with
/// assert_eq!(rate.observe(None, false, Some(stay)), 1); // matched nothing
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.6.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct DynamicRate {
    config: DynamicRateConfig,
    factor: u32, // in 1..=config.max_factor
    // whether there was a window, and what it belonged to
    started: bool,
    last: Option<PhaseId>,
}

impl DynamicRate {
    /// A controller at the normal period.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: DynamicRateConfig) -> Result<Self, Error> {
        let parameter = |name, value, limit| Err(Error::Parameter { name, value, limit });
        if config.max_factor == 0 {
            return parameter("max_factor", 0.0, "the sample period is multiplied by at least 1");
        }
        if !(config.match_threshold > 0.0 && config.match_threshold.is_finite()) {
            return parameter("match_threshold", config.match_threshold, "it must be positive and finite");
        }
        if !(0.0..=1.0).contains(&config.min_confidence) {
            return parameter("min_confidence", config.min_confidence, "a confidence is from 0 to 1");
        }
        Ok(Self { config, factor: 1, started: false, last: None })
    }

    /// The parameters.
    pub fn config(&self) -> &DynamicRateConfig {
        &self.config
    }

    /// What to multiply the normal sample period by in the next window.
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// Whether the next window is sampled at the full rate, so that it may be learned from.
    pub fn learning(&self) -> bool {
        self.factor == 1
    }

    /// Takes note of a window that has ended: its phase (`None` if it matched nothing), whether that phase is still in
    /// transition, and what is predicted for the next window. Returns the new [`factor`](Self::factor).
    pub fn observe(&mut self, phase: Option<PhaseId>, in_transition: bool, next: Option<Prediction>) -> u32 {
        let before = std::mem::replace(&mut self.last, phase);
        if !std::mem::replace(&mut self.started, true) {
            return self.factor;
        }
        let stays =
            next.is_some_and(|p| Some(p.phase) == phase && p.confidence >= self.config.min_confidence);
        if phase.is_none() || phase != before || !stays {
            self.factor = 1;
        } else if !in_transition {
            self.factor = self.factor.saturating_mul(2).min(self.config.max_factor);
        }
        self.factor
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    config: DynamicRateConfig,
    factor: u32,
    started: bool,
    last: Option<PhaseId>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for DynamicRate {
    type Error = Error;
    fn try_from(saved: Saved) -> Result<Self, Error> {
        let mut rate = Self::new(saved.config)?;
        if !(1..=saved.config.max_factor).contains(&saved.factor) {
            return Err(Error::SavedState { what: "the factor of the sample period is outside its range" });
        }
        rate.factor = saved.factor;
        rate.started = saved.started;
        rate.last = saved.last;
        Ok(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(phase: u32, confidence: f64) -> Prediction {
        Prediction { phase: PhaseId::new(phase), confidence }
    }

    /// Each rule of the section, one after the other.
    #[test]
    fn the_rules() {
        let (a, b) = (Some(PhaseId::new(0)), Some(PhaseId::new(1)));
        let mut rate = DynamicRate::new(DynamicRateConfig::default()).unwrap();
        for (phase, transition, next, factor, why) in [
            (a, false, Some(at(0, 1.0)), 1, "first window"),
            (a, false, Some(at(0, 0.1)), 2, "stable and predicted stable"),
            (a, true, Some(at(0, 1.0)), 2, "in transition: no growth"),
            (a, false, Some(at(0, 1.0)), 4, "grows on"),
            (a, false, Some(at(1, 1.0)), 1, "a change is predicted"),
            (a, false, Some(at(0, 1.0)), 2, "grows again"),
            (b, false, Some(at(1, 1.0)), 1, "it changed"),
            (b, false, Some(at(1, 1.0)), 2, "grows again"),
            (b, false, Some(at(1, 0.0)), 1, "the predictor is not sure"),
            (b, false, Some(at(1, 1.0)), 2, "grows again"),
            (b, false, None, 1, "no prediction"),
            (None, false, Some(at(1, 1.0)), 1, "matched nothing"),
            (None, false, Some(at(1, 1.0)), 1, "two in a row are no stable phase"),
            (b, false, Some(at(1, 1.0)), 1, "a return is a change"),
        ] {
            assert_eq!(rate.observe(phase, transition, next), factor, "{why}");
            assert_eq!(rate.learning(), factor == 1);
        }
    }

    #[test]
    fn parameters_are_checked() {
        let good = DynamicRateConfig::default();
        for bad in [
            DynamicRateConfig { max_factor: 0, ..good },
            DynamicRateConfig { match_threshold: 0.0, ..good },
            DynamicRateConfig { match_threshold: f64::NAN, ..good },
            DynamicRateConfig { min_confidence: 1.1, ..good },
        ] {
            assert!(matches!(DynamicRate::new(bad), Err(Error::Parameter { .. })), "{bad:?}");
        }
    }
}
