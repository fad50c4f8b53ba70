//! What was counted in one interval.

use crate::error::{Error, not_negative, positive};
use crate::{Cycles, Hertz, Seconds};

/// Counts of one interval that the performance models read.
///
/// They may be counted, or interpolated from intervals of the same phase, and so need not be whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct Counts {
    instructions: f64,               // > 0
    cycles: Cycles,                  // > 0
    stall_cycles: Cycles,            // in [0, cycles]
    llc_misses: f64,                 // >= 0
    leading_misses: Option<f64>,     // >= 0
    resource_stalls: Option<Cycles>, // >= 0
}

/// Counts as they are read: not yet known to be of one interval.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    instructions: f64,
    cycles: Cycles,
    stall_cycles: Cycles,
    llc_misses: f64,
    leading_misses: Option<f64>,
    resource_stalls: Option<Cycles>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Counts {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let mut counts = Self::new(saved.instructions, saved.cycles, saved.stall_cycles, saved.llc_misses)?;
        if let Some(misses) = saved.leading_misses {
            counts = counts.with_leading_misses(misses)?;
        }
        if let Some(stalls) = saved.resource_stalls {
            counts = counts.with_resource_stalls(stalls)?;
        }
        Ok(counts)
    }
}

impl Counts {
    /// Retired `instructions`, elapsed core `cycles`, cycles in which nothing executed (`stall_cycles`, for
    /// whatever reason), and `llc_misses`, demand requests that went to memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless all are finite, the first two above 0, the others not negative;
    /// [`Error::StallsExceedCycles`].
    pub fn new(
        instructions: f64,
        cycles: Cycles,
        stall_cycles: Cycles,
        llc_misses: f64,
    ) -> Result<Self, Error> {
        positive("the number of instructions", instructions)?;
        positive("the number of cycles", cycles.0)?;
        not_negative("the number of stall cycles", stall_cycles.0)?;
        not_negative("the number of misses", llc_misses)?;
        if stall_cycles > cycles {
            return Err(Error::StallsExceedCycles { part: stall_cycles.0, whole: cycles.0 });
        }
        Ok(Self {
            instructions,
            cycles,
            stall_cycles,
            llc_misses,
            leading_misses: None,
            resource_stalls: None,
        })
    }

    /// With the number of misses that are the first of a cluster of overlapping ones, where it was counted.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and not negative.
    pub fn with_leading_misses(mut self, leading_misses: f64) -> Result<Self, Error> {
        self.leading_misses = Some(not_negative("the number of leading misses", leading_misses)?);
        Ok(self)
    }

    /// With the cycles in which nothing was dispatched for want of some resource (mostly the reorder buffer),
    /// where they were counted.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless they are finite and not negative.
    pub fn with_resource_stalls(mut self, resource_stalls: Cycles) -> Result<Self, Error> {
        not_negative("the number of resource stalls", resource_stalls.0)?;
        self.resource_stalls = Some(resource_stalls);
        Ok(self)
    }

    /// Retired instructions.
    #[must_use]
    pub const fn instructions(&self) -> f64 {
        self.instructions
    }

    /// Core cycles.
    #[must_use]
    pub const fn cycles(&self) -> Cycles {
        self.cycles
    }

    /// Cycles in which nothing executed.
    #[must_use]
    pub const fn stall_cycles(&self) -> Cycles {
        self.stall_cycles
    }

    /// Misses of the last level of cache.
    #[must_use]
    pub const fn llc_misses(&self) -> f64 {
        self.llc_misses
    }

    /// Misses that lead a cluster, where they were counted.
    #[must_use]
    pub const fn leading_misses(&self) -> Option<f64> {
        self.leading_misses
    }

    /// Cycles in which nothing was dispatched, where they were counted.
    #[must_use]
    pub const fn resource_stalls(&self) -> Option<Cycles> {
        self.resource_stalls
    }
}

/// A core that executes in order and waits for every miss in full: what a program would count whose misses are modelled, not
/// measured.
///
/// # Formula
/// `cycles = instructions * cycles_per_instruction + stalls`, `stalls = misses * memory_latency * frequency`.
///
/// # Accuracy and limits
/// Cores that execute out of order overlap misses with each other and with instructions: their stalls are fewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InOrderCore {
    /// Frequency of its clock.
    pub frequency: Hertz,
    /// Cycles of an instruction that does not wait for memory; more than 0.
    pub cycles_per_instruction: f64,
    /// Time that a miss of the last level of cache takes.
    pub memory_latency: Seconds,
}

impl InOrderCore {
    /// Counts of an interval of so many instructions and misses of the last level of cache.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless the core's three numbers and the instructions are finite and above 0, and the misses
    /// finite and not negative.
    pub fn counts(&self, instructions: f64, llc_misses: f64) -> Result<Counts, Error> {
        positive("the frequency in hertz", self.frequency.0)?;
        positive("the cycles per instruction", self.cycles_per_instruction)?;
        let wait = checked_latency(self.memory_latency)?.0 * self.frequency.0;
        let stalls = not_negative("the number of misses", llc_misses)? * wait;
        let cycles = instructions * self.cycles_per_instruction + stalls;
        Counts::new(instructions, Cycles(cycles), Cycles(stalls), llc_misses)
    }
}

/// Frequency of a profile and of the runs that it is calibrated with, checked.
pub(super) fn check_two(from: Hertz, to: Hertz) -> Result<(), Error> {
    positive("the frequency in hertz", from.0)?;
    positive("the frequency in hertz", to.0)?;
    if from == to {
        return Err(Error::Duplicate { what: "frequency", which: from.to_string() });
    }
    Ok(())
}

/// Latency of memory, checked: the time from a miss in the last level of cache to its data.
pub(super) fn checked_latency(memory_latency: Seconds) -> Result<Seconds, Error> {
    positive("the memory latency in seconds", memory_latency.0).map(Seconds)
}
