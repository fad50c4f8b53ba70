//! Operands and misses against valgrind's cachegrind, on real programs, hostile ones and compiled kernels.

use std::path::Path;

use reuse_sampler::dbi::{DbiOptions, DbiTrace};
use reuse_sampler::{Children, TargetExit};

use crate::cachegrind::{CPU, Commands, Counts, ENVIRONMENT, compare, hostile, kernels, preloaded, programs};
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
    (options.cpu, options.children) = (CPU, Children::Ignore);
    (options.directory, options.output_to_stderr) = (Some(folder.to_owned()), true);
    options
}

fn ours(command: &[&str], folder: &Path) -> Counts {
    let mut trace = DbiTrace::spawn(command[0], &command[1..], &as_under_valgrind(folder)).unwrap();
    let mut counts = Counts::of(&mut trace);
    counts.references = trace.operands();
    counts.status = match trace.exit_status() {
        Some(TargetExit::Code(code)) => Some(code),
        _ => None,
    };
    counts.warnings = trace.warnings().to_vec();
    counts
}

fn agree(commands: &Commands, folder: &Path) {
    let wrong = compare(commands, folder, |command| ours(command, folder));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn operands_of_compiled_kernels_are_cachegrinds() {
    let folder = folder("kernels");
    let Some(kernels) = kernels(&folder) else { return };
    let (locked, kernels) = kernels.split_last().unwrap();
    agree(&kernels.to_vec(), &folder);
    // Locked or not, an operand is one.
    let references = |command: &[String]| {
        ours(&command.iter().map(String::as_str).collect::<Vec<_>>(), &folder).references
    };
    let plain = kernels.iter().find(|(name, _)| *name == "increments").unwrap();
    let [plain, locked] = [plain, locked].map(|(_, command)| references(command));
    assert!(plain.abs_diff(locked) < 1_000, "{plain} {locked}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn operands_of_real_programs_are_cachegrinds() {
    let folder = folder("real");
    agree(&programs(&folder), &folder);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn operands_of_hostile_programs_are_cachegrinds() {
    let folder = folder("hostile");
    let Some(commands) = hostile(&folder) else { return };
    agree(&commands, &folder);
    std::fs::remove_dir_all(&folder).unwrap();
}
