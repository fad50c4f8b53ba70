//! The checks.

mod lines;
mod skid;
mod targets;
mod tree;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::{Child, Command, ExitCode};
use std::sync::OnceLock;

use lines::{far_sweep, partly_watched};
use reuse_sampler::perf::{Coverage, PerfOptions, PerfSampler, StopCycle, StopWork, probe};
use reuse_sampler::{
    AccessKind, Clock, Outcome, ProcessRecord, ReusePlan, ReuseProfile, SampleGap, Sampler, TargetExit,
    Window, WindowPlan,
};
use skid::choices;
use targets::{LINES, ROUND, TURNS};

const TARGET: &str = "PERF_PROOF_TARGET";

type Checked = Result<String, String>;
type Check = (&'static str, fn() -> Checked);

pub fn main() -> ExitCode {
    if let Ok(target) = env::var(TARGET) {
        targets::run(&target);
        return ExitCode::SUCCESS;
    }
    let mut wanted: Vec<String> = env::args().skip(1).collect();
    for (option, set) in [("--skid", &SKID), ("--seed", &SEED)] {
        let Some(at) = wanted.iter().position(|argument| argument == option) else { continue };
        let Some(number) = wanted.get(at + 1).and_then(|text| text.parse().ok()) else {
            eprintln!("perf_proof: {option}: give a number");
            return ExitCode::from(2);
        };
        let _ = set.set(number);
        wanted.drain(at..at + 2);
    }
    let found = probe();
    print!("{found}");
    if found.stops.is_err() || found.instructions.is_err() {
        println!("perf_proof: this machine has no counters to prove anything with");
        return ExitCode::from(2);
    }
    let checks: [Check; 16] = [
        ("windows", windows),
        ("sequential", || distances("sequential")),
        ("strided", || distances("strided")),
        ("random chase", || distances("random")),
        ("words of lines", || partly_watched("words")),
        ("fields of records", || partly_watched("records")),
        ("far sweep", far_sweep),
        ("same again", same_again),
        ("threads", threads),
        ("tree", tree::tree),
        ("phases", phases),
        ("attach, kill", attach_and_kill),
        ("counter groups", counters),
        ("stops", stops),
        ("choices", choices),
        ("overhead", overhead),
    ];
    // Only those that the arguments name, if there are any.
    let checks: Vec<Check> = checks
        .into_iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| name.starts_with(wanted)))
        .collect();
    let mut failed = 0;
    for &(name, check) in &checks {
        match check() {
            Ok(line) => println!("{name}: {line}"),
            Err(problem) => {
                failed += 1;
                println!("{name}: WRONG: {problem}");
            }
        }
    }
    println!("perf_proof: {} of {} as expected", checks.len() - failed, checks.len());
    ExitCode::from(u8::from(failed > 0))
}

/// Whether this is the machine whose counters stop a program at the very instruction, the same one on every run.
fn emulated() -> bool {
    probe().processor.echo
}

static SKID: OnceLock<u64> = OnceLock::new();
static SEED: OnceLock<u64> = OnceLock::new();

/// Instructions by which every overflow is noticed late.
fn skid() -> u64 {
    SKID.get().copied().unwrap_or(0)
}

fn options(window: u64) -> PerfOptions {
    let mut options = PerfOptions::windows_of(window);
    options.coverage = Coverage::Chunk; // the programs touch one word a line
    options.early = env::var("PERF_PROOF_EARLY").ok().and_then(|text| text.parse().ok());
    options.skid = skid();
    options.seed = SEED.get().copied().unwrap_or(options.seed);
    options
}

fn sparse(mean: f64) -> Result<WindowPlan, String> {
    SampleGap::mean(mean).map(|gap| WindowPlan::new(ReusePlan::Sparse(gap))).map_err(|e| e.to_string())
}

struct Run {
    windows: Vec<Window>,
    processes: Vec<ProcessRecord>,
    exit: Option<TargetExit>,
    started: u64,
    stops: u64,
}

