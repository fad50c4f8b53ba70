//! The truth: programs run together on the chip, from the very offsets that a prediction is made for.
//!
//! All programs run together before the target's pass begins, so that it finds the cache as it would in the middle of
//! a longer run; each is held where its offset says until all have arrived.

use std::num::NonZeroUsize;

use super::ground::Ground;
use crate::cli::Failure;
use crate::machines::chip::{Chip, Counters, Event, Player};
use crate::machines::testbed::programs::Recorded;
use crate::parallel::{Stop, in_order};

/// What the target's pass took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// Cycles of the target.
    pub cycles: f64,
    /// What each program did, where it was asked for.
    pub track: Vec<Vec<Stretch>>,
}

/// A program in one of its windows, or in part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub start: f64, // cycles since the target's pass began
    pub counters: Counters,
    pub lines: u64, // held in the shared cache at the end
}

/// Cycles of a pass of `played` alone, warmed up.
pub(super) fn alone(ground: &Ground, played: &Recorded) -> Result<f64, Failure> {
    Ok(run(ground, &[played], &[0.0], &[], false)?.cycles)
}

/// Runs the programs together once for each list of offsets. Stops between runs once `stop` says so.
pub(super) fn together(
    ground: &Ground,
    programs: &[&Recorded],
    offsets: &[Vec<f64>],
    threads: NonZeroUsize,
    stop: Stop<'_>,
) -> Result<Vec<Run>, Failure> {
    let speeds = programs.iter().map(|played| speed(ground, played)).collect::<Result<Vec<_>, _>>()?;
    in_order(offsets.len(), threads, stop, |i| run(ground, programs, &offsets[i], &speeds, false))
}

/// One run with a record of what each program did.
pub(super) fn tracked(ground: &Ground, programs: &[&Recorded], offsets: &[f64]) -> Result<Run, Failure> {
    let speeds = programs.iter().map(|played| speed(ground, played)).collect::<Result<Vec<_>, _>>()?;
    run(ground, programs, offsets, &speeds, true)
}

/// What is counted of programs that do the same throughout, together, until each has made as many accesses as the
/// longest of them makes in a pass. They run at `speeds` alone, in accesses per cycle.
pub(super) fn steady(
    ground: &Ground,
    programs: &[&Recorded],
    offsets: &[f64],
    speeds: &[f64],
) -> Result<Vec<Counters>, Failure> {
    let mut chip = met(ground, programs, offsets, speeds)?;
    let first: Vec<Counters> = (0..chip.cores()).map(|core| chip.counters(core)).collect();
    let longest = programs.iter().map(|played| played.recording.references()).max().unwrap_or(1);
    let mut limits: Vec<u64> = first.iter().map(|counters| counters.accesses + longest).collect();
    while limits.iter().any(|&limit| limit < u64::MAX) {
        if let Event::Limit { core } = chip.advance(&limits) {
            limits[core] = u64::MAX;
        }
    }
    Ok(first.iter().enumerate().map(|(core, &first)| chip.counters(core) - first).collect())
}

/// Cycles of the target's pass after each start: all programs at the same time, the target before the others, the others
/// before the target. They run at `speeds` alone, in accesses per cycle.
pub(super) fn after_each_start(
    ground: &Ground,
    programs: &[&Recorded],
    offsets: &[f64],
    speeds: &[f64],
) -> Result<Vec<f64>, Failure> {
    let together = pass(&mut met(ground, programs, offsets, speeds)?, ground, programs, false).cycles;
    let mut cycles = vec![together];
    for target_first in [true, false] {
        let cores = programs.iter().zip(offsets).map(|(played, offset)| {
            ground.core(played, (offset * played.recording.references() as f64) as u64)
        });
        let cores = cores.collect::<Result<Vec<_>, Failure>>()?;
        let mut chip = Chip::new(&ground.settings, cores)?;
        let (first, others): (Vec<usize>, Vec<usize>) =
            (0..chip.cores()).partition(|&core| (core == 0) == target_first);
        // Those that come first fill the cache together, then all share it for as long.
        for &core in &others {
            chip.suspend(core);
        }
        warm(&mut chip, first[0], ground.warm_up(programs[first[0]]));
        for &core in &others {
            chip.resume(core);
        }
        warm(&mut chip, 0, ground.warm_up(programs[0]));
        cycles.push(pass(&mut chip, ground, programs, false).cycles);
    }
    Ok(cycles)
}

