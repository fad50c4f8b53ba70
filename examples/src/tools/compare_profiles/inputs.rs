//! The runs to compare: read from files, or recorded now.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use reuse_sampler::file::{PhaseProfile, Scope};

use super::lending::Lending;
use crate::cli::Failure;
use crate::profiles;
use crate::report::StoredCurves;
use crate::tools::phase_guided_cache;

/// A stored run and its curves.
pub(super) struct Run {
    pub profile: PhaseProfile,
    pub curves: StoredCurves,
    pub lending: Lending,
}

impl Run {
    fn new(profile: PhaseProfile) -> Result<Self, String> {
        let curves = profile.section("miss_ratios").map_err(|error| error.to_string())?;
        let curves: StoredCurves =
            curves.ok_or("has no section miss_ratios: record it with phase_guided_cache --out DIR")?;
        if curves.bytes.len() != curves.average.len() || curves.bytes.is_empty() {
            return Err("its section miss_ratios has not as many points as sizes".to_owned());
        }
        Ok(Self { lending: Lending::of(&profile), profile, curves })
    }

    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |problem: String| Failure::Run(format!("{}: {problem}", path.display()));
        Self::new(profiles::read(path)?).map_err(failed)
    }
}

/// How commands are recorded.
pub(super) struct Recording<'a> {
    pub window: Option<u64>,
    pub runs: u64,
    pub seed: u64,
    pub interrupted: &'a AtomicBool,
}

impl Recording<'_> {
    /// Runs a command several times; nothing if interrupted. Every window is profiled, so that no phase borrows.
    pub fn record(&self, command: &str, messages: &mut dyn Write) -> Result<Option<Vec<Run>>, Failure> {
        let words = words(command)?;
        let failed = |problem: String| Failure::Run(format!("{command}: {problem}"));
        let mut runs = Vec::new();
        for run in 0..self.runs {
            // --json: the program's output goes to standard error.
            let mut line =
                ["phase_guided_cache", "--json", "--gap-limit", "1", "--seed"].map(str::to_owned).to_vec();
            line.push(self.seed.wrapping_add(run).to_string());
            line.extend(self.window.map(|window| format!("--window={window}")));
            line.push("--".to_owned());
            line.extend(words.iter().cloned());
            let args = phase_guided_cache::Args::try_parse_from(line).map_err(Failure::usage)?;
            let mut remarks = Vec::new();
            let (status, profile) = phase_guided_cache::record(&args, self.interrupted, &mut remarks)?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // Whoever closed standard error does not want to know.
            let _ = messages.write_all(&remarks);
            if status != 0 {
                return Err(failed(format!(
                    "exited with status {status}: a run that failed is not compared; let the command exit with 0"
                )));
            }
            let profile = profile.ok_or_else(|| failed("no window was observed".to_owned()))?;
            runs.push(Run::new(profile).map_err(failed)?);
        }
        Ok(Some(runs))
    }
}

/// Refuses to compare a cache for each thread with one for all.
pub(super) fn one_scope<'a>(runs: impl Iterator<Item = (&'a PathBuf, &'a Run)>) -> Result<(), Failure> {
    let mut first: Option<(&Path, Scope)> = None;
    for (path, run) in runs {
        let scope = run.profile.scope;
        let (before, other) = *first.get_or_insert((path, scope));
        if other != scope {
            return Err(Failure::Usage(format!(
                "{} is of {} caches, {} of {} ones: record both with the same --scope",
                before.display(),
                other.name(),
                path.display(),
                scope.name()
            )));
        }
    }
    Ok(())
}

/// The words of a command. Quotes of either kind keep blanks; there is no shell.
fn words(command: &str) -> Result<Vec<String>, Failure> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(Failure::Usage(format!("{command}: {open} is not closed"))),
        None if words.is_empty() => Err(Failure::usage("--run: give two commands, each as one argument")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        let all = words("sort  -t ',' \"my file\" '' a'b c'd").unwrap();
        assert_eq!(all, ["sort", "-t", ",", "my file", "", "ab cd"]);
        for (broken, problem) in [("sort 'x", "' is not closed"), (" ", "give two commands")] {
            let error = words(broken).unwrap_err();
            assert!(error.status() == 2 && error.to_string().contains(problem), "{error}");
        }
    }
}
