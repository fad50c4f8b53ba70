//! A phase profile goes through the models and into a co-run: no panic, and only ratios and CPIs that make sense.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};
use statcache::StatCache;
use statcc::{CoRun, LinearLatency, PrivateLevel, Program};
use statstack::StatStack;

#[path = "../../../reuse-sampler/fuzz/json.rs"]
mod json;

const SIZES: [u64; 6] = [1, 64, 512, 32_768, 1 << 30, u64::MAX];

/// Miss ratios are ratios, and a larger cache never misses more.
fn check(model: &impl CacheModel, bounds: impl Fn(CacheLines) -> (f64, f64)) {
    let mut before = 1.0;
    for size in SIZES.map(CacheLines) {
        let ratio = model.miss_ratio(size);
        assert!(
            (0.0..=before + 1e-6).contains(&ratio),
            "a miss ratio of {ratio} at {size:?}, {before} before"
        );
        let (low, high) = bounds(size);
        assert!(0.0 <= low && low <= high && high <= 1.0 + 1e-9, "between {low} and {high}");
        assert!(model.standard_error(size) >= 0.0);
        before = ratio;
    }
}

/// A program that runs beside others. `mix` is what the file says.
fn program(profile: &ReuseProfile, mix: f64) -> Option<Program> {
    let l1 = PrivateLevel { hit_ratio: 0.5, latency: 1.0 };
    let cpi = LinearLatency::new(1.0, mix, &[l1], 10.0, 130.0).ok()?;
    Program::in_order(profile, mix, cpi).ok()
}

fuzz_target!(|input: &[u8]| {
    let Ok(read) = PhaseProfile::read(input) else { return };
    let mut programs = Vec::new();
    for phase in &read.phases {
        if let Ok(model) = StatStack::fit(&phase.profile) {
            check(&model, |size| model.miss_ratio_bounds(size));
        }
        if let Ok(model) = StatCache::fit(&phase.profile) {
            check(&model, |size| model.miss_ratio_bounds(size));
        }
        programs.extend(program(&phase.profile, phase.accesses_per_instruction.unwrap_or(0.3)));
    }
    programs.truncate(3);
    let Ok(together) = CoRun::new(programs) else { return };
    let Ok(prediction) = together.solve(CacheLines(32_768), StatStack::fit) else { return };
    for share in prediction.solutions.iter().flat_map(|solution| &solution.programs) {
        assert!((0.0..=1.0 + 1e-9).contains(&share.miss_ratio) && share.cpi > 0.0, "{share:?}");
        assert!(share.lines >= 0.0 && share.misses_per_cycle >= 0.0, "{share:?}");
    }
});
