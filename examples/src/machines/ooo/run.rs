//! A program on the core at several frequencies, interval by interval.

use std::collections::BTreeMap;

use powersleuth::Hertz;
use reuse_sampler::replay::Event;

use super::decode::{Decoder, Kind, Op};
use super::hierarchy::{Hierarchy, Level};
use super::timing::{Clock, Core, CoreSettings};
use crate::machines::chip::ChipError;

/// The machine, and at which frequencies it is watched.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The core.
    pub core: CoreSettings,
    /// The frequencies.
    pub frequencies: Vec<Hertz>,
    /// Instructions in an interval.
    pub interval: u64,
}

/// What the program did in an interval, whatever the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Instructions.
    pub instructions: u64,
    /// Floating-point computations.
    pub floats: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Branches.
    pub branches: u64,
    /// Those guessed wrong.
    pub mispredictions: u64,
    /// Accesses that missed the first level.
    pub l1_misses: u64,
    /// Accesses that missed the second level.
    pub l2_misses: u64,
    /// Accesses that went to memory.
    pub llc_misses: u64,
}

/// An interval of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Blocks with the instructions executed in them, ascending.
    pub code: Vec<(u64, u64)>,
    /// What was done.
    pub activity: Activity,
    /// What it took, at each frequency.
    pub clocks: Vec<Clock>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The frequencies.
    pub frequencies: Vec<Hertz>,
    /// The intervals; what was left at the end is not one.
    pub intervals: Vec<Interval>,
}

/// Runs `events` on `machine`, from cold caches, for at most `intervals` intervals.
///
/// # Errors
/// None: the hierarchy is valid.
pub fn simulate(
    events: impl IntoIterator<Item = Event>,
    machine: &Machine,
    intervals: usize,
) -> Result<Run, ChipError> {
    let mut decoder = Decoder::default();
    let mut state = State {
        hierarchy: Hierarchy::small_nehalem()?,
        cores: machine.frequencies.iter().map(|f| Core::new(machine.core, f.ghz())).collect(),
        length: machine.interval.max(1),
        block: None,
        code: BTreeMap::new(),
        activity: Activity::default(),
        before: vec![Clock::default(); machine.frequencies.len()],
        intervals: Vec::new(),
    };
    for event in events {
        decoder.event(event, |op, block| state.execute(&op, block));
        if state.intervals.len() >= intervals {
            break;
        }
    }
    decoder.finish(|op, block| state.execute(&op, block));
    state.intervals.truncate(intervals);
    Ok(Run { frequencies: machine.frequencies.clone(), intervals: state.intervals })
}

struct State {
    hierarchy: Hierarchy,
    cores: Vec<Core>,
    length: u64,
    block: Option<(u64, u64)>, // and instructions of it so far
    code: BTreeMap<u64, u64>,
    activity: Activity,
    before: Vec<Clock>,
    intervals: Vec<Interval>,
}

impl State {
    fn execute(&mut self, op: &Op, block: Option<u64>) {
        if let Some(block) = block {
            self.block_ends();
            self.block = Some((block, 0));
        }
        if let Some((_, instructions)) = &mut self.block {
            *instructions += 1;
        }
        let found = op.access.as_ref().map(|access| self.hierarchy.access(access));
        let activity = &mut self.activity;
        activity.instructions += 1;
        match op.kind {
            Kind::Integer => {}
            Kind::Float => activity.floats += 1,
            Kind::Load => activity.loads += 1,
            Kind::Store => activity.stores += 1,
            Kind::Branch => activity.branches += 1,
        }
        activity.mispredictions += u64::from(op.mispredicted);
        if let Some(found) = found {
            activity.l1_misses += u64::from(found.level >= Level::L2);
            activity.l2_misses += u64::from(found.level >= Level::L3);
            activity.llc_misses += u64::from(found.level >= Level::Memory);
        }
        for core in &mut self.cores {
            core.execute(op, found);
        }
        if self.activity.instructions >= self.length {
            self.interval_ends();
        }
    }

    fn block_ends(&mut self) {
        if let Some((block, instructions)) = self.block.take() {
            *self.code.entry(block).or_default() += instructions;
        }
    }

    fn interval_ends(&mut self) {
        let block = self.block;
        self.block_ends();
        self.block = block.map(|(block, _)| (block, 0));
        let now: Vec<Clock> = self.cores.iter().map(Core::clock).collect();
        let clocks = now.iter().zip(&self.before).map(|(now, before)| Clock {
            cycles: now.cycles - before.cycles,
            busy: now.busy - before.busy,
            resource_stalls: now.resource_stalls - before.resource_stalls,
            leading_misses: now.leading_misses - before.leading_misses,
        });
        self.intervals.push(Interval {
            code: std::mem::take(&mut self.code).into_iter().filter(|(_, n)| *n > 0).collect(),
            activity: std::mem::take(&mut self.activity),
            clocks: clocks.collect(),
        });
        self.before = now;
    }
}
