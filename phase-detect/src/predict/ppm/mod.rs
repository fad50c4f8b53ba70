//! Prediction by partial matching: the longest past that is known says what comes next, shorter ones what it does not.

mod calibration;
mod past;
mod table;

pub use table::{PpmHistory, PpmTable};

use super::{Prediction, Predictor, SharedTable};
use crate::{Error, PhaseId};

/// Prediction by partial matching over runs of windows.
///
/// Five pasts are looked up, from the phase alone to the last three phases with the lengths of their runs. Each that has
/// been seen before corrects what the shorter ones say, by as much as is known of it, so that a program is foreseen
/// from the first repetition on and one that never does the same twice is not misjudged. A change is announced where it is
/// likelier than another window of the same phase, and only while announcements have lately been right more often
/// than the last value would have been.
///
/// ```
/// use phase_detect::{PhaseId, Ppm, Predictor};
///
/// let mut next = Ppm::default();
/// // phases 0 0 0 1 0 0 0 2, over and over
/// for window in 0..40 {
///     next.observe(PhaseId::new([0, 0, 0, 1, 0, 0, 0, 2][window % 8]));
/// }
/// assert_eq!(next.predict().map(|p| p.phase), Some(PhaseId::new(0))); // after 2
/// assert_eq!(next.windows_to_change(0.5), Some(1));
/// ```
///
/// # Formula
/// With `c` changes and `s` other windows seen after a past, the chance of a change is `(c + p) / (c + s + 1)`, `p` being
/// that after the next shorter past (0.1 where nothing is known). The chance that a change leads to phase `q`, seen `n` of
/// the `c` times beside `k` different phases, is `(n + k p_q) / (c + k)`. [`Prediction::confidence`] is the chance of the
/// phase that was predicted, corrected by how often predictions of such a chance came true.
///
/// # Accuracy
/// Of 3,352 changes in seven real programs that it was not chosen on it foresees 34 % (18 % without the compiler among them),
/// [`RunLengthMarkov`](super::RunLengthMarkov) 6 %. Its confidence is the share that comes true, to 4 points:
/// `docs/phases.md` in the repository.
///
/// # Cost
/// Ten places of a table for a window; the table grows from 12 to 384 KiB as pasts are learned, and allocates nothing else.
///
/// # References
/// Cleary, Witten, *Data Compression Using Adaptive Coding and Partial String Matching*, IEEE Transactions on Communications
/// 1984; weights of shorter pasts: Witten, Bell 1991, method C. Run lengths as context: Sherwood, Sair, Calder, ISCA 2003.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ppm {
    table: PpmTable,
    history: PpmHistory,
}

impl Ppm {
    /// A predictor that remembers at most `entries` pasts; see [`PpmTable::new`].
    ///
    /// # Errors
    /// [`Error::Parameter`] if `entries` is no power of two from 16 to 2^20.
    pub fn new(entries: usize) -> Result<Self, Error> {
        Ok(Self { table: PpmTable::new(entries)?, history: PpmHistory::default() })
    }
}

impl Predictor for Ppm {
    fn observe(&mut self, phase: PhaseId) {
        self.table.observe(&mut self.history, phase);
    }

    fn predict(&self) -> Option<Prediction> {
        self.table.predict(&self.history)
    }

    fn windows_to_change(&self, quantile: f64) -> Option<u32> {
        self.table.windows_to_change(&self.history, quantile)
    }
}
