//! Leader-follower clustering: phases while the program runs.
//!
//! A window joins the nearest phase if that is near enough, and the centre of the phase becomes the mean of its
//! members; otherwise it founds a phase. One pass, no number of phases chosen beforehand, and the result depends on
//! the order of windows, which is the price.

use super::metric::Share;
use super::table::Table;
use super::{Classification, Clusterer, Distance, Frozen, check_kind};
use crate::{Error, PhaseId, Signature, SignatureKind};

/// Threshold for signatures that count every block, as a fraction of the largest possible distance.
///
/// Chosen by the CCoV of the miss ratio at 32 KiB in windows of 10 M instructions: from 0.4 over 0.2 to 0.1 it falls from
/// 1.6 over 1.3 to 0.8 for a python script and from 0.28 over 0.23 to 0.18 for xz; at 0.05 it rises again for xz.
pub const DEFAULT_THRESHOLD: f64 = 0.1;

/// Threshold for signatures of a few hundred samples on 32 entries, as a fraction of the largest possible distance.
///
/// Two signatures of 200 samples of the very same code lie about 0.2 apart by sampling noise alone. The papers say "20 %";
/// the library their authors published scales that number twice (to the range 0..2 of the Manhattan distance, and again
/// when it compares), so that it acts like 0.4 here.
pub const SAMPLED_THRESHOLD: f64 = 0.4;

/// Windows from which on a phase is no longer in transition.
///
/// The largest number that leaves at least 90 % of the windows outside transitions on the programs it was chosen on
/// (an embedded run of five kernels, xz, perl): 94, 99 and 90 %.
pub const DEFAULT_TRANSITION_THRESHOLD: u64 = 3;

/// Phases kept by default: more than any program measured so far has (200, a compiler), few enough that a program that never
/// repeats itself takes 7 MB, with signatures of 128 entries, and not memory and time for each window it ever had.
pub const DEFAULT_CAPACITY: usize = 4096;

/// Parameters of [`LeaderFollower`]; checked by [`LeaderFollower::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LeaderFollowerConfig {
    /// Largest distance at which a window still joins a phase, as a fraction of the largest possible distance
    /// (half the Manhattan distance of two frequency vectors). In 0..=1.
    pub threshold: f64,
    /// Phases kept at most; the least recently used one makes room. `None`: no bound. At least 1.
    pub capacity: Option<usize>,
    /// A phase seen in fewer windows than this is in transition. 0 and 1 switch the distinction off.
    pub transition_threshold: u64,
}

impl Default for LeaderFollowerConfig {
    /// For signatures that count every block: threshold 0.1, 4,096 phases at most, transitions below 3 windows.
    fn default() -> Self {
        Self {
            threshold: DEFAULT_THRESHOLD,
            capacity: Some(DEFAULT_CAPACITY),
            transition_threshold: DEFAULT_TRANSITION_THRESHOLD,
        }
    }
}

impl LeaderFollowerConfig {
    fn check(&self) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&self.threshold) {
            return Err(Error::Parameter {
                name: "threshold",
                value: self.threshold,
                limit: "it is a fraction of the largest possible distance, from 0 to 1",
            });
        }
        check_capacity(self.capacity)
    }
}

pub(super) fn check_capacity(capacity: Option<usize>) -> Result<(), Error> {
    if capacity == Some(0) {
        return Err(Error::Parameter {
            name: "capacity",
            value: 0.0,
            limit: "a clusterer needs room for at least 1 phase",
        });
    }
    Ok(())
}

/// Leader-follower clustering of frequency signatures by Manhattan distance.
///
/// ```
/// use phase_detect::{Clusterer, LeaderFollower, LeaderFollowerConfig, Signature};
///
/// let mut phases = LeaderFollower::new(LeaderFollowerConfig { threshold: 0.2, ..Default::default() })?;
/// let first = phases.classify(&Signature::frequency([9.0, 1.0])?)?;
/// let same = phases.classify(&Signature::frequency([8.0, 2.0])?)?;
/// let other = phases.classify(&Signature::frequency([1.0, 9.0])?)?;
/// assert!(first.founded && !same.founded && other.founded);
/// assert_eq!(first.phase, same.phase);
/// assert!((same.distance - 0.1).abs() < 1e-12);
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Formula
/// `d(s, c) = sum_i |s_i - c_i| / 2`; join the nearest phase if `d <= threshold`, then
/// `c <- c + (s - c) / members`; otherwise found a phase with centre `s`.
///
/// # Accuracy
/// Distances and centres are exact to `f64` rounding. Between centres whose distances differ by less than about 1e-6
/// either may be taken for the nearest. All signatures must have the length of the first.
///
/// # Cost
/// At most proportional to phases times entries, where phases are apart mostly one distance; nothing is allocated unless a
/// phase is founded.
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.5; transition
/// phases: Lau, Schoenmackers, Calder, *Transition Phase Classification and Prediction*, HPCA 2005.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct LeaderFollower {
    config: LeaderFollowerConfig,
    table: Table,
}

impl LeaderFollower {
    /// A clusterer without phases.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(config: LeaderFollowerConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self::with_checked(config))
    }

    pub(crate) fn with_checked(config: LeaderFollowerConfig) -> Self {
        Self { config, table: Table::new(config.capacity) }
    }

    /// The parameters.
    pub fn config(&self) -> &LeaderFollowerConfig {
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
            Distance::Manhattan,
            SignatureKind::Frequency,
            0.5,
            self.phases().map(|(phase, members, centre)| (phase, members, centre.to_vec())),
        )
    }
}

impl Clusterer for LeaderFollower {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        check_kind(SignatureKind::Frequency, signature)?;
        self.table.classify::<Share>(signature, self.config.threshold, self.config.transition_threshold)
    }

    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        check_kind(SignatureKind::Frequency, signature)?;
        self.table.nearest::<Share>(signature)
    }

    fn note_match(&mut self, phase: PhaseId) {
        self.table.touch(phase);
    }
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    config: LeaderFollowerConfig,
    table: Table,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for LeaderFollower {
    type Error = Error;
    fn try_from(saved: Saved) -> Result<Self, Error> {
        saved.config.check()?;
        if saved.table.capacity() != saved.config.capacity {
            return Err(Error::SavedState {
                what: "the capacity of the configuration is not that of the table",
            });
        }
        if !saved.table.phases().all(|(_, _, centre)| super::can_be_centre(SignatureKind::Frequency, centre))
        {
            return Err(Error::SavedState { what: "a centre has an entry that is no frequency" });
        }
        Ok(Self { config: saved.config, table: saved.table })
    }
}
