//! Proves the perf backend on a machine with counters: this program observes itself as several known programs and
//! holds what it finds against what they do.
//!
//! ```text
//! cargo run --release -p reuse-sampler --features perf,decode-x86 --example perf_proof \
//!     [-- [--skid INSTRUCTIONS] [--seed NUMBER] CHECK...]
//! ```
//!
//! `--skid` plays a processor that notices every overflow so many instructions late; `--seed` chooses other accesses.
//!
//! `.ci/emulated-counters` runs it on an emulated aarch64 machine, whose counters of instructions are exact and the same
//! on every run. There distances are instructions; on a machine that counts accesses they are accesses.

#[cfg(target_os = "linux")]
#[path = "perf_proof/mod.rs"]
mod proof;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    proof::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("perf_proof: perf_event is Linux's");
}
