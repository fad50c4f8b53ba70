//! The processor that a program is shown: by gcc's own questions, and by what libraries make of the answers.

use std::fs;

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{Children, Cpu, ReusePlan, SampleGap, SamplerError, TargetExit};

use crate::cachegrind::{SHARE, START, cachegrinds_with, in_path, preloaded};
use crate::run::{compile, folder, lines, run};

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

/// Neither run has anything in its environment that chooses functions: valgrind shows a processor of the third level.
#[test]
fn libraries_choose_the_functions_that_they_choose_under_valgrind() {
    let folder = folder("chosen");
    let lines = lines(&folder);
    let programs = [("openssl", ["dgst", "-sha512", &lines]), ("sort", ["--parallel=1", "-s", &lines])];
    let mut wrong = Vec::new();
    for (name, arguments) in programs {
        let Some(program) = in_path(name) else { continue };
        let command = [&[program.to_str().unwrap()], &arguments[..]].concat();
        let Some(theirs) = cachegrinds_with(&[("LC_ALL", "C")], &command, &folder) else { return };
        let operands = |cpu| {
            let mut options = DbiOptions::default().env("LC_ALL", "C");
            if let Some(library) = preloaded() {
                options = options.env("LD_PRELOAD", library);
            }
            (options.cpu, options.children, options.output_to_stderr) = (cpu, Children::Ignore, true);
            crate::operands::operands(&command, &options)
        };
        let close =
            |ours: f64| (ours - theirs.references as f64).abs() <= SHARE * theirs.references as f64 + START;
        for cpu in levels() {
            let ours = operands(cpu);
            println!("{name} {cpu}: {ours} for {}", theirs.references);
            // OpenSSL has other functions for the lowest level, or the test would say nothing.
            let told_apart = name != "openssl" || cpu != Cpu::X86_64 || !close(ours);
            if cpu == Cpu::X86_64V3 && !close(ours) || !told_apart {
                wrong.push((name, cpu));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    fs::remove_dir_all(&folder).unwrap();
}
