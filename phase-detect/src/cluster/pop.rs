//! POP: leader-follower clustering of event counts.
//!
//! The Precise Online Phase detector measures a handful of events over the whole window instead of sampling code, and
//! compares the counts entry by entry as percentages, so that an event of a million and one of a thousand weigh the
//! same. Which events to count is decided by [`selection`](crate::selection).

use super::leader_follower::{DEFAULT_TRANSITION_THRESHOLD, check_capacity};
use super::metric::Percentage;
use super::table::Table;
use super::{Classification, Clusterer, Distance, Frozen, check_kind};
use crate::{Error, PhaseId, Signature, SignatureKind};

/// Largest count a signature for [`Pop`] may hold; the smallest one that is not 0 is its reciprocal.
const LARGEST_COUNT: f64 = 1e30;

/// Parameters of [`Pop`]; checked by [`Pop::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PopConfig {
    /// Largest average percentage difference at which a window still joins a phase: 0.2 is 20 %. In 0..=2.
    pub threshold: f64,
    /// Phases kept at most; the least recently used one makes room. `None`: no bound. At least 1.
    pub capacity: Option<usize>,
    /// A phase seen in fewer windows than this is in transition. 0 and 1 switch the distinction off.
    pub transition_threshold: u64,
}

impl Default for PopConfig {
    /// 20 % and 32 phases as in the paper; transitions below 3 windows.
    fn default() -> Self {
        Self { threshold: 0.2, capacity: Some(32), transition_threshold: DEFAULT_TRANSITION_THRESHOLD }
    }
}

impl PopConfig {
    fn check(&self) -> Result<(), Error> {
        if !(0.0..=2.0).contains(&self.threshold) {
            return Err(Error::Parameter {
                name: "threshold",
                value: self.threshold,
                limit: "it is an average percentage difference, from 0 to 2 (200 %)",
            });
        }
        check_capacity(self.capacity)
    }
}

/// The POP detector's clusterer.
///
/// The caller supplies raw signatures of event counts per window (eight in the paper). Counts must be comparable
/// between windows: windows of equal length, or counts per instruction.
///
/// ```
/// use phase_detect::{Clusterer, Pop, PopConfig, Signature};
///
/// let mut phases = Pop::new(PopConfig::default())?;
/// let first = phases.classify(&Signature::raw([1.0e6, 900.0])?)?;
/// let near = phases.classify(&Signature::raw([1.1e6, 1000.0])?)?; // about 10 % off in both
/// let far = phases.classify(&Signature::raw([1.0e6, 10_000.0])?)?; // one counter ten times as large
/// assert_eq!(first.phase, near.phase);
/// assert!(far.founded);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// `d(s, c) = (1/n) sum_i |s_i - c_i| / ((s_i + c_i) / 2)` with 0/0 = 0; join the nearest phase if `d <= threshold`
/// and move its centre to the mean of its members; otherwise found a phase.
///
/// # Accuracy
/// As for [`LeaderFollower`](super::LeaderFollower).
///
/// # Cost
/// Proportional to phases times counters; nothing is allocated unless a phase is founded.
///
/// # References
/// The POP detector paper, sections II.C (clusterer, 20 %, 32 phases, least recently used) and III.B (distance).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct Pop {
    config: PopConfig,
    table: Table,
}

impl Pop {
    /// A clusterer without phases.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: PopConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self { config, table: Table::new(config.capacity) })
    }

    /// The parameters.
    pub fn config(&self) -> &PopConfig {
        &self.config
    }

    /// The phases held now: number, windows seen, centre. In no particular order once phases have been replaced.
    pub fn phases(&self) -> impl Iterator<Item = (PhaseId, u64, &[f64])> {
        self.table.phases()
    }

    /// Stops learning: a clusterer that assigns every window to the nearest of the phases held now.
    ///
    /// # Errors
    /// [`Error::NoPhases`] if there is none.
    pub fn freeze(&self) -> Result<Frozen, Error> {
        Frozen::new(
            Distance::AveragePercentage,
            SignatureKind::Raw,
            1.0,
            self.phases().map(|(phase, members, centre)| (phase, members, centre.to_vec())),
        )
    }
}

/// Counts are not negative, and small and large ones must survive the single precision of the search.
fn check(signature: &Signature) -> Result<(), Error> {
    check_kind(SignatureKind::Raw, signature)?;
    let allowed = |v: f64| v == 0.0 || (1.0 / LARGEST_COUNT..=LARGEST_COUNT).contains(&v);
    match signature.values().iter().position(|&v| !allowed(v)) {
        None => Ok(()),
        Some(index) => Err(Error::BadEntry {
            index,
            value: signature.values()[index],
            limit: "counts must be 0 or from 1e-30 to 1e30",
        }),
    }
}

impl Clusterer for Pop {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        check(signature)?;
        self.table.classify::<Percentage>(signature, self.config.threshold, self.config.transition_threshold)
    }

    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        check(signature)?;
        self.table.nearest::<Percentage>(signature)
    }

    fn note_match(&mut self, phase: PhaseId) {
        self.table.touch(phase);
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    config: PopConfig,
    table: Table,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Pop {
    type Error = Error;
    fn try_from(saved: Saved) -> Result<Self, Error> {
        saved.config.check()?;
        if saved.table.capacity() != saved.config.capacity {
            return Err(Error::SavedState {
                what: "the capacity of the configuration is not that of the table",
            });
        }
        Ok(Self { config: saved.config, table: saved.table })
    }
}