/// Runs all running cores until one of them has made so many more accesses.
fn warm(chip: &mut Chip<Player>, core: usize, accesses: u64) {
    let mut limits = vec![u64::MAX; chip.cores()];
    limits[core] = chip.counters(core).accesses + accesses;
    while !matches!(chip.advance(&limits), Event::Limit { .. } | Event::Idle) {}
}

/// Accesses per cycle alone.
pub(super) fn speed(ground: &Ground, played: &Recorded) -> Result<f64, Failure> {
    Ok(played.recording.references() as f64 / alone(ground, played)?)
}

fn run(
    ground: &Ground,
    programs: &[&Recorded],
    offsets: &[f64],
    speeds: &[f64],
    track: bool,
) -> Result<Run, Failure> {
    Ok(pass(&mut met(ground, programs, offsets, speeds)?, ground, programs, track))
}

/// The chip with all programs warmed up together, each at its offset.
fn met(
    ground: &Ground,
    programs: &[&Recorded],
    offsets: &[f64],
    speeds: &[f64],
) -> Result<Chip<Player>, Failure> {
    let target = programs[0];
    let warm_up = ground.warm_up(target);
    // As much time for all; who arrives first waits for the others.
    let warm_ups: Vec<u64> = speeds.iter().map(|speed| (warm_up as f64 * speed / speeds[0]) as u64).collect();
    let warm_ups = if warm_ups.is_empty() { vec![warm_up] } else { warm_ups };
    let cores = programs.iter().enumerate().map(|(i, played)| {
        let length = played.recording.references();
        let place = (offsets.get(i).copied().unwrap_or(0.0) * length as f64) as u64;
        ground.core(played, (place + length - warm_ups[i] % length) % length)
    });
    let cores = cores.collect::<Result<Vec<_>, Failure>>()?;
    let mut chip = Chip::new(&ground.settings, cores)?;
    gather(&mut chip, &warm_ups);
    Ok(chip)
}

/// Runs every core up to its limit, and all on from there at the same time.
fn gather(chip: &mut Chip<Player>, limits: &[u64]) {
    loop {
        match chip.advance(limits) {
            Event::Limit { core } => chip.suspend(core),
            Event::Ended { .. } => {}
            Event::Idle => break,
        }
    }
    let mut cores: Vec<usize> = (0..chip.cores()).collect();
    cores.sort_by(|&a, &b| chip.time(b).total_cmp(&chip.time(a)));
    for core in cores {
        chip.resume(core);
    }
}

/// Runs until the target has made a pass.
fn pass(chip: &mut Chip<Player>, ground: &Ground, programs: &[&Recorded], track: bool) -> Run {
    let began = chip.time(0);
    let first = chip.counters(0);
    let goal = first.accesses + programs[0].recording.references();
    let mut tracks: Vec<Vec<Stretch>> = vec![Vec::new(); if track { chip.cores() } else { 0 }];
    let mut last: Vec<(f64, Counters)> =
        (0..chip.cores()).map(|core| (chip.time(core) - began, chip.counters(core))).collect();
    let mut limits: Vec<u64> = vec![goal];
    if track {
        limits = last.iter().map(|(_, counters)| counters.accesses + ground.window).collect();
        limits[0] = limits[0].min(goal);
    }
    loop {
        let Event::Limit { core } = chip.advance(&limits) else { continue };
        let over = core == 0 && chip.counters(0).accesses >= goal;
        for (i, track) in tracks.iter_mut().enumerate().filter(|(i, _)| *i == core || over) {
            let counters = chip.counters(i);
            let stretch =
                Stretch { start: last[i].0, counters: counters - last[i].1, lines: chip.occupancy(i).0 };
            if stretch.counters.accesses > 0 {
                track.push(stretch);
            }
            last[i] = (chip.time(i) - began, counters);
            limits[i] = counters.accesses + ground.window;
        }
        if over {
            return Run { cycles: (chip.counters(0) - first).cycles, track: tracks };
        }
        limits[0] = limits[0].min(goal);
    }
}
