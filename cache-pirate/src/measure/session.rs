//! One measurement under way: changes of the stolen size, warm-ups, intervals and their verdicts.
//!
//! Whoever gains space warms it up before anything is measured (Eklöv, thesis, Paper III, figure 6). A growing
//! pirate walks alone, the target suspended, until a walk needs no fetches but of what is new. A target that gains space runs
//! until it has fetched as many lines as the cache has: alone if nothing is stolen any more, else beside the
//! pirate, which must go on holding what it keeps.

use crate::counts::{PirateCounts, Reading};
use crate::plan::Plan;
use crate::testbed::{Evidence, Outcome, Testbed, Until, Who};
use crate::trust::{Distrust, Trust, judge_pirate, judge_target};

use super::{Capacity, Interval};

/// Parts in which the target's warm-up runs, to stop early.
const WARM_UP_PARTS: f64 = 16.0;
/// Share of an interval's work that must be done before the target ends for the interval to count.
const COMPLETE: f64 = 0.5;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Ended,
}

impl From<Outcome> for Next {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Continue,
            Outcome::TargetEnded => Self::Ended,
        }
    }
}

pub(super) struct Session<'a, T> {
    testbed: &'a mut T,
    plan: &'a Plan,
    capacity: Capacity,
    limit: f64,          // of the pirate's fetch ratio
    stolen: Option<u64>, // None: nobody holds anything yet
    threads: usize,
    /// Time that passed while only the pirate ran.
    pub suspended: f64,
}

impl<'a, T: Testbed> Session<'a, T> {
    pub(super) fn new(testbed: &'a mut T, plan: &'a Plan, capacity: Capacity, threads: usize) -> Self {
        let limit = plan.limits.of(testbed.evidence());
        Self { testbed, plan, capacity, limit, stolen: None, threads, suspended: 0.0 }
    }

    pub(super) fn read(&mut self) -> Result<Reading, T::Error> {
        self.testbed.read()
    }

    /// Changes the number of pirate threads and warms up their caches.
    pub(super) fn set_threads(&mut self, threads: usize) -> Result<(), T::Error> {
        self.threads = threads;
        self.steal()?;
        self.warm_pirate(0)
    }

    /// Makes the pirate steal `stolen` bytes and lets whoever gains space warm up. `ran` hears of each stretch
    /// in which the target ran.
    pub(super) fn change_to(&mut self, stolen: u64, mut ran: impl FnMut(&Reading)) -> Result<Next, T::Error> {
        if self.stolen == Some(stolen) {
            return Ok(Next::Continue);
        }
        // At first both gain: the pirate what it steals, the target the rest.
        let (pirate_had, target_had) = match self.stolen {
            Some(before) => (before, self.plan.whole() - before),
            None => (0, 0),
        };
        self.stolen = Some(stolen);
        self.steal()?;
        if stolen > pirate_had {
            self.warm_pirate(stolen - pirate_had)?;
        }
        // Ways are taken from a confined target with whatever is in them, not its oldest lines first.
        if self.plan.whole() - stolen > target_had || self.testbed.evidence() == Evidence::Confined {
            return self.warm_target(&mut ran);
        }
        Ok(Next::Continue)
    }

    /// Measures one interval at the present size.
    pub(super) fn interval(&mut self, work: f64) -> Result<(Interval, Next), T::Error> {
        let who = self.both();
        let shared_before = self.testbed.shares_cache()?;
        let before = self.testbed.read()?;
        let outcome = self.testbed.run(who, Until::Work(work))?;
        let counts = self.testbed.read()? - before;
        let shared_after = self.testbed.shares_cache()?;
        let shared = shared_before != Some(false) && shared_after != Some(false);
        let trust = self.judge(&counts, work, shared);
        let (stolen, threads) = (self.stolen(), self.threads);
        let interval = Interval { stolen, threads, cycle: 0, counts, trust, weight: 1.0 };
        Ok((interval, outcome.into()))
    }

    /// Lets the target run alone with nothing stolen, at least until it is warm. `ran` hears of each stretch, and
    /// whether it was a warm-up.
    pub(super) fn gap(&mut self, work: f64, mut ran: impl FnMut(&Reading, bool)) -> Result<Next, T::Error> {
        let mut done = 0.0;
        let next = self.change_to(0, |made| {
            done += made.target.work;
            ran(made, true);
        })?;
        if next == Next::Ended || done >= work {
            return Ok(next);
        }
        self.run_target(Who::Target, work - done, &mut |made: &Reading| ran(made, false))
    }

