//! Programs from files: cache-curve files as `cache_pirate` writes them, and phase profiles of `phase_guided_cache`,
//! whose reuse `StatStack` turns into curves for the simulated chip.

use std::collections::HashMap;
use std::path::Path;

use cachesharing::file::{ProgramFile, WindowRecord};
use cachesharing::{Program, Window};
use reuse_sampler::file::{FileError, PhaseProfile, Scope};

use super::ground::Ground;
use super::reuse::modelled;
use crate::cli::Failure;

/// Programs read from files.
pub(super) struct Profiles {
    pub programs: Vec<Program<u64>>,
    pub cache_bytes: u64,
    pub notes: Vec<String>,
}

/// A file as it is written.
enum Profile {
    Curves(ProgramFile),
    Phases(PhaseProfile),
}

/// Reads the files. The cache is of `cache` bytes, or what the files agree on, or the chip's.
pub(super) fn read(
    paths: &[impl AsRef<Path>],
    cache: Option<u64>,
    untrusted: bool,
    ground: &Ground,
) -> Result<Profiles, Failure> {
    let mut notes = Vec::new();
    let files = paths.iter().map(|path| Ok((path.as_ref(), open(path.as_ref())?)));
    let files = files.collect::<Result<Vec<_>, Failure>>()?;
    let cache_bytes = cache.map_or_else(|| common_size(&files, ground), Ok)?;
    let mut programs: Vec<Option<Program<u64>>> = Vec::new();
    let mut endless = Vec::new();
    for (path, file) in files {
        let failed = |problem: String| Failure::Run(format!("{}: {problem}", path.display()));
        match file {
            Profile::Curves(file) if file.windows.is_empty() && file.phases.len() < 2 => {
                programs.push(None);
                endless.push((programs.len() - 1, path, file));
            }
            Profile::Curves(file) => {
                let program = file.into_program(&name_of(path), untrusted);
                programs.push(Some(program.map_err(|e| failed(e.to_string()))?));
            }
            Profile::Phases(profile) => {
                programs.push(Some(phased(&profile, ground, &mut notes).map_err(|e| failed(e.to_string()))?));
            }
        }
    }
    // A program without windows has no length of its own.
    let longest = programs.iter().flatten().map(Program::work).fold(1.0, f64::max);
    for (slot, path, mut file) in endless {
        let phase = file.phases.first().map(|p| p.phase);
        file.windows =
            vec![WindowRecord { work: longest, phase, mix: None, points: Vec::new(), reuse: None }];
        let program = file.into_program(&name_of(path), untrusted);
        let program = program.map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        notes.push(format!("{} has no windows: it is taken to do the same throughout", program.name()));
        programs[slot] = Some(program);
    }
    Ok(Profiles { programs: programs.into_iter().flatten().collect(), cache_bytes, notes })
}

fn open(path: &Path) -> Result<Profile, Failure> {
    let failed = |problem: String| Failure::Run(format!("{}: {problem}", path.display()));
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    match PhaseProfile::read(text.as_slice()) {
        Ok(profile) => Ok(Profile::Phases(profile)),
        Err(FileError::Format { found }) if found == "cache-curve" => serde_json::from_slice(&text)
            .map(Profile::Curves)
            .map_err(|error| failed(format!("not a profile of its format: {error}"))),
        Err(FileError::Syntax(problem)) => Err(failed(format!("not a profile: {problem}"))),
        Err(FileError::Format { .. }) => Err(failed(
            "neither a cache-curve nor a phase-profile file: give curve.json of cache_pirate or profile.json of \
             phase_guided_cache"
                .to_owned(),
        )),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The cache that cache-curve files were measured in, or the chip's.
fn common_size(files: &[(&Path, Profile)], ground: &Ground) -> Result<u64, Failure> {
    let mut found: Option<(&Path, u64)> = None;
    for (path, file) in files {
        let Profile::Curves(ProgramFile { cache_bytes: Some(bytes), .. }) = file else { continue };
        match found {
            Some((before, other)) if other != *bytes => {
                return Err(Failure::Usage(format!(
                    "{} was measured in a cache of {other} bytes, {} in one of {bytes}: say by --cache which one \
                     they are to share",
                    before.display(),
                    path.display()
                )));
            }
            _ => found = Some((path, *bytes)),
        }
    }
    Ok(found.map_or(ground.settings.shared.geometry.bytes(), |(_, bytes)| bytes))
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// A program with a modelled curve for each phase. Of several threads, the one with most windows.
fn phased(profile: &PhaseProfile, ground: &Ground, notes: &mut Vec<String>) -> Result<Program<u64>, Failure> {
    let name = &profile.program;
    if profile.incomplete {
        notes.push(format!("the profile of {name} was interrupted: it ends there"));
    }
    if profile.scope == Scope::Shared {
        notes.push(format!(
            "the profile of {name} is of all its threads in one cache: they are taken to run in turn on one core"
        ));
    }
    let mut threads: HashMap<u32, usize> = HashMap::new();
    for window in &profile.windows {
        *threads.entry(window.thread).or_default() += 1;
    }
    let thread = threads.iter().max_by_key(|&(&id, &n)| (n, std::cmp::Reverse(id))).map(|(&id, _)| id);
    if threads.len() > 1 {
        notes.push(format!("{name} has {} threads: only the longest is taken", threads.len()));
    }
    let sizes = ground.sizes();
    let mut curves = Vec::new();
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    for (phase, number) in profile.phases.iter().zip(0..) {
        let described = profile.described_by(phase).unwrap_or(phase);
        let mix = phase.accesses_per_instruction.or(described.accesses_per_instruction).unwrap_or(1.0);
        numbers.insert(&phase.phase, number);
        if !described.profile.is_empty() {
            curves.push((number, modelled(ground, &described.profile, mix, &sizes)?));
        }
    }
    let counted = profile.windows.iter().any(|w| w.instructions > 0);
    if !counted {
        notes.push(format!("{name} counts no instructions: its work is told in accesses"));
    }
    let mut left_out = 0;
    let mut windows = Vec::new();
    for window in profile.windows.iter().filter(|w| Some(w.thread) == thread) {
        let work = if counted { window.instructions } else { window.accesses.unwrap_or(0) };
        match numbers.get(window.phase.as_str()) {
            Some(&number) if work > 0 && curves.iter().any(|(n, _)| *n == number) => {
                windows.push(Window::of_phase(work as f64, number));
            }
            _ => left_out += 1,
        }
    }
    if left_out > 0 {
        notes.push(format!("{left_out} windows of {name} have no reuse samples and are left out"));
    }
    Program::new(&**name, curves, windows).map_err(Failure::run)
}
