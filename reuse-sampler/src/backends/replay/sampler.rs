//! The sampler over a stream of events.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use super::coherence::Process;
use super::threads::{End, ThreadState};
use super::{Event, EventSource, mode_of};
use crate::engine::tracker::Mode;
use crate::{
    Access, AccessCount, Error, LineSize, Sampler, SamplerError, ThreadId, Window, WindowIndex, WindowPlan,
};

/// What a window is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowLength {
    /// Instructions, for sources that report executed blocks. If the source reports none in more accesses than this,
    /// [`Error::NoInstructions`] takes the place of the one endless window.
    Instructions(u64),
    /// Memory accesses (one per line touched), for traces of accesses alone.
    Accesses(u64),
}

impl WindowLength {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        match self {
            Self::Instructions(n) | Self::Accesses(n) => n,
        }
    }
}

/// Settings of a [`ReplaySampler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// Length of a window, per thread. At least 1. Default: 1 M instructions.
    pub window: WindowLength,
    /// Line size at which reuse is observed. Default: 64 bytes.
    pub line_size: LineSize,
    /// Which accesses are chosen, where not all are. Default: 0.
    pub seed: u64,
    /// Whether threads are followed in their order, so that a sample has two fates. The thread's own, by its clock: another
    /// thread's store [invalidates](crate::Outcome::Invalidated) it. The process's, by the clock of all: any thread's touch
    /// ends it ([`Window::process`]). Costs a second look at each access, and where there are several threads a third.
    /// Default: no.
    pub coherent: bool,
    /// Mean number of accesses of a thread from one [stride](Window::strides) sampled to the next; 0 for none. Default: 0.
    pub strides: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            window: WindowLength::Instructions(1_000_000),
            line_size: LineSize::B64,
            seed: 0,
            coherent: false,
            strides: 0,
        }
    }
}

impl ReplayOptions {
    /// Windows of this length, everything else by default.
    #[must_use]
    pub fn windows_of(window: WindowLength) -> Self {
        Self { window, ..Self::default() }
    }

    /// The same at another line size.
    #[must_use]
    pub const fn line_size(mut self, line_size: LineSize) -> Self {
        self.line_size = line_size;
        self
    }

    /// The same with threads followed in their order.
    #[must_use]
    pub const fn coherent(mut self) -> Self {
        self.coherent = true;
        self
    }

    /// The same with the stride of one access in `mean` sampled.
    #[must_use]
    pub const fn strides(mut self, mean: u64) -> Self {
        self.strides = mean;
        self
    }

    /// The same with another seed.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Samples the reuse of a replayed stream of events.
///
/// A window ends before the first block (or access, where windows count accesses) that finds it complete, so
/// that a block and its accesses are never torn apart; what a window is too long by, the next is short by.
/// Every access is seen, so every [count](crate::AccessCount) is measured. The last window of a thread is
/// whatever was left.
///
/// # Cost
/// On one core of a 2.6 GHz server, events from memory: see the crate's front page.
///
/// ```
/// use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
/// use reuse_sampler::{Access, ReusePlan, Sampler, WindowPlan};
///
/// // A loop over four lines, four times.
/// let events = (0..16).map(|i| Event::Access(Access::load(64 * (i % 4), 8)));
/// let mut sampler = ReplaySampler::new(events, ReplayOptions::windows_of(WindowLength::Accesses(16)))?;
/// let window = sampler.next_window(&WindowPlan::new(ReusePlan::Every))?.expect("one window");
/// // Twelve accesses were reused after three others, the last four never.
/// assert_eq!(window.counts.iter().map(|c| c.count).collect::<Vec<_>>(), [12, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReplaySampler<S> {
    source: S,
    options: ReplayOptions,
    threads: BTreeMap<ThreadId, ThreadState>,
    process: Option<Process>,
    current: Option<(ThreadId, ThreadState)>, // taken out of `threads` while its events arrive
    held: Option<Event>,                      // belongs to the window after the one just returned
    awaiting: Option<ThreadId>,               // its window was returned, its next one has no plan yet
    initial: Mode,
    started: bool,
    ended: Option<End>,
    finished: VecDeque<Window>,
    next_index: u64,
}

