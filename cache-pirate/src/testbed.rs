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

/// Where the machine keeps the pirate's lines, as far as that bears on what is left to the target.
///
/// The default is the paper's machine: an inclusive cache, and memory in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinePlacement {
    /// Whether the pirate's memory is scattered over small page frames, so that some sets hold more of its lines than
    /// others. In huge pages consecutive lines lie in consecutive sets.
    pub scattered_pages: bool,
    /// Ways of the shared cache. Needed where pages are scattered: 16 are assumed where it is not known.
    pub ways: Option<u32>,
    /// Bytes of a core's private caches that may hold lines which the shared cache does not: 0 if it is inclusive.
    pub private_bytes: u64,
    /// Whether the lines that private caches hold in place of the shared one leave other sets now than then, as where sets are
    /// chosen by a hash. Found by measuring: a testbed need not know.
    pub uneven: bool,
    /// In which order the cache replaces lines. What is left to a program beside the pirate may depend on where the pirate's
    /// lines lie in each set. Found by measuring: a testbed need not know.
    pub order: Order,
}

/// In which order a cache replaces lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of their last touch: LRU.
    #[default]
    LastTouch,
    /// Another.
    Other,
    /// One that keeps lines which were touched often from others that are touched once.
    Protecting,
}

impl LinePlacement {
    /// Bounds of what is left to the target of a cache of `whole` bytes beside `threads` pirate threads that hold all
    /// of `stolen` bytes; and whether the pirate may hold its lines elsewhere, so that any amount between may be left.
    ///
    /// # Formula
    /// - In scattered pages of which `n` reach a set on average, the set has `n` of the pirate's lines with a variance
    ///   of `n`: most sets leave the target the rest, more or less two standard deviations.
    /// - A pirate whose lines all fit its private caches, or half of them, need not keep them in the shared one, and
    ///   does not fetch them anew: that much more may be left. A larger one walks them out of its private caches before
    ///   it returns to them.
    /// - Lines of an exclusive cache that are in the pirate's private caches are missing in the shared one, by turns. In
    ///   sets chosen by a hash that is a way more here and less there.
    /// - Where lines are not replaced in the order of their last touch, what the target has is known to a sixteenth of the
    ///   cache, or a way if that is more: under pseudo-LRU policies it depends on which ways of a set are the pirate's
    ///   whether its touches protect the target's lines or wear them out. Twice that where touches do protect lines, and
    ///   beside private caches, at which the target's touches may stop.
    pub(crate) fn bounds(&self, whole: u64, stolen: u64, threads: usize) -> Bounds {
        let left = whole.saturating_sub(stolen);
        let way = whole as f64 / f64::from(self.ways.unwrap_or(16).max(1));
        let deviation = (stolen as f64 / way).sqrt() * way;
        let mut spread = if self.scattered_pages { (2.0 * deviation) as u64 } else { 0 };
        if self.order != Order::LastTouch && stolen > 0 {
            let known_to = (way as u64).max(whole / 16);
            let twice = self.order == Order::Protecting || self.private_bytes > 0;
            spread = spread.max(if twice { 2 * known_to } else { known_to });
        }
        if self.uneven && stolen > 0 {
            spread = spread.max(way as u64);
        }
        let private = self.private_bytes.saturating_mul(threads as u64);
        let private = if stolen <= private.saturating_mul(2) { stolen.min(private) } else { 0 };
        let most = left.saturating_add(spread.max(private)).min(whole);
        Bounds { from: left.saturating_sub(spread), to: most, elsewhere: private > 0 }
    }
}

/// What is left to the target beside a pirate that holds all its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Least number of bytes.
    pub from: u64,
    /// Most.
    pub to: u64,
    /// Whether the pirate may hold its lines in its private caches alone: then what was measured at this size may be that
    /// of a larger one, and so at those above.
    pub elsewhere: bool,
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
#[non_exhaustive]
pub enum Outcome {
    /// As asked for.
    Done,
    /// The target came to its end. Further runs of the target end at once in the same way.
    TargetEnded,
}

/// What the pirate's fetches are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// They were counted.
    Counted,
    /// They were inferred from the pirate's time per line: coarse, and judged by a limit of its own
    /// ([`PirateParams::timed_limit`](crate::PirateParams::timed_limit)).
    Timed,
    /// They do not matter: the hardware keeps the target out of the others' part of the cache. What is counted as
    /// fetched are lines of the target that are still in it ([`resctrl`](crate::resctrl)).
    Confined,
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

    /// Where the machine keeps the pirate's lines.
    fn placement(&self) -> LinePlacement {
        LinePlacement::default()
    }

    /// Sets the size of the pirate's working set, twice the cache at most, and how many threads walk it. The first
    /// lines stay the same when it grows, and stay stolen when it shrinks. Lines that are given up should leave all
    /// caches at once, where the machine has an instruction for it: policies other than LRU may keep them for long,
    /// from a target that is to have their place.
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

    /// Whether target and pirate share the cache at this moment, if the testbed can measure it. Asked before and
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

    fn placement(&self) -> LinePlacement {
        (**self).placement()
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
