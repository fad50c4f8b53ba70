//! The processor that a program is shown, by gcc's own questions. What libraries make of the answers is compared with what
//! they make of valgrind's by the tests of operands.

use std::fs;

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{Cpu, ReusePlan, SampleGap, SamplerError, TargetExit};

use crate::run::{compile, folder, run};

/// The levels that this processor can be shown as.
fn levels() -> impl Iterator<Item = Cpu> {
    Cpu::ALL.into_iter().filter(|&cpu| {
        let mut options = DbiOptions::default();
        options.cpu = cpu;
        match DbiSampler::spawn("true", [""; 0], &options) {
            Ok(_) => true,
            Err(SamplerError::Unsupported { missing, .. }) => {
                println!("skipped: {missing}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    })
}

#[test]
fn programs_and_their_children_see_the_level_that_they_are_shown() {
    let folder = folder("cpu");
    let Some(program) = compile(&folder, include_str!("../support/cpu.c"), &["-O1"]) else { return };
    let shown = folder.join("shown");
    let sparse = ReusePlan::Sparse(SampleGap::mean(100.0).unwrap());
    let plans = [ReusePlan::Off, ReusePlan::Every, sparse, ReusePlan::Watch];
    let mut counts = Vec::new();
    for cpu in levels().filter(|&cpu| cpu != Cpu::Host) {
        let mut options = DbiOptions::windows_of(2_000);
        options.cpu = cpu;
        let done = run(&[&program, shown.to_str().unwrap()], &options, |window| plans[window % 4]);
        assert_eq!(done.exit, Some(TargetExit::Code(0)));
        let seen = fs::read_to_string(&shown).unwrap();
        fs::remove_file(&shown).unwrap();
        let has = [Cpu::X86_64V2, Cpu::X86_64V3, Cpu::X86_64V4]
            .map(|level| u8::from(level <= cpu).to_string())
            .concat();
        assert_eq!(seen, format!("{has} 1 237 0\n").repeat(2), "{cpu}");
        counts.push(done.instructions());
    }
    assert!(counts.len() >= 2 && counts.iter().all(|&count| count > 0), "{counts:?}");
    fs::remove_dir_all(&folder).unwrap();
}
