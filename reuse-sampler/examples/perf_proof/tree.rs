//! A program that forks, executes programs and starts threads.

use reuse_sampler::{Outcome, TargetExit, WindowPlan};

use super::targets::{LINES, ROUND};
use super::{Checked, Run, conserved, expect, expected_distance, observe, options, sparse};

/// Processes: the program, a child that it forks, that one's child, and a child that executes a program of three threads.
const PROCESSES: usize = 4;

/// Every process of a tree is observed from its first instruction to its last.
pub fn tree() -> Checked {
    const ROUNDS: u64 = 2_000_000;
    let short = observe("tree 3", &options(1_000_000), WindowPlan::count_only())?;
    let run = observe(&format!("tree {ROUNDS}"), &options(1_000_000), sparse(20_000.0)?)?;
    conserved(&run)?;
    let total = |run: &Run| run.windows.iter().map(|window| window.instructions).sum::<u64>();
    let loops = PROCESSES as u64 * ROUND * (ROUNDS - 3);
    let (all, rest) = (total(&run), total(&short));
    let missing = loops as i64 - (all as i64 - rest as i64);
    // Of what is known: the loops are nearly all that it does.
    expect((missing.unsigned_abs() as f64) < 0.01 * loops as f64 && loops * 10 > all * 9, || {
        format!("{} of {loops} instructions in loops were counted, and {rest} besides", all - rest)
    })?;
    let processes = &run.processes;
    let counted: u64 = processes.iter().map(|process| process.instructions).sum();
    expect(processes.len() == PROCESSES && counted == all, || format!("{processes:#?}"))?;
    for process in processes {
        let whole = process.instructions as f64 > 0.99 * (ROUND * ROUNDS) as f64;
        expect(whole && process.exit == Some(TargetExit::Code(0)), || format!("{process:?}"))?;
    }
    // Three walk over all lines, and each of the threads over 64.
    let clock = run.windows[0].clock;
    let reused = |lines| {
        let wanted = expected_distance(clock, lines);
        let samples = run.windows.iter().flat_map(|window| &window.samples);
        samples.filter(|sample| matches!(sample.outcome, Outcome::Reused(d) if d.0 == wanted)).count()
    };
    let (far, near) = (reused(LINES), reused(64));
    // One load in 20,000 of 2 M each: 100 and five standard errors, each process.
    expect(far >= 150 && near >= 50, || format!("{far} reuses in three processes, {near} in one"))?;
    Ok(format!(
        "{PROCESSES} processes, {missing:+} of {loops} instructions in their loops missing; {far} and {near} reuses"
    ))
}
