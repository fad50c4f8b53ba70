//! One thread under observation: its events, its window in progress, its open samples.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::gaps::{Gaps, Rate};
use crate::engine::random::Random;
use crate::engine::tracker::Mode;
use crate::perf::kernel::{Event, Reading, Tid};
use crate::perf::registers::{Registers, Watched};
use crate::perf::ring::Layout;
use crate::{
    AccessCount, Clock, Losses, Outcome, ReuseDistance, ReuseSample, Site, ThreadId, Window, WindowIndex,
};

/// The open events of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    pub leader: Option<Event>, // counts what windows are measured in; overflows at their ends
    pub accesses: [Option<Event>; 2],
    pub gap: Option<Event>,            // overflows where the next sample is due
    pub selectors: [Option<Event>; 2], // overflow where the processor itself chooses an access, instead of `gap`
    pub code: Option<Event>,           // overflows now and then
    pub profile: Option<Event>,        // by which the processor profiles by itself
    pub echo: Option<Event>, // overflows right behind the leader or the gap event, where that is needed
    pub counters: Vec<Vec<Event>>, // groups that take turns, each with its own leader first
}

impl Events {
    /// All but the registers.
    pub fn all(&self) -> impl Iterator<Item = Event> + '_ {
        let [one, other] = self.selectors;
        let [first, second] = self.accesses;
        let singles = [one, other, self.profile, self.echo, self.gap, self.code, first, second, self.leader];
        self.counters.iter().flatten().copied().chain(singles.into_iter().flatten())
    }
}

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

/// An access that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    /// First byte in its line.
    pub address: u64,
    /// Bytes in its line, at least 1.
    pub bytes: u64,
    pub watched: Watched,
}

/// A sample whose line is watched already and whose own access is still to be seen: until then it is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ahead {
    pub slot: usize,
    /// The open sample of the same line that this access ends.
    pub ends: Option<Watched>,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    /// It runs, as far as it is known.
    Running,
    /// It goes one instruction, on its way to the one that is chosen. So many steps are left.
    Approaching(u32),
    /// It stands still until its plan comes.
    Waiting,
    /// It stands at its end, and everything was told.
    Ending,
    /// Job control stopped it.
    Listening,
    /// It stands still because observation ends.
    Halted,
}

impl State {
    /// Whether it stands still until it is told to go on.
    pub const fn stands(self) -> bool {
        matches!(self, Self::Waiting | Self::Ending | Self::Listening | Self::Halted)
    }
}

#[derive(Debug)]
pub(super) struct Thread {
    pub tid: Tid,
    pub id: ThreadId,
    pub events: Events,
    pub layouts: Vec<(u64, Layout)>, // what the records of each event hold
    pub registers: Registers,
    pub state: State,
    pub mode: Mode,
    pub rate: Option<Gaps>,
    pub random: Random,
    pub weight: u64,
    /// Where the next instruction is chosen, by the clock of windows.
    pub next: Option<u64>,
    /// Where the window ends.
    pub boundary: u64,
    pub began: Moment,
    pub last: Moment,
    pub began_at: u64, // wall clock, nanoseconds
    pub window: Window,
    pub code: BTreeMap<u64, u64>,
    pub turn: usize,              // of the counter groups
    pub counted: Option<Reading>, // of the group whose turn it is, when it began
    pub unheard: bool,            // an event that stops the thread has overflowed and it has not stopped yet
    pub reminded: bool,
    pub counts: Reading, // of the leader's group, when last read
    /// By the clock of windows, when an access hit a watchpoint that stops it before it: it may still stand there.
    pub hit: Option<u64>,
    pub owed: i32,          // a signal to go on with; 0 for none
    pub aimed: Option<u64>, // for which `next` the gap event is set
    pub due: u64,           // by the clock of windows, where it overflows
    pub echoed: u64,        // by the same, behind which count the echo overflows
    pub idle: Vec<Event>,   // registers that watch for nothing any more and are still on
    /// Where the thread stood at the last overflow that stops it, by the clock of windows: the next instruction there.
    pub place: Option<(u64, u64)>,
    pub ahead: Option<Ahead>,
    pub paces: [Option<Gaps>; 2], // of the selectors
    pub paced: [bool; 2],         // whether they are on their way to the next access
    /// Where the window was found to be over, by the record of its end.
    pub edge: Option<Moment>,
}

impl Thread {
    pub fn new(tid: Tid, id: ThreadId, seed: u64, mode: Mode) -> Self {
        Self {
            tid,
            id,
            events: Events::default(),
            layouts: Vec::new(),
            registers: Registers::default(),
            state: State::Running,
            mode,
            rate: None,
            random: Random::new(seed, u64::from(id.0)),
            weight: 1,
            next: None,
            boundary: 0,
            began: Moment::default(),
            last: Moment::default(),
            began_at: 0,
            window: Window::new(WindowIndex(0), id),
            code: BTreeMap::new(),
            turn: 0,
            counted: None,
            unheard: false,
            reminded: false,
            counts: Reading::default(),
            hit: None,
            owed: 0,
            aimed: None,
            due: 0,
            echoed: 0,
            idle: Vec::new(),
            place: None,
            ahead: None,
            paces: [None, None],
            paced: [false; 2],
            edge: None,
        }
    }

    /// Takes on a plan: from where on samples are started, and at which rate.
    pub fn adopt(&mut self, mode: Mode) {
        self.mode = mode;
        let Mode::Sample(rate) = mode else {
            self.next = None;
            return;
        };
        let here = self.last.length;
        if self.rate.as_ref().map(Gaps::rate) != Some(rate) || self.next.is_none() {
            self.rate = Some(Gaps::new(rate, &mut self.random));
            self.paces = [0, 1].map(|_| Some(Gaps::new(rate, &mut self.random)));
            self.paced = [false; 2];
            self.weight = Rate::weight(rate);
            self.next = None;
            self.choose_beyond(here);
        }
    }

    /// Draws the next instruction to be chosen; the one at `here` is the first that can be.
    pub fn choose_beyond(&mut self, here: u64) {
        let from = self.next.map_or(here, |next| next + 1);
        let Some(gaps) = &mut self.rate else { return };
        let mut next = from.saturating_add(gaps.next(&mut self.random) - 1);
        if next < here {
            // The gap was over while the thread was on its way to the last one. Gaps have no memory.
            next = here.saturating_add(gaps.next(&mut self.random) - 1);
        }
        self.next = Some(next);
    }

    /// Notes what became of a sample.
    pub fn report(&mut self, watched: &Watched, outcome: Outcome, end: Option<Site>) {
        self.window.samples.push(ReuseSample {
            outcome,
            started_in: watched.window,
            thread: self.id,
            begin: watched.begin,
            end,
            weight: watched.weight,
        });
    }

    /// The window in progress, up to `end`, becomes a window that is told, and number `next` begins.
    pub fn turn_over(
        &mut self,
        end: Moment,
        next: WindowIndex,
        clocks: (Clock, Clock),
        mix: Option<f64>,
        now: u64,
    ) -> Window {
        let mut window = std::mem::replace(&mut self.window, Window::new(next, self.id));
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
        window.open_samples = self.registers.open() as u64;
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
