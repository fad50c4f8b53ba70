//! What a debug register costs on this machine: set to a line, touched, read and set again.
//!
//! `cargo bench -p reuse-sampler --features perf --bench watchpoint`. The first is the cycle itself; the second has the
//! touch before it that is only counted, the sample's own access, which takes the place of a step of the program; the third
//! has ten such, from which it computes what a trap alone costs. Then what a stop of the program costs it: with nothing done at
//! it, where an instruction is chosen that accesses nothing, and where one does.
#![allow(missing_docs, clippy::unwrap_used)]

#[cfg(target_os = "linux")]
fn main() {
    use criterion::Criterion;
    use reuse_sampler::perf::{StopCycle, StopWork, WatchCycle};

    let mut criterion = Criterion::default().configure_from_args();
    let mut cycle = match WatchCycle::new() {
        Ok(cycle) => cycle,
        Err(error) => return eprintln!("watchpoint: {error}"),
    };
    for (name, touches) in [
        ("watchpoint/set_hit_read", 1),
        ("watchpoint/set_own_access_hit_read", 2),
        ("watchpoint/set_ten_counted_hit_read", 11),
    ] {
        criterion.bench_function(name, |b| b.iter(|| assert!(cycle.run(touches).unwrap())));
    }
    match StopCycle::new() {
        Ok(mut cycle) => {
            for (name, work) in [
                ("stop/nothing", StopWork::Nothing),
                ("stop/chosen", StopWork::Chosen),
                ("stop/decoded", StopWork::Decoded),
            ] {
                criterion.bench_function(name, |b| b.iter_custom(|stops| cycle.run(stops, work).unwrap()));
            }
        }
        Err(error) => eprintln!("stop: {error}"),
    }
    criterion.final_summary();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("watchpoint: perf_event is Linux's");
}
