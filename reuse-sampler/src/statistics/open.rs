//! Which windows' samples have not ended yet.

use std::collections::{BTreeMap, VecDeque};

use crate::{CacheLines, Error, ReuseProfile, ThreadId, Window, WindowIndex};

/// How many of the samples that a window started have not ended, for each thread's windows.
///
/// A window says only how many samples are open in all. Those of one part of a run (a file that was read once) may stay open
/// to its end, and say nothing about whether the samples of the latest windows are worth following.
///
/// All windows are of the line size, clock and scope of the first.
///
/// ```
/// use reuse_sampler::OpenSamples;
/// use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
/// use reuse_sampler::{Access, CacheLines, ReusePlan, Sampler, ThreadId, WindowPlan};
///
/// // 100 lines that are touched once, then one line again and again.
/// let accesses = (0..300_u64).map(|i| Event::Access(Access::load(64 * i.min(100), 8)));
/// let mut sampler = ReplaySampler::new(accesses, ReplayOptions::windows_of(WindowLength::Accesses(100)))?;
/// let mut open = OpenSamples::default();
/// for _ in 0..2 {
///     open.take(&sampler.next_window(&WindowPlan::new(ReusePlan::Every))?.unwrap())?;
/// }
/// assert_eq!(open.share(ThreadId(0), 1), 1.0); // none of the first window's has ended
/// assert_eq!(open.share(ThreadId(0), 0), 0.01); // one of the last window's has not
/// // It is known by now that the first window's miss in a cache of 50 lines.
/// assert_eq!(open.undecided(ThreadId(0), 1, CacheLines(50)), 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// A few words for each window back to the first that has open samples, and a look at each sample that ends.
#[derive(Clone, Debug, Default)]
pub struct OpenSamples {
    units: Option<ReuseProfile>, // empty, of the units of the first window
    threads: BTreeMap<ThreadId, Started>,
}

#[derive(Clone, Debug, Default)]
struct Started {
    open: u64, // after the latest window
    accesses: u64,
    windows: VecDeque<Remaining>, // up to the latest one, ascending
}

#[derive(Clone, Copy, Debug)]
struct Remaining {
    window: WindowIndex,
    started: u64,
    open: u64,
    accesses: u64, // of the thread, up to this window's end
}

impl OpenSamples {
    /// Takes in the next window of its thread.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] for a window that was observed otherwise
    /// than the first: nothing is taken in.
    pub fn take(&mut self, window: &Window) -> Result<(), Error> {
        let units = || ReuseProfile::with_units(window.line_size, window.clock, window.scope);
        self.units.get_or_insert_with(units).check(window.line_size, window.clock, window.scope)?;
        let own = self.threads.entry(window.thread).or_default();
        let (mut ended, mut at_once) = (0, 0);
        for (started_in, _, count, _) in window.outcomes() {
            ended += count;
            if started_in == window.index {
                at_once += count;
            } else if let Ok(at) = own.windows.binary_search_by_key(&started_in, |other| other.window) {
                let open = &mut own.windows[at].open;
                *open = open.saturating_sub(count);
            }
        }
        let started = (window.open_samples + ended).saturating_sub(own.open);
        let open = started.saturating_sub(at_once);
        own.accesses += window.accesses.get().unwrap_or(0);
        own.windows.push_back(Remaining { window: window.index, started, open, accesses: own.accesses });
        own.open = window.open_samples;
        while own.windows.len() > 1 && own.windows.front().is_some_and(|first| first.open == 0) {
            own.windows.pop_front();
        }
        Ok(())
    }

    /// The share, from 0 to 1, of the samples started in a window of `thread` that have not ended; 0 if it started none.
    /// The window is the latest one for 0, the one before it for 1, and so on.
    #[must_use]
    pub fn share(&self, thread: ThreadId, windows_ago: u64) -> f64 {
        self.of(thread, windows_ago).map_or(0.0, |(share, _)| share)
    }

    /// The same, but 0 once these samples miss in caches of up to `largest` lines whenever they end: so many other lines have
    /// been touched since.
    ///
    /// If the share `s` of the window's samples is still open after `n` accesses in later windows, at least `n * s` lines have
    /// been touched since, as long as later accesses are like those of the window.
    #[must_use]
    pub fn undecided(&self, thread: ThreadId, windows_ago: u64, largest: CacheLines) -> f64 {
        let Some((share, since)) = self.of(thread, windows_ago) else { return 0.0 };
        if share * since as f64 >= largest.0 as f64 { 0.0 } else { share }
    }

    /// The share of a window's samples that have not ended, and the thread's accesses since.
    fn of(&self, thread: ThreadId, windows_ago: u64) -> Option<(f64, u64)> {
        let own = self.threads.get(&thread)?;
        let window = own.windows.iter().rev().nth(usize::try_from(windows_ago).ok()?)?;
        Some((window.open as f64 / window.started.max(1) as f64, own.accesses - window.accesses))
    }
}
