//! The programs that the tests observe: this very test program, which a variable in its environment turns into
//! one of them before the test harness begins.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use std::{env, process, thread};

/// The variable.
pub const TARGET: &str = "REUSE_SAMPLER_TEST_TARGET";

/// Another one, which turns this program into one that observes the target it names.
pub const DRIVEN: &str = "REUSE_SAMPLER_TEST_DRIVES";

/// Lines that [`stride`] walks over.
pub const LINES: usize = 512;
/// How often `strided` does.
pub const PASSES: usize = 2_000;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn close(descriptor: i32) -> i32;
    fn raise(signal: i32) -> i32;
}

#[used]
#[unsafe(link_section = ".init_array")]
static BE_A_TARGET: extern "C" fn() = {
    extern "C" fn be_a_target() {
        if let Ok(name) = env::var(TARGET) {
            let status = run(&name);
            std::io::stdout().flush().unwrap();
            process::exit(status);
        }
        if let Ok(target) = env::var(DRIVEN) {
            crate::run::drive(&target);
            process::exit(0);
        }
    }
    be_a_target
};

/// Reads one byte of each line of a buffer, line after line, `passes` times.
#[inline(never)]
fn stride(passes: usize) {
    let buffer = vec![0_u8; LINES * 64];
    for _ in 0..passes {
        for line in 0..LINES {
            // SAFETY: within the buffer.
            unsafe { buffer.as_ptr().add(line * 64).read_volatile() };
        }
    }
    black_box(&buffer);
}

/// Stores of [`straight`], instructions of [`STORE`] bytes each, one after the other.
#[cfg(target_arch = "x86_64")]
pub const STORES: usize = 300;
#[cfg(target_arch = "x86_64")]
pub const STORE: u64 = 11;

/// A block that is longer than any compiler would make it, `passes` times.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn straight(passes: usize) {
    let mut buffer = [0_u64; 64];
    for _ in 0..passes {
        // SAFETY: stores within the buffer.
        unsafe {
            std::arch::asm!(".rept 300", "mov qword ptr [{0} + 0x80], 0x1234567", ".endr", in(reg) buffer.as_mut_ptr());
        }
    }
    black_box(&buffer);
}

fn run(name: &str) -> i32 {
    match name {
        "strided" => stride(PASSES),
        #[cfg(target_arch = "x86_64")]
        "straight" => straight(PASSES),
        "brief" => {
            println!("hello");
            return 7;
        }
        "threads" => {
            let workers: Vec<_> = (0..4).map(|_| thread::spawn(|| stride(PASSES))).collect();
            for worker in workers {
                worker.join().unwrap();
            }
        }
        // The other threads are in the middle of something when the process ends.
        "threads left running" => {
            for _ in 0..3 {
                thread::spawn(|| stride(usize::MAX));
            }
            stride(PASSES);
            return 4;
        }
        "many threads" => {
            for _ in 0..40 {
                thread::spawn(|| stride(5)).join().unwrap();
            }
        }
        // SAFETY: the child does nothing but count, and ends without running anything of the harness.
        "fork" => unsafe {
            let child = fork();
            stride(PASSES);
            if child == 0 {
                _exit(3);
            }
            let mut status = 0;
            waitpid(child, &raw mut status, 0);
            return status >> 8;
        },
        "run another" => {
            stride(PASSES);
            assert!(Command::new("true").status().unwrap().success());
            stride(PASSES);
        }
        "become another" => {
            stride(PASSES);
            let error = Command::new("sh").args(["-c", "exit 5"]).exec();
            panic!("{error}");
        }
        "fail to become another" => {
            stride(PASSES);
            drop(Command::new("/").exec());
            stride(PASSES);
        }
        // SAFETY: only ends the process.
        "killed" => unsafe {
            stride(PASSES);
            raise(11);
        },
        // SAFETY: nothing owns these descriptors.
        "close everything" => unsafe {
            for descriptor in 3..1024 {
                close(descriptor);
            }
            let path = env::var("REUSE_SAMPLER_TEST_FILE").unwrap();
            let file = std::fs::File::create(path).unwrap();
            stride(PASSES);
            assert_eq!(file.metadata().unwrap().len(), 0, "somebody wrote to a file of ours");
        },
        "echo" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).unwrap();
            stride(PASSES);
            print!("{text}");
            eprint!("{}", text.to_uppercase());
        }
        "sleep" => {
            stride(PASSES);
            thread::sleep(Duration::from_secs(1000));
        }
        "spin" => stride(usize::MAX),
        // vmovaps zmm0, [rax]
        // SAFETY: reads 64 bytes of the buffer, if anything, and nothing uses the register.
        #[cfg(target_arch = "x86_64")]
        "avx-512" => unsafe {
            #[repr(align(64))]
            struct Line([u8; 64]);
            let line = Line([0; 64]);
            stride(PASSES);
            std::arch::asm!(".byte 0x62, 0xf1, 0x7c, 0x48, 0x28, 0x00", in("rax") line.0.as_ptr());
        },
        // Four processes that would go on for ever: this one, a forked child, one whose parent has ended, and another
        // program. Their numbers are on standard output.
        // SAFETY: children only count and sleep.
        "tree" => unsafe {
            let forked = fork();
            if forked == 0 {
                stride(usize::MAX);
            }
            let between = fork();
            if between == 0 {
                let orphan = fork();
                if orphan == 0 {
                    loop {
                        thread::sleep(Duration::from_millis(10));
                    }
                }
                println!("{orphan}");
                _exit(0);
            }
            waitpid(between, std::ptr::null_mut(), 0);
            #[allow(clippy::zombie_processes)] // it outlives this process unless the observer ends it
            let other = Command::new("sleep").arg("1000").spawn().unwrap().id();
            println!("{forked}\n{other}\n{}", process::id());
            std::io::stdout().flush().unwrap();
            stride(usize::MAX);
        },
        // Another program in place of this one, which goes on for ever.
        "become a sleeper" => {
            println!("{}", process::id());
            std::io::stdout().flush().unwrap();
            let error = Command::new("sleep").arg("1000").exec();
            panic!("{error}");
        }
        other => panic!("no target {other:?}"),
    }
    0
}
