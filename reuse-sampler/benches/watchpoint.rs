//! What a debug register costs on this machine: set to a line, touched, read and set again.
//!
//! `cargo bench -p reuse-sampler --features perf --bench watchpoint`. The first is the cycle itself; the second has the
//! touch before it that is only counted, the sample's own access, which takes the place of a step of the program.
#![allow(missing_docs, clippy::unwrap_used)]

#[cfg(target_os = "linux")]
fn main() {
    use criterion::Criterion;
    use reuse_sampler::perf::WatchCycle;

    let mut criterion = Criterion::default().configure_from_args();
    let mut cycle = match WatchCycle::new() {
        Ok(cycle) => cycle,
        Err(error) => return eprintln!("watchpoint: {error}"),
    };
    for (name, touches) in [("watchpoint/set_hit_read", 1), ("watchpoint/set_own_access_hit_read", 2)] {
        criterion.bench_function(name, |b| b.iter(|| assert!(cycle.run(touches).unwrap())));
    }
    criterion.final_summary();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("watchpoint: perf_event is Linux's");
}
