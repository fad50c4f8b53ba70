//! Instructions, accesses, samples and windows are what they should be.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use reuse_sampler::dbi::{DbiOptions, DbiTrace};
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{AccessKind, Arrivals, Children, ReusePlan, SampleGap, TargetExit, ThreadId};

use crate::run::{Run, compile, folder, lines, run};

/// Instructions that the program executes, repeated string instructions once, by single-stepping it.
fn stepped(command: &[&str]) -> Option<u64> {
    let mut child = Command::new(command[0]);
    child.args(&command[1..]).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    child.stdout(std::io::stderr().as_fd().try_clone_to_owned().unwrap()); // as below
    let trace = || {
        let _ = personality::get().and_then(|old| personality::set(old | Persona::ADDR_NO_RANDOMIZE));
        ptrace::traceme().map_err(std::io::Error::from)
    };
    // SAFETY: the closure makes system calls only.
    unsafe { child.pre_exec(trace) };
    let Ok(child) = child.spawn() else {
        println!("skipped: a process cannot be traced here");
        return None;
    };
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, None).unwrap();
    let (mut steps, mut last) = (0, 0);
    loop {
        let at = ptrace::getregs(pid).unwrap().rip;
        steps += u64::from(at != last);
        last = at;
        ptrace::step(pid, None).unwrap();
        if let WaitStatus::Exited(..) | WaitStatus::Signaled(..) = waitpid(pid, None).unwrap() {
            return Some(steps);
        }
    }
}

/// A counter holds fewer executions than a window may have.
#[test]
fn windows_longer_than_a_counter_holds_are_exact() {
    let source =
        "int main(void) { for (unsigned long i = 0; i < 4400000000; i++) __asm__ volatile(\"\"); return 0; }";
    let folder = folder("long");
    let Some(program) = compile(&folder, source, &["-O1"]) else { return };
    let done = run(&[&program], &DbiOptions::windows_of(6_000_000_000), |_| ReusePlan::Off);
    assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
    let lengths: Vec<_> = done.windows.iter().map(|window| window.instructions).collect();
    assert!(lengths.len() == 2 && lengths[0].abs_diff(6_000_000_000) < 64, "{lengths:?}");
    let mut loops = BTreeMap::new();
    for &(block, count) in done.windows.iter().flat_map(|window| &window.code) {
        *loops.entry(block).or_insert(0) += count;
    }
    let most = loops.values().copied().max().unwrap();
    assert!(most.abs_diff(8_800_000_000) < 64, "{most} instructions in the loop");
    fs::remove_dir_all(folder).unwrap();
}

