//! The perf backend on a real kernel, with whatever this machine has: watchpoints and software events at least.
//!
//! Without the processor's counters, windows and distances are nanoseconds, so that distances are not asserted here;
//! that hits are exact shows in that every sample of a line that is touched again and again is reused. What needs
//! counters is proved by `examples/perf_proof.rs` on a machine that has them.
#![cfg(target_os = "linux")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod causes;
mod children;
mod forbidden;
mod targets;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use reuse_sampler::perf::{Coverage, PerfOptions, PerfSampler, probe};
use reuse_sampler::{
    Clock, Outcome, ReusePlan, SampleGap, Sampler, SamplerError, TargetExit, Window, WindowPlan,
};
use targets::TARGET;

/// One test at a time: they count this process's descriptors.
static TURN: Mutex<()> = Mutex::new(());

/// A child that ends with its test.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether this machine lets nobody observe anything; says so.
fn nothing_to_test_with() -> bool {
    let found = probe();
    let enough = found.stops.is_ok() && found.registers > 0 && found.decodes;
    if !enough {
        assert!(std::env::var_os("REQUIRE_PERF").is_none(), "REQUIRE_PERF is set, but:\n{found}");
        eprintln!("skipped:\n{found}");
    }
    !enough
}

fn sparse(mean: f64) -> WindowPlan {
    WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(mean).unwrap()))
}

fn options() -> PerfOptions {
    let mut options = PerfOptions::windows_of(50_000_000);
    options.window_time = Duration::from_millis(20);
    options.coverage = Coverage::Chunk;
    options
}

fn spawn(target: &str, options: &PerfOptions) -> PerfSampler {
    let options = options.clone().env(TARGET, target);
    PerfSampler::spawn(std::env::current_exe().unwrap(), [""; 0], &options).unwrap()
}

fn child(target: &str) -> Kept {
    let command =
        Command::new(std::env::current_exe().unwrap()).env(TARGET, target).stdout(Stdio::null()).spawn();
    Kept(command.unwrap())
}

fn run(sampler: &mut PerfSampler, plan: WindowPlan, limit: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    while windows.len() < limit {
        let Some(window) = sampler.next_window(&plan).unwrap() else { break };
        windows.push(window);
    }
    windows
}

/// Reused, censored, dangling.
fn fates(windows: &[Window]) -> [usize; 3] {
    let mut fates = [0; 3];
    for sample in windows.iter().flat_map(|window| &window.samples) {
        fates[match sample.outcome {
            Outcome::Reused(_) => 0,
            Outcome::Censored { .. } => 1,
            Outcome::Dangling => 2,
            Outcome::Invalidated(_) => panic!("{sample:?}: counters see no other thread"),
        }] += 1;
    }
    fates
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// State of a process: R, S, T, t, Z.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

/// Waits until a process sleeps.
fn sleeps(process: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while state(process) != Some('S') {
        assert!(Instant::now() < deadline, "it does not sleep but is {:?}", state(process));
        thread::sleep(Duration::from_millis(20));
    }
}

fn tracer(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().to_owned())
}

#[test]
fn every_sample_of_a_line_that_comes_back_is_reused() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let mut sampler = spawn("strided", &options());
    let windows = run(&mut sampler, sparse(1e6), usize::MAX);
    assert_eq!(sampler.exit_status(), Some(TargetExit::Code(0)));
    let (started, _) = sampler.samples_and_stops();
    let [reused, censored, dangling] = fates(&windows);
    assert_eq!((reused + censored + dangling) as u64, started);
    // What the program does before and after its walk, and what is open at the end, is a handful.
    assert!(reused > 20 && dangling + censored < 12, "{:?} {:?}", fates(&windows), sampler.losses());
    let clock = sampler.clocks().1;
    assert!(windows.iter().all(|window| window.clock == clock));
    if probe().instructions.is_err() {
        assert!(windows.iter().all(|window| window.length == Clock::Time && window.instructions == 0));
    }
    // The walk is where the time goes, and it is in this program.
    let hottest = windows.iter().flat_map(|w| &w.code).max_by_key(|(_, weight)| *weight).unwrap().0;
    let here = std::env::current_exe().unwrap();
    assert_eq!(sampler.locate(hottest).unwrap().file, here);
}

