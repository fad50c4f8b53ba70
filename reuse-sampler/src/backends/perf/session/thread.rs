//! One thread under observation: its events, the [choice](Selection) of its samples, its [window](Progress) in progress.

use super::progress::Progress;
use super::selection::Selection;
use crate::ThreadId;
use crate::engine::tracker::Mode;
use crate::perf::kernel::{Event, Reading, Tid};
use crate::perf::registers::Registers;
use crate::perf::ring::Layout;

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

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    /// It runs, as far as it is known.
    Running,
    /// It goes one instruction, on its way to the one that is chosen. So many steps are left.
    Approaching(u32),
    /// It stands still until its plan comes.
    Waiting,
    /// It stands at its end, and everything was reported.
    Ending,
    /// Job control stopped it.
    Listening,
    /// It stands still because observation ends.
    Halted,
}

impl State {
    /// Whether it stands still until it is asked to go on.
    pub const fn stands(self) -> bool {
        matches!(self, Self::Waiting | Self::Ending | Self::Listening | Self::Halted)
    }
}

/// Where events stop the thread next.
#[derive(Debug, Default)]
pub(super) struct Aim {
    pub aimed: Option<u64>, // for which choice the gap event is set
    pub due: u64,           // by the clock of windows, where it overflows
    pub echoed: u64,        // by the same, behind which count the echo overflows
    pub unheard: bool,      // an event that stops the thread has overflowed and it has not stopped yet
    pub reminded: bool,
    pub idle: Vec<Event>, // registers that watch for nothing any more and are still on
}

#[derive(Debug)]
pub(super) struct Thread {
    pub tid: Tid,
    pub id: ThreadId,
    pub process: usize, // its number in the tree
    pub state: State,
    pub asleep: bool, // until a process that shares its memory is through
    pub events: Events,
    pub layouts: Vec<(u64, Layout)>, // what the records of each event hold
    pub registers: Registers,
    pub selection: Selection,
    pub aim: Aim,
    pub progress: Progress,
    pub turn: usize,              // of the counter groups
    pub counted: Option<Reading>, // of the group whose turn it is, when it began
    pub counts: Reading,          // of the leader's group, when last read
    pub owed: i32,                // a signal to go on with; 0 for none
}

impl Thread {
    pub fn new(tid: Tid, id: ThreadId, process: usize, seed: u64, mode: Mode) -> Self {
        Self {
            tid,
            id,
            process,
            state: State::Running,
            asleep: false,
            events: Events::default(),
            layouts: Vec::new(),
            registers: Registers::default(),
            selection: Selection::new(seed, id, mode),
            aim: Aim::default(),
            progress: Progress::new(id),
            turn: 0,
            counted: None,
            counts: Reading::default(),
            owed: 0,
        }
    }
}
