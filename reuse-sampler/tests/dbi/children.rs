//! What a program executes, and the processes that it starts.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{Children, ProcessRecord, ReusePlan, Sampler, TargetExit, WindowPlan};

use crate::run::{agrees, compile, folder, lines, run};

/// A thread of several replaces the program by another one, by a descriptor of its file.
const REPLACED: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *spins(void *n) { for (;;); }
static void *replaces(void *n) {
    execl("/nonexistent", "none", (char *)0);
    char *arguments[] = {"sort", n, 0}, *none[] = {0};
    fexecve(open("/usr/bin/sort", O_RDONLY | O_CLOEXEC), arguments, none);
    return 0;
}
int main(int count, char **arguments) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) pthread_create(&thread, 0, spins, 0);
    pthread_create(&thread, 0, replaces, arguments[1]);
    for (;;) pause();
}
"#;

#[test]
fn executed_programs_are_observed() {
    let folder = folder("executed");
    let lines = lines(&folder);
    let options = DbiOptions::windows_of(1_000_000);
    let sorted = run(&["sort", "-o", "/dev/null", &lines], &options, |_| ReusePlan::Every);
    let words = ["sh", "-c", "exec nice -n 1 sort -o /dev/null \"$0\"", &lines];
    let replaced = run(&words, &options, |_| ReusePlan::Every);
    assert!(!replaced.warnings.iter().any(|w| w.contains("unobserved")), "{:?}", replaced.warnings);
    assert_eq!(replaced.exit, Some(TargetExit::Code(0)));
    // The shell and `nice` execute some 300,000 each.
    let more = replaced.instructions() - sorted.instructions();
    assert!((100_000..2_000_000).contains(&more), "{more}");
    assert!(replaced.windows.iter().all(|window| window.thread.0 == 0));
    // Addresses of one program are not those of another.
    let mut sampler = DbiSampler::spawn(words[0], &words[1..], &options).unwrap();
    let mut files = HashMap::<PathBuf, u64>::new();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::count_only()).unwrap() {
        windows.push(window);
    }
    for (address, count) in windows.into_iter().flat_map(|window| window.code) {
        if let Some(location) = sampler.locate(address) {
            *files.entry(location.file).or_default() += count;
        }
    }
    for name in ["sh", "nice", "sort"] {
        let path = fs::canonicalize(format!("/usr/bin/{name}")).unwrap();
        assert!(files.get(&path).is_some_and(|&count| count > 100), "{name}: {files:?}");
    }
    if let Some(program) = compile(&folder, REPLACED, &["-O1", "-pthread"]) {
        let done = agrees(&folder, &[&program, &lines], ReusePlan::Off);
        assert!(!done.warnings.iter().any(|w| w.contains("unobserved")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The region needs address space. What cannot have it runs on as if it had never been tried.
#[test]
fn a_program_without_room_runs_unobserved_and_unharmed() {
    let folder = folder("room");
    let look = "grep -c reuse-sampler /proc/self/maps; ls /proc/self/fd | wc -l; exit 7";
    for how in [format!("exec sh -c '{look}'"), format!("sh -c '{look}'; exit $?"), format!("({look})")] {
        // By another process: what a program asks for itself is without its region.
        let limited = format!("prlimit --pid $$ --as=300000000; {how}");
        let done = agrees(&folder, &["sh", "-c", &limited], ReusePlan::Every);
        assert_eq!(done.exit, Some(TargetExit::Code(7)));
        assert!(done.warnings.iter().any(|warning| warning.contains("unobserved")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A file that may be executed and not read: nobody may look at the process either.
#[test]
fn a_program_that_cannot_be_read_runs_unobserved_and_unharmed() {
    let folder = folder("unreadable");
    let observer = folder.join("observer");
    let program = folder.join("program");
    // Copied by another process: a child that another test starts meanwhile would hold a file that this one writes to,
    // which cannot be executed then.
    for (from, to, mode) in
        [(&std::env::current_exe().unwrap(), &observer, "-m755"), (&"/bin/echo".into(), &program, "-m111")]
    {
        assert!(
            Command::new("install")
                .args([mode.as_ref(), from.as_os_str(), to.as_os_str()])
                .status()
                .unwrap()
                .success()
        );
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let command = ["sh", "-c", "$0 one; echo two; exec $0 three", program.to_str().unwrap()];
    let output = folder.join("observed");
    let mut words = vec!["60"];
    if nix::unistd::geteuid().is_root() {
        words.extend(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    words.extend([observer.to_str().unwrap(), "run::observer", "--exact", "--nocapture", "--ignored"]);
    let done = Command::new("timeout")
        .args(words)
        .env("DBI_COMMAND", command.join("\u{1}"))
        .env("DBI_MODE", "count")
        .env("DBI_OUTPUT", &output)
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read_to_string(output.with_extension("out")).unwrap(), "one\ntwo\nthree\n");
    let warnings = fs::read_to_string(&output).unwrap();
    assert_eq!(warnings.matches("unobserved").count(), 2, "{warnings}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn children_run_as_they_do_natively() {
    let folder = folder("children");
    let Some(program) = compile(&folder, include_str!("children.c"), &["-O1", "-pthread"]) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(9)));
        // How many accesses the C library makes under masks depends on the processor and the environment.
        assert!(done.warnings.iter().all(|w| w.contains("a mask or indices")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_process_has_its_instructions_its_accesses_and_its_end() {
    let folder = folder("processes");
    let Some(program) = compile(&folder, include_str!("children.c"), &["-O1", "-pthread"]) else { return };
    let mut options = DbiOptions::windows_of(100_000);
    options.output_to_stderr = true;
    let done = run(&[&program], &options, |_| ReusePlan::Every);
    let all = &done.processes;
    assert_eq!(all.iter().map(|process| process.instructions).sum::<u64>(), done.instructions());
    assert!(all.iter().all(|process| process.unobserved.is_none() && process.exit.is_some()), "{all:#?}");
    let accesses = |process: &ProcessRecord| process.accesses.get().unwrap();
    assert_eq!(all.iter().map(accesses).sum::<u64>(), done.accesses());
    assert_eq!(all[0].exit, Some(TargetExit::Code(9)));
    // The first child adds 300,000 numbers, which are 8 instructions and 3 accesses each.
    let first = &all[1];
    assert_eq!((first.parent, first.exit), (all[0].pid, Some(TargetExit::Code(1))));
    assert!((2_400_000..2_410_000).contains(&first.instructions), "{first:?}");
    assert!((900_000..902_000).contains(&accesses(first)), "{first:?}");
    let executed: Vec<_> = all.iter().filter(|process| process.command.contains(" child ")).collect();
    assert_eq!(executed.len(), 3, "{all:#?}");
    for process in executed {
        assert_eq!(process.exit, Some(TargetExit::Code(3)));
        assert!((800_000..1_200_000).contains(&process.instructions), "{process:?}");
    }
    for signal in [6, 9] {
        assert!(all.iter().any(|process| process.exit == Some(TargetExit::Signal(signal))), "{all:#?}");
    }
    let orphan = all.last().unwrap();
    let parent = all.iter().find(|process| process.pid == orphan.parent).unwrap();
    assert_eq!(parent.parent, all[0].pid);
    // Threads are numbered over the tree, windows too.
    let mut indices: Vec<u64> = done.windows.iter().map(|window| window.index.0).collect();
    indices.sort_unstable();
    assert!(indices.iter().copied().eq(0..done.windows.len() as u64));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_plan_is_for_the_thread_whose_window_was_returned_last() {
    let folder = folder("plans");
    let Some(program) = compile(&folder, include_str!("children.c"), &["-O1", "-pthread"]) else { return };
    let mut options = DbiOptions::windows_of(20_000);
    options.output_to_stderr = true;
    let plan = |windows: usize| if windows % 3 == 0 { ReusePlan::Every } else { ReusePlan::Off };
    let done = run(&[&program], &options, plan);
    let mut plans = HashMap::new();
    let mut sampled: HashMap<_, u64> = HashMap::new();
    for (started_in, _, count, _) in done.windows.iter().flat_map(|window| window.outcomes()) {
        *sampled.entry(started_in).or_default() += count;
    }
    for (n, window) in done.windows.iter().enumerate() {
        let every = plans.insert(window.thread, plan(n + 1)).is_none_or(|plan| plan == ReusePlan::Every);
        let expected = if every { window.accesses.get().unwrap() } else { 0 };
        let sampled = sampled.get(&window.index).copied().unwrap_or_default();
        assert_eq!(sampled, expected, "window {n} of thread {}", window.thread.0);
    }
    assert!(plans.len() > 10);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn children_are_ignored_on_request() {
    let folder = folder("ignored");
    let Some(program) = compile(&folder, include_str!("children.c"), &["-O1", "-pthread"]) else { return };
    let mut options = DbiOptions::windows_of(100_000);
    options.output_to_stderr = true;
    let all = run(&[&program], &options, |_| ReusePlan::Off).processes;
    options.children = Children::Ignore;
    let done = run(&[&program], &options, |_| ReusePlan::Off);
    assert_eq!(done.exit, Some(TargetExit::Code(9)));
    assert_eq!(done.processes.len(), 1);
    // Four end without executing anything while they share memory. Where children are followed, their windows are the parent's.
    let children = 4 + all.iter().filter(|process| process.parent == all[0].pid).count();
    assert_eq!(done.warnings, [format!("{children} child process(es) ran unobserved")]);
    fs::remove_dir_all(folder).unwrap();
}