impl<S> std::fmt::Debug for ReplaySampler<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplaySampler")
            .field("options", &self.options)
            .field("windows", &self.next_index)
            .finish_non_exhaustive()
    }
}

impl<S: EventSource> ReplaySampler<S> {
    /// A sampler that has not asked `source` for anything yet.
    ///
    /// # Errors
    /// [`Error::WindowLength`] if windows have length 0.
    pub fn new(source: S, options: ReplayOptions) -> Result<Self, Error> {
        if options.window.get() == 0 {
            return Err(Error::WindowLength);
        }
        Ok(Self {
            source,
            options,
            threads: BTreeMap::new(),
            process: options.coherent.then(|| Process::new(&options)),
            current: None,
            held: None,
            awaiting: None,
            initial: Mode::Off,
            started: false,
            ended: None,
            finished: VecDeque::new(),
            next_index: 0,
        })
    }

    fn begin(&mut self, state: &mut ThreadState, mode: Mode) {
        state.begin(WindowIndex(self.next_index), mode);
        self.next_index += 1;
    }

    fn thread(&mut self, id: ThreadId) -> ThreadState {
        self.threads.remove(&id).unwrap_or_else(|| {
            let ReplayOptions { seed, window, strides, .. } = self.options;
            let mut state = ThreadState::new(id, seed, window).with_strides(strides, seed);
            if let Some(process) = &mut self.process {
                process.add(id);
            }
            self.begin(&mut state, self.initial);
            state
        })
    }

    fn switch(&mut self, to: ThreadId) {
        if let Some((id, state)) = self.current.take() {
            self.threads.insert(id, state);
        }
        let state = self.thread(to);
        self.current = Some((to, state));
    }

    /// Begins the next window of a thread whose last one was returned.
    fn resume(&mut self, id: ThreadId, mode: Mode) {
        self.switch(id);
        if let Some((_, mut state)) = self.current.take() {
            self.begin(&mut state, mode);
            self.current = Some((id, state));
        }
    }

    /// Whether a thread that ends could ever have reached a boundary.
    fn check(&self, state: &ThreadState) -> Result<(), Error> {
        match (self.options.window, state.progress()) {
            (WindowLength::Instructions(window), (0, accesses)) if accesses > window => {
                Err(Error::NoInstructions { window, accesses })
            }
            _ => Ok(()),
        }
    }

    fn exit(&mut self, id: ThreadId) -> Result<Option<Window>, Error> {
        let state = match self.current.take() {
            Some((current, state)) if current == id => Some(state),
            other => {
                self.current = other;
                self.threads.remove(&id)
            }
        };
        let Some(mut state) = state else { return Ok(None) };
        self.check(&state)?;
        if let Some(process) = &mut self.process {
            process.remove(id);
        }
        let mut window = state.end(End::Thread, self.options.window, self.options.line_size);
        window.process = self.end_segment(End::Boundary);
        Ok(Some(window))
    }

    /// The windows in progress, by thread.
    fn finish(&mut self, how: End) {
        if let Some((id, state)) = self.current.take() {
            self.threads.insert(id, state);
        }
        let (window, line_size) = (self.options.window, self.options.line_size);
        for (_, mut state) in std::mem::take(&mut self.threads) {
            let idle = state.is_idle();
            let last = state.end(how, window, line_size);
            if !idle || last.outcomes().next().is_some() {
                self.finished.push_back(last);
            }
        }
        let Some(segment) = self.end_segment(how) else { return };
        if self.finished.is_empty() {
            let mut empty = Window::new(WindowIndex(self.next_index), ThreadId(0), line_size);
            empty.accesses = AccessCount::Measured(0);
            self.finished.push_back(empty);
        }
        if let Some(last) = self.finished.back_mut() {
            last.process = Some(segment);
        }
    }

    /// What all threads did since the last window, where that is followed.
    fn end_segment(&mut self, how: End) -> Option<Box<Window>> {
        self.process.as_mut()?.end(how, &self.options)
    }

