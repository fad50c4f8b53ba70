//! Phase-guided profiling: only the first windows of each phase are profiled, and stand for the others.
//!
//! Memory accesses cost far more to observe than the code that runs. The phase of the window just seen, and the
//! phase predicted for the next, decide what to ask of the next window.

use std::collections::BTreeMap;
use std::error::Error;

use phase_detect::{Action, CodeVector, Guide, PhaseId};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, CacheLines, CacheModel, LineSize, OpenSamples, ReusePlan, ReuseProfile, Sampler, WindowPlan,
};
use statstack::StatStack;

/// A program of two loops: the one walks over 100 lines, the other over 10,000.
fn program() -> impl Iterator<Item = Event> {
    (0..3_000_000_u64).flat_map(|i| {
        let (code, lines) = if i / 300_000 % 2 == 0 { (0x1000, 100) } else { (0x2000, 10_000) };
        let block = Event::Block { address: code, instructions: 4 };
        [block, Event::Access(Access::load(64 * (i % lines), 8).at(code))]
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = ReplayOptions::windows_of(WindowLength::Instructions(100_000));
    let mut sampler = ReplaySampler::new(program(), options)?;
    let mut code = CodeVector::new(128, 1)?;
    let mut guide = Guide::default();
    let mut open = OpenSamples::default();
    let mut profiled = 0;
    let mut profiles: BTreeMap<PhaseId, ReuseProfile> = BTreeMap::new();
    let mut phase_of = Vec::new(); // of each window, and how many windows it represents

    let mut plan = WindowPlan::new(ReusePlan::Every); // nothing is known yet
    while let Some(window) = sampler.next_window(&plan)? {
        code.extend(window.code_weights());
        open.take(&window)?;
        let seen = guide.observe(0, Some(&code.finish()?), |ago| open.share(window.thread, ago))?;
        phase_of.push((seen.phase, seen.represents));
        profiled += u32::from(seen.profiled);
        // A sample belongs to the phase of the window that started it, which may have been an earlier one.
        for (started_in, outcome, count, weight) in window.outcomes() {
            let Some(&(phase, represents)) = phase_of.get(started_in.0 as usize) else { continue };
            let profile = profiles.entry(phase).or_insert_with(|| ReuseProfile::new(LineSize::B64));
            profile.record_many(outcome, count, (weight as f64 * represents).round() as u64);
        }
        plan = WindowPlan::new(match seen.next {
            Action::Profile => ReusePlan::Every,
            Action::Follow => ReusePlan::Watch,
            Action::LeaveAlone => ReusePlan::Off,
        });
    }

    println!("{profiled} of {} windows were profiled", phase_of.len());
    for (phase, profile) in &profiles {
        let windows = phase_of.iter().filter(|of| of.0 == *phase).count();
        let model = StatStack::fit(profile)?;
        let [small, large] = [512, 32_768].map(|lines| model.miss_ratio(CacheLines(lines)));
        println!("{phase}: {windows} windows, miss ratio {small:.3} in 32 KiB and {large:.3} in 2 MiB");
    }
    Ok(())
}
