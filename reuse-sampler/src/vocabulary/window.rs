//! A window of execution: what one call of [`Sampler::next_window`](crate::Sampler::next_window) returns.

use std::time::Duration;

use crate::{
    Clock, LineSize, Outcome, ReuseCount, ReuseOverlap, ReuseProfile, ReuseSample, Scope, ThreadId,
    WindowIndex,
};

/// Number of memory accesses in a window, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AccessCount {
    /// Counted: the whole window was instrumented.
    Measured(u64),
    /// Not counted, estimated from the number of instructions and the mix of similar windows.
    Estimated(u64),
    /// Not counted; the caller may [estimate](Window::estimate_accesses) it once the phase is known.
    Unknown,
}

impl AccessCount {
    /// The number, measured or estimated.
    #[must_use]
    pub const fn get(self) -> Option<u64> {
        match self {
            Self::Measured(n) | Self::Estimated(n) => Some(n),
            Self::Unknown => None,
        }
    }
}

/// Reuses that *ended* in a window, by the kind of the access that ended them. Present where every access of
/// the window was measured.
///
/// A sample belongs to the window that started it, which is right for asking how far the data of that window
/// lives. A miss happens where the reuse ends; this second view of the same accesses says which accesses of
/// this window found their line how far back. First touches are dangling; where accesses before some moment
/// were not seen, a line unseen since then is censored at the age of that moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Arrivals {
    /// Backward distances of loads.
    pub loads: ReuseProfile,
    /// Backward distances of stores.
    pub stores: ReuseProfile,
}

impl Arrivals {
    /// Loads and stores together.
    #[must_use]
    pub fn all(&self) -> ReuseProfile {
        let mut all = self.loads.clone();
        // The sampler records both with one line size and clock.
        let merged = all.merge(&self.stores);
        debug_assert!(merged.is_ok());
        all
    }
}

/// What a backend that does not see everything knows to have missed in a window. All 0 where it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Losses {
    /// Records for which the kernel found no room in the ring.
    pub lost_records: u64,
    /// Times an event overflowed too often and was stopped by the kernel for a while.
    pub throttled: u64,
    /// Samples censored because it is known that their line was touched but not when.
    pub lost_hits: u64,
    /// Accesses chosen later than drawn, because the thread stopped late, or drawn anew because it could not stop.
    pub late: u64,
    /// Chosen instructions that touch memory in a way that is not understood.
    pub undecoded: u64,
    /// Samples that found no debug register: something else holds all of them.
    pub no_register: u64,
    /// Code samples that met the kernel and do not show where the program was.
    pub in_kernel: u64,
    /// Bytes of records that made no sense.
    pub malformed: u64,
    /// How far beyond its boundary the window ended, in the unit of its length; the next is shorter by that.
    pub overshoot: u64,
    /// Nanoseconds in which the thread ran and was not counted.
    pub uncounted: u64,
}

impl Losses {
    /// Nothing.
    pub const NONE: Self = Self {
        lost_records: 0,
        throttled: 0,
        lost_hits: 0,
        late: 0,
        undecoded: 0,
        no_register: 0,
        in_kernel: 0,
        malformed: 0,
        overshoot: 0,
        uncounted: 0,
    };

    /// Whether something is known to have been missed. An overshoot is not: the counts include it.
    #[must_use]
    pub fn any(&self) -> bool {
        Self { overshoot: 0, ..*self } != Self::default()
    }
}