fn observe(target: &str, options: &PerfOptions, plan: WindowPlan) -> Result<Run, String> {
    let options = options.clone().env(TARGET, target);
    let program = env::current_exe().map_err(|e| e.to_string())?;
    let mut sampler = PerfSampler::spawn(program, [""; 0], &options).map_err(|e| e.to_string())?;
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&plan).map_err(|e| e.to_string())? {
        windows.push(window);
    }
    let (started, stops) = sampler.samples_and_stops();
    let (processes, exit) = (sampler.processes(), sampler.exit_status());
    Ok(Run { windows, processes, exit, started, stops })
}

fn expect(right: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(otherwise()) }
}

/// Reused, censored, dangling.
fn fates(windows: &[Window]) -> [u64; 3] {
    let mut fates = [0; 3];
    for sample in windows.iter().flat_map(|window| &window.samples) {
        fates[match sample.outcome {
            Outcome::Reused(_) => 0,
            Outcome::Censored { .. } => 1,
            Outcome::Dangling | Outcome::Invalidated(_) => 2, // no other thread is followed
        }] += 1;
    }
    fates
}

fn conserved(run: &Run) -> Result<[u64; 3], String> {
    let fates = fates(&run.windows);
    expect(fates.iter().sum::<u64>() == run.started, || {
        format!("{} samples were started and {fates:?} reported", run.started)
    })?;
    expect(run.exit == Some(TargetExit::Code(0)), || format!("the program ended with {:?}", run.exit))?;
    Ok(fates)
}

/// Boundaries lie where they are asked for, and all instructions are counted.
fn windows() -> Checked {
    let rounds = 10_000_000;
    let short = observe("sequential 1", &options(1_000_000), WindowPlan::count_only())?;
    let run = observe(&format!("sequential {rounds}"), &options(1_000_000), WindowPlan::count_only())?;
    let total = |run: &Run| run.windows.iter().map(|window| window.instructions).sum::<u64>();
    let (all, rest) = (total(&run), total(&short));
    // The same program but for the loop, and a few instructions that print and read one number or the other.
    let loop_only = all as i64 - rest as i64 - (ROUND * (rounds - 1)) as i64;
    expect(loop_only.abs() < 2_000, || {
        format!("{} rounds of {ROUND} instructions were counted as {}", rounds, all - rest)
    })?;
    let worst = run.windows.iter().map(|window| window.losses.overshoot).max().unwrap_or(0);
    let mut end = 0;
    for (n, window) in run.windows.iter().enumerate().take(run.windows.len() - 1) {
        end += window.instructions;
        let boundary = 1_000_000 * (n as u64 + 1) + window.losses.overshoot;
        expect(end == boundary, || format!("window {n} ends at {end}, not {boundary}"))?;
        expect(window.losses.uncounted == 0, || format!("{:?}", window.losses))?;
    }
    // The last one ends with the program.
    let as_asked = |&(n, window): &(usize, &Window)| {
        window.losses.overshoot == if n + 1 < run.windows.len() { skid() } else { 0 }
    };
    let exact = run.windows.iter().enumerate().filter(as_asked).count();
    expect(!emulated() || exact == run.windows.len(), || {
        format!("only {exact} of {} end where they are asked to", run.windows.len())
    })?;
    Ok(format!(
        "{} windows of 1000000, {exact} as asked, the worst {worst} too long; loop counted {loop_only:+} of {}",
        run.windows.len(),
        ROUND * rounds
    ))
}

/// What a distance in the walk over all lines is.
fn expected_distance(clock: Clock, lines: u64) -> u64 {
    if clock == Clock::Accesses { lines - 1 } else { lines * ROUND - 1 }
}

