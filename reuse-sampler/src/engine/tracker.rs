//! Follows the accesses of one thread: starts samples, closes them, and accounts for each exactly once.

use std::collections::BTreeMap;

use super::batch::{self, Batch, Kind, Room};
use super::bins;
use super::gaps::{Gaps, Rate};
use super::overlap::Overlaps;
use super::random::Random;
use super::report::{Backward, Closed, Count, Fate, Report};
use super::starts::Starts;
use super::strides::StrideSampler;
use super::tally::Tally;
use super::touches::{LOST, Place, Touches};
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

/// What is kept of a line: the number of its last touch, [`LOST`] if another thread stored to it since, and whether that
/// touch is a marker.
const NUMBER: u32 = 2;
const MARKER: u64 = 1;

/// Where every access is a sample, one in 32 is followed for its overlaps.
const MARKERS: Rate = Rate::Sparse { mean: 32.0 };

/// The sampling state of one thread.
#[derive(Clone, Debug)]
pub struct Tracker {
    now: u64,       // accesses shown so far but for those in `batch`; the number of the latest one
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
    batch: Batch, // accesses shown while `direct`, not looked at yet
    touches: Touches,
    whole: bool,    // every access since the thread's first one was recorded in `touches`
    history: u64,   // `now` when every-access tracking began without a gap since
    starts: Starts, // of every-access windows
    tally: Tally,   // of every-access windows
    refetched: u64, // since the window began
    left: BTreeMap<(u64, Fate), u64>, // counts of samples that ended without a reuse in such a window
    stride_sampler: Option<Box<StrideSampler>>,
    strides: Vec<(u64, i64)>,
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
            batch: Batch::default(),
            touches: Touches::default(),
            whole: true,
            history: 0,
            starts: Starts::default(),
            tally: Tally::default(),
            refetched: 0,
            left: BTreeMap::new(),
            stride_sampler: None,
            strides: Vec::new(),
        }
    }

    /// The same with one access in `mean` chosen for its stride; 0 for none.
    #[must_use]
    pub fn with_strides(self, mean: u64, seed: u64, thread: u64) -> Self {
        let sampler = || Box::new(StrideSampler::new(mean as f64, seed, thread));
        Self { stride_sampler: (mean > 0).then(sampler), ..self }
    }

    /// Shows an operand, whose lines are shown by themselves, to whoever samples strides.
    #[inline]
    pub fn operand(&mut self, pc: u64, address: u64, store: bool) {
        let Some(sampler) = &mut self.stride_sampler else { return };
        if let Some(stride) = sampler.access(pc, address, store) {
            self.strides.push((pc, stride));
        }
    }

    /// Begins window number `window`, observed as `mode` says. Window numbers of one tracker rise.
    pub fn begin_window(&mut self, window: u64, mode: Mode) {
        self.catch_up();
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
                    self.tally.prepare();
                }
                self.starts.push(self.now, window);
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
        if self.direct {
            if self.batch.push(line, store) {
                self.catch_up();
            }
            return;
        }
        self.now += 1;
        if self.touching {
            self.access_touching(line, pc, store);
        } else if self.watches.holds(line) || self.now == self.next {
            self.access_watched(line, pc, store);
        }
    }

    /// Looks at the accesses of the batch, each a sample like those before it.
    #[inline(never)]
    fn catch_up(&mut self) {
        if self.batch.lines().is_empty() {
            return;
        }
        let mut places = [Place::default(); batch::SIZE];
        self.touches.places_of(self.batch.lines(), &mut places);
        let (mut now, mut updates, mut at) = (self.now, 0, 0);
        loop {
            let (next, earliest) = (self.next, self.began + 1);
            let (touches, mut tally) = (self.touches.entries(), self.tally.counting());
            let rest = places[at..].iter().zip(&self.batch.kinds()[at..]);
            // The common case calls nothing; `touch` knows the others.
            let other = rest.enumerate().find_map(|(after, (&place, &kind))| {
                let last = now + 1 + u64::from(kind == Kind::Update);
                let entry = &mut touches[place.index()];
                // Too much if it is a marker's or lost, too, or was touched before this window.
                let before = entry.rotate_right(NUMBER).wrapping_sub(earliest);
                if before >= 1 << (u64::BITS - NUMBER - 1) || last >= next {
                    return Some((after, place, kind));
                }
                *entry = last << NUMBER;
                tally.within(now - earliest - before, kind == Kind::Store);
                updates += last - now - 1;
                now = last;
                None
            });
            let Some((after, place, kind)) = other else { break };
            at += after + 1;
            for store in [kind == Kind::Store, true].into_iter().take(1 + usize::from(kind == Kind::Update)) {
                now += 1;
                self.now = now;
                self.touch(place, store);
            }
        }
        self.tally.counting().updated(updates);
        self.now = now;
        self.batch.clear();
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
            if self.watches.holds(line) {
                self.close(line, pc, store);
            }
            let place = self.touches.place_of(line);
            self.touch(place, store);
        } else {
            self.close_touched(line);
            self.access_watched(line, pc, store);
        }
    }

    /// Whether a sample of `line` may be open. Never wrong when it says no.
    #[must_use]
    pub fn may_hold(&self, line: u64) -> bool {
        self.touching || self.watches.holds(line)
    }

    /// Another thread stores to `line`: its sample ends.
    pub fn invalidate(&mut self, line: u64) {
        self.catch_up();
        if self.watches.holds(line) {
            if let Some(watch) = self.watches.lose(line) {
                self.overlaps.forget(watch.started_at);
                let fate = Fate::Invalidated(self.now - watch.started_at);
                self.closed.push(ended(&watch, fate));
            }
        }
        let entry = if self.touching { self.touches.lose(line) } else { 0 };
        if entry != 0 {
            let before = entry >> NUMBER;
            if entry & MARKER != 0 {
                self.overlaps.forget(before);
            }
            let fate = Fate::Invalidated(rounded(self.now - before));
            let window = if before > self.began { self.window } else { self.starts.window_of(before) };
            *self.left.entry((window, fate)).or_default() += 1;
            self.touching = self.every() || self.touches.open() > 0;
        }
    }

    /// Ends the window and returns what happened in it.
    pub fn end_window(&mut self) -> Report {
        self.catch_up();
        let arrivals = self.every().then(|| self.arrivals());
        let counts = self.counts();
        self.tally.clear();
        Report {
            accesses: self.now - self.began,
            closed: std::mem::take(&mut self.closed),
            counts,
            arrivals,
            open: self.watches.open() as u64 + self.touches.open(),
            refetched: std::mem::take(&mut self.refetched),
            overlaps: self.overlaps.take(),
            strides: std::mem::take(&mut self.strides),
        }
    }

    /// What became of samples of every-access windows, by ascending window and fate.
    fn counts(&mut self) -> Vec<Count> {
        let reused = |window, bin, [loads, stores]: [u64; 2]| {
            let fate = Fate::Reused(bins::middle(bin));
            Count { fate, window, samples: loads + stores }
        };
        let left = std::mem::take(&mut self.left);
        let mut counts: Vec<Count> =
            left.into_iter().map(|((window, fate), samples)| Count { fate, window, samples }).collect();
        let more = !counts.is_empty();
        let starts = &self.starts;
        self.tally.for_each_crossing(|start, bin, by| counts.push(reused(starts.window(start), bin, by)));
        self.tally.for_each_within(|bin, by| counts.push(reused(self.window, bin, by)));
        if more {
            counts.sort_unstable_by_key(|count| (count.window, count.fate));
            counts.dedup_by(|next, count| {
                let same = (next.window, next.fate) == (count.window, count.fate);
                count.samples += if same { next.samples } else { 0 };
                same
            });
        }
        counts
    }

    /// Ends the last window of the thread: what is still open dangles.
    pub fn end_thread(&mut self) -> Report {
        self.catch_up();
        let came_back = self.refetched;
        self.end_all(|_| Fate::Dangling);
        self.refetched = came_back; // nobody touches again what is lost now
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
        let Some(watch) = self.watches.remove(line) else { return };
        if watch.lost {
            self.refetched += watch.weight;
            return;
        }
        let distance = self.now - watch.started_at - 1;
        if self.gaps.as_ref().is_some_and(Gaps::is_uniform) {
            self.overlaps.end(watch.started_at, watch.window, watch.weight, distance);
        }
        let fate = Fate::Reused(distance);
        self.closed.push(Closed { end: Some((pc, store)), ..ended(&watch, fate) });
    }

    /// An access among those that are all samples: it ends a marker, or becomes one.
    #[cold]
    #[inline(never)]
    fn mark(&mut self, place: Place, entry: u64) {
        if entry & (MARKER | LOST) == MARKER {
            let before = entry >> NUMBER;
            let window = if before > self.began { self.window } else { self.starts.window_of(before) };
            self.overlaps.end(before, window, self.weight, self.now - before - 1);
        }
        if self.now == self.next {
            self.touches.touch(place, self.now << NUMBER | MARKER);
            self.overlaps.start(self.now);
            self.choose_next();
        }
    }

    #[inline(never)]
    fn touch(&mut self, place: Place, store: bool) {
        let entry = self.touches.touch(place, self.now << NUMBER);
        let before = entry >> NUMBER;
        if entry & LOST != 0 {
            self.tally.lost(self.now - before - 1, store);
            self.refetched += 1;
        } else if before > self.began {
            self.tally.counting().within(self.now - before - 1, store);
        } else if before > 0 {
            self.tally.across(before, self.now - before - 1, store, &self.starts, self.began);
        } else if self.whole {
            self.tally.first(store);
        } else {
            self.tally.unseen(self.now - 1 - self.history, store);
        }
        if entry & MARKER != 0 || self.now == self.next {
            self.mark(place, entry);
        }
    }

    fn close_touched(&mut self, line: u64) {
        let entry = self.touches.take(line);
        let before = entry >> NUMBER;
        if entry & LOST != 0 {
            self.refetched += 1;
        } else if before != 0 {
            let fate = Fate::Reused(rounded(self.now - before - 1));
            *self.left.entry((self.starts.window_of(before), fate)).or_default() += 1;
        }
        self.touching = self.touches.open() > 0;
    }

    /// Ends every open sample; `fate` is given the number of accesses since it was started. Lines that were lost pass for
    /// touched again.
    fn end_all(&mut self, fate: impl Fn(u64) -> Fate) {
        self.catch_up();
        let now = self.now;
        self.overlaps.restart();
        let [watches, lost] = self.watches.drain();
        self.closed.extend(watches.iter().map(|watch| ended(watch, fate(now - watch.started_at))));
        self.refetched += lost.iter().map(|watch| watch.weight).sum::<u64>();
        if self.touches.is_empty() {
            return;
        }
        let (starts, left, mut ages) = (&self.starts, &mut self.left, Tally::default());
        self.refetched += self
            .touches
            .drain(|entry| ages.across(entry >> NUMBER, now - (entry >> NUMBER), false, starts, now));
        ages.for_each_crossing(|start, bin, [open, _]| {
            *left.entry((starts.window(start), fate(bins::middle(bin)))).or_default() += open;
        });
    }

    fn arrivals(&mut self) -> [Backward; 2] {
        let mut arrivals = [Backward::new(), Backward::new()];
        let push = |arrivals: &mut [Backward; 2], fate, counts: [u64; 2]| {
            for (fates, count) in arrivals.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
                fates.push((fate, count));
            }
        };
        self.tally.for_each_reuse(|bin, by| push(&mut arrivals, Fate::Reused(bins::middle(bin)), by));
        self.tally.for_each_lost(|bin, by| push(&mut arrivals, Fate::Invalidated(bins::middle(bin)), by));
        push(&mut arrivals, Fate::Dangling, self.tally.first_touches());
        self.tally.for_each_unseen(|bin, by| push(&mut arrivals, Fate::Censored(bins::middle(bin)), by));
        arrivals
    }
}