#[test]
fn threads_have_windows_of_their_own() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let mut sampler = spawn("threads", &options());
    let windows = run(&mut sampler, sparse(1e6), usize::MAX);
    let mut threads: Vec<u32> = windows.iter().map(|window| window.thread.0).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads, [0, 1, 2, 3]);
    assert_eq!(fates(&windows).iter().sum::<usize>() as u64, sampler.samples_and_stops().0);
    let mut numbers: Vec<u64> = windows.iter().map(|window| window.index.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), windows.len());
    assert_eq!(sampler.exit_status(), Some(TargetExit::Code(0)));
}

#[test]
fn ends_of_all_kinds_are_reported() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    for (target, exit) in [
        ("brief", TargetExit::Code(7)),
        ("killed", TargetExit::Signal(11)),
        ("become another", TargetExit::Code(5)),
        ("child", TargetExit::Code(0)),
        ("signals", TargetExit::Code(0)),
    ] {
        let mut sampler = spawn(target, &options());
        let windows = run(&mut sampler, sparse(1e6), usize::MAX);
        assert_eq!(sampler.exit_status(), Some(exit), "{target}");
        assert_eq!(fates(&windows).iter().sum::<usize>() as u64, sampler.samples_and_stops().0, "{target}");
        assert!(sampler.next_window(&sparse(1e6)).unwrap().is_none());
    }
}

#[test]
fn an_attached_program_runs_on_untouched() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let child = child("spin");
    thread::sleep(Duration::from_millis(100));
    let before = descriptors();
    for stop in [false, true, false] {
        let mut sampler = PerfSampler::attach(child.0.id(), &options()).unwrap();
        let windows = run(&mut sampler, sparse(2e5), 5);
        assert_eq!(windows.len(), 5);
        assert!(fates(&windows)[0] > 20);
        assert_ne!(tracer(child.0.id()).unwrap(), "0");
        if stop {
            sampler.stop().unwrap();
            let rest = run(&mut sampler, sparse(2e5), usize::MAX);
            let all = fates(&windows).iter().sum::<usize>() + fates(&rest).iter().sum::<usize>();
            assert_eq!(all as u64, sampler.samples_and_stops().0);
            assert_eq!(fates(&rest)[2], 0, "nothing dangles: the program has not ended");
        }
        drop(sampler);
        assert_eq!(tracer(child.0.id()).unwrap(), "0");
        thread::sleep(Duration::from_millis(50));
        assert!(matches!(state(child.0.id()), Some('R')), "it was left standing");
    }
    assert!(descriptors() <= before, "descriptors leak");
}

#[test]
fn a_program_killed_in_the_middle_is_reported_to_the_end() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let mut child = child("spin");
    let mut sampler = PerfSampler::attach(child.0.id(), &options()).unwrap();
    let mut windows = run(&mut sampler, sparse(1e5), 3);
    child.0.kill().unwrap();
    windows.extend(run(&mut sampler, sparse(1e5), usize::MAX));
    assert_eq!(fates(&windows).iter().sum::<usize>() as u64, sampler.samples_and_stops().0);
}

#[test]
fn observation_of_a_sleeping_program_can_be_interrupted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let child = child("sleep");
    sleeps(child.0.id());
    let mut sampler = PerfSampler::attach(child.0.id(), &options()).unwrap();
    let interrupter = sampler.interrupter();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        interrupter.interrupt();
    });
    let windows = run(&mut sampler, sparse(1e6), usize::MAX);
    assert!(windows.len() <= 2);
    other.join().unwrap();
    drop(sampler);
    sleeps(child.0.id());
}

/// Of all its threads, by `TracerPid`; it has not ended.
fn is_free(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let numbers = threads.map(|thread| thread.unwrap().file_name().to_str().unwrap().parse().unwrap());
    numbers.into_iter().all(|thread| tracer(thread).is_none_or(|tracer| tracer == "0"))
}