/// Every reuse in a walk is one round of it away.
fn distances(pattern: &str) -> Checked {
    let run = observe(&format!("{pattern} 6000000"), &options(2_000_000), sparse(20_000.0)?)?;
    let [reused, censored, dangling] = conserved(&run)?;
    let clock = run.windows[0].clock;
    let wanted = expected_distance(clock, LINES);
    let within = |sample: &&reuse_sampler::ReuseSample| sample.begin.kind == AccessKind::Load;
    let mut others: Vec<u64> = Vec::new();
    let mut exact = 0;
    for sample in run.windows.iter().flat_map(|window| &window.samples).filter(within) {
        match sample.outcome {
            Outcome::Reused(distance) if distance.0 == wanted => exact += 1,
            Outcome::Reused(distance) => others.push(distance.0),
            _ => {}
        }
    }
    // One load in 20,000 of 6 M: 300, give or take five standard errors; fewer where the processor stops late. What is not
    // the walk is the program's start and end.
    let least = if emulated() { 213 } else { 60 };
    expect((least..388).contains(&exact), || {
        format!("{exact} of {reused} distances are {wanted}; others are {:?}", &others[..others.len().min(8)])
    })?;
    expect(others.len() < 25, || format!("{} distances are not {wanted}: {:?}", others.len(), &others[..8]))?;
    let late: u64 = run.windows.iter().map(|window| window.losses.late).sum();
    let mix: Vec<f64> =
        run.windows.iter().filter_map(|w| Some(w.accesses.get()? as f64 / w.instructions as f64)).collect();
    Ok(format!(
        "{exact} reuses of {wanted} {clock}, {} elsewhere in the program, {censored} censored, {dangling} dangling, \
         {late} late, {:.3} accesses an instruction, {} stops",
        others.len(),
        mix.last().copied().unwrap_or(0.0),
        run.stops
    ))
}

/// Two runs do not differ in anything the processor decides.
fn same_again() -> Checked {
    let once = || {
        observe("strided 2000000", &options(1_000_000), sparse(20_000.0).unwrap_or(WindowPlan::count_only()))
    };
    let (first, second) = (once()?, once()?);
    let tell = |run: &Run| -> Vec<(u64, usize, u64)> {
        run.windows.iter().map(|w| (w.instructions, w.samples.len(), w.losses.overshoot)).collect()
    };
    // Where the program is counted exactly, two runs count the same, wherever their windows end.
    let total = |run: &Run| run.windows.iter().map(|window| window.instructions).sum::<u64>();
    expect(total(&first).abs_diff(total(&second)) < 200, || {
        format!("{} and {} instructions", total(&first), total(&second))
    })?;
    let same = tell(&first).iter().zip(tell(&second)).filter(|(a, b)| **a == *b).count();
    expect(!emulated() || same == first.windows.len(), || {
        format!("only {same} of {} windows are the same", first.windows.len())
    })?;
    Ok(format!(
        "two runs of {} and {} instructions; {same} of {} windows are the same",
        total(&first),
        total(&second),
        first.windows.len()
    ))
}

/// Each thread is followed for itself.
fn threads() -> Checked {
    let run = observe("threads 3000000", &options(1_000_000), sparse(20_000.0)?)?;
    conserved(&run)?;
    let wanted = expected_distance(run.windows[0].clock, 64);
    let mut lines = Vec::new();
    for thread in 1..=3 {
        let of = run.windows.iter().filter(|window| window.thread.0 == thread);
        let instructions: u64 = of.clone().map(|window| window.instructions).sum();
        let reuses = of
            .flat_map(|window| &window.samples)
            .filter(|sample| matches!(sample.outcome, Outcome::Reused(d) if d.0 == wanted))
            .count();
        expect((4_000_000..4_300_000).contains(&instructions) && reuses > 5, || {
            format!("thread {thread}: {instructions} instructions, {reuses} reuses of {wanted}")
        })?;
        lines.push(format!("{instructions} instructions and {reuses} reuses of {wanted}"));
    }
    Ok(lines.join("; "))
}