/// For those who show many accesses at once.
#[cfg_attr(not(feature = "dbi"), allow(dead_code))]
impl Tracker {
    /// How many accesses start no sample, and can only end one where [`watched`](Self::watched) says so. None where
    /// strides are sampled.
    #[inline]
    #[must_use]
    pub const fn starts_none_in(&self) -> u64 {
        let none = self.direct || self.touching || self.stride_sampler.is_some();
        if none { 0 } else { self.next - self.now - 1 }
    }

    /// Shows that many accesses, which neither start nor end a sample.
    #[inline]
    pub const fn pass(&mut self, accesses: u64) {
        self.now += accesses;
    }

    /// Whether accesses may be put where [`room`](Self::room) is.
    #[inline]
    #[must_use]
    pub const fn puts_by(&self) -> bool {
        self.direct && self.stride_sampler.is_none()
    }

    /// Where the next accesses may be put; half of all there can be or more.
    #[inline]
    pub fn room(&mut self) -> Room<'_> {
        if self.batch.lines().len() > batch::SIZE / 2 {
            self.catch_up();
        }
        self.batch.room()
    }

    /// So many accesses were put where [`room`](Self::room) was.
    #[inline]
    pub fn took(&mut self, accesses: usize) {
        self.batch.took(accesses);
    }

    /// Which lines may have an open sample, where [`starts_none_in`](Self::starts_none_in) is not 0.
    #[inline]
    #[must_use]
    pub const fn watches(&self) -> &Watches {
        &self.watches
    }
}

fn rounded(distance: u64) -> u64 {
    bins::middle(bins::bin_of(distance))
}

fn ended(watch: &Watch, fate: Fate) -> Closed {
    Closed { fate, window: watch.window, weight: watch.weight, begin: (watch.pc, watch.store), end: None }
}
