//! A recompiled program against what it is known to do: compile it as the module `sancov` says, and run it.
//!
//! ```text
//! cargo rustc --example sancov_kernel --features sancov -- -Cpasses=sancov-module \
//!     -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-trace-loads \
//!     -Cllvm-args=-sanitizer-coverage-trace-stores -Cllvm-args=-sanitizer-coverage-trace-pc-guard
//! ```
//!
//! It exits with status 0 if the windows hold the loads and stores that its source says, at their distances, and with
//! status 1 and one line for each difference.

#![allow(unsafe_code)] // volatile accesses: those that no compiler may leave out, join or move

use std::process::ExitCode;

use reuse_sampler::in_process::{ProfilerOptions, start};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{Access, LineSize, ReusePlan, ReuseProfile, Sampler, Window, WindowPlan};

const LINES: usize = 1000;
const ROUNDS: usize = 20;

/// Reads a number of each line, and writes what it read so far behind it, again and again.
#[inline(never)]
fn kernel(lines: &mut [[u64; 8]]) {
    for _ in 0..ROUNDS {
        let mut sum = 0_u64;
        for line in 0..LINES {
            let [first, second, ..] = &mut lines[line % lines.len()];
            // SAFETY: both come from a live exclusive reference.
            unsafe {
                sum = sum.wrapping_add(std::ptr::read_volatile(first));
                std::ptr::write_volatile(second, sum);
            }
        }
    }
}

fn main() -> ExitCode {
    let mut lines = vec![[1_u64; 8]; LINES];
    let base = lines.as_ptr().addr() as u64;
    let options = ProfilerOptions::new(ReusePlan::Every).windows_of(u64::MAX);
    let windows = match start(options) {
        Ok(session) => {
            kernel(&mut lines);
            session.stop().0
        }
        Err(error) => {
            eprintln!("sancov_kernel: {error}");
            return ExitCode::FAILURE;
        }
    };
    let expected = (0..ROUNDS * LINES).flat_map(|i| {
        let address = base + 64 * (i % LINES) as u64;
        [Event::Access(Access::load(address, 8)), Event::Access(Access::store(address + 8, 8))]
    });
    let Ok(mut sampler) =
        ReplaySampler::new(expected, ReplayOptions::windows_of(WindowLength::Accesses(u64::MAX)))
    else {
        return ExitCode::FAILURE;
    };
    let Ok(Some(expected)) = sampler.next_window(&WindowPlan::new(ReusePlan::Every)) else {
        return ExitCode::FAILURE;
    };
    let differences = differences(&windows, &expected);
    for difference in &differences {
        println!("{difference}");
    }
    if differences.is_empty() {
        println!("as expected: {} accesses, {} edges", 2 * ROUNDS * LINES, reuse_sampler::sancov::edges());
    }
    ExitCode::from(u8::from(!differences.is_empty()))
}

/// Loads and stores of `main` between the beginning and the end of the session, at most: it holds the session.
const OF_MAIN: u64 = 16;

fn differences(windows: &[Window], expected: &Window) -> Vec<String> {
    let [window] = windows else {
        return vec![format!("{} windows instead of 1: was it compiled with the pass?", windows.len())];
    };
    let mut found = Vec::new();
    let passed = window.code.iter().map(|(_, count)| *count).max().unwrap_or(0);
    // The way back to the next line; what leads to the first one of a round is another edge.
    let back = (ROUNDS * (LINES - 1)) as u64;
    if reuse_sampler::sancov::edges() > 0 && passed != back {
        found.push(format!("the most used edge was passed {passed} times instead of {back}"));
    }
    let profiles = |window: &Window| -> [ReuseProfile; 2] {
        window.arrivals.as_ref().map_or_else(
            || [ReuseProfile::new(LineSize::B64), ReuseProfile::new(LineSize::B64)],
            |arrivals| [arrivals.loads.clone(), arrivals.stores.clone()],
        )
    };
    for ((recorded, known), what) in profiles(window).iter().zip(&profiles(expected)).zip(["loads", "stores"])
    {
        let at_distance = known.reused_bins().all(|(low, high, weight)| {
            let more = recorded.reused_bins().find(|bin| (bin.0, bin.1) == (low, high));
            more.is_some_and(|bin| (weight..=weight + OF_MAIN).contains(&bin.2))
        });
        let none_missing = recorded.dangling_weight() >= known.dangling_weight();
        if !at_distance || !none_missing || recorded.accesses() > known.accesses() + OF_MAIN {
            found.push(format!("{what}: {recorded:?} instead of {known:?}"));
        }
    }
    found
}
