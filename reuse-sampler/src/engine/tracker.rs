//! Follows the accesses of one thread: starts samples, closes them, and accounts for each exactly once.

use std::collections::BTreeMap;

use super::bins;
use super::gaps::{Gaps, Rate};
use super::hash::FastMap;
use super::overlap::{Overlap, Overlaps};
use super::random::Random;
use super::touches::Touches;
use super::watches::{Watch, Watches};

/// How the accesses of a window are observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Accesses are not shown to the tracker; open samples are censored.
    Off,
    /// Open samples are followed, none is started.
    Watch,
    /// Samples are started at this rate.
    Sample(Rate),
    /// Every access is a sample.
    Every,
}

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Its line was touched again after this many other accesses.
    Reused(u64),
    /// Its line was not touched again before the thread ended.
    Dangling,
    /// Its line was not touched during this many accesses, then observation stopped.
    Censored(u64),
}

/// A single sample with its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// What became of it.
    pub fate: Fate,
    /// The window it was started in.
    pub window: u64,
    /// Accesses it stands for.
    pub weight: u64,
    /// Instruction that started it, and whether by a store.
    pub begin: (u64, bool),
    /// Instruction that touched the line again, and whether by a store; only if reused.
    pub end: Option<(u64, bool)>,
}

/// Samples of one fate (distances rounded to the middle of their bin) that were started in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What became of them.
    pub fate: Fate,
    /// The window they were started in.
    pub window: u64,
    /// How many they are.
    pub samples: u64,
}

/// Backward distances of the accesses of a window, with the number of accesses at each.
pub type Backward = Vec<(Fate, u64)>;

/// What a window tells when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Accesses shown to the tracker in this window.
    pub accesses: u64,
    /// Samples that ended in this window.
    pub closed: Vec<Closed>,
    /// The same for samples of windows in which every access is one.
    pub counts: Vec<Count>,
    /// Backward distances of loads and of stores, if every access was measured.
    pub arrivals: Option<[Backward; 2]>,
    /// Samples still open.
    pub open: u64,
    /// How samples that ended in this window lay over each other.
    pub overlaps: Vec<Overlap>,
}

/// Where every access is a sample, one in 32 is followed for its overlaps.
const MARKERS: Rate = Rate::Sparse { mean: 32.0 };

/// The sampling state of one thread.
#[derive(Clone, Debug)]
pub struct Tracker {
    now: u64,       // accesses shown so far; the number of the latest one
    next: u64,      // number of the access that starts the next sample; u64::MAX if none
    direct: bool,   // every access is a sample, and no others are open
    touching: bool, // `touches` is in use, in this window or with samples open from an earlier one
    began: u64,     // `now` when the window began
    window: u64,
    random: Random,
    gaps: Option<Gaps>,
    weight: u64,
    watches: Watches,
    mode: Mode,
    overlaps: Overlaps,
    closed: Vec<Closed>,
    touches: Touches,
    whole: bool,             // every access since the thread's first one was recorded in `touches`
    history: u64,            // `now` when every-access tracking began without a gap since
    first: [u64; 2],         // first touches by loads and by stores, while `whole`
    starts: Vec<(u64, u64)>, // (`began`, window) of every-access windows, ascending
    within: Vec<u64>,        // reuses inside this window by bin: first those of loads, then those of stores
    across: FastMap<u64, u64>, // reuses from earlier windows, by `crossing`
    unseen: Vec<(u64, bool)>, // (age of the history, store): lines without a touch in the history
    left: BTreeMap<(u64, Fate), u64>, // counts of samples that ended without a reuse
}

impl Tracker {
    /// A tracker for thread number `thread`, whose samples are chosen by `seed`.
    #[must_use]
    pub fn new(seed: u64, thread: u64) -> Self {
        Self {
            now: 0,
            next: u64::MAX,
            direct: false,
            touching: false,
            began: 0,
            window: 0,
            random: Random::new(seed, thread),
            gaps: None,
            weight: 1,
            watches: Watches::default(),
            mode: Mode::Off,
            overlaps: Overlaps::default(),
            closed: Vec::new(),
            touches: Touches::default(),
            whole: true,
            history: 0,
            first: [0; 2],
            starts: Vec::new(),
            within: Vec::new(),
            across: FastMap::default(),
            unseen: Vec::new(),
            left: BTreeMap::new(),
        }
    }

    /// Begins window number `window`, observed as `mode` says. Window numbers of one tracker rise.
    pub fn begin_window(&mut self, window: u64, mode: Mode) {
        self.window = window;
        self.overlaps.begin_window(window);
        self.began = self.now;
        match mode {
            Mode::Off => {
                self.end_all(Fate::Censored);
                self.starts.clear();
            }
            Mode::Every => {
                if !self.every() {
                    self.history = self.now;
                    self.within.resize(2 * bins::BINS, 0);
                }
                self.starts.push((self.now, window));
            }
            Mode::Watch | Mode::Sample(_) => {}
        }
        if mode != self.mode {
            self.overlaps.restart();
        }
        self.mode = mode;
        self.whole &= self.every();
        self.direct = self.every() && self.watches.open() == 0;
        self.touching = self.every() || self.touches.open() > 0;
        self.choose(match mode {
            Mode::Off | Mode::Watch => None,
            Mode::Sample(rate) => Some(rate),
            Mode::Every => Some(MARKERS),
        });
    }

