//! Counts a known program with the processor's own counters, and checks what they show.
//!
//! Two phases of known length take turns; three events share one counter besides instructions and cycles. Then more
//! events than there are counters are asked for at once, so that the kernel lets them take turns.
//!
//! ```text
//! cargo run --release -p powersleuth --features perf --example counters
//! ```
//!
//! Event codes are aarch64's; elsewhere the kernel's generic events are counted. `.ci/emulated-counters` runs it on
//! an emulated machine whose counters are exact.

use std::hint::black_box;
use std::process::ExitCode;

use powersleuth::multiplex::{Collector, Count, CounterGroups, CounterSource, Filling, PerPhase, Step};
use powersleuth::perf::{EventCode, PerfCounters, PerfError};

/// Rounds of each phase's loop.
const ROUNDS: [u64; 2] = [400_000, 1_200_000];
/// Events asked for at once: more than any aarch64 processor has counters for.
const TOO_MANY: usize = 40;

/// Instructions, cycles, and stalls, by code or by the kernel's name.
fn codes() -> Vec<EventCode> {
    if cfg!(target_arch = "aarch64") {
        vec![EventCode::Raw(0x08), EventCode::Raw(0x11), EventCode::Raw(0x08)]
    } else {
        vec![EventCode::Branches, EventCode::CacheReferences, EventCode::Branches]
    }
}

fn work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x: u64, i| black_box(x.wrapping_mul(5).wrapping_add(i)))
}

fn main() -> ExitCode {
    match check() {
        Ok(lines) => {
            println!("{}", lines.join("\n"));
            println!("counters: as expected");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("counters: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<Vec<String>, String> {
    let mut lines = vec![groups_take_turns()?, what_is_not_there_is_named()?];
    if cfg!(target_arch = "aarch64") {
        lines.push(short_counters_are_scaled()?);
    }
    Ok(lines)
}

/// Each phase goes round the groups; what one interval counted is what the phase does.
fn groups_take_turns() -> Result<String, String> {
    let groups = CounterGroups::round_robin(codes().len(), 1).map_err(|e| e.to_string())?;
    let turns = groups.as_slice().len();
    let mut collector = Collector::new(PerfCounters::of_this_thread(codes()), groups, PerPhase::new(turns));
    let phases = [0, 0, 1, 0, 1, 1, 0, 1, 1, 0];
    for phase in phases {
        collector.begin(Some(phase)).map_err(|e| e.to_string())?;
        black_box(work(ROUNDS[phase]));
        collector.end(phase).map_err(|e| e.to_string())?;
    }
    let (record, _) = collector.finish();
    for (interval, phase) in phases.into_iter().enumerate() {
        let counted: Vec<usize> = (0..3).filter(|&event| record.count(interval, event).is_some()).collect();
        let turn = phases[..interval].iter().filter(|&&p| p == phase).count() % 3;
        expect(counted == [turn], || format!("interval {interval} counted events {counted:?}, not {turn}"))?;
    }
    let instructions: Vec<f64> = {
        let complete = record.interpolate(Filling::default()).map_err(|e| e.to_string())?;
        expect(complete.count(Step::Program) == 0, || "a phase lacks an event".to_owned())?;
        (0..phases.len()).map(|interval| complete.values(interval)[0]).collect()
    };
    // The loops differ in nothing but the number of their rounds.
    let ratio = instructions[2] / instructions[0];
    let expected = ROUNDS[1] as f64 / ROUNDS[0] as f64;
    expect((ratio / expected - 1.0).abs() < 0.02, || {
        format!("phases differ {ratio:.3}-fold, not {expected}")
    })?;
    Ok(format!(
        "three events in turn on one counter: {:.0} and {:.0} per interval",
        instructions[0], instructions[2]
    ))
}

/// The emulated machine has no caches to count misses of; a real one mostly does.
fn what_is_not_there_is_named() -> Result<String, String> {
    let mut counters = PerfCounters::of_this_thread(vec![EventCode::Branches, EventCode::CacheMisses]);
    match counters.start(&[1]) {
        Ok(()) => Ok("cache misses can be counted".to_owned()),
        Err(error @ PerfError::Open { event: Some(1), .. }) => Ok(error.to_string()),
        Err(other) => Err(format!("an event that is not there was answered by {other}")),
    }
}

/// With more events than counters the kernel counts each for a part of the time; scaled up they agree.
fn short_counters_are_scaled() -> Result<String, String> {
    let mut counters = PerfCounters::of_this_thread(vec![EventCode::Raw(0x08); TOO_MANY]);
    let all: Vec<usize> = (0..TOO_MANY).collect();
    counters.start(&all).map_err(|e| e.to_string())?;
    black_box(work(40 * ROUNDS[1]));
    let reading = counters.stop().map_err(|e| e.to_string())?;
    let whole = reading.instructions.scaled().ok_or("instructions were not counted")?;
    let partly = |count: &&Count| count.running < count.enabled;
    let short = reading.counts.iter().filter(partly).count();
    expect(short > 0, || "every event had a counter all the time".to_owned())?;
    let worst = reading
        .counts
        .iter()
        .map(|count| count.scaled().map_or(f64::INFINITY, |scaled| (scaled / whole - 1.0).abs()))
        .fold(0.0, f64::max);
    expect(worst < 0.1, || format!("scaled counts are up to {:.1} % off", 100.0 * worst))?;
    Ok(format!(
        "{short} of {TOO_MANY} events counted for a part of the time, scaled within {:.2} %",
        100.0 * worst
    ))
}

fn expect(right: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(otherwise()) }
}
