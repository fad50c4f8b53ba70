//! How one settled set of phases gives way to another: followed once, looked up from then on.

use std::hash::Hash;

use super::CoRun;
use super::follow::Follower;
use super::recency::Recency;
use super::table::{Remembered, Table};
use crate::curve::Met;
use crate::{Sharing, SharingModel};

/// Steps after which a change that has not settled is followed no longer.
const MOST_STEPS: usize = 48;
/// Changes that are kept: those of so many sets, each to each, or as many of more sets.
const MOST_CHANGES: usize = 1 << 15;
/// How far a change has come is told by what programs hold of the cache and what they would hold of these parts of it.
const PARTS: [f64; 4] = [1.0, 0.75, 0.5, 0.25];

/// What happens from the moment at which one settled set of phases gives way to another until that has settled, too.
#[derive(Default)]
pub(super) struct Change {
    programs: usize,
    ends: Vec<f64>,        // time at which each step ends, rising
    moved: Vec<f64>,       // by then, of the way from one settled state to the other; in [0, 1]
    ages: Vec<f64>,        // at which lines leave the cache in each step
    work: Vec<f64>, // of each program until the end of each step, as many as there are programs for each step
    held: Vec<f64>, // by each program in each step, as many
    met: Vec<Option<Met>>, // what its reuses met with then, where any are known; else none at all
    lost: Vec<f64>, // work of each program less than if it had settled at once
    settles: bool,
}

impl Change {
    /// Whether it ends where the set that begins was solved to settle; else nothing can be looked up of it.
    pub(super) const fn settles(&self) -> bool {
        self.settles
    }

    /// How long it takes.
    #[inline]
    pub(super) fn time(&self) -> f64 {
        self.ends.last().copied().unwrap_or(0.0)
    }

    /// Work of a program that it lacks at the end of what it would have done settled.
    #[inline]
    pub(super) fn lost(&self, program: usize) -> f64 {
        self.lost[program]
    }

    /// When its steps end.
    pub(super) fn ends(&self) -> &[f64] {
        &self.ends
    }

    /// Number of the step at `time`; of steps where it has settled.
    #[inline]
    fn step(&self, time: f64) -> usize {
        self.ends.partition_point(|&end| end <= time)
    }

    /// Work of a program until `time`, and work per unit of time from there on; `speed` is what it settles at.
    #[inline]
    pub(super) fn work(&self, program: usize, time: f64, speed: f64) -> (f64, f64) {
        let step = self.step(time);
        let start = before(&self.ends, step, 1, 0);
        let done = before(&self.work, step, self.programs, program);
        let speed = match self.ends.get(step) {
            Some(end) => (self.work[step * self.programs + program] - done) / (end - start),
            None => speed,
        };
        (done + (time - start) * speed, speed)
    }

    /// How much of the way it has come by `time`, in [0, 1].
    #[inline]
    pub(super) fn moved(&self, time: f64) -> f64 {
        let step = self.step(time);
        let Some(end) = self.ends.get(step) else { return 1.0 };
        let (start, moved) = (before(&self.ends, step, 1, 0), before(&self.moved, step, 1, 0));
        moved + (time - start) / (end - start) * (self.moved[step] - moved)
    }

    /// What programs hold at `time`; nothing where it has settled.
    pub(super) fn holding(&self, time: f64) -> Option<Holding<'_>> {
        let step = self.step(time);
        let of_step = step * self.programs..(step + 1) * self.programs;
        let bytes = self.held.get(of_step.clone())?;
        Some(Holding { bytes, met: self.met.get(of_step).unwrap_or_default(), age: self.ages[step] })
    }
}

/// What programs hold in a step of a change.
pub(super) struct Holding<'a> {
    pub bytes: &'a [f64],
    pub met: &'a [Option<Met>], // what reuses met with, or nothing
    pub age: f64,               // at which lines leave
}

/// Value at the end of the step before, which is 0 before the first.
#[inline]
fn before(values: &[f64], step: usize, stride: usize, program: usize) -> f64 {
    step.checked_sub(1).map_or(0.0, |before| values[before * stride + program])
}

/// Changes by the numbers of the two sets.
pub(super) struct Changes {
    table: Table<Box<Change>>,
}

impl Changes {
    /// Changes between so many sets, if they can be counted.
    pub(super) fn new(sets: Option<usize>) -> Self {
        let changes = sets.and_then(|sets| sets.checked_mul(sets));
        Self { table: Table::new(changes, MOST_CHANGES, MOST_CHANGES) }
    }
}

impl<P: Copy + Eq + Hash, M: SharingModel> CoRun<'_, P, M> {
    /// How set number `from` of so many gives way to number `to`, whose settled state is `sharing` and whose curves are
    /// `numbers`. Depends on the two alone.
    #[inline]
    pub(super) fn change(
        &self,
        (from, to, sets): (usize, usize, usize),
        sharing: &Sharing,
        numbers: &[usize],
    ) -> Remembered<'_, Box<Change>> {
        self.changes.table.get(to * sets + from, || Box::new(self.changed(from, sharing, numbers)))
    }

    /// Follows a change.
    fn changed(&self, from: usize, sharing: &Sharing, numbers: &[usize]) -> Change {
        let (bytes, programs) = (self.cache.bytes(), numbers.len());
        let state = self.settled_state(from);
        let curves = self.curves_of(numbers);
        let first = profile(&state, bytes, programs);
        let last = profile(&self.settled_in(sharing, &curves), bytes, programs);
        let way: Vec<f64> = last.iter().zip(&first).map(|(last, first)| last - first).collect();
        let length: f64 = way.iter().map(|x| x * x).sum();
        let mut change = Change { programs, ..Change::default() };
        let mut follower = Follower::new(&self.cache, programs, state);
        follower.enter(curves.iter().copied());
        let mut done = vec![0.0; programs];
        let mut elapsed = 0.0;
        while change.ends.len() < MOST_STEPS {
            let (time, calm) = follower.look();
            if calm && follower.settled(sharing.shares()) {
                change.settles = true;
                break;
            }
            elapsed += time;
            for (program, done) in done.iter_mut().enumerate() {
                *done += time / follower.cpi(program);
            }
            change.work.extend_from_slice(&done);
            change.held.extend_from_slice(follower.held());
            change.met.extend(follower.met());
            change.ages.push(follower.age());
            follower.pass(time);
            change.ends.push(elapsed);
            let come: f64 = profile(follower.state(), bytes, programs)
                .iter()
                .zip(&first)
                .zip(&way)
                .map(|((now, first), way)| (now - first) * way)
                .sum();
            let moved = come / length;
            change.moved.push(if moved.is_nan() { 1.0 } else { moved.clamp(0.0, 1.0) });
        }
        change.lost =
            sharing.shares().iter().zip(done).map(|(share, done)| elapsed / share.cpi - done).collect();
        change
    }

    /// The recency of lines in the settled state of that number.
    pub(super) fn settled_state(&self, number: usize) -> Recency {
        let Some(memory) = &self.memory else { return Recency::default() };
        let numbers = memory.set(number);
        let sharing = memory.get(&numbers, |sharing| self.solve(&numbers, &[], sharing));
        self.settled_in(&sharing, &self.curves_of(&numbers))
    }
}

/// What each program holds of the cache, and would hold of smaller ones.
fn profile(state: &Recency, bytes: f64, programs: usize) -> Vec<f64> {
    let mut all = vec![0.0; programs * PARTS.len()];
    for (held, part) in all.chunks_mut(programs).zip(PARTS) {
        state.holding(part * bytes, held);
    }
    all
}
