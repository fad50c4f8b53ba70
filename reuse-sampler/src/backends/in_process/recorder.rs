//! From the accesses that a thread records to windows.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::tracker::Mode;
use crate::replay::threads::{End, ThreadState};
use crate::replay::{WindowLength, mode_of};
use crate::{Access, AccessKind, Error, LineSize, ReusePlan, ReuseProfile, ThreadId, Window, WindowIndex};

/// What a [`Profiler`] observes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProfilerOptions {
    /// Which accesses are sampled.
    pub plan: ReusePlan,
    /// Accesses in a window, per thread. At least 1. Default: 1 M.
    pub window: u64,
    /// Line size at which reuse is observed. Default: 64 bytes.
    pub line_size: LineSize,
    /// Which accesses are chosen, where not all are. Default: 0.
    pub seed: u64,
}

impl ProfilerOptions {
    /// Samples as `plan` says, everything else by default.
    #[must_use]
    pub const fn new(plan: ReusePlan) -> Self {
        Self { plan, window: 1_000_000, line_size: LineSize::B64, seed: 0 }
    }

    /// The same with windows of so many accesses.
    #[must_use]
    pub const fn windows_of(mut self, accesses: u64) -> Self {
        self.window = accesses;
        self
    }

    /// The same at another line size.
    #[must_use]
    pub const fn line_size(mut self, line_size: LineSize) -> Self {
        self.line_size = line_size;
        self
    }

    /// The same with another seed.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Gathers what the recorders of all threads see. Clones are the same profiler.
#[derive(Clone, Debug)]
pub struct Profiler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: ProfilerOptions,
    mode: Mode,
    threads: AtomicU32,   // recorders made
    recording: AtomicU32, // of them, not dropped yet
    windows: AtomicU64,   // begun
    finished: Mutex<Vec<Window>>,
}

impl Profiler {
    /// A profiler without a record.
    ///
    /// # Errors
    /// [`Error::WindowLength`] if windows have length 0.
    pub fn new(options: ProfilerOptions) -> Result<Self, Error> {
        if options.window == 0 {
            return Err(Error::WindowLength);
        }
        Ok(Self(Arc::new(Shared {
            options,
            mode: mode_of(&options.plan),
            threads: AtomicU32::new(0),
            recording: AtomicU32::new(0),
            windows: AtomicU64::new(0),
            finished: Mutex::new(Vec::new()),
        })))
    }

    /// A recorder for one thread, whose number is that of recorders made before it.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        let shared = Arc::clone(&self.0);
        let options = &shared.options;
        let id = ThreadId(shared.threads.fetch_add(1, Ordering::Relaxed));
        shared.recording.fetch_add(1, Ordering::Relaxed);
        let length = WindowLength::Accesses(options.window);
        let mut thread = ThreadState::new(id, options.seed, length);
        thread.begin(shared.next_window(), shared.mode);
        Recorder(RefCell::new(State { thread, line_size: options.line_size, length, shared }))
    }

    /// Recorders that were not dropped yet: their last windows are still to come.
    #[must_use]
    pub fn recording(&self) -> u32 {
        self.0.recording.load(Ordering::Acquire)
    }

    /// The windows that ended since the last call, by index. Taking them now and then bounds memory.
    #[must_use]
    pub fn take_windows(&self) -> Vec<Window> {
        let mut windows =
            std::mem::take(&mut *self.0.finished.lock().unwrap_or_else(PoisonError::into_inner));
        windows.sort_by_key(|window| window.index);
        windows
    }

    /// The same as one profile.
    #[must_use]
    pub fn take_profile(&self) -> ReuseProfile {
        let mut profile = ReuseProfile::new(self.0.options.line_size);
        for window in self.take_windows() {
            // All have the recorder's line size and count accesses.
            let recorded = profile.record_window(&window);
            debug_assert!(recorded.is_ok());
        }
        profile
    }
}

impl Shared {
    fn next_window(&self) -> WindowIndex {
        WindowIndex(self.windows.fetch_add(1, Ordering::Relaxed))
    }

    fn finish(&self, window: Window) {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).push(window);
    }
}

/// Takes the accesses of one thread. Dropping it ends the thread, as far as the profile is concerned: what is still
/// open dangles.
pub struct Recorder(RefCell<State>);

struct State {
    thread: ThreadState,
    line_size: LineSize,
    length: WindowLength,
    shared: Arc<Shared>,
}

impl Recorder {
    /// The thread accesses `bytes` bytes at `address`.
    #[inline]
    pub fn record(&self, address: u64, bytes: u32, kind: AccessKind) {
        self.access(&Access { address, bytes, kind, pc: 0 });
    }

    /// The thread makes this access.
    #[inline]
    pub fn access(&self, access: &Access) {
        // It is borrowed only while an access is recorded, which calls nothing of the program's but its allocator. If
        // that records its own accesses, those within are left out.
        if let Ok(mut state) = self.0.try_borrow_mut() {
            state.access(access);
        }
    }

    /// The thread enters the code at `address`: it becomes part of the window's [code](Window::code), with weight 1.
    #[inline]
    pub fn enter(&self, address: u64) {
        if let Ok(mut state) = self.0.try_borrow_mut() {
            state.thread.enter(address);
        }
    }
}

impl State {
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call costs as much as the rest of it
    fn access(&mut self, access: &Access) {
        if self.thread.enough_accesses() {
            self.turn();
        }
        self.thread.access(access, self.line_size);
    }

    /// One window ends, the next begins.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) {
        let window = self.thread.end(End::Boundary, self.length, self.line_size);
        self.shared.finish(window);
        self.thread.begin(self.shared.next_window(), self.shared.mode);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let idle = self.thread.is_idle();
        let last = self.thread.end(End::Thread, self.length, self.line_size);
        if !idle || last.outcomes().next().is_some() {
            self.shared.finish(last);
        }
        self.shared.recording.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
