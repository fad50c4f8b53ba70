//! The state of one thread whose accesses come one after the other.

use crate::engine::hash::FastMap;
use crate::engine::tracker::{Mode, Tracker};
use crate::{Access, AccessCount, AccessKind, LineSize, ThreadId, Window, WindowIndex};

use super::sampler::WindowLength;
use super::window_from;

/// Counts of one thread, from one window boundary to the next.
#[derive(Debug)]
pub(crate) struct ThreadState {
    id: ThreadId,
    tracker: Tracker,
    observed: bool, // accesses are shown to the tracker
    index: WindowIndex,
    instructions: u64, // since the thread began
    accesses: u64,     // since the thread began
    began: (u64, u64), // instructions and accesses when the window began
    boundary: u64,     // instructions or accesses at which the window is complete
    granted: u64, // accesses that may pass without the tracker, since they start no sample and end no window; 0 none
    quiet: u64,   // of them, those that have not been made yet; the others are not in `accesses`
    code: FastMap<u64, u64>,
}

impl ThreadState {
    pub(crate) fn new(id: ThreadId, seed: u64, length: WindowLength) -> Self {
        Self {
            id,
            tracker: Tracker::new(seed, u64::from(id.0)),
            observed: false,
            index: WindowIndex(0),
            instructions: 0,
            accesses: 0,
            began: (0, 0),
            boundary: length.get(),
            granted: 0,
            quiet: 0,
            code: FastMap::default(),
        }
    }

    /// Samples the stride of one access in `mean`; 0 for none.
    pub(crate) fn with_strides(mut self, mean: u64, seed: u64) -> Self {
        self.tracker = self.tracker.with_strides(mean, seed, u64::from(self.id.0));
        self
    }

    pub(crate) fn begin(&mut self, index: WindowIndex, mode: Mode) {
        self.index = index;
        self.observed = mode != Mode::Off;
        self.tracker.begin_window(index.0, mode);
    }

    /// An access that does not [pass](Self::passes), in a window that is counted as `length` says; others may pass after it.
    #[inline]
    pub(crate) fn access_and_grant(&mut self, access: &Access, line_size: LineSize, length: WindowLength) {
        if self.observed && self.tracker.puts_by() {
            self.access(access, line_size);
            return;
        }
        self.settle();
        self.access(access, line_size);
        let left = match length {
            WindowLength::Instructions(_) => u64::MAX,
            WindowLength::Accesses(_) => self.boundary - self.accesses.min(self.boundary),
        };
        let none_started = if self.observed { self.tracker.starts_none_in() } else { u64::MAX };
        self.granted = left.min(none_started);
        self.quiet = self.granted;
    }

    /// Takes back what was granted.
    fn settle(&mut self) {
        let passed = self.granted - self.quiet;
        self.accesses += passed;
        if self.observed {
            self.tracker.pass(passed);
        }
        (self.granted, self.quiet) = (0, 0);
    }

    /// How many accesses may still [pass](Self::passes).
    #[inline]
    pub(crate) const fn quiet(&self) -> u64 {
        self.quiet
    }

    /// All but so many of those that may pass have passed.
    #[inline]
    pub(crate) const fn set_quiet(&mut self, quiet: u64) {
        self.quiet = quiet;
    }

    /// Whether the access does nothing but be counted, as nearly all do, while any may pass.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call costs as much as the rest of it
    pub(crate) fn passes(&self, access: &Access, line_size: LineSize) -> bool {
        let (first, last) = line_size.span(access);
        first == last && !self.tracker.watches().holds(first)
    }

    /// Whether a window counted in accesses is complete: the next access belongs to the following one.
    #[inline]
    pub(crate) const fn enough_accesses(&self) -> bool {
        self.accesses + (self.granted - self.quiet) >= self.boundary
    }

    /// Whether a window counted in instructions is complete: the next block belongs to the following one.
    #[inline]
    pub(crate) const fn enough_instructions(&self) -> bool {
        self.instructions >= self.boundary
    }

    #[inline]
    pub(crate) fn block(&mut self, address: u64, instructions: u32) {
        *self.code.entry(address).or_default() += u64::from(instructions);
        self.instructions += u64::from(instructions);
    }

    /// The thread.
    pub(crate) const fn id(&self) -> ThreadId {
        self.id
    }

    /// Whether a sample of `line` may be open.
    #[inline]
    pub(crate) fn may_hold(&self, line: u64) -> bool {
        self.tracker.may_hold(line)
    }

    /// Another thread stores to `line`.
    pub(crate) fn invalidate(&mut self, line: u64) {
        self.tracker.invalidate(line);
    }

    /// Counts an entry into the code at `address`, whose instructions nobody counts.
    #[inline]
    pub(crate) fn enter(&mut self, address: u64) {
        *self.code.entry(address).or_default() += 1;
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // a call costs as much as the rest of it
    pub(crate) fn access(&mut self, access: &Access, line_size: LineSize) {
        let (first, last) = line_size.span(access);
        let store = access.kind == AccessKind::Store;
        self.accesses += 1;
        debug_assert_eq!(self.granted, 0);
        if self.observed {
            self.tracker.operand(access.pc, access.address, store);
            self.tracker.access(first, access.pc, store);
        }
        if first != last {
            self.straddle(first + 1, last, access.pc, store);
        }
    }

    #[cold]
    #[inline(never)]
    fn straddle(&mut self, from: u64, to: u64, pc: u64, store: bool) {
        self.accesses += to - from + 1;
        if self.observed {
            for line in from..=to {
                self.tracker.access(line, pc, store);
            }
        }
    }

    /// Ends the window: at its boundary, with the thread, or because observation stops.
    pub(crate) fn end(&mut self, how: End, length: WindowLength, line_size: LineSize) -> Window {
        self.settle();
        let report = match how {
            End::Boundary => self.tracker.end_window(),
            End::Thread => self.tracker.end_thread(),
            End::Interrupted => self.tracker.interrupt(),
        };
        let mut window = window_from(report, self.index, self.id, line_size, true);
        // A replayed access is counted even where it is not shown to the tracker.
        window.accesses = AccessCount::Measured(self.accesses - self.began.1);
        window.instructions = self.instructions - self.began.0;
        self.began = (self.instructions, self.accesses);
        window.code = self.code.drain().collect();
        window.code.sort_unstable();
        let (progress, length) = match length {
            WindowLength::Instructions(n) => (self.instructions, n),
            WindowLength::Accesses(n) => (self.accesses, n),
        };
        self.boundary = (progress / length).saturating_add(1).saturating_mul(length);
        window
    }

    /// Instructions and accesses so far.
    pub(crate) const fn progress(&self) -> (u64, u64) {
        (self.instructions, self.accesses + (self.granted - self.quiet))
    }

    /// Whether nothing happened since the last boundary.
    pub(crate) fn is_idle(&self) -> bool {
        self.began == self.progress()
    }
}

/// How a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Boundary,
    Thread,
    Interrupted,
}
