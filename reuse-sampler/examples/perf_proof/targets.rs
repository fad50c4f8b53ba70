//! The known programs. Each is one loop over one instruction that accesses memory, written in assembly so that nothing
//! else does and the number of instructions between two accesses is known.

use std::arch::asm;
use std::process::{self, Command};
use std::{env, thread};

/// Lines of the buffers.
pub const LINES: u64 = 512;

/// Lines of the buffers of "words" and "records".
pub const MANY_LINES: usize = 4096;
/// Lines of the buffer of "sweep": 4 MiB.
pub const SWEEP_LINES: usize = 1 << 16;

/// Instructions in one round of [`visit`], one of which is a load.
#[cfg(target_arch = "aarch64")]
pub const ROUND: u64 = 4;
/// Instructions in one round of [`visit`], one of which is a load.
#[cfg(target_arch = "x86_64")]
pub const ROUND: u64 = 4;

/// Lines of the second buffer of "mixed".
pub const FAR_LINES: u64 = 2048;

/// Instructions in one round of [`visit_both`], two of which are loads.
pub const MIXED: u64 = 6;

/// Turns that the two phases of "phases" take, together.
pub const TURNS: u64 = 8;

/// Follows `rounds` links, at least one: each word holds the address of the next. Functions of two names differ in a
/// comment, or they might be made one.
macro_rules! visitor {
    ($name:ident, $arm:literal, $x86:literal) => {
        #[inline(never)]
        pub fn $name(first: *const u64, rounds: u64) {
            let rounds = rounds.max(1);
            // SAFETY: every link leads to another word of the ring that the caller built.
            unsafe {
                #[cfg(target_arch = "aarch64")]
                asm!(
                    concat!("/* ", stringify!($name), " */ 2:"), $arm, "nop", "subs {left}, {left}, #1", "b.ne 2b",
                    at = inout(reg) first => _, left = inout(reg) rounds => _, options(nostack)
                );
                #[cfg(target_arch = "x86_64")]
                asm!(
                    concat!("/* ", stringify!($name), " */ 2:"), $x86, "nop", "dec {left}", "jnz 2b",
                    at = inout(reg) first => _, left = inout(reg) rounds => _, options(nostack)
                );
                #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
                {
                    let _ = (first, rounds);
                    asm!("");
                }
            }
        }
    };
}

visitor!(visit, "ldr {at}, [{at}]", "mov {at}, [{at}]");
visitor!(other_visit, "ldr {at}, [{at}]", "mov {at}, [{at}]");
// As many instructions, none of which accesses memory.
visitor!(idle, "mov {at}, {at}", "mov {at}, {at}");

/// Follows the links of two rings, in turns.
fn visit_both(near: *const u64, far: *const u64, rounds: u64) {
    let rounds = rounds.max(1);
    // SAFETY: every link leads to another word of its ring.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        asm!(
            "2:", "ldr {near}, [{near}]", "nop", "nop", "ldr {far}, [{far}]", "subs {left}, {left}, #1", "b.ne 2b",
            near = inout(reg) near => _, far = inout(reg) far => _, left = inout(reg) rounds => _, options(nostack)
        );
        #[cfg(target_arch = "x86_64")]
        asm!(
            "2:", "mov {near}, [{near}]", "nop", "nop", "mov {far}, [{far}]", "dec {left}", "jnz 2b",
            near = inout(reg) near => _, far = inout(reg) far => _, left = inout(reg) rounds => _, options(nostack)
        );
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        {
            let _ = (near, far, rounds);
            asm!("");
        }
    }
}

/// Instructions in one round of [`jump`], one of which is a load.
#[cfg(target_arch = "aarch64")]
pub const JUMP: u64 = 6;
/// Instructions in one round of [`jump`], one of which is a load.
#[cfg(target_arch = "x86_64")]
pub const JUMP: u64 = 8;

const FACTOR: u64 = 6_364_136_223_846_793_005;
const STEP: u64 = 1_442_695_040_888_963_407;

/// Words in the lines of "words".
const WORDS: u64 = 8 * MANY_LINES as u64;

/// The words that [`jump`] loads, one after the other.
pub fn jumps() -> impl Iterator<Item = usize> {
    let mut state = 0_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(FACTOR).wrapping_add(STEP);
        (state >> 33 & (WORDS - 1)) as usize
    })
}

/// Loads words of many lines at random.
fn jump(words: &[u64], rounds: u64) {
    let first = start(words, &[0]);
    let rounds = rounds.max(1);
    // SAFETY: the buffer has that many words from the first whole line on.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        asm!(
            "2:", "madd {state}, {state}, {factor}, {step}", "lsr {at}, {state}, #33", "and {at}, {at}, {mask}",
            "ldr {at}, [{first}, {at}, lsl #3]", "subs {left}, {left}, #1", "b.ne 2b",
            state = inout(reg) 0_u64 => _, factor = in(reg) FACTOR, step = in(reg) STEP, mask = in(reg) WORDS - 1,
            first = in(reg) first, at = out(reg) _, left = inout(reg) rounds => _, options(nostack)
        );
        #[cfg(target_arch = "x86_64")]
        asm!(
            "2:", "imul {state}, {factor}", "add {state}, {step}", "mov {at}, {state}", "shr {at}, 33",
            "and {at}, {mask}", "mov {at}, [{first} + 8 * {at}]", "dec {left}", "jnz 2b",
            state = inout(reg) 0_u64 => _, factor = in(reg) FACTOR, step = in(reg) STEP, mask = in(reg) WORDS - 1,
            first = in(reg) first, at = out(reg) _, left = inout(reg) rounds => _, options(nostack)
        );
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        {
            let _ = (first, rounds);
            asm!("");
        }
    }
}