    /// Whether every access is a sample in this window.
    const fn every(&self) -> bool {
        matches!(self.mode, Mode::Every)
    }

    /// Chooses accesses at `rate` from now on.
    fn choose(&mut self, rate: Option<Rate>) {
        if self.gaps.as_ref().map(Gaps::rate) == rate {
            return;
        }
        self.gaps = rate.map(|rate| Gaps::new(rate, &mut self.random));
        self.weight = rate.map_or(1, Rate::weight);
        self.next = u64::MAX;
        self.choose_next();
    }

    fn choose_next(&mut self) {
        if let Some(gaps) = &mut self.gaps {
            self.next = self.now.saturating_add(gaps.next(&mut self.random));
        }
    }

    /// Shows the next access of the thread: the line it touches and the instruction that makes it.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call costs as much as the rest of it
    pub fn access(&mut self, line: u64, pc: u64, store: bool) {
        self.now += 1;
        if self.direct {
            self.access_direct(line, store);
        } else if self.touching {
            self.access_touching(line, pc, store);
        } else if self.watches.may_watch(line) || self.now == self.next {
            self.access_watched(line, pc, store);
        }
    }

    /// An access that is a sample like those before it. The common case comes first and calls nothing, so that
    /// it has no registers to save.
    #[inline(never)]
    fn access_direct(&mut self, line: u64, store: bool) {
        if let Some(entry) = self.touches.entry(line) {
            let before = *entry >> 1;
            if *entry & 1 == 0 && before > self.began && self.now != self.next {
                *entry = self.now << 1;
                let bin = bins::bin_of(self.now.wrapping_sub(before).wrapping_sub(1));
                if let Some(count) = self.within.get_mut(bin + bins::BINS * usize::from(store)) {
                    *count += 1;
                }
                return;
            }
        }
        self.touch(line, store);
    }

    /// An access that may close a sample or start one.
    #[cold]
    #[inline(never)]
    fn access_watched(&mut self, line: u64, pc: u64, store: bool) {
        self.close(line, pc, store);
        if self.now == self.next {
            self.start(line, pc, store);
        }
    }

    /// An access while `touches` is in use: every one is a sample, or was until a window ago.
    #[inline(never)]
    fn access_touching(&mut self, line: u64, pc: u64, store: bool) {
        if self.every() {
            if self.watches.may_watch(line) {
                self.close(line, pc, store);
            }
            self.touch(line, store);
        } else {
            self.close_touched(line);
            self.access_watched(line, pc, store);
        }
    }

    /// Ends the window and tells what happened in it.
    pub fn end_window(&mut self) -> Report {
        let arrivals = self.every().then(|| self.arrivals());
        let mut counts: BTreeMap<(u64, Fate), u64> = std::mem::take(&mut self.left);
        for (key, count) in self.across.drain() {
            let (start, bin, _) = crossed(key);
            let window = self.starts.get(start).map_or(0, |start| start.1);
            *counts.entry((window, Fate::Reused(bins::middle(bin)))).or_default() += count;
        }
        let half = self.within.len() / 2;
        let (loads, stores) = self.within.split_at_mut(half);
        for (bin, (loads, stores)) in loads.iter_mut().zip(stores).enumerate() {
            let count = std::mem::take(loads) + std::mem::take(stores);
            if count > 0 {
                *counts.entry((self.window, Fate::Reused(bins::middle(bin)))).or_default() += count;
            }
        }
        self.unseen.clear();
        self.first = [0; 2];
        Report {
            accesses: self.now - self.began,
            closed: std::mem::take(&mut self.closed),
            counts: counts
                .into_iter()
                .map(|((window, fate), samples)| Count { fate, window, samples })
                .collect(),
            arrivals,
            open: self.watches.open() as u64 + self.touches.open(),
            overlaps: self.overlaps.take(),
        }
    }

    /// Ends the last window of the thread: what is still open dangles.
    pub fn end_thread(&mut self) -> Report {
        self.end_all(|_| Fate::Dangling);
        self.end_window()
    }

    /// Ends the window because observation ends before the thread does: what is still open is censored.
    pub fn interrupt(&mut self) -> Report {
        self.end_all(Fate::Censored);
        self.end_window()
    }

    fn start(&mut self, line: u64, pc: u64, store: bool) {
        self.watches.insert(line, self.now, self.window, self.weight, (pc, store));
        if self.gaps.as_ref().is_some_and(Gaps::is_uniform) {
            self.overlaps.start(self.now);
        }
        self.choose_next();
    }

