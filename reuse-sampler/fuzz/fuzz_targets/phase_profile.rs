//! The phase profile: no panic, what is read is sound and survives being written, and its profiles add up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reuse_sampler::ReuseProfile;
use reuse_sampler::file::PhaseProfile;

#[path = "../json.rs"]
mod json;

fn check(profile: &ReuseProfile) {
    let distribution = profile.distribution();
    let mut mass = distribution.dangling() + distribution.unresolved();
    for part in distribution.masses() {
        assert!(part.low <= part.high && part.probability >= 0.0);
        mass += part.probability;
    }
    assert!(profile.is_empty() || (mass - 1.0).abs() < 1e-6, "probabilities add up to {mass}");
    let mut before = 1.0;
    for distance in [0, 1, 100, 1 << 20, u64::MAX] {
        let beyond = distribution.beyond(distance);
        assert!(
            (-1e-9..=before + 1e-9).contains(&beyond),
            "{beyond} of the reuses are longer than {distance}"
        );
        before = beyond;
    }
    for estimate in profile.stack_estimates() {
        assert!(estimate.mean >= 0.0 && estimate.mean.is_finite() && estimate.shortest <= estimate.longest);
    }
}

fuzz_target!(|input: &[u8]| {
    let Ok(read) = PhaseProfile::read(input) else { return };
    let mut written = Vec::new();
    read.write(&mut written).expect("what was read can be written");
    assert_eq!(PhaseProfile::read(&written[..]).expect("what was written can be read"), read);
    let mut sum: Option<ReuseProfile> = None;
    for phase in &read.phases {
        assert_eq!(phase.profile.line_size(), read.line_size());
        assert!(read.described_by(phase).is_none_or(|describing| !describing.profile.is_empty()));
        check(&phase.profile);
        let sum = sum.get_or_insert_with(|| phase.profile.clone());
        assert!(sum.clock() == phase.profile.clock() || sum.merge(&phase.profile).is_err());
        let _ = sum.merge(&phase.profile);
    }
    sum.iter().for_each(check);
    for name in read.section_names() {
        let _ = read.section::<Vec<f64>>(name);
    }
});