/// A ring of the words at these places of a buffer that begins with a line, in this order.
fn ring(places: &[usize]) -> Vec<u64> {
    let mut words = vec![0_u64; places.iter().max().map_or(0, |last| last + 9)];
    let base = words.as_ptr() as usize;
    let skip = (64 - base % 64) / 8 % 8; // whole lines
    for (n, &place) in places.iter().enumerate() {
        let next = places[(n + 1) % places.len()];
        words[skip + place] = (base + (skip + next) * 8) as u64;
    }
    words
}

fn start(words: &[u64], places: &[usize]) -> *const u64 {
    let skip = (64 - words.as_ptr() as usize % 64) / 8 % 8;
    words[skip + places[0]..].as_ptr()
}

/// Places of words: one in each line in the [order] of this name, or the first word of each of many lines at random, and a
/// little later the one 32 bytes behind it ("records").
pub fn places(name: &str, lines: usize) -> Vec<usize> {
    match name {
        "records" => {
            let order = order("random", lines);
            let later = (0..lines).map(|n| 8 * order[(n + lines - 2) % lines] + 4);
            order.iter().zip(later).flat_map(|(line, later)| [8 * line, later]).collect()
        }
        _ => order(name, lines).into_iter().map(|line| 8 * line).collect(),
    }
}

/// Orders of the lines: one after the other, every fifth, and at random.
fn order(name: &str, lines: usize) -> Vec<usize> {
    match name {
        "sequential" => (0..lines).collect(),
        "strided" => (0..lines).map(|n| n * 5 % lines).collect(),
        _ => {
            let mut order: Vec<usize> = (0..lines).collect();
            let mut state = 1_u64;
            for n in (1..lines).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                order.swap(n, (state >> 33) as usize % (n + 1));
            }
            order
        }
    }
}

fn walk(name: &str, lines: usize, rounds: u64) {
    let places = places(name, lines);
    let words = ring(&places);
    visit(start(&words, &places), rounds);
}

/// Walks, as do a child and its child; another child executes a program that does, with three threads.
fn tree(rounds: u64) {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }
    fn made(work: impl FnOnce()) -> impl FnOnce() {
        // SAFETY: this process has one thread.
        let child = unsafe { fork() };
        if child == 0 {
            work();
            process::exit(0);
        }
        move || {
            let mut status = 0;
            // SAFETY: writes one integer.
            while unsafe { waitpid(child, &raw mut status, 0) } != child {}
            assert_eq!(status, 0);
        }
    }
    let walk = || walk("sequential", LINES as usize, rounds);
    let child = made(|| {
        let grandchild = made(walk);
        walk();
        grandchild();
    });
    let program = env::current_exe()
        .and_then(|program| Command::new(program).env(super::TARGET, format!("threads {rounds}")).spawn());
    walk();
    child();
    assert!(program.and_then(|mut program| program.wait()).is_ok_and(|status| status.success()));
}

/// Runs a target to its end.
pub fn run(target: &str) {
    let (name, rounds) =
        target.split_once(' ').map_or((target, 0), |(name, rounds)| (name, rounds.parse().unwrap_or(0)));
    let lines = LINES as usize;
    match name {
        "phases" => {
            let (near, far) = (places("sequential", 16), places("random", lines));
            let (near_words, far_words) = (ring(&near), ring(&far));
            for _ in 0..TURNS / 2 {
                visit(start(&near_words, &near), rounds / TURNS);
                other_visit(start(&far_words, &far), rounds / TURNS);
            }
        }
        "mixed" => {
            let (near, far) = (places("random", lines), places("random", FAR_LINES as usize));
            let (near_words, far_words) = (ring(&near), ring(&far));
            visit_both(start(&near_words, &near), start(&far_words, &far), rounds);
        }
        "threads" => {
            let workers: Vec<_> =
                (0..3).map(|_| thread::spawn(move || walk("sequential", 64, rounds / 3))).collect();
            for worker in workers {
                drop(worker.join());
            }
        }
        "tree" => tree(rounds),
        "idle" => idle(std::ptr::null(), rounds),
        "forever" => walk("sequential", lines, u64::MAX),
        "sweep" => walk("sequential", SWEEP_LINES, rounds),
        "records" => walk(name, MANY_LINES, rounds),
        "words" => jump(&vec![1; WORDS as usize + 8], rounds),
        _ => walk(name, lines, rounds),
    }
}
