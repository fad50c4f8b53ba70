//! The runs to compare: read from files, or recorded now.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use reuse_sampler::file::PhaseProfile;

use super::lending::Lending;
use crate::cli::Failure;
use crate::machines::host::CacheLevel;
use crate::profiles;
use crate::report::{StoredCurves, bytes};
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
        curves.check().map_err(|problem| format!("sections.miss_ratios.{problem}"))?;
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

/// Refuses to compare what was not recorded alike: of caches for each thread with one for all, of other lines or by another
/// model; and sizes of which a run says nothing.
pub(super) fn alike<'a>(
    runs: impl Iterator<Item = (&'a PathBuf, &'a Run)>,
    levels: &[CacheLevel],
) -> Result<(), Failure> {
    let mut first: Option<(&Path, &Run)> = None;
    for (path, run) in runs {
        let (before, other) = *first.get_or_insert((path, run));
        let differs = |what: &str, one: String, another: String| {
            let (before, path) = (before.display(), path.display());
            let problem =
                format!("{before} is of {one}, {path} of {another}: record both with the same {what}");
            Err(Failure::Usage(problem))
        };
        let scope = |run: &Run| format!("{} caches", run.profile.scope.name());
        if run.profile.scope != other.profile.scope {
            return differs("--scope", scope(other), scope(run));
        }
        let line = |run: &Run| format!("lines of {} bytes", run.profile.line_size().bytes());
        if run.profile.line_size() != other.profile.line_size() {
            return differs("line size", line(other), line(run));
        }
        // Files written before the model was in them do not say.
        let model = |run: &Run| run.curves.model.clone();
        if model(run) != model(other) && !model(run).is_empty() && !model(other).is_empty() {
            return differs("--model", model(other), model(run));
        }
        let (smallest, largest) = run.curves.range();
        if let Some(level) = levels.iter().find(|level| !(smallest..=largest).contains(&level.bytes)) {
            let range = match largest {
                u64::MAX => format!("{} and more", bytes(smallest)),
                _ => format!("{} to {}", bytes(smallest), bytes(largest)),
            };
            return Err(Failure::Usage(format!(
                "{}: has miss ratios of caches of {range}, not of {}: choose another of --sizes, or record it with that size",
                path.display(),
                bytes(level.bytes)
            )));
        }
    }
    Ok(())
}

/// Refuses a run that is listed twice on one side: it would show that runs do not differ.
pub(super) fn distinct(paths: &[PathBuf]) -> Result<(), Failure> {
    match paths.iter().enumerate().find(|(place, path)| paths[..*place].contains(path)) {
        Some((_, path)) => {
            let path = path.display();
            Err(Failure::Usage(format!("{path} is listed twice on one side: give runs that differ")))
        }
        None => Ok(()),
    }
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
