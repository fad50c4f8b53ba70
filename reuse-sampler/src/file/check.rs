//! What a phase profile must hold, whoever wrote it.

use std::collections::{HashMap, HashSet};

use super::{FileError, PhaseProfile, ProfiledPhase};
use crate::{Clock, LineSize};

/// By how much rounding may carry a share above 1.
const ROUNDING: f64 = 1e-6;

impl PhaseProfile {
    /// Checks what reading and writing check: whoever fills a profile from elsewhere learns of mistakes at once.
    ///
    /// # Errors
    /// [`FileError::Inconsistent`] for profiles at another line size or of another scope than the file's, or of several
    /// clocks; phases of one name; windows and loans of phases that are not there, loans of phases without samples; more
    /// windows profiled than there are, samples though none was; shares or accesses per instruction that are no such number;
    /// windows of one number; more instructions than 64 bits count; and, unless no window is listed, a phase of other windows
    /// or instructions than are listed of it.
    pub fn check(&self) -> Result<(), FileError> {
        if LineSize::new(self.line_size).is_err() {
            return broken("line_size", &self.line_size, "give a power of two from 1 byte to 1 MiB");
        }
        let mut phases = HashMap::new();
        for (place, phase) in self.phases.iter().enumerate() {
            if phases.insert(phase.phase.as_str(), phase).is_some() {
                let path = format!("phases[{place}].phase");
                return broken(
                    path,
                    &format!("{:?}", phase.phase),
                    "another phase has this name: give each its own",
                );
            }
        }
        let sampled = |phase: &&ProfiledPhase| !phase.profile.is_empty();
        let clock = self.phases.iter().find(sampled).map(|phase| phase.profile.clock());
        let mut instructions = 0_u64;
        for phase in &self.phases {
            self.check_phase(phase, clock.unwrap_or_default(), &phases)?;
            let Some(sum) = instructions.checked_add(phase.instructions) else {
                return broken(
                    phase.at("instructions"),
                    &phase.instructions,
                    "all phases together have 2^64 or more",
                );
            };
            instructions = sum;
        }
        self.check_windows(&phases)
    }

    fn check_phase(
        &self,
        phase: &ProfiledPhase,
        clock: Clock,
        phases: &HashMap<&str, &ProfiledPhase>,
    ) -> Result<(), FileError> {
        let profile = &phase.profile;
        if profile.line_size().bytes() != self.line_size {
            let limit = format!("the file's is {}: record all phases at one", self.line_size);
            return broken(phase.at("profile.line_size"), &profile.line_size().bytes(), limit);
        }
        if profile.scope() != self.scope {
            let limit = format!("the file's is {:?}: record all phases in one", self.scope.name());
            return broken(phase.at("profile.scope"), &format!("{:?}", profile.scope().name()), limit);
        }
        if profile.clock() != clock && !profile.is_empty() {
            let limit = format!("other phases count {clock}: record all phases by one clock");
            return broken(phase.at("profile.clock"), &profile.clock(), limit);
        }
        for (name, share) in &phase.code {
            if !(0.0..=1.0 + ROUNDING).contains(share) {
                return broken(phase.at(&format!("code[{name:?}]")), &share, "give a share from 0 to 1");
            }
        }
        let shares: f64 = phase.code.iter().map(|(_, share)| share).sum();
        if shares > 1.0 + ROUNDING {
            return broken(
                phase.at("code"),
                &format!("shares that add up to {shares}"),
                "give shares of one whole, 1",
            );
        }
        if phase.profiled > phase.windows {
            let limit = format!("the phase has {} windows: count no window twice", phase.windows);
            return broken(phase.at("profiled"), &phase.profiled, limit);
        }
        if phase.profiled == 0 && phase.windows > 0 && !profile.is_empty() {
            let limit = format!("{} samples were started in them: count the windows", profile.samples());
            return broken(phase.at("profiled"), &0, limit);
        }
        // More would be infinitely many accesses of 2^64 instructions.
        if phase.accesses_per_instruction.is_some_and(|ratio| !(0.0..=u64::MAX as f64).contains(&ratio)) {
            let ratio = phase.accesses_per_instruction.unwrap_or_default();
            return broken(
                phase.at("accesses_per_instruction"),
                &ratio,
                "give a number from 0 to 2^64, or null",
            );
        }
        let Some(lender) = &phase.borrows_from else { return Ok(()) };
        let problem = match phases.get(lender.as_str()) {
            None => "the file has no such phase",
            Some(_) if *lender == phase.phase => "a phase cannot borrow from itself",
            Some(lender) if lender.profile.is_empty() => "that phase has no samples to lend",
            Some(_) => return Ok(()),
        };
        broken(
            phase.at("borrows_from"),
            &format!("{lender:?}"),
            format!("{problem}; name one with samples, or null"),
        )
    }

    /// That windows are of these phases, and as many and as long as the phases say.
    fn check_windows(&self, phases: &HashMap<&str, &ProfiledPhase>) -> Result<(), FileError> {
        if self.windows.is_empty() {
            return Ok(());
        }
        let mut numbers = HashSet::new();
        let mut listed: HashMap<&str, (u64, u64)> = HashMap::new();
        let mut instructions = 0_u64;
        for (place, window) in self.windows.iter().enumerate() {
            let at = |key: &str| format!("windows[{place}].{key}");
            if !numbers.insert(window.window) {
                return broken(
                    at("window"),
                    &window.window,
                    "another window has this number: give each its own",
                );
            }
            if !phases.contains_key(window.phase.as_str()) {
                let value = format!("{:?}", window.phase);
                return broken(at("phase"), &value, "the file has no such phase: list all phases");
            }
            let Some(sum) = instructions.checked_add(window.instructions) else {
                return broken(
                    at("instructions"),
                    &window.instructions,
                    "all windows together have 2^64 or more",
                );
            };
            instructions = sum;
            let (windows, instructions) = listed.entry(&window.phase).or_default();
            (*windows, *instructions) = (*windows + 1, *instructions + window.instructions);
        }
        for phase in &self.phases {
            let (windows, instructions) = listed.get(phase.phase.as_str()).copied().unwrap_or_default();
            if phase.windows != windows {
                let limit = format!("{windows} of its windows are listed: list all windows, or none");
                return broken(phase.at("windows"), &phase.windows, limit);
            }
            // Those of each window may be rounded.
            if phase.instructions > 0 && phase.instructions.abs_diff(instructions) > windows {
                let limit =
                    format!("its windows have {instructions}: give their sum, or 0 where none are counted");
                return broken(phase.at("instructions"), &phase.instructions, limit);
            }
        }
        Ok(())
    }
}

impl ProfiledPhase {
    /// The path of this phase's `key` in the file.
    fn at(&self, key: &str) -> String {
        format!("phases[{:?}].{key}", self.phase)
    }
}

fn broken<T>(
    path: impl Into<String>,
    value: &dyn ToString,
    limit: impl Into<String>,
) -> Result<T, FileError> {
    Err(FileError::Inconsistent { path: path.into(), value: value.to_string(), limit: limit.into() })
}
