//! The window in progress of a thread, and the clocks it is measured by.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::perf::registers::Watched;
use crate::{
    AccessCount, Clock, LineSize, Losses, Outcome, ReuseDistance, ReuseSample, Site, ThreadId, Window,
    WindowIndex,
};

/// What a thread's clocks show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// By the clock of windows.
    pub length: u64,
    /// By the clock of distances.
    pub distance: u64,
    /// Time counted, and time the thread could have been counted.
    pub running: u64,
    pub enabled: u64,
}

/// A window in progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// Where it ends, by the clock of windows.
    pub boundary: u64,
    pub began: Moment,
    pub last: Moment,
    pub began_at: u64, // wall clock, nanoseconds
    pub window: Window,
    pub code: BTreeMap<u64, u64>,
    /// Where it was found to be over, by the record of its end.
    pub edge: Option<Moment>,
}

impl Progress {
    pub fn new(id: ThreadId) -> Self {
        Self {
            boundary: 0,
            began: Moment::default(),
            last: Moment::default(),
            began_at: 0,
            window: Window::new(WindowIndex(0), id, LineSize::default()),
            code: BTreeMap::new(),
            edge: None,
        }
    }

    /// Notes what became of a sample.
    pub fn report(&mut self, watched: &Watched, outcome: Outcome, end: Option<Site>) {
        self.window.samples.push(ReuseSample {
            outcome,
            started_in: watched.window,
            thread: self.window.thread,
            begin: watched.begin,
            end,
            weight: watched.weight,
        });
    }

    /// The window in progress, up to `end`, becomes a window to return, and number `next` begins.
    pub fn turn_over(
        &mut self,
        end: Moment,
        next: WindowIndex,
        clocks: (Clock, Clock),
        (mix, open): (Option<f64>, u64),
        now: u64,
    ) -> Window {
        let empty = Window::new(next, self.window.thread, self.window.line_size);
        let mut window = std::mem::replace(&mut self.window, empty);
        let Moment { length, distance, running, enabled } = end;
        let passed = length.saturating_sub(self.began.length);
        (window.length, window.clock) = clocks;
        if window.length == Clock::Instructions {
            window.instructions = passed;
        } else {
            window.counters.push(("task-clock".to_owned(), passed));
        }
        window.accesses = match (window.clock, mix) {
            (Clock::Accesses, _) => AccessCount::Measured(distance.saturating_sub(self.began.distance)),
            (_, Some(mix)) if window.length == Clock::Instructions => {
                AccessCount::Estimated((passed as f64 * mix).round() as u64)
            }
            _ => AccessCount::Unknown,
        };
        window.code = std::mem::take(&mut self.code).into_iter().collect();
        window.open_samples = open;
        window.elapsed = Duration::from_nanos(now.saturating_sub(self.began_at));
        let counted = running.saturating_sub(self.began.running);
        window.losses.uncounted = enabled.saturating_sub(self.began.enabled).saturating_sub(counted);
        self.began = end;
        self.began_at = now;
        window
    }
}

/// Number of accesses strictly between one counted as `at` and one whose record shows `now`. Where the record is
/// written after the access, the access itself is in it.
pub(super) fn distance(at: u64, now: u64, after: bool, clock: Clock) -> ReuseDistance {
    let own = if clock == Clock::Time { 0 } else { 1 + u64::from(after) };
    ReuseDistance(now.saturating_sub(at).saturating_sub(own))
}

/// How long a sample of `at` has been open at `now`, in accesses that were not its line's.
pub(super) fn age(at: u64, now: u64, clock: Clock) -> u64 {
    now.saturating_sub(at).saturating_sub(u64::from(clock != Clock::Time))
}

impl Losses {
    /// Adds a window's worth to another's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.lost_records += other.lost_records;
        self.throttled += other.throttled;
        self.lost_hits += other.lost_hits;
        self.late += other.late;
        self.undecoded += other.undecoded;
        self.no_register += other.no_register;
        self.in_kernel += other.in_kernel;
        self.malformed += other.malformed;
        self.overshoot = self.overshoot.max(other.overshoot);
        self.uncounted += other.uncounted;
    }
}