    /// Runs the current thread to its next boundary, to a switch, or to the end.
    fn run(&mut self) -> Result<Option<Window>, SamplerError> {
        loop {
            if self.current.is_none() {
                self.switch(ThreadId(0));
            }
            let Some((_, state)) = &mut self.current else { continue };
            let (source, options, held) = (&mut self.source, self.options, self.held.take());
            let event = match &mut self.process {
                None => {
                    let access = |state: &mut ThreadState, access: &Access| {
                        state.access_and_grant(access, options.line_size, options.window);
                    };
                    follow(source, state, held, &options, access)?
                }
                Some(process) => {
                    let others = &mut self.threads;
                    let access = |state: &mut ThreadState, access: &Access| {
                        process.access(state, others, access, &options);
                    };
                    follow(source, state, held, &options, access)?
                }
            };
            let Some(event) = event else { return Ok(None) };
            match event {
                Event::Thread(id) => self.switch(id),
                Event::Exit(id) => {
                    if let Some(window) = self.exit(id)? {
                        return Ok(Some(window));
                    }
                }
                Event::Access(_) | Event::Block { .. } => {
                    let mut window = state.end(End::Boundary, self.options.window, self.options.line_size);
                    window.process = self.end_segment(End::Boundary);
                    self.held = Some(event);
                    self.awaiting = Some(window.thread);
                    return Ok(Some(window));
                }
            }
        }
    }
}

/// Feeds `state` from `source`, `first` first, until an event that is not its window's, which is returned; or
/// `None` at the end of the source. Accesses that do not pass are shown to `see`.
fn follow<S: EventSource>(
    source: &mut S,
    state: &mut ThreadState,
    first: Option<Event>,
    options: &ReplayOptions,
    mut see: impl FnMut(&mut ThreadState, &Access),
) -> Result<Option<Event>, SamplerError> {
    let line_size = options.line_size;
    match first {
        Some(Event::Access(access)) => see(state, &access),
        Some(Event::Block { address, instructions }) => state.block(address, instructions),
        Some(event @ (Event::Thread(_) | Event::Exit(_))) => return Ok(Some(event)),
        None => {}
    }
    let in_accesses = matches!(options.window, WindowLength::Accesses(_));
    let mut quiet = state.quiet(); // in a register from one access to the next
    let ended = source.drive(|event| {
        if let Event::Access(access) = &event {
            if quiet > 0 && state.passes(access, line_size) {
                quiet -= 1;
                return ControlFlow::Continue(());
            }
        }
        state.set_quiet(quiet);
        match event {
            Event::Access(_) | Event::Block { .. } if in_accesses && state.enough_accesses() => {
                return ControlFlow::Break(event);
            }
            Event::Block { .. } if !in_accesses && state.enough_instructions() => {
                return ControlFlow::Break(event);
            }
            Event::Access(access) => see(state, &access),
            Event::Block { address, instructions } => state.block(address, instructions),
            Event::Thread(_) | Event::Exit(_) => return ControlFlow::Break(event),
        }
        quiet = state.quiet();
        ControlFlow::Continue(())
    });
    state.set_quiet(quiet);
    ended
}

impl<S: EventSource> Sampler for ReplaySampler<S> {
    fn next_window(&mut self, plan: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        if !self.started {
            self.started = true;
            self.initial = mode_of(&plan.reuse);
        }
        if let Some(process) = &mut self.process {
            process.begin(mode_of(&plan.reuse));
        }
        if let Some(id) = self.awaiting.take() {
            self.resume(id, mode_of(&plan.reuse));
        }
        if self.ended.is_none() {
            if let Some(window) = self.run()? {
                return Ok(Some(window));
            }
            self.ended = Some(End::Thread);
            for state in self.threads.values().chain(self.current.iter().map(|(_, state)| state)) {
                self.check(state)?;
            }
            self.finish(End::Thread);
        }
        Ok(self.finished.pop_front())
    }

    fn stop(&mut self) -> Result<(), SamplerError> {
        if self.ended.is_none() {
            self.ended = Some(End::Interrupted);
            if let Some(process) = &mut self.process {
                process.begin(Mode::Watch);
            }
            if let Some(id) = self.awaiting.take() {
                self.resume(id, Mode::Watch);
            }
            self.finish(End::Interrupted);
        }
        Ok(())
    }
}