    /// Has the pirate walk what it is to steal, and in an exclusive cache what its private caches hold of that.
    fn steal(&mut self) -> Result<(), T::Error> {
        let hidden = if self.stolen() == 0 { 0 } else { self.capacity.hidden * self.threads as u64 };
        self.testbed.steal(self.stolen() + hidden, self.threads)
    }

    fn stolen(&self) -> u64 {
        self.stolen.unwrap_or(0)
    }

    /// Who runs when the target is to run with what is left to it.
    fn both(&self) -> Who {
        if self.stolen() == 0 { Who::Target } else { Who::Both }
    }

    fn judge(&self, counts: &Reading, work: f64, shared: bool) -> Trust {
        let target = counts.target;
        if !(target.work > 0.0 && target.time > 0.0) {
            return Trust::Untrusted(Distrust::Empty);
        }
        if !shared && self.stolen() > 0 {
            return Trust::Untrusted(Distrust::NotShared);
        }
        if target.work < COMPLETE * work {
            return Trust::Untrusted(Distrust::Truncated { work: target.work });
        }
        let alone = self.capacity.judge(self.stolen());
        if !alone.is_trusted() {
            return alone;
        }
        let verdict = judge_pirate(counts.pirate, self.stolen(), self.plan.cache, self.limit);
        match (self.testbed.evidence(), verdict) {
            (Evidence::Counted, Trust::Trusted) => {
                judge_target(counts.pirate, target, self.plan.limits.spared)
            }
            (Evidence::Confined, Trust::Untrusted(Distrust::LostLines { fetch_ratio, limit })) => {
                Trust::Untrusted(Distrust::OldLines { share: fetch_ratio, limit })
            }
            _ => verdict,
        }
    }

    /// Lets the pirate walk alone until it has all its lines, `gained` bytes of which are new to it.
    ///
    /// One walk may do: if it fetched no more than the new lines, all are there.
    fn warm_pirate(&mut self, gained: u64) -> Result<(), T::Error> {
        if self.stolen() == 0 {
            return Ok(());
        }
        let line = f64::from(self.plan.cache.line_size);
        for walk in 0..self.plan.pirate_warm_up {
            let before = self.testbed.read()?;
            self.testbed.run(Who::Pirate, Until::Walks(1))?;
            let made = self.testbed.read()? - before;
            self.suspended += made.elapsed;
            let PirateCounts { touches, fetches } = made.pirate;
            // Where the target is confined, no line of its own may be left over.
            let is_new = walk == 0 && self.testbed.evidence() != Evidence::Confined;
            let new = if is_new { gained as f64 / line } else { 0.0 };
            if fetches <= new + self.limit * touches {
                break;
            }
        }
        Ok(())
    }

    /// Lets the target run until it has fetched as many lines as the cache has, or as much as the plan allows.
    ///
    /// Fetching what it gained would not do: what the pirate leaves behind is younger than what the target last
    /// touched before, so that under LRU the target's own lines go first.
    fn warm_target(&mut self, ran: &mut impl FnMut(&Reading)) -> Result<Next, T::Error> {
        let who = self.both();
        let lines = (self.plan.whole() / u64::from(self.plan.cache.line_size)) as f64;
        let part = self.plan.target_warm_up / WARM_UP_PARTS;
        if part == 0.0 {
            return Ok(Next::Continue);
        }
        let mut fetched = 0.0;
        for _ in 0..WARM_UP_PARTS as u32 {
            let mut fetches = 0.0;
            let next = self.run_target(who, part, &mut |made: &Reading| {
                fetches = made.target.memory.map_or(0.0, |memory| memory.fetches_at_least());
                ran(made);
            })?;
            fetched += fetches;
            if next == Next::Ended {
                return Ok(next);
            }
            if fetched >= lines {
                break;
            }
        }
        Ok(Next::Continue)
    }

    fn run_target(&mut self, who: Who, work: f64, ran: &mut impl FnMut(&Reading)) -> Result<Next, T::Error> {
        let before = self.testbed.read()?;
        let outcome = self.testbed.run(who, Until::Work(work))?;
        ran(&(self.testbed.read()? - before));
        Ok(outcome.into())
    }
}
