//! The processes that a program makes: each is observed, and none notices.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use reuse_sampler::perf::PerfSampler;
use reuse_sampler::{Children, TargetExit};

use crate::targets::TARGET;
use crate::{Kept, TURN, fates, nothing_to_test_with, options, outlives_observers, run, sparse, state};

/// A command to observe, its words separated by line breaks.
const COMMAND: &str = "REUSE_SAMPLER_TEST_COMMAND";
/// Where what was seen is written.
const REPORT: &str = "REUSE_SAMPLER_TEST_REPORT";

/// A folder of this test, and a program that it is compiled to.
fn compile(name: &str, source: &str) -> Option<(PathBuf, String)> {
    let folder = env::temp_dir().join(format!("reuse-sampler-perf-{name}-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&file, source).unwrap();
    let built = Command::new("gcc").arg(&file).arg("-o").arg(&program).args(["-O1", "-pthread"]).status();
    let Ok(built) = built else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(built.success());
    Some((folder, program.to_string_lossy().into_owned()))
}

/// What this test program does where it is to observe a command whose output is wanted.
pub fn observe() -> i32 {
    let command = env::var(COMMAND).unwrap();
    let words: Vec<&str> = command.split('\n').collect();
    let mut sampler = PerfSampler::spawn(words[0], &words[1..], &options()).unwrap();
    let windows = run(&mut sampler, sparse(2e5), usize::MAX);
    assert_eq!(fates(&windows).iter().sum::<usize>() as u64, sampler.samples_and_stops().0);
    let mut report = sampler.warnings().join("\n");
    for process in sampler.processes() {
        assert!(process.unobserved.is_none(), "{process:?}");
        report += &format!("\n{}\t{}\t{}\t{:?}", process.pid, process.parent, process.command, process.exit);
    }
    fs::write(env::var(REPORT).unwrap(), report).unwrap();
    match sampler.exit_status() {
        Some(TargetExit::Code(code)) => code,
        other => panic!("{other:?}"),
    }
}

/// Runs a program natively and observed by another process: the same output and status. What was seen.
fn agrees(folder: &Path, command: &[&str]) -> Vec<Vec<String>> {
    let native = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap();
    let report = folder.join("report");
    let begun = Instant::now();
    let observed = Command::new("timeout")
        .args(["-k", "1", "120"])
        .arg(env::current_exe().unwrap())
        .env(TARGET, "observe a command")
        .env(COMMAND, command.join("\n"))
        .env(REPORT, &report)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&observed.stdout),
        text(&native.stdout),
        "{command:?} {:?}: {observed:?}",
        begun.elapsed()
    );
    assert_eq!(observed.status, native.status, "{command:?}");
    let report = fs::read_to_string(report).unwrap();
    report.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn children_run_as_they_do_natively_and_are_all_seen() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let Some((folder, program)) = compile("children", include_str!("../dbi/children.c")) else { return };
    let seen: Vec<_> = agrees(&folder, &[&program]).into_iter().filter(|line| line.len() == 4).collect();
    let main = &seen[0];
    assert_eq!(main[3], "Some(Code(9))");
    let first = &seen[1];
    assert_eq!((&first[1], first[3].as_str()), (&main[0], "Some(Code(1))"));
    // One is forked and executed, two are spawned; a fourth executes nothing.
    assert_eq!(seen.iter().filter(|line| line[2].contains(" child ")).count(), 3, "{seen:#?}");
    for end in ["Some(Signal(6))", "Some(Signal(9))", "Some(Code(7))", "Some(Code(5))", "Some(Code(77))"] {
        assert!(seen.iter().any(|line| line[3] == end), "{end}: {seen:#?}");
    }
    // Four threads make five children each, a pipeline is a shell and two programs, and an orphan has a parent.
    assert_eq!(seen.len(), 1 + 13 + 20 + 3 + 2, "{seen:#?}");
    assert!(seen.iter().all(|line| line[3] != "None"), "{seen:#?}");
    let Some((jobs, program)) = compile("jobs", include_str!("jobs.c")) else { return };
    let seen = agrees(&jobs, &[&program]);
    assert!(
        seen.iter().any(|line| line.len() == 4 && line[2].ends_with("executed by a thread")),
        "{seen:#?}"
    );
    for folder in [folder, jobs] {
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn children_are_ignored_on_request() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let mut options = options();
    options.children = Children::Ignore;
    let script = "true & sh -c 'exit 3'; (exit 4); wait; exit 5";
    let mut sampler = PerfSampler::spawn("sh", ["-c", script], &options).unwrap();
    let windows = run(&mut sampler, sparse(1e6), usize::MAX);
    assert_eq!(sampler.exit_status(), Some(TargetExit::Code(5)));
    assert!(windows.iter().all(|window| window.thread.0 == 0));
    assert_eq!(sampler.processes().len(), 1);
    assert!(sampler.warnings().contains(&"3 child process(es) ran unobserved".to_owned()), "{sampler:?}");
}

/// A parent that sleeps until its child is through cannot be stopped, nor let go: neither waits for it.
#[test]
fn a_parent_that_sleeps_until_its_child_is_through_holds_nobody_up() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let Some((folder, program)) = compile("sleeps", include_str!("jobs.c")) else { return };
    for late in [false, true] {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.3; exec \"$0\" sleeps", &program]).stdin(Stdio::piped());
        let mut child = Kept(command.spawn().unwrap());
        if late {
            thread::sleep(Duration::from_millis(600));
        }
        let mut sampler = PerfSampler::attach(child.0.id(), &options()).unwrap();
        let interrupter = sampler.interrupter();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(700));
            interrupter.interrupt();
        });
        let begun = Instant::now();
        run(&mut sampler, sparse(1e6), usize::MAX);
        other.join().unwrap();
        // Ticks are 50 ms; it gave up after 100 of them.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4) || late, "{took:?}");
        // One that sleeps so from the start never stands still to be seen.
        let processes = sampler.processes().len();
        assert!(late || processes >= 2, "{processes}");
        assert_eq!(child.0.try_wait().unwrap(), None);
        drop(child.0.stdin.take());
        assert_eq!(child.0.wait().unwrap().code(), Some(4), "before the sampler is dropped");
        drop(sampler);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Whoever observes a tree may be killed at any moment: all of it runs on.
#[test]
fn trees_survive_the_death_of_their_observer() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let Some((folder, program)) = compile("forks", include_str!("jobs.c")) else { return };
    let mut target = Kept(Command::new(program).arg("forks").spawn().unwrap());
    outlives_observers(&mut target, 25, 7, 20, &['R', 'S', 'D']);
    fs::remove_dir_all(folder).unwrap();
}

/// What was started ends with its sampler, and so do its children, whatever they make of being asked to.
#[test]
fn a_started_tree_ends_with_its_sampler() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if nothing_to_test_with() {
        return;
    }
    let script = "trap '' TERM; sleep 1000 & sleep 1000 & sh -c 'sleep 1000; true' & wait";
    let mut sampler = PerfSampler::spawn("sh", ["-c", script], &options()).unwrap();
    let interrupter = sampler.interrupter();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        interrupter.interrupt();
    });
    run(&mut sampler, sparse(1e6), usize::MAX);
    other.join().unwrap();
    let processes = sampler.processes();
    assert_eq!(processes.len(), 5, "{processes:#?}");
    for process in processes {
        assert!(matches!(state(process.pid), None | Some('Z')), "{process:?}");
    }
}