    fn close(&mut self, line: u64, pc: u64, store: bool) {
        if let Some(watch) = self.watches.remove(line) {
            let distance = self.now - watch.started_at - 1;
            if self.gaps.as_ref().is_some_and(Gaps::is_uniform) {
                self.overlaps.end(watch.started_at, watch.window, watch.weight, distance);
            }
            let fate = Fate::Reused(distance);
            self.closed.push(Closed { end: Some((pc, store)), ..ended(&watch, fate) });
        }
    }

    /// An access among those that are all samples: it ends a marker, or becomes one.
    #[cold]
    #[inline(never)]
    fn mark(&mut self, line: u64, entry: u64) {
        if entry & 1 != 0 {
            let before = entry >> 1;
            let window = window_of(&self.starts, before);
            self.overlaps.end(before, window, self.weight, self.now - before - 1);
        }
        if self.now == self.next {
            self.touches.touch(line, self.now << 1 | 1);
            self.overlaps.start(self.now);
            self.choose_next();
        }
    }

    #[inline(never)]
    fn touch(&mut self, line: u64, store: bool) {
        // The lowest bit of what is kept of a line says whether its last touch is a marker.
        let entry = self.touches.touch(line, self.now << 1);
        let before = entry >> 1;
        let distance = self.now.wrapping_sub(before).wrapping_sub(1);
        if before > self.began {
            self.within[bins::bin_of(distance) + bins::BINS * usize::from(store)] += 1;
        } else if before > 0 {
            let crossing = crossing(start_of(&self.starts, before), bins::bin_of(distance), store);
            *self.across.entry(crossing).or_default() += 1;
        } else if self.whole {
            self.first[usize::from(store)] += 1;
        } else {
            self.unseen.push((self.now - 1 - self.history, store));
        }
        if entry & 1 != 0 || self.now == self.next {
            self.mark(line, entry);
        }
    }

    fn close_touched(&mut self, line: u64) {
        let before = self.touches.take(line) >> 1;
        if before != 0 {
            let fate = Fate::Reused(rounded(self.now - before - 1));
            *self.left.entry((window_of(&self.starts, before), fate)).or_default() += 1;
        }
        self.touching = self.touches.open() > 0;
    }

    /// Ends every open sample; `fate` is given the number of accesses since it was started.
    fn end_all(&mut self, fate: impl Fn(u64) -> Fate) {
        let now = self.now;
        self.overlaps.restart();
        let watches = self.watches.drain();
        self.closed.extend(watches.iter().map(|watch| ended(watch, fate(now - watch.started_at))));
        if self.touches.open() > 0 {
            let (starts, left) = (&self.starts, &mut self.left);
            self.touches.drain(|entry| {
                let before = entry >> 1;
                let fate = match fate(now - before) {
                    Fate::Censored(age) => Fate::Censored(rounded(age)),
                    other => other,
                };
                *left.entry((window_of(starts, before), fate)).or_default() += 1;
            });
        }
    }

    fn arrivals(&self) -> [Backward; 2] {
        [false, true].map(|store| {
            let mut fates: BTreeMap<Fate, u64> = BTreeMap::new();
            for (&key, &count) in &self.across {
                let (_, bin, by_store) = crossed(key);
                if by_store == store {
                    *fates.entry(Fate::Reused(bins::middle(bin))).or_default() += count;
                }
            }
            let (loads, stores) = self.within.split_at(self.within.len() / 2);
            let within = if store { stores } else { loads };
            for (bin, &count) in within.iter().enumerate().filter(|(_, c)| **c > 0) {
                *fates.entry(Fate::Reused(bins::middle(bin))).or_default() += count;
            }
            for &(age, _) in self.unseen.iter().filter(|unseen| unseen.1 == store) {
                *fates.entry(Fate::Censored(rounded(age))).or_default() += 1;
            }
            if self.first[usize::from(store)] > 0 {
                fates.insert(Fate::Dangling, self.first[usize::from(store)]);
            }
            fates.into_iter().collect()
        })
    }
}

fn rounded(distance: u64) -> u64 {
    bins::middle(bins::bin_of(distance))
}

fn ended(watch: &Watch, fate: Fate) -> Closed {
    Closed { fate, window: watch.window, weight: watch.weight, begin: (watch.pc, watch.store), end: None }
}

/// The window in which access number `at` was made.
fn window_of(starts: &[(u64, u64)], at: u64) -> u64 {
    starts.get(start_of(starts, at)).map_or(0, |start| start.1)
}

/// Index into `starts` of the window in which access number `at` was made.
fn start_of(starts: &[(u64, u64)], at: u64) -> usize {
    starts.partition_point(|&(began, _)| began < at).saturating_sub(1)
}

/// A reuse from an earlier window as one number: index of that window's start, bin of the distance, store.
const fn crossing(start: usize, bin: usize, store: bool) -> u64 {
    ((start as u64) << 15) | ((bin as u64) << 1) | store as u64
}

const fn crossed(key: u64) -> (usize, usize, bool) {
    ((key >> 15) as usize, ((key >> 1) & 0x3FFF) as usize, key & 1 == 1)
}

const _: () = assert!(bins::BINS <= 0x4000, "a bin fits the 14 bits that `crossing` has for it");
