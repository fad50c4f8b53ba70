//! A miss ratio curve that follows a running service: every so many accesses a new one, in bounded memory.
//!
//! A curve is made of the last few windows, so that it is smooth while the service is steady and follows where it changes.

use std::error::Error;

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, CacheLines, CacheModel, LineSize, ReusePlan, ReuseProfile, SampleGap, Sampler, WindowPlan,
};
use statstack::StatStack;

/// Windows that a curve is made of.
const REMEMBERED: usize = 4;

/// A service whose working set grows from 1,000 to 8,000 lines.
fn service() -> impl Iterator<Item = Event> {
    (0..4_000_000_u64).map(|i| {
        let lines = 1_000 << (i / 1_000_000);
        Event::Access(Access::load(64 * (i.wrapping_mul(0x9e37_79b9) % lines), 8))
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = ReplayOptions::windows_of(WindowLength::Accesses(100_000));
    let mut sampler = ReplaySampler::new(service(), options)?;
    let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(100.0)?)); // one access in 100
    let sizes = [512, 1_024, 2_048, 4_096, 8_192].map(CacheLines);

    let mut recent: Vec<ReuseProfile> = Vec::new();
    let mut windows = 0;
    println!("accesses  miss ratio in {:?} lines", sizes.map(|size| size.0));
    while let Some(window) = sampler.next_window(&plan)? {
        let mut profile = ReuseProfile::new(LineSize::B64);
        profile.record_window(&window)?;
        if recent.len() == REMEMBERED {
            recent.remove(0);
        }
        recent.push(profile);
        windows += 1;
        if windows % 5 != 0 {
            continue;
        }
        let mut all = ReuseProfile::new(LineSize::B64);
        for profile in &recent {
            all.merge(profile)?;
        }
        let curve = StatStack::fit(&all)?.curve(&sizes);
        let ratios: Vec<String> = curve.points.iter().map(|(_, ratio)| format!("{ratio:.2}")).collect();
        println!("{:>7}k  {}", windows * 100, ratios.join("  "));
    }
    Ok(())
}
