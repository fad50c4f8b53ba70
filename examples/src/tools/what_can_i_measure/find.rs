//! Tries what the machine has.

use std::process::{Command, Stdio};

use reuse_sampler::auto::{self, AutoOptions, Choice};
use reuse_sampler::perf::{self, Capabilities};
use reuse_sampler::{ReusePlan, Sampler, SamplerError, WindowPlan};

use super::report::{Counters, Report, Trial, Valgrind};

/// The program that is observed: every system has it, and it does little.
const PROGRAM: &str = "true";

/// Tries everything. Takes a second or two.
pub fn report(seed: u64) -> Report {
    Report {
        system: std::env::consts::OS.to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        counters: counters(&perf::probe()),
        emulator: trial(Choice::Qemu, seed),
        translation: trial(Choice::Dbi, seed),
        chosen: trial(Choice::Best, seed),
        valgrind: valgrind(),
        self_check: None,
    }
}

fn counters(found: &Capabilities) -> Counters {
    let why_not = |result: &Result<(), String>| result.as_ref().err().cloned();
    Counters {
        processor: found.processor.name.to_owned(),
        kernel: found.kernel.clone(),
        paranoid: found.paranoid,
        enough: found.has_counters(),
        no_stops: why_not(&found.stops),
        no_instructions: why_not(&found.instructions),
        no_accesses: why_not(&found.accesses),
        no_precise: why_not(&found.precise),
        no_profile: why_not(&found.profiles),
        no_branches: why_not(&found.branches),
        watchpoints: found.registers,
        watched_bytes: match (found.registers, found.whole_line) {
            (0, _) => 0,
            (_, true) => 64,
            (_, false) => 8,
        },
        decodes: found.decodes,
        advice: found.advice.clone(),
        text: found.to_string(),
    }
}

/// Observes [`PROGRAM`] to its end, each of its accesses a sample.
fn trial(choice: Choice, seed: u64) -> Trial {
    observe(choice, seed).unwrap_or_else(|error| Trial {
        missing: Some(match error {
            SamplerError::Unsupported { missing, .. } => missing,
            other => other.to_string(),
        }),
        ..Trial::default()
    })
}

fn observe(choice: Choice, seed: u64) -> Result<Trial, SamplerError> {
    let mut options = AutoOptions::default();
    options.seed = seed;
    options.output_to_stderr = true;
    options.backend = choice;
    let mut sampler = auto::spawn(PROGRAM, [""; 0], &options)?;
    let mut trial = Trial { backend: Some(sampler.backend()), ..Trial::default() };
    let plan = WindowPlan::new(ReusePlan::Every);
    while let Some(window) = sampler.next_window(&plan)? {
        trial.instructions += window.instructions;
        trial.accesses += window.accesses.get().unwrap_or(0);
    }
    trial.warnings = sampler.warnings().to_vec();
    Ok(trial)
}

fn valgrind() -> Valgrind {
    let answer =
        Command::new("valgrind").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match answer {
        Ok(answer) if answer.status.success() => Valgrind {
            version: Some(String::from_utf8_lossy(&answer.stdout).trim().to_owned()),
            missing: None,
        },
        Ok(answer) => {
            Valgrind { version: None, missing: Some(format!("it does not run: {}", answer.status)) }
        }
        Err(error) => Valgrind {
            version: None,
            missing: Some(format!("{error}: install it (Debian, Ubuntu: apt install valgrind)")),
        },
    }
}
