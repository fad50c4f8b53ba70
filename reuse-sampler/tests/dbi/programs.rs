//! Programs print, are signalled and end as they do natively.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{ReusePlan, SampleGap, TargetExit};

use crate::cachegrind::{hostile, words};
use crate::run::{agrees, compile, folder, installed, lines, run};

#[test]
fn programs_print_and_end_as_they_do_natively() {
    let folder = folder("programs");
    let lines = lines(&folder);
    let counted =
        "my %x; $x{$_ % 1000} += $_ for 1..20000; print join(q(,), map {qq($_=$x{$_})} sort keys %x); exit 3";
    let trapped =
        "trap 'echo trapped' USR1; for i in 1 2 3; do kill -USR1 $$; done; echo after; sleep 0.01 & wait";
    let commands: [&[&str]; 11] = [
        &["true"],
        &["ls", "-la", "/usr/lib"],
        &["sort", &lines],
        &["gzip", "-c", &lines],
        &["xz", "-1", "-c", &lines],
        &["sha256sum", &lines],
        &["grep", "-c", "word7", &lines],
        &["perl", "-e", counted],
        &["sh", "-c", "echo one; (exit 5); echo $?; ls / | wc -l; exit 7"],
        &["bash", "-c", trapped],
        &["python3", "-c", "import json; d = {i: str(i) for i in range(2000)}; print(len(json.dumps(d)))"],
    ];
    for command in commands {
        if installed(command[0]) {
            for plan in [ReusePlan::Off, ReusePlan::Sparse(SampleGap::mean(100.0).unwrap()), ReusePlan::Every]
            {
                agrees(&folder, command, plan);
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn hostile_programs_print_and_end_as_they_do_natively() {
    let folder = folder("hostile-programs");
    for (_, command) in hostile(&folder).unwrap_or_default() {
        for plan in [ReusePlan::Off, ReusePlan::Watch] {
            let done = agrees(&folder, &words(&command), plan);
            assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_few_programs_do_is_observed() {
    let folder = folder("unusual");
    let flags = ["-O1", "-w", "-mfsgsbase"];
    let Some(program) = compile(&folder, include_str!("unusual.c"), &flags) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every, ReusePlan::Watch] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(5)));
        assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_program_limits_itself_to_is_without_what_observes_it() {
    let folder = folder("limits");
    let Some(program) = compile(&folder, include_str!("limits.c"), &["-O1"]) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(7)));
        assert!(done.warnings.is_empty(), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn signals_arrive_as_they_do_natively() {
    let folder = folder("signals");
    let Some(program) = compile(&folder, include_str!("signals.c"), &["-O2"]) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(9)));
        assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn code_that_changes_is_observed() {
    let folder = folder("changes");
    let Some(program) = compile(&folder, include_str!("changes.c"), &["-O1", "-pthread"]) else { return };
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = agrees(&folder, &[&program], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(6)));
        assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn hot_code_that_may_change_is_noticed_when_it_does() {
    let folder = folder("guarded");
    let Some(program) = compile(&folder, include_str!("guarded.c"), &["-O1", "-pthread"]) else { return };
    let seen = folder.join("seen");
    for plan in [ReusePlan::Off, ReusePlan::Every, ReusePlan::Watch] {
        let done = agrees(&folder, &[&program, seen.to_str().unwrap()], plan);
        assert_eq!(done.exit, Some(TargetExit::Code(5)));
        assert!(!done.warnings.iter().any(|w| w.contains("natively")), "{:?}", done.warnings);
        let seen = fs::read_to_string(&seen).unwrap();
        match seen.split_once(' ').unwrap() {
            ("1", times) => assert!(times.parse::<u32>().unwrap() >= 11, "protected {times} times"),
            _ => println!("not protected: the kernel has no userfaultfd, or refuses it"),
        }
    }
    // Before the end of a window that has none, too.
    let flags = ["-O1", "-pthread", "-DTIMES=4000000"];
    let Some(program) = compile(&folder, include_str!("guarded.c"), &flags) else { return };
    let quietly = format!("exec {program} {} > {}/printed", seen.display(), folder.display());
    let done = run(&["sh", "-c", &quietly], &DbiOptions::windows_of(u64::MAX), |_| ReusePlan::Off);
    assert_eq!(done.exit, Some(TargetExit::Code(5)));
    let times = fs::read_to_string(&seen).unwrap();
    assert!(times.starts_with('0') || times != "1 0", "{times}");
    fs::remove_dir_all(folder).unwrap();
}

const SEGMENT: &str = r#"
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    static long place = 5;
    long own;
    syscall(SYS_arch_prctl, 0x1001, &place); // ARCH_SET_GS
    __asm__("mov %%gs:0, %0" : "=r"(own));
    printf("%ld\n", own);
    return 4;
}
"#;

/// Stops after each instruction of its own, as some protect themselves from debuggers; then a handler makes it do so.
const STEPS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
static volatile long steps, stops;
static void step(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    if (number == SIGUSR1) *flags |= 0x100;
    else if (steps++, stops && steps >= stops) *flags &= ~0x100;
}
int main(int count, char **arguments) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0), sigaction(SIGUSR1, &action, 0);
    if (count > 1) {
        stops = 40, raise(SIGUSR1);
        while (steps < stops);
    } else {
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq; nop; nop; pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    }
    printf("%ld\n", steps);
    return 4;
}
"#;

#[test]
fn what_is_not_supported_runs_natively_and_is_said() {
    let folder = folder("unsupported");
    if let Some(program) = compile(&folder, STEPS, &["-O1"]) {
        for command in [&[&program[..]][..], &[&program, "again"]] {
            let done = agrees(&folder, command, ReusePlan::Watch);
            let said = |w: &String| w.contains("stop after each instruction");
            assert!(done.warnings.iter().any(said), "{:?}", done.warnings);
        }
    }
    if let Some(program) = compile(&folder, SEGMENT, &["-O1"]) {
        let done = agrees(&folder, &[&program], ReusePlan::Off);
        assert!(done.warnings.iter().any(|w| w.contains("uses the GS register")), "{:?}", done.warnings);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let options = DbiOptions::default();
    let none: [&str; 0] = [];
    let missing = DbiSampler::spawn("/nonexistent/program", none, &options).unwrap_err();
    assert!(missing.to_string().contains("no such program"), "{missing}");
    assert!(DbiSampler::spawn("/bin/true", none, &DbiOptions::windows_of(0)).is_err());
    let folder = folder("32-bit");
    let script = folder.join("script");
    fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = DbiSampler::spawn(&script, none, &options).unwrap_err().to_string();
    assert!(refused.contains("interpreter that it names"), "{refused}");
    let flags = ["-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie"];
    if let Some(program) = compile(&folder, "void _start(void) { for (;;); }", &flags) {
        let refused = DbiSampler::spawn(&program, none, &options).unwrap_err().to_string();
        assert!(refused.contains(&program) && refused.contains("32-bit"), "{refused}");
    }
    fs::remove_dir_all(folder).unwrap();
}
