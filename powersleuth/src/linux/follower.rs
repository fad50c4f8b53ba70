//! Sets the frequencies of a schedule while its program runs.

use std::hash::Hash;

use super::files::Files;
use super::pin::Pin;
use crate::analysis::Schedule;
use crate::{Error, Hertz};

/// Sets the frequency of each phase as it comes, until it is dropped; the limits are then as they were found, and with
/// a [guarded](Pin::guarded) pin also after SIGKILL.
///
/// The limits of the governor are narrowed to one frequency, which every driver follows: `userspace`, `schedutil`,
/// `intel_pstate` and `amd_pstate` alike, without a change of governor.
///
/// # Limits
/// The phase of an interval that begins is a prediction: where it is wrong, the interval runs at another phase's
/// frequency. The processor may run slower than it is told to (power limits, heat).
#[derive(Debug)]
pub struct Follower<P, F: Files> {
    pin: Pin<F>,
    schedule: Schedule<P>,
    dwell: u32,
    since: u32, // intervals at the present frequency
    at: Option<Hertz>,
    changes: u64,
}

impl<P: Clone + Eq + Hash + Ord, F: Files + Clone> Follower<P, F> {
    /// Follows `schedule`. A frequency is lowered only after at least `dwell` intervals at the one before; it is raised
    /// at once, since a phase at too low a frequency breaks its bound. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the processor does not have one of the frequencies.
    pub fn new(pin: Pin<F>, schedule: Schedule<P>, dwell: u32) -> Result<Self, Error> {
        let used = schedule.choices().iter().filter_map(|(phase, _)| schedule.frequency(phase));
        used.chain(schedule.fastest()).try_for_each(|frequency| pin.offered(frequency).map(drop))?;
        Ok(Self { pin, schedule, dwell, since: 0, at: None, changes: 0 })
    }

    /// Sets the frequency for an interval of phase `next` that begins, and returns it. A phase that the schedule does
    /// not have, or `None` for one that could not be predicted, runs at the highest frequency of the schedule.
    ///
    /// # Errors
    /// As [`Pin::set`].
    pub fn enter(&mut self, next: Option<&P>) -> Result<Option<Hertz>, Error> {
        let wanted = next.and_then(|phase| self.schedule.frequency(phase)).or(self.schedule.fastest());
        let waits = |now: Hertz, wanted: Hertz| wanted < now && self.since < self.dwell;
        let Some(wanted) = wanted.filter(|&wanted| self.at != Some(wanted)) else {
            self.since = self.since.saturating_add(1);
            return Ok(self.at);
        };
        if self.at.is_some_and(|now| waits(now, wanted)) {
            self.since += 1;
            return Ok(self.at);
        }
        self.pin.set(wanted)?;
        self.changes += u64::from(self.at.is_some());
        (self.at, self.since) = (Some(wanted), 1);
        Ok(self.at)
    }

    /// How often the frequency was changed after it was first set.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Restores the limits now and returns an error if that fails, which dropping cannot.
    ///
    /// # Errors
    /// As [`Pin::restore`].
    pub fn stop(self) -> Result<(), Error> {
        self.pin.restore()
    }
}
