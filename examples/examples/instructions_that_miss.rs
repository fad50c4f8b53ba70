//! Which instructions miss? Samples know where they began and ended, and a fitted model judges each of them.

use std::error::Error;

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, CacheLines, CacheModel, HotSpots, LineSize, ReusePlan, ReuseProfile, SampleGap, Sampler,
    WindowPlan,
};
use statstack::StatStack;

/// Three instructions: a counter, a table of 200 lines, and a scan of 100,000 lines.
fn program() -> impl Iterator<Item = Event> {
    (0..1_000_000_u64)
        .flat_map(|i| {
            let table = 0x10_0000 + 64 * (i.wrapping_mul(0x9e37_79b9) % 200);
            let scan = 0x1000_0000 + 64 * (i % 100_000);
            [
                Access::store(0x1000, 8).at(0x40_0010),
                Access::load(table, 8).at(0x40_0020),
                Access::load(scan, 8).at(0x40_0030),
            ]
        })
        .map(Event::Access)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = ReplayOptions::windows_of(WindowLength::Accesses(500_000));
    let mut sampler = ReplaySampler::new(program(), options)?;
    let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(100.0)?));
    let mut profile = ReuseProfile::new(LineSize::B64);
    let mut spots = HotSpots::new();
    while let Some(window) = sampler.next_window(&plan)? {
        profile.record_window(&window)?;
        spots.add(&window, |site| site.pc)?;
    }

    let model = StatStack::fit(&profile)?;
    let cache = CacheLines(512); // 32 KiB
    println!("miss ratio in 32 KiB: {:.3}", model.miss_ratio(cache));
    println!("{:>12}  {:>10}  {:>10}  {:>10}", "instruction", "accesses", "misses", "miss ratio");
    for spot in spots.rank(&model.at(cache)) {
        println!(
            "{:>#12x}  {:>8.1} %  {:>8.1} %  {:>8.1} %",
            spot.site,
            100.0 * spot.accesses,
            100.0 * spot.misses,
            100.0 * spot.miss_ratio
        );
    }
    Ok(())
}
