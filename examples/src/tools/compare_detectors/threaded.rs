//! The phases of a real program with threads, run unmodified under the emulator: a thread's windows are cut, and their
//! accesses followed, on its own. CPI, which nothing counts there, is modelled: an instruction takes a cycle, an access
//! the latencies of the paper's chip, of which every thread has one to itself, with miss ratios by StatStack from the
//! reuses that ended in the window.
//!
//! Threads run as the machine schedules them: the order in which windows end, and with it which one founds a phase,
//! differs from run to run. The numbers differ in the second digit.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use phase_detect::CodeVector;
use reuse_sampler::{CacheModel, Children, Cpu, ReusePlan, Window, WindowPlan};
use statstack::StatStack;

use super::parallel::{self, Seen, Style};
use crate::cli::Failure;
use crate::machines::chip::ChipSettings;
use crate::report::Table;
use crate::target::{Backend, Target, observing};

/// Compiled from `programs/threaded.rs` when this crate was.
const PROGRAM: &str = concat!(env!("OUT_DIR"), "/threaded");
/// Numbers of threads.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// The tables, and whether they are whole. Each run ends after `limit` windows.
pub fn run(
    window: u64,
    limit: Option<usize>,
    seed: u64,
    interrupted: &AtomicBool,
) -> Result<(Vec<Table>, bool), Failure> {
    if !Path::new(PROGRAM).exists() {
        return Err(Failure::Run(format!("{PROGRAM} is gone: build the examples again")));
    }
    let mut tables = Vec::new();
    for style in [Style::Data, Style::Pipeline] {
        let mut table = parallel::table(
            "real_threads",
            format!("A real {} program under the emulator, windows of {window} instructions", style.name()),
            "the modelled CPI",
        );
        // More threads than two to a step are idle most of the time.
        let most = if matches!(style, Style::Data) { 16 } else { 8 };
        for threads in THREADS.into_iter().filter(|&threads| threads <= most) {
            let Some(seen) = observe(style, threads, (window, limit), seed, interrupted)? else {
                return Ok((tables, false));
            };
            table.push(parallel::row(threads, &seen)?);
        }
        tables.push(table);
    }
    Ok((tables, true))
}

/// The windows of all threads in the order in which they end; `None` if interrupted.
fn observe(
    style: Style,
    threads: usize,
    (window, limit): (u64, Option<usize>),
    seed: u64,
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Seen>>, Failure> {
    let mut options = observing(Backend::Qemu, Children::Ignore, Cpu::Host, true);
    options.window = window;
    options.seed = seed;
    let word = match style {
        Style::Data => "data",
        Style::Pipeline => "pipeline",
    };
    let command = [PROGRAM.to_owned(), word.to_owned(), threads.to_string()].map(OsString::from);
    let mut target = Target::program(&command, &options)?;
    let plan = WindowPlan::new(ReusePlan::Every);
    let mut code = CodeVector::new(phase_detect::signature::DEFAULT_ENTRIES, seed)?;
    let chip = ChipSettings::paper()?;
    let mut seen = Vec::new();
    let mut stopped = false;
    while let Some(window_seen) = target.sampler().next_window(&plan)? {
        let enough = limit.is_some_and(|limit| seen.len() >= limit);
        if !stopped && (enough || interrupted.load(Ordering::Relaxed)) {
            stopped = true;
            target.sampler().stop()?;
        }
        // What is left of a thread at its end is no window; nor is one that nothing was seen of.
        let Some(cost) = modelled_cpi(&window_seen, &chip).filter(|_| window_seen.instructions >= window)
        else {
            continue;
        };
        code.extend(window_seen.code.iter().map(|&(address, n)| (address, n as f64)));
        seen.push(Seen { thread: u64::from(window_seen.thread.0), signature: code.finish()?, cost });
    }
    if interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if seen.len() < 2 {
        return Err(Failure::Run(format!(
            "the program with {threads} threads makes {} windows of {window} instructions: give shorter ones with --window",
            seen.len()
        )));
    }
    Ok(Some(seen))
}

/// Cycles per instruction on a core of the chip that waits for every access, if the window counts its accesses.
fn modelled_cpi(window: &Window, chip: &ChipSettings) -> Option<f64> {
    let model = StatStack::fit(&window.arrivals.as_ref()?.all()).ok()?;
    let mix = window.accesses.get()? as f64 / window.instructions.max(1) as f64;
    let (private, shared) = (chip.l1.geometry.lines(), chip.shared.geometry.lines());
    let latency = &chip.latencies;
    let access = latency.l1
        + model.miss_ratio(private) * (latency.shared - latency.l1)
        + model.miss_ratio(shared) * (latency.memory - latency.shared);
    Some(1.0 + mix * access)
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{
        AccessCount, Arrivals, LineSize, Outcome, ReuseDistance, ReuseProfile, ThreadId, WindowIndex,
    };

    use super::*;

    /// The binary is there, runs with every number of threads, and refuses what it does not know.
    #[test]
    fn the_program_runs() {
        let status = |arguments: &[&str]| {
            std::process::Command::new(PROGRAM).args(arguments).output().unwrap().status.code()
        };
        assert_eq!(status(&["data", "3"]), Some(0));
        assert_eq!(status(&["pipeline", "5"]), Some(0));
        assert_eq!(status(&["data", "0"]), Some(2));
        assert_eq!(status(&["else", "1"]), Some(2));
    }

    /// Every access finds its line in the first level, or none does anywhere.
    #[test]
    fn cycles_are_an_instruction_s_and_its_accesses() {
        let chip = ChipSettings::paper().unwrap(); // 1, 10 and 130 cycles
        let window = |outcome: Outcome| {
            let mut profile = ReuseProfile::new(LineSize::B64);
            profile.record_many(outcome, 300, 1);
            profile.add_accesses(300);
            let mut window = Window::new(WindowIndex(0), ThreadId(0), LineSize::B64);
            window.instructions = 1_000;
            window.accesses = AccessCount::Measured(300);
            window.arrivals = Some(Arrivals { loads: profile, stores: ReuseProfile::new(LineSize::B64) });
            window
        };
        let near = modelled_cpi(&window(Outcome::Reused(ReuseDistance(0))), &chip).unwrap();
        assert!((near - 1.3).abs() < 1e-9, "{near}");
        let never = modelled_cpi(&window(Outcome::Dangling), &chip).unwrap();
        assert!((never - (1.0 + 0.3 * 130.0)).abs() < 1e-9, "{never}");
        let mut unknown = window(Outcome::Dangling);
        unknown.accesses = AccessCount::Unknown;
        assert_eq!(modelled_cpi(&unknown, &chip), None);
    }
}
