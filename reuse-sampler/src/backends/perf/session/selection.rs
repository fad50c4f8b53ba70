//! Which accesses of a thread become samples.

use crate::ThreadId;
use crate::engine::gaps::{Gaps, Rate};
use crate::engine::random::Random;
use crate::engine::tracker::Mode;
use crate::perf::registers::Watched;

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

/// The plan of a thread, and the choice under way.
#[derive(Debug)]
pub(super) struct Selection {
    pub mode: Mode,
    rate: Option<Gaps>,
    pub random: Random,
    pub weight: u64,
    /// Where the next instruction is chosen, by the clock of windows.
    pub next: Option<u64>,
    /// Where it was drawn, before the thread stopped later than there.
    drawn: Option<u64>,
    /// Where the thread stood at the last overflow that stops it, by the clock of windows: the next instruction there.
    pub place: Option<(u64, u64)>,
    pub ahead: Option<Ahead>,
    /// By the clock of windows, when an access hit a watchpoint that stops it before it: it may still stand there.
    pub hit: Option<u64>,
    pub paces: [Option<Gaps>; 2], // of the selectors
    pub paced: [bool; 2],         // whether they are on their way to the next access
}

impl Selection {
    pub fn new(seed: u64, id: ThreadId, mode: Mode) -> Self {
        Self {
            mode,
            rate: None,
            random: Random::new(seed, u64::from(id.0)),
            weight: 1,
            next: None,
            drawn: None,
            place: None,
            ahead: None,
            hit: None,
            paces: [None, None],
            paced: [false; 2],
        }
    }

    /// Takes on a plan at `here`, by the clock of windows: from where on samples are started, and at which rate.
    pub fn adopt(&mut self, mode: Mode, here: u64) {
        self.mode = mode;
        let Mode::Sample(rate) = mode else {
            self.forget();
            return;
        };
        if self.rate.as_ref().map(Gaps::rate) != Some(rate) || self.next.is_none() {
            self.rate = Some(Gaps::new(rate, &mut self.random));
            self.paces = [0, 1].map(|_| Some(Gaps::new(rate, &mut self.random)));
            self.paced = [false; 2];
            self.weight = Rate::weight(rate);
            self.forget();
            self.choose_beyond(here, true);
        }
    }

    /// Nothing is chosen next: what is drawn then begins anew.
    pub fn forget(&mut self) {
        (self.next, self.drawn) = (None, None);
    }

    /// Draws the next instruction to be chosen; the one at `here` is the first that can be. A gap that was over while the
    /// thread was on its way to the last one is made up for at once if `counted`, or there would be fewer choices where
    /// threads stop late; in time, which passes while nothing is executed, the next one is drawn anew.
    pub fn choose_beyond(&mut self, here: u64, counted: bool) {
        let from = self.drawn.map_or(here, |drawn| drawn + 1);
        let Some(gaps) = &mut self.rate else { return };
        let mut next = from.saturating_add(gaps.next(&mut self.random) - 1);
        if next < here && !counted {
            next = here.saturating_add(gaps.next(&mut self.random) - 1);
        }
        let next = next.max(here);
        (self.next, self.drawn) = (Some(next), Some(next));
    }
}
