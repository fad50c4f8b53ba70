//! A testbed whose target is confined by the hardware.

use super::{Partition, ResctrlFiles};
use crate::counts::{PirateCounts, Reading};
use crate::error::PirateError;
use crate::testbed::{Evidence, LinePlacement, Outcome, SharedCache, Testbed, Until, Who};

/// Walks after which the target's old lines are taken to be gone where they cannot be counted.
pub const UNMONITORED_WALKS: u32 = 4;

/// A testbed whose pirate only sweeps the target's old lines out of ways that are no longer its own.
///
/// The pirate's counts are not those of the sweeper: a walk touches each line of the others' ways, and "fetches" those
/// that still held a line of the target when it ended. So a point is trusted where at most the plan's share of them
/// did, and its effective size counts them.
pub struct Confined<T, F: ResctrlFiles> {
    partition: Partition<F>, // dropped first: the target runs on without it
    _guard: Option<Box<dyn Send>>,
    inner: T,
    left: u64, // bytes of the target
    pirate: PirateCounts,
    traffic: (u64, Option<f64>), // the last reading, and the sum as long as it is known
}

impl<T: Testbed<Error: From<PirateError>>, F: ResctrlFiles> Confined<T, F> {
    /// Begins to confine the target of `inner`, whose process the partition was prepared for. `guard` is dropped
    /// after everything was put back.
    ///
    /// # Errors
    /// As [`Partition::begin`].
    pub fn new(
        inner: T,
        mut partition: Partition<F>,
        guard: Option<Box<dyn Send>>,
    ) -> Result<Self, PirateError> {
        partition.begin()?;
        let left = partition.cache().bytes;
        let first = partition.traffic()?;
        let traffic = (first.unwrap_or(0), partition.counts_traffic().then_some(0.0));
        Ok(Self { partition, _guard: guard, inner, left, pirate: PirateCounts::default(), traffic })
    }

    /// The groups and masks.
    #[must_use]
    pub const fn partition(&self) -> &Partition<F> {
        &self.partition
    }

    /// The testbed inside.
    #[must_use]
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// The testbed inside, to let the target run to its end for example.
    pub const fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Counts the lines of the target that are outside its ways, after so many walks.
    fn account(&mut self, walks: u32) -> Result<(), PirateError> {
        let line = u64::from(self.partition.cache().line_size);
        let lines = (self.partition.cache().bytes - self.left) / line;
        if lines == 0 {
            return Ok(());
        }
        self.pirate.touches += f64::from(walks) * lines as f64;
        if self.partition.counts_occupancy() {
            // No answer is no evidence.
            let occupied = self.partition.occupancy()?.unwrap_or(u64::MAX);
            self.pirate.fetches += (occupied.saturating_sub(self.left) / line).min(lines) as f64;
        }
        Ok(())
    }
}

impl<T: Testbed<Error: From<PirateError>>, F: ResctrlFiles> Testbed for Confined<T, F> {
    type Error = T::Error;

    /// The part of the cache that can be divided.
    fn cache(&self) -> SharedCache {
        self.partition.cache()
    }

    fn evidence(&self) -> Evidence {
        Evidence::Confined
    }

    /// Exact: the hardware keeps the sides apart in every set.
    fn placement(&self) -> LinePlacement {
        LinePlacement { ways: Some(self.partition.ways()), ..LinePlacement::default() }
    }

    /// Confines the target to the rest, a whole number of ways.
    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), T::Error> {
        self.left = self.partition.cache().bytes.saturating_sub(bytes);
        self.partition.leave(self.left)?;
        // Twice: whatever the policy, and wherever the pages lie, all ways of all sets are swept.
        self.inner.steal((2 * bytes).min(2 * self.inner.cache().bytes), threads)
    }

    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, T::Error> {
        let outcome = match (who, until) {
            (Who::Pirate, Until::Walks(walks)) => {
                let counted = self.partition.counts_occupancy();
                let each = if counted { 1 } else { UNMONITORED_WALKS };
                let outcome = self.inner.run(who, Until::Walks(walks.saturating_mul(each)))?;
                self.account(walks)?;
                outcome
            }
            // The sweeper rests: nothing competes with the target.
            (Who::Both, Until::Work(_)) => {
                let outcome = self.inner.run(Who::Target, until)?;
                self.account(1)?;
                outcome
            }
            _ => self.inner.run(who, until)?,
        };
        if let (before, Some(sum)) = self.traffic {
            let now = self.partition.traffic()?;
            // A counter that was reset or taken away leaves the sum unknown.
            let more = now.and_then(|now| Some((now, sum + now.checked_sub(before)? as f64)));
            self.traffic = more.map_or((before, None), |(now, sum)| (now, Some(sum)));
        }
        Ok(outcome)
    }

    fn read(&mut self) -> Result<Reading, T::Error> {
        let mut reading = self.inner.read()?;
        reading.pirate = self.pirate;
        reading.target.traffic = self.traffic.1;
        Ok(reading)
    }
}
