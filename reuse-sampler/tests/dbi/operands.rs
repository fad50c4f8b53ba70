//! Operands and misses against valgrind's cachegrind, on real programs, hostile ones and compiled kernels.

use std::path::Path;

use reuse_sampler::dbi::{DbiOptions, DbiTrace};
use reuse_sampler::{Children, Cpu};

use crate::cachegrind::{
    CPU, Counts, SHARE, START, compare, compare_kernels, environment, hostile, kernels, programs, words,
};
use crate::run::folder;

/// To run a program in `folder` as it runs under valgrind.
pub fn as_under_valgrind(folder: &Path) -> DbiOptions {
    let mut options = DbiOptions::default();
    (options.environment, options.directory) = (environment(), Some(folder.to_owned()));
    (options.cpu, options.children, options.output_to_stderr) = (CPU, Children::Ignore, true);
    options
}

fn ours(command: &[&str], options: &DbiOptions) -> Counts {
    let mut trace = DbiTrace::spawn(command[0], &command[1..], options).unwrap();
    Counts::of(&mut trace).ended(trace.operands(), trace.exit_status(), trace.warnings())
}

#[test]
fn operands_of_compiled_kernels_are_cachegrinds() {
    let folder = folder("kernels");
    let Some(kernels) = kernels(&folder) else { return };
    compare_kernels(&kernels, &folder, |command| ours(command, &as_under_valgrind(&folder)));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn operands_of_real_programs_are_cachegrinds() {
    let folder = folder("real");
    let programs = programs(&folder);
    let mut options = as_under_valgrind(&folder);
    compare(&programs, &folder, |command| ours(command, &options));
    // OpenSSL has other functions for the lowest level, or the table would not say that the level matters.
    if let Some((_, command)) = programs.iter().find(|(name, _)| *name == "openssl") {
        let shown = ours(&words(command), &options).references as f64;
        options.cpu = Cpu::X86_64;
        let lowest = ours(&words(command), &options).references as f64;
        assert!((lowest - shown).abs() > SHARE * shown + START, "{lowest} {shown}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn operands_of_hostile_programs_are_cachegrinds() {
    let folder = folder("hostile");
    let Some(commands) = hostile(&folder) else { return };
    compare(&commands, &folder, |command| ours(command, &as_under_valgrind(&folder)));
    std::fs::remove_dir_all(&folder).unwrap();
}