/// The code seen in a window separates the two phases, which take turns eight times: each window lies nearer to the
/// first window of its own phase than to that of the other.
fn phases() -> Checked {
    const WINDOW: u64 = 500_000;
    let rounds = 8_000_000;
    let run = observe(&format!("phases {rounds}"), &options(WINDOW), sparse(10_000.0)?)?;
    conserved(&run)?;
    let turn = rounds / TURNS * ROUND;
    // The turns end with the program, but for what it does to end.
    let length: u64 = run.windows.iter().map(|window| window.instructions).sum();
    let before = length.saturating_sub(TURNS * turn);
    expect(before < WINDOW, || format!("{before} instructions besides {TURNS} turns of {turn}"))?;
    let (mut within, mut mixed, mut end) = (Vec::new(), 0, 0);
    for window in &run.windows {
        let (from, to) = (end, end + window.instructions);
        end = to;
        if from < before || to > length - 1000 || window.code.is_empty() {
            continue; // the program's beginning and its end
        }
        let turns = [from, to - 1].map(|at| (at - before) / turn);
        mixed += u64::from(turns[0] != turns[1]);
        if turns[0] == turns[1] {
            within.push((turns[0] % 2, shares(&window.code)));
        }
    }
    let first = |phase| within.iter().find(|(p, _)| *p == phase).map(|(_, code)| code);
    let (Some(even), Some(odd)) = (first(0), first(1)) else {
        return Err("no window lies within a turn".to_owned());
    };
    let right =
        within.iter().filter(|(phase, code)| u64::from(distance(code, odd) < distance(code, even)) == *phase);
    let (right, all) = (right.count(), within.len());
    expect(right * 20 >= all * 19 && all as u64 >= TURNS * (turn / WINDOW - 2), || {
        format!("of {all} windows within turns {right} look like their own phase")
    })?;
    Ok(format!("{right} of {all} windows within {TURNS} turns look like their own phase, {mixed} lie across"))
}

/// The share of a window's weight in each 64 bytes of code.
fn shares(code: &[(u64, u64)]) -> BTreeMap<u64, f64> {
    let total: u64 = code.iter().map(|(_, weight)| weight).sum();
    let mut shares = BTreeMap::new();
    for (address, weight) in code {
        *shares.entry(address / 64).or_default() += *weight as f64 / total as f64;
    }
    shares
}

/// The Manhattan distance.
fn distance(a: &BTreeMap<u64, f64>, b: &BTreeMap<u64, f64>) -> f64 {
    let lacking = b.iter().filter(|(place, _)| !a.contains_key(place)).map(|(_, share)| share);
    a.iter().map(|(place, share)| (share - b.get(place).unwrap_or(&0.0)).abs()).chain(lacking.copied()).sum()
}

fn forever() -> Result<Child, String> {
    let program = env::current_exe().map_err(|e| e.to_string())?;
    Command::new(program).env(TARGET, "forever").spawn().map_err(|e| e.to_string())
}

