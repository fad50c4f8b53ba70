//! A saturating counter of right answers.

/// Counts up to [`Confidence::MAX`] on right answers and down to 0 on wrong ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "u8", into = "u8"))]
pub(crate) struct Confidence(u8); // in 0..=MAX

impl Confidence {
    /// Ten right answers in a row are full confidence.
    pub(crate) const MAX: u8 = 10;

    #[inline]
    pub(crate) fn record(&mut self, right: bool) {
        self.0 = if right { (self.0 + 1).min(Self::MAX) } else { self.0.saturating_sub(1) };
    }

    #[inline]
    pub(crate) fn count(self) -> u8 {
        self.0
    }

    /// As a fraction of its maximum.
    #[inline]
    pub(crate) fn share(self) -> f64 {
        f64::from(self.0) / f64::from(Self::MAX)
    }
}

impl From<u8> for Confidence {
    fn from(count: u8) -> Self {
        Self(count.min(Self::MAX))
    }
}

impl From<Confidence> for u8 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}