/// Code takes its instructions off one of several shares of what is left, which is evened out where one does not suffice.
#[test]
fn windows_end_at_their_length_whatever_code_has_taken_it() {
    let source = r#"
        static int many(int n) { return n < 2 ? n : many(n - 1) + many(n - 2); }
        static int few(int n) { int sum = 0; while (n--) sum += n % 3 ? n & 7 : many(n & 3); return sum; }
        int main(void) { int sum = 0; for (int i = 0; i < 40; i++) sum += many(12) + few(3000); return sum & 1; }"#;
    let folder = folder("shares");
    let Some(program) = compile(&folder, source, &["-O1", "-static"]) else { return };
    let total = |length, plan: ReusePlan| {
        let done = run(&[&program], &DbiOptions::windows_of(length), |_| plan);
        let ends = done.windows.iter().scan(0, |end, window| {
            *end += window.instructions;
            Some(*end)
        });
        let (ends, boundaries) = (ends.collect::<Vec<u64>>(), (1..).map(|number| number * length));
        let [whole @ .., all] = &ends[..] else { panic!("no windows") };
        for (end, boundary) in whole.iter().zip(boundaries) {
            assert!(end.abs_diff(boundary) < 64, "{length}: {end} and not {boundary}");
        }
        *all
    };
    let all = total(1 << 40, ReusePlan::Off);
    for length in [70, 300, 1000, 4095, 4096, 10_000, 100_000] {
        assert_eq!(total(length, ReusePlan::Off), all, "windows of {length}");
        assert_eq!(total(length, ReusePlan::Every), all, "windows of {length}, recorded");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A fault comes in the fourth block of a run, whose accesses are recorded and whose instructions are counted together.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>
static void skip(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3; // "mov (%rdi), %rax"
}
int main(void) {
    struct sigaction action = { .sa_sigaction = skip, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, 0);
    static long data[8];
    for (int i = 0; i < 2000; i++)
        __asm__ volatile(
            "mov (%%rsi), %%rax; test %%rsi, %%rsi; jz 1f; add %%rax, 8(%%rsi); mov 16(%%rsi), %%rdx; cmp %%rdi, %%rsi; je 1f;"
            "mov %%rax, 24(%%rsi); test %%rsi, %%rsi; jz 1f; mov 32(%%rsi), %%rdx; mov (%%rdi), %%rax; mov 40(%%rsi), %%rdx;"
            "test %%rsi, %%rsi; jz 1f; mov %%rdx, 48(%%rsi); 1:"
            : : "D"(8L), "S"(data) : "rax", "rdx", "memory", "cc");
    exit(0);
}"#;

#[test]
fn what_comes_before_a_fault_is_counted_and_recorded() {
    let folder = folder("faults");
    let Some(program) = compile(&folder, FAULTS, &["-O1", "-static"]) else { return };
    let total = |length, plan: ReusePlan| {
        let options = DbiOptions::windows_of(length);
        let done = run(&[&program], &options, |_| plan);
        assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
        let accesses: u64 = done.windows.iter().filter_map(|window| window.accesses.get()).sum();
        (done.windows.iter().map(|window| window.instructions).sum::<u64>(), accesses)
    };
    // A run is longer than such a window, which is gone through block by block.
    let (instructions, accesses) = total(8, ReusePlan::Every);
    assert!(accesses > 2000 * 9);
    assert_eq!(total(1 << 40, ReusePlan::Every), (instructions, accesses));
    assert_eq!(total(1 << 40, ReusePlan::Off).0, instructions);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn instructions_are_those_of_single_stepping() {
    for (command, plan) in [
        (["/bin/true", ""], ReusePlan::Off),
        (["/bin/true", ""], ReusePlan::Every),
        (["/bin/ls", "/dev/null"], ReusePlan::Off),
    ] {
        let mut options = DbiOptions::windows_of(10_000).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        options.output_to_stderr = true;
        // What the loader searches changes when packages are installed meanwhile.
        let libraries = || fs::metadata("/etc/ld.so.cache").and_then(|cache| cache.modified()).ok();
        let (steps, mut done) = loop {
            let before = libraries();
            let Some(steps) = stepped(&command) else { return };
            let done = run(&command, &options, |_| plan);
            if libraries() == before {
                break (steps, done);
            }
        };
        assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
        assert_eq!(done.instructions(), steps, "{command:?}");
        // Windows end before the block that would exceed them, and the next makes up for it.
        let last = done.windows.pop().unwrap();
        assert!(last.instructions <= 10_000 + 64);
        let mut total = 0;
        for (window, end) in done.windows.iter().zip((10_000..).step_by(10_000)) {
            total += window.instructions;
            assert!(total <= end && total + 64 > end, "window {} ends at {total}", window.index.0);
            assert_eq!(window.code.iter().map(|(_, count)| count).sum::<u64>(), window.instructions);
        }
    }
}

/// Flags for a program that is nothing but its own instructions.
const BARE: [&str; 5] = ["-O1", "-static", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none"];

/// A program without a C library that makes a known number of accesses of each kind.
const KNOWN: &str = r#"
__attribute__((aligned(64))) static char memory[4096];
void _start(void) {
    __asm__ volatile(
        "mov $1000, %%ecx\n"
        "lea %0, %%rdi\n"
        "1: mov (%%rdi), %%rax\n"          // 1000 loads
        "mov %%rax, 64(%%rdi)\n"           // 1000 stores
        "incq 128(%%rdi)\n"                // 1000 loads, 1000 stores
        "lock incq 192(%%rdi)\n"           // 1000 stores
        "movups 252(%%rdi), %%xmm0\n"      // 2000 loads: two lines
        "movups %%xmm0, 320(%%rdi)\n"      // 1000 stores
        "push %%rax\n pop %%rax\n"         // 1000 stores, 1000 loads
        "prefetcht0 (%%rdi)\n lea 8(%%rdi), %%rax\n nopl 8(%%rdi)\n"
        "dec %%ecx\n jnz 1b\n"
        "lea %0, %%rsi\n lea 2048(%%rsi), %%rdi\n mov $100, %%ecx\n rep movsq\n" // 100 loads, 100 stores
        "xor %%edi, %%edi\n mov $60, %%eax\n syscall\n"
        : "+m"(memory) : : "rax", "rcx", "rdi", "rsi", "memory");
}
"#;

#[test]
fn accesses_are_those_of_a_program_whose_accesses_are_known() {
    let folder = folder("known");
    let Some(program) = compile(&folder, KNOWN, &BARE) else { return };
    let (loads, stores) = (1000 + 1000 + 2000 + 1000 + 100, 1000 + 1000 + 1000 + 1000 + 1000 + 100);
    let done = run(&[&program], &DbiOptions::windows_of(1_000), |_| ReusePlan::Every);
    assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
    assert_eq!(done.accesses(), loads + stores);
    let arrivals = |pick: fn(&Arrivals) -> u64| -> u64 {
        done.windows.iter().filter_map(|window| window.arrivals.as_ref()).map(pick).sum()
    };
    assert_eq!(arrivals(|a| a.loads.total_weight()), loads);
    assert_eq!(arrivals(|a| a.stores.total_weight()), stores);
    fs::remove_dir_all(folder).unwrap();
}

/// A program without a C library: loops within loops, calls, jumps that are taken or not, a table of jumps, recursion.
const BRANCHES: &str = r#"
static long __attribute__((noinline)) odd(long x) { return x % 7 == 0 ? x * 3 : x % 5 == 0 ? x - 1 : x + 1; }
static long __attribute__((noinline)) deep(long x) { return x < 2 ? x : deep(x - 1) + odd(deep(x - 2)); }
static long __attribute__((noinline)) table(long x) {
    switch (x & 7) {
        case 0: return odd(x); case 1: return x << 2; case 2: return x ^ 9; case 3: return x + 3;
        case 4: return x * x; case 5: return -x; case 6: return x | 1; default: return 7;
    }
}
void _start(void) {
    volatile long sum = 0;
    for (long i = 0; i < 4000; i++) {
        if (i & 1) sum += odd(i);
        else if (i % 3 == 0) sum ^= table(sum + i);
        for (long j = 0; j < (i & 3); j++)
            if (sum & 4) sum -= j; else sum += table(j);
        while (sum > 100000) sum >>= 3;
    }
    sum += deep(14);
    __asm__ volatile("syscall" : : "a"(60L), "D"(sum & 0));
}
"#;

#[test]
fn chains_count_what_their_blocks_execute() {
    let folder = folder("chains");
    let Some(program) = compile(&folder, BRANCHES, &BARE) else { return };
    let counted = |length, plan| {
        let done = run(&[&program], &DbiOptions::windows_of(length), |_| plan);
        assert_eq!(done.exit, Some(TargetExit::Code(0)), "{:?}", done.warnings);
        let mut blocks = BTreeMap::new();
        for (location, count) in done.windows.iter().flat_map(|window| &window.code) {
            *blocks.entry(*location).or_insert(0) += count;
        }
        blocks
    };
    // Each access recorded, each block is counted by itself; so it is in windows shorter than chains.
    let alone = counted(1 << 40, ReusePlan::Every);
    assert!(alone.len() > 30, "{} blocks", alone.len());
    for length in [40, 999, 1 << 40] {
        assert!(counted(length, ReusePlan::Off) == alone, "windows of {length} instructions");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A program that copies, fills, scans and compares with one instruction each, and exits with 0 if registers and flags
/// are what they should be then.
const REPEATED: &str = r#"
__attribute__((aligned(64))) static char memory[65536];
void _start(void) {
    __asm__ volatile(
        "mov $1, %%ebx\n mov $1000, %%r12d\n"
        "lea %0, %%rsi\n lea 32768(%%rsi), %%rdi\n mov %%rdi, %%r13\n mov $100, %%ecx\n stc\n"
        "rep movsq\n jnc 9f\n jrcxz 1f\n jmp 9f\n"               // 100 loads, 100 stores
        "1: mov $7, %%al\n mov $5000, %%ecx\n std\n lea 30000+%0, %%rdi\n"
        "rep stosb\n cld\n jrcxz 2f\n jmp 9f\n"                  // 5000 stores
        "2: xor %%eax, %%eax\n lea 25001+%0, %%rdi\n movb $0, 2999(%%rdi)\n mov $-1, %%rcx\n"
        "repne scasb\n jne 9f\n not %%rcx\n cmp $3000, %%rcx\n jne 9f\n"    // 3000 loads
        "mov %%r13, %%rdi\n lea 25001+%0, %%rsi\n mov $10, %%ecx\n"
        "repe cmpsb\n je 9f\n cmp $9, %%ecx\n jne 9f\n"          // 2 loads
        "xor %%ecx, %%ecx\n rep movsb\n xor %%ebx, %%ebx\n"       // nothing
        "9: mov %%ebx, %%edi\n mov $60, %%eax\n syscall\n"
        : "+m"(memory) : : "rax", "rbx", "rcx", "rdi", "rsi", "r12", "r13", "memory", "cc");
}
"#;

#[test]
fn accesses_of_repeated_string_instructions_are_counted_whatever_is_observed() {
    let folder = folder("repeated");
    let Some(program) = compile(&folder, REPEATED, &BARE) else { return };
    let mut instructions = Vec::new();
    for plan in [ReusePlan::Off, ReusePlan::Every] {
        let done = run(&[&program], &DbiOptions::windows_of(1_000), |_| plan);
        assert_eq!(done.exit, Some(TargetExit::Code(0)), "{plan:?} {:?}", done.warnings);
        let counts: Vec<u64> = done.windows.iter().flat_map(|w| &w.repeated).map(|(_, n)| *n).collect();
        assert_eq!(counts, [200, 5000, 3000, 2], "{plan:?}");
        let window = &done.windows[0];
        assert!(window.repeated.iter().all(|(block, _)| window.code.contains(&(*block, 1))), "{window:?}");
        assert_eq!(window.code_weights().map(|(_, n)| n).sum::<f64>(), window.instructions as f64 + 8202.0);
        instructions.push(done.instructions());
    }
    assert_eq!(instructions[0], instructions[1]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_sample_is_reported_once_and_plans_move_no_boundary() {
    let folder = folder("samples");
    let lines = lines(&folder);
    let command = ["sort", "-o", "/dev/null", &lines];
    let options = DbiOptions::windows_of(1_000_000).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let counted = run(&command, &options, |_| ReusePlan::Off);
    let mixed = run(&command, &options, |window| match window % 4 {
        0 => ReusePlan::Every,
        1 => ReusePlan::Sparse(SampleGap::mean(50.0).unwrap()),
        2 => ReusePlan::Watch,
        _ => ReusePlan::Off,
    });
    let lengths = |run: &Run| run.windows.iter().map(|window| window.instructions).collect::<Vec<_>>();
    assert_eq!(lengths(&counted), lengths(&mixed));
    for (one, other) in counted.windows.iter().zip(&mixed.windows) {
        assert!(one.code == other.code, "the code of window {} differs", one.index.0);
    }
    let mut reported = HashMap::<u64, u64>::new();
    for window in &mixed.windows {
        for (started, _, count, weight) in window.outcomes() {
            *reported.entry(started.0).or_default() += count * weight;
        }
    }
    for window in mixed.windows.iter().filter(|window| window.index.0 % 4 == 0) {
        let accesses = window.accesses.get().unwrap();
        assert_eq!(reported.get(&window.index.0), Some(&accesses), "window {}", window.index.0);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Instructions, accesses by kind and threads among the events of a program.
fn traced(command: &[&str], stretch: u32) -> (u64, [u64; 2], HashMap<u32, u64>, DbiTrace) {
    let mut options = DbiOptions::default();
    (options.stretch, options.output_to_stderr) = (stretch, true);
    let mut trace = DbiTrace::spawn(command[0], &command[1..], &options).unwrap();
    let (mut executed, mut kinds, mut threads, mut thread) = (0, [0, 0], HashMap::new(), 0);
    let mut code = std::ops::Range::default();
    while let Some(event) = trace.next_event().unwrap() {
        match event {
            Event::Block { address, instructions } => {
                executed += u64::from(instructions);
                code = address..address + 15 * u64::from(instructions);
            }
            Event::Access(access) => {
                assert!(code.contains(&access.pc), "{:#x} is not in {code:x?}", access.pc);
                kinds[usize::from(access.kind == AccessKind::Store)] += 1;
                *threads.entry(thread).or_default() += 1;
            }
            Event::Thread(next) => (thread, code) = (next.0, 0..0),
            _ => {}
        }
    }
    (executed, kinds, threads, trace)
}

#[test]
fn traces_have_what_windows_count() {
    let folder = folder("traces");
    let Some(program) = compile(&folder, KNOWN, &BARE) else { return };
    let counted = run(&[&program], &DbiOptions::default(), |_| ReusePlan::Off);
    let (executed, kinds, _, trace) = traced(&[&program], 256);
    assert_eq!(executed, counted.instructions());
    // An access is one here, whatever it straddles.
    assert_eq!(kinds, [1000 + 1000 + 1000 + 1000 + 100, 5000 + 100]);
    assert_eq!(trace.operands(), kinds.iter().sum::<u64>() - 1000);
    assert_eq!(trace.exit_status(), Some(TargetExit::Code(0)));

    let Some(program) = compile(&folder, crate::threads::EQUAL, &["-O1", "-pthread"]) else { return };
    for stretch in [64, 8192] {
        let (_, kinds, threads, trace) = traced(&[&program], stretch);
        assert_eq!(threads.values().sum::<u64>(), kinds.iter().sum::<u64>());
        for thread in 1..5 {
            assert!((819_200..822_000).contains(&threads[&thread]), "{threads:?}");
        }
        assert_eq!(trace.warnings(), [""; 0]);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A process and its child, which executes another program: each has addresses of its own.
#[test]
fn traces_follow_children() {
    for children in [Children::Follow, Children::Ignore] {
        let mut options = DbiOptions::default();
        options.children = children;
        let mut trace = DbiTrace::spawn("sh", ["-c", "seq 5000 >/dev/null; exit 0"], &options).unwrap();
        let (mut executed, mut accesses) = (0, BTreeMap::<u64, u64>::new());
        let mut thread = ThreadId(0);
        while let Some(event) = trace.next_event().unwrap() {
            if let Event::Access(access) = event {
                assert_eq!(trace.process_of(thread), Some((access.address >> 48) as usize));
            }
            match event {
                Event::Thread(other) => thread = other,
                Event::Block { instructions, .. } => executed += u64::from(instructions),
                Event::Access(access) => *accesses.entry(access.address >> 48).or_default() += 1,
                _ => {}
            }
        }
        let processes = trace.processes();
        let instructions: u64 = processes.iter().map(|process| process.instructions).sum();
        assert_eq!(executed, instructions, "{processes:?}");
        if children == Children::Ignore {
            assert_eq!((processes.len(), accesses.len()), (1, 1));
            assert!(
                trace.warnings().iter().any(|what| what.contains("unobserved")),
                "{:?}",
                trace.warnings()
            );
            continue;
        }
        assert_eq!(accesses.keys().copied().collect::<Vec<_>>(), [0, 1]);
        for (process, of_it) in processes.iter().zip(accesses.values()) {
            // An access counts once for each line there.
            let lines = process.accesses.get().unwrap();
            assert!((*of_it..of_it + of_it / 20).contains(&lines), "{of_it} accesses of {process:?}");
        }
    }
}

/// Loads at a vector of indices, or under a mask, near lines' ends or not.
const VECTORS: &str = r#"
#include <immintrin.h>
__attribute__((aligned(64))) static int memory[4096];
int main(int count, char **words) {
    __m256i sum = _mm256_setzero_si256(), mask = _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1);
    for (int i = 0; i < 100000; i++) {
        if (words[1][0] == 'g') {
            __m256i at = _mm256_add_epi32(_mm256_set1_epi32(i % 64), _mm256_set_epi32(0, 64, 128, 192, 256, 320, 384, 448));
            sum = _mm256_add_epi32(sum, _mm256_i32gather_epi32(memory, at, 4));
        } else {
            int at = words[1][0] == 'm' ? 12 : 0; // the mask leaves out what is in the next line
            sum = _mm256_add_epi32(sum, _mm256_maskload_epi32(memory + at + i % 64 * 16, mask));
        }
    }
    return _mm256_extract_epi32(sum, 3);
}
"#;

#[test]
fn accesses_that_a_mask_or_indices_decide_are_said() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        eprintln!("skipped: the processor has no AVX2");
        return;
    }
    let folder = folder("vectors");
    let Some(program) = compile(&folder, VECTORS, &["-O1", "-mavx2"]) else { return };
    for (how, said) in [("gathered", true), ("masked", true), ("within", false)] {
        let done = run(&[&program, how], &DbiOptions::default(), |_| ReusePlan::Every);
        assert_eq!(done.exit, Some(TargetExit::Code(0)));
        assert_eq!(
            done.warnings.iter().any(|w| w.contains("a mask or indices")),
            said,
            "{how}: {:?}",
            done.warnings
        );
        // Where nothing is recorded nothing can be wrong.
        let counted = run(&[&program, how], &DbiOptions::default(), |_| ReusePlan::Off);
        assert_eq!(counted.warnings, [""; 0]);
    }
    fs::remove_dir_all(folder).unwrap();
}
