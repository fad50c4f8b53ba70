//! Programs translated by the `dbi` backend against their native runs, and its counts against single-stepping, valgrind and
//! programs whose accesses are known.
//!
//! Skipped, with a printed reason, where programs cannot be translated or traced, or a program is not installed.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../cachegrind/mod.rs"]
#[allow(dead_code)] // other tests use the rest
mod cachegrind;
mod children;
mod counts;
mod cpu;
mod fetches;
mod lives;
mod operands;
mod programs;
mod run;
mod sequences;
mod threads;

#[test]
#[cfg(feature = "laws")]
fn keeps_the_laws_of_samplers() {
    use reuse_sampler::dbi::{DbiOptions, DbiSampler};

    // The second executes another program: the plan for the window that ends there is for the first of that program.
    for command in [&["true"][..], &["sh", "-c", "exec true"]] {
        let options = DbiOptions::windows_of(20_000);
        reuse_sampler::laws::sampler(|| DbiSampler::spawn(command[0], &command[1..], &options)).unwrap();
    }
}