/// A running program is observed and let go, then killed in the middle of a window.
fn attach_and_kill() -> Checked {
    let mut child = forever()?;
    let result = attached(&mut child);
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn attached(child: &mut Child) -> Checked {
    let descriptors = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    let mut reused = 0;
    for kill in [false, true] {
        let mut sampler = PerfSampler::attach(child.id(), &options(1_000_000)).map_err(|e| e.to_string())?;
        let plan = sparse(20_000.0)?;
        let mut told = Vec::new();
        while told.len() < 4 {
            let window = sampler.next_window(&plan).map_err(|e| e.to_string())?;
            told.push(window.ok_or("the program has ended")?);
        }
        if kill {
            child.kill().map_err(|e| e.to_string())?;
        } else {
            sampler.stop().map_err(|e| e.to_string())?;
        }
        while let Some(window) = sampler.next_window(&plan).map_err(|e| e.to_string())? {
            told.push(window);
        }
        let fates = fates(&told);
        let started = sampler.samples_and_stops().0;
        expect(fates.iter().sum::<u64>() == started, || format!("{started} samples, {fates:?} reported"))?;
        reused += fates[0];
        drop(sampler);
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let free = status.contains("TracerPid:\t0") && status.contains("State:\tR");
        expect(kill || free, || format!("the program was not let go:\n{status}"))?;
    }
    expect(descriptors() <= before, || format!("{} descriptors more", descriptors() - before))?;
    expect(reused > 10, || format!("only {reused} reuses"))?;
    Ok(format!("let go and still running; killed in a window; {reused} reuses, every sample reported"))
}

/// More events than counters take turns from window to window.
fn counters() -> Checked {
    let mut options = options(500_000);
    let group = |name: &str| vec![name.to_owned(), "cycles".to_owned()];
    // `inst_retired` by its number on Arm; the kernel's name elsewhere.
    let instructions = if cfg!(target_arch = "aarch64") { "r8" } else { "instructions" };
    options.counters = vec![group(instructions), group("task-clock"), group("instructions")];
    let run = observe("sequential 2000000", &options, WindowPlan::count_only())?;
    let mut seen = 0;
    for window in run.windows.iter().filter(|window| window.instructions > 400_000) {
        let turn = window.index.0 as usize % 3;
        let names: Vec<&str> = window.counters.iter().map(|(name, _)| name.as_str()).collect();
        expect(names == [options.counters[turn][0].as_str(), "cycles"], || {
            format!("turn {turn}: {names:?}")
        })?;
        if turn != 1 {
            let count = window.counters[0].1;
            let difference = count.abs_diff(window.instructions);
            expect(difference < 100, || format!("{count} counted in a window of {}", window.instructions))?;
            seen += 1;
        }
    }
    expect(seen > 4, || format!("only {seen} windows"))?;
    Ok(format!("{} groups in turns; {seen} windows counted the same twice", options.counters.len()))
}

/// What a stop costs a program in this kernel, and what the sampler does at it.
fn stops() -> Checked {
    const STOPS: u32 = 200;
    let mut cycle = StopCycle::new().map_err(|e| e.to_string())?;
    let mut cost = |work| {
        cycle
            .run(u64::from(STOPS), work)
            .map(|cost| (cost / STOPS).as_secs_f64() * 1e6)
            .map_err(|e| e.to_string())
    };
    let [nothing, chosen, decoded] =
        [cost(StopWork::Nothing)?, cost(StopWork::Chosen)?, cost(StopWork::Decoded)?];
    // Elsewhere something else may happen meanwhile.
    expect(!emulated() || 0.0 < nothing && nothing < decoded, || {
        format!("{nothing:.1}, {chosen:.1}, {decoded:.1} us")
    })?;
    Ok(format!(
        "{nothing:.1} us with nothing done at it, {chosen:.1} where an instruction is chosen, {decoded:.1} where it \
         accesses memory"
    ))
}

/// What sampling costs, in time of a machine where time is instructions: a stop where nothing is chosen in the end, and
/// what comes on top of it for a sample.
fn overhead() -> Checked {
    let rounds = 8_000_000_u64;
    let time = |target: &str, plan: WindowPlan| -> Result<(f64, Run), String> {
        let mut options = options(1 << 40);
        options.code_samples = 0;
        let begun = std::time::Instant::now();
        let run = observe(&format!("{target} {rounds}"), &options, plan)?;
        Ok((begun.elapsed().as_secs_f64(), run))
    };
    let gaps = [1e6, 1e5];
    let mut lines = Vec::new();
    let mut per_stop = 0.0;
    for target in ["idle", "sequential"] {
        let (alone, few) = time(target, WindowPlan::count_only())?;
        for gap in gaps {
            let (with, run) = time(target, sparse(gap)?)?;
            let stops = run.stops.saturating_sub(few.stops).max(1) as f64;
            if target == "idle" {
                per_stop = (with - alone) / stops;
            }
            let of_stops = stops * per_stop;
            let per_sample = (with - alone - of_stops) / run.started.max(1) as f64;
            lines.push(format!(
                "{target}, one in {gap}: {:+.2} % with {stops} stops of {:.1} us and {} samples{}",
                100.0 * (with / alone - 1.0),
                per_stop * 1e6,
                run.started,
                if target == "idle" { String::new() } else { format!(" of {:.1} us more", per_sample * 1e6) }
            ));
        }
    }
    let run = observe(&format!("sequential {rounds}"), &options(10_000_000), sparse(1e5)?)?;
    let mut profile = ReuseProfile::with_clock(reuse_sampler::LineSize::B64, run.windows[0].clock);
    for window in &run.windows {
        profile.record_window(window).map_err(|error| error.to_string())?;
    }
    let near = profile.distribution().beyond(expected_distance(run.windows[0].clock, LINES));
    Ok(format!("{}; P(D > one round) {near:.3}", lines.join("; ")))
}