/// What was seen of one thread between two window boundaries.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Window {
    /// Number of the window, unique over the run.
    pub index: WindowIndex,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// Line size at which its accesses are counted and its reuse is observed; the default where neither is.
    #[cfg_attr(feature = "serde", serde(default))]
    pub line_size: LineSize,
    /// Whether accesses and reuse are those of the thread, or those of all threads together.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Scope::is_private"))]
    pub scope: Scope,
    /// Instructions executed; 0 if the source does not count instructions.
    pub instructions: u64,
    /// Memory accesses made, an access that straddles lines counted once per line.
    pub accesses: AccessCount,
    /// Executed code: address of a block and the instructions executed in it. Each address once, ascending.
    pub code: Vec<(u64, u64)>,
    /// Accesses of repeated string instructions (x86 `rep movs`), by the address of the block that each of them is. Known
    /// whether or not other accesses are, from backends that count such an instruction once however many elements it
    /// processes (`dbi`); empty from all others. Each address once, ascending.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub repeated: Vec<(u64, u64)>,
    /// Samples that ended in this window, whichever window started them.
    pub samples: Vec<ReuseSample>,
    /// The same for samples of windows in which every access is measured.
    pub counts: Vec<ReuseCount>,
    /// How samples that ended in this window lay over each other, by the window that started them and their
    /// distance. Empty if the backend does not report them.
    pub overlaps: Vec<ReuseOverlap>,
    /// Strides that were sampled in this window: an instruction, and the bytes from one of its accesses to its next. Empty
    /// unless the backend was asked for them.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub strides: Vec<(u64, i64)>,
    /// The reuses that ended here, where every access of the window was measured.
    pub arrivals: Option<Arrivals>,
    /// Samples still open when the window ended.
    pub open_samples: u64,
    /// Accesses that [invalidated](Outcome::Invalidated) samples, of whichever window, stand for whose line the thread touched
    /// again in this one: misses that the other thread's store caused. The others' threads never came back.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub refetched: u64,
    /// Hardware or software counters by name, where the backend has them.
    pub counters: Vec<(String, u64)>,
    /// Time the window took on the wall clock. Under an emulator it says nothing about the program.
    pub elapsed: Duration,
    /// What the distances of its samples are counted in: accesses, wherever these can be counted.
    #[cfg_attr(feature = "serde", serde(default))]
    pub clock: Clock,
    /// What its length was set in: instructions (or accesses), or the thread's time where nothing else can be
    /// counted.
    #[cfg_attr(feature = "serde", serde(default = "instructions"))]
    pub length: Clock,
    /// What is known to have been missed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub losses: Losses,
    /// What all threads together did since the window returned before this one: accesses and reuse by the process's clock, a
    /// reuse ended by any thread's touch, as a cache that all threads share sees them. Windows of the process are numbered by
    /// themselves. Only from `replay::ReplayOptions::coherent`.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub process: Option<Box<Self>>,
}

impl Window {
    /// An empty window.
    #[must_use]
    pub const fn new(index: WindowIndex, thread: ThreadId, line_size: LineSize) -> Self {
        Self {
            index,
            thread,
            line_size,
            scope: Scope::Private,
            instructions: 0,
            accesses: AccessCount::Unknown,
            code: Vec::new(),
            repeated: Vec::new(),
            samples: Vec::new(),
            counts: Vec::new(),
            overlaps: Vec::new(),
            strides: Vec::new(),
            arrivals: None,
            open_samples: 0,
            refetched: 0,
            counters: Vec::new(),
            elapsed: Duration::ZERO,
            clock: Clock::Accesses,
            length: Clock::Instructions,
            losses: Losses::NONE,
            process: None,
        }
    }

    /// Fills in an unknown number of accesses as instructions times `mix` (accesses per instruction), and
    /// marks it as estimated. A measured number stays.
    pub fn estimate_accesses(&mut self, mix: f64) {
        if self.accesses == AccessCount::Unknown && mix.is_finite() && mix >= 0.0 {
            self.accesses = AccessCount::Estimated((self.instructions as f64 * mix).round() as u64);
        }
    }

    /// What each block weighs in the window's code signature: its instructions, and the accesses of one that is a
    /// [repeated](Self::repeated) string instruction. An address may come twice.
    pub fn code_weights(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.code.iter().chain(&self.repeated).map(|&(address, weight)| (address, weight as f64))
    }

    /// Accesses of [repeated](Self::repeated) string instructions.
    #[must_use]
    pub fn repeated_accesses(&self) -> u64 {
        self.repeated.iter().map(|(_, accesses)| accesses).sum()
    }

    /// All outcomes reported by this window as (window that started them, outcome, number of samples, number
    /// of accesses each of them stands for).
    pub fn outcomes(&self) -> impl Iterator<Item = (WindowIndex, Outcome, u64, u64)> + '_ {
        let single = self.samples.iter().map(|s| (s.started_in, s.outcome, 1, s.weight));
        let counted = self.counts.iter().map(|c| (c.started_in, c.outcome, c.count, 1));
        single.chain(counted)
    }

    /// The same for a profile whose distances are counted by `clock`. Where this window's are counted by another they
    /// say nothing about distances by `clock`: its samples come as censored from the start, except dangling ones.
    pub fn outcomes_by(&self, clock: Clock) -> impl Iterator<Item = (WindowIndex, Outcome, u64, u64)> + '_ {
        let same = clock == self.clock;
        self.outcomes().map(move |(window, outcome, count, weight)| match outcome {
            Outcome::Reused(_) | Outcome::Invalidated(_) | Outcome::Censored { .. } if !same => {
                (window, Outcome::Censored { at_least: 0 }, count, weight)
            }
            _ => (window, outcome, count, weight),
        })
    }
}

#[cfg(feature = "serde")]
#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks so
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(feature = "serde")]
const fn instructions() -> Clock {
    Clock::Instructions
}
