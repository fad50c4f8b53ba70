//! Operands against valgrind's cachegrind, on real programs and on compiled kernels.

use std::path::Path;

use reuse_sampler::dbi::{DbiOptions, DbiSampler};
use reuse_sampler::{ReusePlan, Sampler, TargetExit, WindowPlan};

use crate::cachegrind::{
    ENVIRONMENT, SHARE, START, cachegrinds, compiled_kernels, kernels, preloaded, programs,
};
use crate::run::folder;

/// To run a program in `folder` as it runs under valgrind.
pub fn as_under_valgrind(folder: &Path) -> DbiOptions {
    let mut options = DbiOptions::default();
    for (name, value) in ENVIRONMENT {
        options = options.env(name, value);
    }
    if let Some(library) = preloaded() {
        options = options.env("LD_PRELOAD", library);
    }
    (options.directory, options.output_to_stderr) = (Some(folder.to_owned()), true);
    options
}

/// What the translated program makes, in windows that see every access.
fn ours(command: &[&str], folder: &Path) -> f64 {
    operands(command, &as_under_valgrind(folder))
}

/// The same, with settings.
pub fn operands(command: &[&str], options: &DbiOptions) -> f64 {
    let mut sampler = DbiSampler::spawn(command[0], &command[1..], options).unwrap();
    let mut accesses = 0;
    while let Some(window) = sampler.next_window(&WindowPlan::new(ReusePlan::Every)).unwrap() {
        accesses += window.accesses.get().unwrap();
    }
    assert_eq!(sampler.exit_status(), Some(TargetExit::Code(0)), "{command:?}");
    accesses as f64 * sampler.operands_per_access().unwrap()
}

fn compare(commands: &[(&str, Vec<&str>)], folder: &Path) {
    println!("{:14} {:>12} {:>12}", "", "cachegrind", "operands");
    let mut wrong = Vec::new();
    for (name, command) in commands {
        let Some(theirs) = cachegrinds(command, folder) else {
            eprintln!("skipped: no valgrind");
            return;
        };
        let (ours, theirs) = (ours(command, folder), theirs.references as f64);
        println!("{name:14} {theirs:12.0} {ours:12.0} {:+7.3}%", 100.0 * (ours - theirs) / theirs);
        if (ours - theirs).abs() > SHARE * theirs + START {
            wrong.push(*name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn operands_of_compiled_kernels_are_cachegrinds() {
    let folder = folder("kernels");
    let Some(compiled) = compiled_kernels(&folder) else { return };
    let [sse, avx2] = compiled.each_ref().map(String::as_str);
    compare(&kernels(sse, avx2), &folder);
    // Locked or not, an operand is one.
    let [plain, locked] = ["increments", "locked"].map(|kernel| ours(&[sse, kernel], &folder));
    assert!((plain - locked).abs() < 1_000.0, "{plain} {locked}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn operands_of_real_programs_are_cachegrinds() {
    let folder = folder("real");
    let programs = programs(&folder);
    let commands =
        programs.iter().map(|(name, command)| (*name, command.iter().map(String::as_str).collect()));
    compare(&commands.collect::<Vec<_>>(), &folder);
    std::fs::remove_dir_all(&folder).unwrap();
}