/// A step that a sleeping thread was asked for ends when it is woken, as late as it is let go.
#[test]
fn threads_that_sleep_survive_being_let_go() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let mut child = child("many threads that stay");
    sleeps(child.0.id());
    for _ in 0..5 {
        let mut sampler = PerfSampler::attach(child.0.id(), &options()).unwrap();
        let interrupter = sampler.interrupter();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            interrupter.interrupt();
        });
        run(&mut sampler, sparse(1e5), usize::MAX);
        other.join().unwrap();
        drop(sampler);
        assert!(is_free(child.0.id()));
        sleeps(child.0.id());
        assert!(child.0.try_wait().unwrap().is_none());
    }
}

/// Lets as many observers of `target` be killed, `longer` milliseconds later each time: it runs on each time, in one of `states`
/// once it was let alone for `calm` milliseconds. False where this user may not attach to processes.
fn outlives_observers(target: &mut Kept, rounds: u64, longer: u64, calm: u64, states: &[char]) -> bool {
    let process = target.0.id();
    for round in 0..rounds {
        let mut observer = Kept(
            Command::new(std::env::current_exe().unwrap())
                .env(TARGET, "observer for ever")
                .env(forbidden::PROCESS, process.to_string())
                .spawn()
                .unwrap(),
        );
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_free(process) {
            assert!(Instant::now() < deadline, "nobody observes it");
            if observer.0.try_wait().unwrap().is_some() {
                eprintln!("skipped: this user may not attach to processes");
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20 + longer * round));
        drop(observer);
        while !is_free(process) {
            assert!(Instant::now() < deadline, "it stays controlled");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(calm));
        assert_eq!(target.0.try_wait().unwrap(), None, "after {round} rounds");
        let state = state(process);
        assert!(state.is_some_and(|state| states.contains(&state)), "{state:?}");
    }
    true
}

/// Nobody can catch `SIGKILL`: what controls the program must be another process, which then lets it go.
#[test]
fn programs_survive_the_death_of_their_observer() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    for (target, rounds) in [("spin", 20), ("many threads that stay", 5)] {
        if !outlives_observers(&mut child(target), rounds, 3, 5, &['R', 'S']) {
            return;
        }
    }
}

#[test]
fn the_end_of_what_controls_the_program_is_reported() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let child = child("sleep");
    sleeps(child.0.id());
    let mut sampler = PerfSampler::attach(child.0.id(), &options()).unwrap();
    let tracer = tracer(child.0.id()).unwrap();
    if fs::read_dir(format!("/proc/self/task/{tracer}")).is_ok() {
        return eprintln!("skipped: it is a thread of this process");
    }
    assert!(Command::new("kill").args(["-KILL", &tracer]).status().unwrap().success());
    let error = sampler.next_window(&sparse(1e6)).unwrap_err();
    assert!(matches!(&error, SamplerError::Protocol { problem, .. } if problem.contains("ended")), "{error}");
}

#[test]
fn what_cannot_be_run_is_refused() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let before = descriptors();
    for program in ["/no/such/program", "/etc/passwd", ""] {
        let error = PerfSampler::spawn(program, [""; 0], &options()).unwrap_err();
        assert!(matches!(error, SamplerError::Target { .. }), "{error}");
    }
    for process in [0, 1 << 22, u32::MAX, std::process::id()] {
        let error = PerfSampler::attach(process, &options()).unwrap_err();
        assert!(matches!(error, SamplerError::Target { .. }), "{error}");
    }
    let mut none = options();
    none.counters = vec![vec!["no such event".into()]];
    let error = PerfSampler::spawn("true", [""; 0], &none).unwrap_err();
    assert!(error.to_string().contains("no such event"));
    assert!(descriptors() <= before);
}

#[test]
fn a_started_program_ends_with_its_sampler() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let mut sampler = spawn("spin", &options());
    assert_eq!(run(&mut sampler, sparse(1e6), 2).len(), 2);
    let process = sampler.process_id();
    drop(sampler);
    let deadline = Instant::now() + Duration::from_secs(10);
    while state(process).is_some_and(|state| state != 'Z') {
        assert!(Instant::now() < deadline, "it goes on");
        thread::sleep(Duration::from_millis(5));
    }
}
