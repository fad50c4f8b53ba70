//! One core of the chip: its program, its private caches, its clock and its counters.

use super::cache::Cache;
use super::config::{CacheSettings, ChipSettings};
use super::counters::Counters;
use super::prefetch::Prefetcher;
use super::program::Program;
use super::timing::{CoreClock, CoreTiming};

/// A program and the core it runs on.
#[derive(Clone, Debug)]
pub struct CoreSettings<P> {
    /// What the core runs.
    pub program: P,
    /// How fast it is.
    pub timing: CoreTiming,
    /// Cycle at which it starts.
    pub start: f64,
    /// Whether the program starts over when it ends; else the core stops there.
    pub restarts: bool,
}

impl<P: Program> CoreSettings<P> {
    /// An in-order core with one cycle per instruction that starts at cycle 0 and restarts its program.
    pub const fn new(program: P) -> Self {
        Self { program, timing: CoreTiming::InOrder { base_cpi: 1.0 }, start: 0.0, restarts: true }
    }
}

/// Whether a core takes part when the chip runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Executes its program.
    Running,
    /// Keeps its state but executes nothing until resumed.
    Suspended,
    /// Its program has ended and does not start over.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Core<P> {
    pub program: P,
    pub l1: Cache,
    pub l2: Option<Cache>,
    pub prefetcher: Option<Prefetcher>,
    pub clock: CoreClock,
    pub counters: Counters,
    pub activity: Activity,
    pub restarts: bool,
    pub lines: u64,           // held in the shared cache
    pub allowed: Option<u64>, // ways of the shared cache that its lines come in at; all if `None`
    skipped: f64,             // cycles of the clock that were spent suspended, or before the start
    pass_began: u64,          // accesses made when the present pass began
}

impl<P: Program> Core<P> {
    pub(super) fn new(settings: CoreSettings<P>, chip: &ChipSettings) -> Self {
        let cache = |s: CacheSettings| Cache::new(s.geometry, s.policy);
        Self {
            program: settings.program,
            l1: cache(chip.l1),
            l2: chip.l2.map(cache),
            prefetcher: chip.prefetcher.map(|p| Prefetcher::new(p, chip.line_size().bytes())),
            clock: CoreClock::new(settings.timing, settings.start),
            counters: Counters::default(),
            activity: Activity::Running,
            restarts: settings.restarts,
            lines: 0,
            allowed: None,
            skipped: settings.start,
            pass_began: 0,
        }
    }

    /// The program has ended: starts it over, unless it is not to or has nothing to play.
    pub(super) fn end_pass(&mut self) {
        self.counters.passes += 1;
        if self.restarts && self.counters.accesses > self.pass_began {
            self.pass_began = self.counters.accesses;
            self.program.restart();
        } else {
            self.activity = Activity::Stopped;
        }
    }

    /// Lets time pass until `now` in which the core is not running.
    pub(super) fn skip_to(&mut self, now: f64) {
        if now > self.clock.now {
            self.skipped += now - self.clock.now;
            self.clock.now = now;
        }
    }

    /// The counters, with those that follow from the clock.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.cycles = self.clock.now - self.skipped;
        counters.stall_cycles = self.clock.stalled;
        counters.memory_stall_cycles = self.clock.stalled_by_memory;
        counters
    }
}
