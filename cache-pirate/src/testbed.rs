//! What the technique needs of a machine: five verbs.
//!
//! Everything stands still between calls: neither the target nor the pirate executes except inside
//! [`Testbed::run`]. That one rule replaces a protocol of suspending and resuming, and it makes a testbed easy
//! to write, to simulate and to leave in a clean state.

use crate::counts::Reading;

/// The cache that target and pirate share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCache {
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes in a line, a power of two.
    pub line_size: u32,
}

/// Who executes during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The target; the pirate is suspended and its lines are left to their fate.
    Target,
    /// The pirate; the target is suspended.
    Pirate,
    /// Both.
    Both,
}

/// How long a run lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// Until the target has done this much more work. Only where the target runs.
    Work(f64),
    /// Until each thread of the pirate has walked its part of the stolen lines this many times more; at once
    /// if nothing is stolen. Only where the pirate runs.
    Walks(u32),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked for.
    Done,
    /// The target came to its end. Further runs of the target end at once in the same way.
    TargetEnded,
}

/// What the pirate's fetches are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// They were counted.
    Counted,
    /// They were inferred from the pirate's time per line: coarse, and judged by a limit of its own
    /// ([`PirateParams::timed_limit`](crate::PirateParams::timed_limit)).
    Timed,
}

/// A machine on which a target runs beside a pirate.
///
/// The pirate is part of the testbed: threads on other cores than the target's that walk the stolen lines in
/// order, over and over, touching the one touched longest ago. Its threads walk disjoint parts.
pub trait Testbed {
    /// What can go wrong with the machine.
    type Error: std::error::Error;

    /// The cache to be shared.
    fn cache(&self) -> SharedCache;

    /// Most threads the pirate can have.
    fn max_threads(&self) -> usize {
        1
    }

    /// What the pirate's fetches are known from.
    fn evidence(&self) -> Evidence {
        Evidence::Counted
    }

    /// Sets the size of the pirate's working set and how many threads walk it. The first lines stay the same
    /// when it grows, and stay stolen when it shrinks.
    ///
    /// # Errors
    /// What the machine refuses.
    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), Self::Error>;

    /// Lets `who` execute until `until`, or until the target ends.
    ///
    /// # Errors
    /// What the machine refuses, or that the target cannot be controlled.
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, Self::Error>;

    /// The counts of both sides since the beginning.
    ///
    /// # Errors
    /// Counters that cannot be read.
    fn read(&mut self) -> Result<Reading, Self::Error>;

    /// Whether target and pirate share the cache at this moment, if the testbed can tell. Asked before and
    /// after each measurement interval.
    ///
    /// # Errors
    /// A probe that cannot run.
    fn shares_cache(&mut self) -> Result<Option<bool>, Self::Error> {
        Ok(None)
    }
}

impl<T: Testbed + ?Sized> Testbed for &mut T {
    type Error = T::Error;

    fn cache(&self) -> SharedCache {
        (**self).cache()
    }

    fn max_threads(&self) -> usize {
        (**self).max_threads()
    }

    fn evidence(&self) -> Evidence {
        (**self).evidence()
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), Self::Error> {
        (**self).steal(bytes, threads)
    }

    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, Self::Error> {
        (**self).run(who, until)
    }

    fn read(&mut self) -> Result<Reading, Self::Error> {
        (**self).read()
    }

    fn shares_cache(&mut self) -> Result<Option<bool>, Self::Error> {
        (**self).shares_cache()
    }
}
