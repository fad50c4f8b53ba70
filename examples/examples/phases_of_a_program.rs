//! The phases of an unmodified program: which code it spends each of its phases in.
//!
//! ```text
//! cargo run --release --example phases_of_a_program -- xz --keep --stdout Cargo.lock > /dev/null
//! ```
//!
//! It needs hardware counters, x86-64 Linux or qemu-user. Without a program, it runs on a made-up one.

use std::collections::BTreeMap;
use std::error::Error;

use phase_detect::{CodeVector, Detector, PhaseId};
use reuse_sampler::auto::{self, AutoOptions};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{Sampler, WindowPlan};

/// A program of two loops that take turns.
fn made_up() -> impl Iterator<Item = Event> {
    (0..40_u64).flat_map(|round| {
        let base = if round % 4 == 3 { 0x40_2000 } else { 0x40_1000 };
        let block = move |i: u64| Event::Block { address: base + 16 * (i % 5), instructions: 100 };
        (0..1_000_u64).map(block)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut sampler: Box<dyn Sampler> = if let Some((program, arguments)) = command.split_first() {
        let mut options = AutoOptions::default();
        options.window = 1_000_000;
        Box::new(auto::spawn(program, arguments, &options)?)
    } else {
        let options = ReplayOptions::windows_of(WindowLength::Instructions(100_000));
        Box::new(ReplaySampler::new(made_up(), options)?)
    };

    let mut code = CodeVector::new(128, 1)?;
    let mut detector = Detector::default();
    let mut hottest: BTreeMap<PhaseId, BTreeMap<u64, u64>> = BTreeMap::new();
    let (mut windows, mut changes) = (0, 0);
    // Which code runs is enough: no memory access is observed.
    while let Some(window) = sampler.next_window(&WindowPlan::count_only())? {
        code.extend(window.code_weights());
        let Ok(signature) = code.finish() else { continue }; // a window that executed nothing
        let seen = detector.observe(u64::from(window.thread.0), &signature)?;
        windows += 1;
        changes += u64::from(seen.changed);
        let Some(phase) = seen.phase else { continue };
        for (block, instructions) in window.code {
            *hottest.entry(phase).or_default().entry(block).or_default() += instructions;
        }
    }
    eprintln!("{windows} windows, {} phases, {changes} changes", hottest.len());
    for (phase, blocks) in hottest {
        let all: u64 = blocks.values().sum();
        let Some((block, most)) = blocks.iter().max_by_key(|(_, instructions)| **instructions) else {
            continue;
        };
        eprintln!("{phase}: {all} instructions, {} % of them at {block:#x}", 100 * most / all.max(1));
    }
    Ok(())
}
