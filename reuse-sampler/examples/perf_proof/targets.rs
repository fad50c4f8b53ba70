//! The known programs. Each is one loop over one instruction that accesses memory, written in assembly so that nothing
//! else does and the number of instructions between two accesses is known.

use std::arch::asm;
use std::thread;

/// Lines of the buffers.
pub const LINES: u64 = 512;

/// Instructions in one round of [`visit`], one of which is a load.
#[cfg(target_arch = "aarch64")]
pub const ROUND: u64 = 4;
/// Instructions in one round of [`visit`], one of which is a load.
#[cfg(target_arch = "x86_64")]
pub const ROUND: u64 = 4;

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

/// A ring of one word in each of `order.len()` lines, in this order.
fn ring(order: &[usize]) -> Vec<u64> {
    let mut words = vec![0_u64; (order.len() + 1) * 8];
    let base = words.as_ptr() as usize;
    let skip = (64 - base % 64) / 8 % 8; // whole lines
    for (n, &line) in order.iter().enumerate() {
        let next = order[(n + 1) % order.len()];
        words[skip + line * 8] = (base + (skip + next * 8) * 8) as u64;
    }
    words
}

fn start(words: &[u64]) -> *const u64 {
    let skip = (64 - words.as_ptr() as usize % 64) / 8 % 8;
    words[skip..].as_ptr()
}

/// Orders of the lines: one after the other, every fifth, and at random.
pub fn order(name: &str, lines: usize) -> Vec<usize> {
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
    let words = ring(&order(name, lines));
    visit(start(&words), rounds);
}

/// Runs a target to its end.
pub fn run(target: &str) {
    let (name, rounds) =
        target.split_once(' ').map_or((target, 0), |(name, rounds)| (name, rounds.parse().unwrap_or(0)));
    let lines = LINES as usize;
    match name {
        "phases" => {
            let (near, far) = (ring(&order("sequential", 16)), ring(&order("random", lines)));
            for _ in 0..TURNS / 2 {
                visit(start(&near), rounds / TURNS);
                other_visit(start(&far), rounds / TURNS);
            }
        }
        "threads" => {
            let workers: Vec<_> =
                (0..3).map(|_| thread::spawn(move || walk("sequential", 64, rounds / 3))).collect();
            for worker in workers {
                drop(worker.join());
            }
        }
        "idle" => idle(std::ptr::null(), rounds),
        "forever" => walk("sequential", lines, u64::MAX),
        _ => walk(name, lines, rounds),
    }
}
