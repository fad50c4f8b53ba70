//! The programs that the tests observe: this very test program, which a variable in its environment turns into one of
//! them before the test harness begins.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::{env, process, thread};

/// The variable.
pub const TARGET: &str = "REUSE_SAMPLER_TEST_TARGET";

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
    fn signal(number: i32, handler: usize) -> usize;
}

#[used]
#[unsafe(link_section = ".init_array")]
static BE_A_TARGET: extern "C" fn() = {
    extern "C" fn be_a_target() {
        if let Ok(name) = env::var(TARGET) {
            process::exit(run(&name));
        }
    }
    be_a_target
};

/// Reads one word of each of `lines` lines of a buffer, again and again.
#[inline(never)]
fn stride(lines: usize, passes: usize) {
    let buffer = vec![1_u64; lines * 8];
    for _ in 0..passes {
        for line in 0..lines {
            // SAFETY: within the buffer.
            unsafe { buffer.as_ptr().add(line * 8).read_volatile() };
        }
    }
    black_box(&buffer);
}

extern "C" fn ignore(_: i32) {}

fn run(name: &str) -> i32 {
    match name {
        "strided" => stride(512, 1_500_000),
        "brief" => return 7,
        "threads" => {
            let workers: Vec<_> = (0..3).map(|_| thread::spawn(|| stride(64, 1_000_000))).collect();
            for worker in workers {
                worker.join().unwrap();
            }
        }
        "become another" => {
            stride(64, 500_000);
            let error = Command::new("sh").args(["-c", "exit 5"]).exec();
            panic!("{error}");
        }
        "child" => {
            stride(64, 200_000);
            assert!(Command::new("true").status().unwrap().success());
            stride(64, 200_000);
        }
        // SAFETY: only ends the process.
        "killed" => unsafe {
            stride(64, 1_000_000);
            raise(11);
        },
        // SAFETY: sets a handler that does nothing, and sends its signal.
        "signals" => unsafe {
            signal(10, ignore as *const () as usize);
            for _ in 0..50 {
                stride(64, 10_000);
                raise(10);
            }
        },
        "spin" => stride(512, usize::MAX),
        "many threads" | "many threads that stay" => {
            let together = Arc::new(Barrier::new(40 + usize::from(name != "many threads")));
            let worker = |_| {
                let together = Arc::clone(&together);
                thread::spawn(move || together.wait())
            };
            let workers: Vec<_> = (0..40).map(worker).collect();
            for worker in workers {
                worker.join().unwrap();
            }
        }
        "observe a command" => return crate::children::observe(),
        "observer for ever" => crate::forbidden::observe_for_ever(),
        "sleep" => thread::sleep(std::time::Duration::from_secs(1000)),
        other => match (other.strip_prefix("despite "), other.strip_prefix("followed ")) {
            (Some(cause), _) => crate::forbidden::observe_despite(cause),
            (_, Some(name)) => crate::forbidden::follow(name).unwrap(),
            _ => panic!("no target {other:?}"),
        },
    }
    0
}
