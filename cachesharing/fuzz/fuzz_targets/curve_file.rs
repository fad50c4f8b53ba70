//! The cache-curve file in both crates that read it: no panic, what is read survives being written, and a program made of
//! it takes a finite time beside itself.

#![no_main]

use cache_pirate::curve::CurveFile;
use cachesharing::file::ProgramFile;
use cachesharing::{
    CoRun, EvictionAge, LruPartition, Program, Random, Settings, SharedCache, SharingModel, Until,
};
use libfuzzer_sys::fuzz_target;

#[path = "../../../reuse-sampler/fuzz/json.rs"]
mod json;

fn beside_itself(program: &Program<u64>, model: impl SharingModel) {
    let cache = SharedCache::new(2 << 20).expect("a size").with_ways(16).expect("ways");
    let Ok(run) = CoRun::new(cache, &[program, program], model, Settings::default()) else { return };
    run.run(&[0.0, 0.3], Until::TargetEnds, |step| {
        assert!(
            step.time >= 0.0 && step.shares.iter().all(|share| share.bytes >= 0.0 && share.cpi > 0.0),
            "{step:?}"
        );
    });
    let slowdown = run.slowdown(&[0.0, 0.3]);
    assert!(slowdown.slowdown > 0.0 && slowdown.slowdown.is_finite(), "{slowdown:?}");
    assert!(slowdown.low <= slowdown.slowdown && slowdown.slowdown <= slowdown.high, "{slowdown:?}");
}

fuzz_target!(|input: &[u8]| {
    if let Ok(file) = serde_json::from_slice::<CurveFile>(input) {
        if let Ok(curve) = file.curve() {
            assert!(curve.points().is_sorted_by(|a, b| a.bytes < b.bytes));
            let written = curve.to_file(None).expect("what was read has miss ratios");
            let again = written.curve().expect("what was written can be read");
            assert_eq!(again.points().len(), curve.points().len());
        }
    }
    let Ok(file) = serde_json::from_slice::<ProgramFile>(input) else { return };
    for untrusted in [false, true] {
        let Ok(program) = file.clone().into_program("p", untrusted) else { continue };
        if let Ok(file) = ProgramFile::from_program(&program) {
            let written = serde_json::to_vec(&file).expect("what was read can be written");
            let again: ProgramFile = serde_json::from_slice(&written).expect("what was written is JSON");
            let again = again.into_program("p", false).expect("what was written can be read");
            assert_eq!((again.window_count(), again.units()), (program.window_count(), program.units()));
        }
        if program.window_count() <= 64 {
            beside_itself(&program, EvictionAge::default());
            beside_itself(&program, LruPartition::default());
            beside_itself(&program, Random::default());
        }
    }
});
