//! The rival: the Stressmark of Xu et al., which lets itself be evicted and infers what it holds.
//!
//! A stress program reads an array larger than the cache at random, so that its miss ratio for a cache of `c`
//! lines is `1 - c / lines`; its measured miss ratio beside the target shows how much it holds on average, and how
//! often it reads decides how much that is. Unlike the pirate it misses all the time, so it takes memory bandwidth
//! from the target, and what it holds goes up and down.
//!
//! # References
//! Xu, Chen, Dick and Mao, *Cache Contention and Application Performance Prediction for Multi-Core Systems*,
//! ISPASS 2010, as discussed in Eklöv, thesis, Paper III, section III.6.

use super::Side;
use super::programs::Micro;
use crate::machines::chip::{
    Chip, ChipError, ChipSettings, CoreSettings, CoreTiming, Counters, Event, Program,
};

/// What the Stressmark found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stressed {
    /// Instructions from one of its reads to the next.
    pub every: f64,
    /// Lines that it holds by its own reckoning.
    pub inferred_lines: f64,
    /// What the target did beside it.
    pub target: Counters,
    /// What it did itself.
    pub stressmark: Counters,
}

/// Runs `target` beside a Stressmark that reads an array of four times the cache, a line every `every`
/// instructions of one cycle, and counts `measured` accesses of the target after `skipped` ones. As much of it
/// overlaps as of a pirate's misses.
///
/// # Errors
/// As [`Chip::new`].
pub fn beside<P: Program>(
    settings: &ChipSettings,
    target: CoreSettings<P>,
    every: f64,
    (skipped, measured): (u64, u64),
    seed: u64,
) -> Result<Stressed, ChipError> {
    let lines = 4 * settings.shared.geometry.lines().0;
    let timing = CoreTiming::OutOfOrder { base_cpi: 1.0, reorder_buffer: 128, outstanding: 10 };
    let CoreSettings { program, timing: target_timing, start, restarts } = target;
    let stressmark = CoreSettings {
        program: Side::Rival(Micro::random(lines, seed).every(every)),
        timing,
        start: 0.0,
        restarts: true,
    };
    let target = CoreSettings { program: Side::Target(program), timing: target_timing, start, restarts };
    let mut chip = Chip::new(settings, vec![target, stressmark])?;
    let run = |chip: &mut Chip<_>, until| while matches!(chip.advance(&[until]), Event::Ended { .. }) {};
    run(&mut chip, skipped);
    let before = (chip.counters(0), chip.counters(1));
    run(&mut chip, skipped + measured);
    let (target, stressmark) = (chip.counters(0) - before.0, chip.counters(1) - before.1);
    let inferred_lines = (1.0 - stressmark.miss_ratio()) * lines as f64;
    Ok(Stressed { every, inferred_lines, target, stressmark })
}

/// Finds the pace at which a Stressmark believes to hold `wanted` lines beside the target, by bisection: the more
/// often it reads, the more it holds. Within a fiftieth, or as fast as it can if that is too little.
///
/// # Errors
/// As [`Chip::new`].
pub fn holding<P: Program>(
    settings: &ChipSettings,
    target: impl Fn() -> CoreSettings<P>,
    wanted: u64,
    accesses: (u64, u64),
    seed: u64,
) -> Result<Stressed, ChipError> {
    let (mut fast, mut slow) = (1.0_f64, 4096.0_f64);
    let mut found = beside(settings, target(), fast, accesses, seed)?;
    while found.inferred_lines > wanted as f64 && slow / fast > 1.02 {
        let middle = (fast * slow).sqrt();
        let tried = beside(settings, target(), middle, accesses, seed)?;
        if tried.inferred_lines > wanted as f64 {
            (fast, found) = (middle, tried);
        } else {
            slow = middle;
        }
    }
    Ok(found)
}
