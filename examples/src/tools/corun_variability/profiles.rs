//! Programs from files: recorded ones, cache-curve files as `cache_pirate` writes them, and phase profiles of
//! `phase_guided_cache`, whose reuse `StatStack` turns into curves for the simulated chip.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use cachesharing::file::{ProgramFile, WindowRecord};
use cachesharing::{Program, SharedCache, Window};
use reuse_sampler::LineSize;
use reuse_sampler::file::{FileError, PhaseProfile, Scope};
use statstack::PooledCorrection;

use super::args::{Model, PredictArgs};
use super::ground::Ground;
use super::reuse::{MODELLED, modelled, with_estimated_times};
use super::stored::{Machine, Stored};
use crate::cli::Failure;
use crate::report::letters;

/// Programs read from files.
pub(super) struct Profiles {
    pub programs: Vec<Program<u64>>,
    pub cache: SharedCache,
    pub model: Model,
    pub notes: Vec<String>,
}

/// A file as it is written.
pub(super) enum Profile {
    Curves(Box<ProgramFile>),
    Phases(Box<PhaseProfile>),
}

/// A file as a prediction takes it.
enum Source {
    Curves(Box<ProgramFile>, Machine),
    Reuse(Box<PhaseProfile>),
}

/// Reads the files. The cache is what `--cache` says, or what the files agree on, or the chip's.
pub(super) fn read(paths: &[PathBuf], args: &PredictArgs, ground: &Ground) -> Result<Profiles, Failure> {
    let mut notes = Vec::new();
    let untrusted = args.files.untrusted;
    let mut files = Vec::new();
    for path in paths {
        let source = match open(path)? {
            Profile::Curves(file) => {
                let cache_bytes = file.cache_bytes;
                Source::Curves(file, Machine::Measured { cache_bytes })
            }
            Profile::Phases(profile) => match Stored::read(&profile).map_err(|f| failed(path, f))? {
                Some(stored) => {
                    let name = &profile.program;
                    notes.extend(stored.remarks.iter().map(|remark| format!("{name}: {remark}")));
                    if profile.incomplete {
                        notes.push(format!("the profile of {name} was interrupted: it ends there"));
                    }
                    Source::Curves(Box::new(stored.curves), stored.machine)
                }
                None => Source::Reuse(profile),
            },
        };
        files.push((path.as_path(), source));
    }
    let (cache, model) = shared(&files, args, ground, &mut notes)?;
    let mut programs: Vec<Option<Program<u64>>> = Vec::new();
    let mut endless = Vec::new();
    for (path, source) in files {
        match source {
            Source::Curves(file, _) if file.windows.is_empty() && file.phases.len() < 2 => {
                programs.push(None);
                endless.push((programs.len() - 1, path, file));
            }
            Source::Curves(file, _) => {
                let program = file.into_program(&name_of(path), untrusted);
                programs.push(Some(program.map_err(|e| failed(path, e))?));
            }
            Source::Reuse(profile) => {
                let program = modelled_program(&profile, ground, &mut notes);
                programs.push(Some(program.map_err(|e| failed(path, e))?));
            }
        }
    }
    // A program without windows has no length of its own.
    let longest = programs.iter().flatten().map(Program::work).fold(1.0, f64::max);
    for (slot, path, mut file) in endless {
        let phase = file.phases.first().map(|p| p.phase);
        file.windows =
            vec![WindowRecord { work: longest, phase, mix: None, points: Vec::new(), reuse: None }];
        let program = file.into_program(&name_of(path), untrusted).map_err(|error| failed(path, error))?;
        notes.push(format!("{} has no windows: it is taken to do the same throughout", program.name()));
        programs[slot] = Some(program);
    }
    Ok(Profiles { programs: programs.into_iter().flatten().collect(), cache, model, notes })
}

fn failed(path: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("{}: {problem}", path.display()))
}

/// The cache that is shared, and how.
fn shared(
    files: &[(&Path, Source)],
    args: &PredictArgs,
    ground: &Ground,
    notes: &mut Vec<String>,
) -> Result<(SharedCache, Model), Failure> {
    let mut found: Option<(&Path, &Machine)> = None;
    for (path, source) in files {
        let Source::Curves(_, machine) = source else { continue };
        match (found, machine) {
            (Some((before, Machine::Simulated(_))), Machine::Simulated(_))
                if found.map(|f| f.1) != Some(machine) =>
            {
                return Err(Failure::Usage(format!(
                    "{} was recorded on another chip than {}: record both on one",
                    path.display(),
                    before.display()
                )));
            }
            (None | Some((_, Machine::Measured { .. })), Machine::Simulated(_)) => {
                found = Some((path, machine));
            }
            _ => {}
        }
    }
    let given = Machine::simulated(ground, &args.chip);
    let recorded = found.filter(|_| args.files.cache.is_none());
    let Some((path, machine @ Machine::Simulated(chip))) = recorded else {
        let bytes = args.files.cache.map_or_else(|| common_size(files, ground), Ok)?;
        let cache = SharedCache::new(bytes).map_err(Failure::usage)?;
        let limit =
            args.chip.bandwidth().map(cachesharing::MemoryLimit::new).transpose().map_err(Failure::usage)?;
        return Ok((limit.map_or(cache, |limit| cache.with_memory(limit)), args.model()));
    };
    if !args.chip.is_default() && given != *machine {
        return Err(Failure::Usage(format!(
            "{} was recorded on another chip than the flags describe: leave them out, or record it again",
            path.display()
        )));
    }
    for (other, source) in files {
        match source {
            Source::Curves(_, Machine::Measured { .. }) => notes.push(format!(
                "{} was measured on another machine than {}",
                other.display(),
                path.display()
            )),
            Source::Reuse(_) if given != *machine => {
                return Err(Failure::Usage(format!(
                    "{} holds reuse but no curves, and {} was recorded on another chip than the one they would be modelled \
                     for: give that chip's flags",
                    other.display(),
                    path.display()
                )));
            }
            _ => {}
        }
    }
    Ok((chip.cache()?, chip.model()?))
}

/// Opens a file of either format.
pub(super) fn open(path: &Path) -> Result<Profile, Failure> {
    let failed = |problem: String| Failure::Run(format!("{}: {problem}", path.display()));
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    match crate::profiles::parse(path, &text) {
        Ok(profile) => Ok(Profile::Phases(Box::new(profile))),
        Err(FileError::Format { found }) if found == "cache-curve" => serde_json::from_slice(&text)
            .map(|file| Profile::Curves(Box::new(file)))
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

/// The cache that curves were measured in, or the chip's.
fn common_size(files: &[(&Path, Source)], ground: &Ground) -> Result<u64, Failure> {
    let mut found: Option<(&Path, u64)> = None;
    for (path, source) in files {
        let Source::Curves(_, machine) = source else { continue };
        let Some(bytes) = machine.cache_bytes() else { continue };
        match found {
            Some((before, other)) if other != bytes => {
                return Err(Failure::Usage(format!(
                    "{} was measured in a cache of {other} bytes, {} in one of {bytes}: say by --cache which one \
                     they are to share",
                    before.display(),
                    path.display()
                )));
            }
            _ => found = Some((path, bytes)),
        }
    }
    Ok(found.map_or(ground.settings.shared.geometry.bytes(), |(_, bytes)| bytes))
}

/// The name of a program that has none, from its file's.
pub(super) fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// Accesses per instruction: an instruction makes some at most, and with fewer a cache does not matter.
const MIXES: RangeInclusive<f64> = 1e-9..=1e3;

/// A program with a modelled curve for each phase. Threads, of whatever process, take turns.
pub(super) fn modelled_program(
    profile: &PhaseProfile,
    ground: &Ground,
    notes: &mut Vec<String>,
) -> Result<Program<u64>, Failure> {
    let name = &profile.program;
    let [recorded, on_chip] = [profile.line_size(), ground.settings.line_size()].map(LineSize::bytes);
    if recorded != on_chip {
        return Err(Failure::Run(format!(
            "recorded in lines of {recorded} bytes, and the chip has lines of {on_chip}: give --line-size {recorded}"
        )));
    }
    if profile.incomplete {
        notes.push(format!("the profile of {name} was interrupted: it ends there"));
    }
    if profile.scope == Scope::Shared {
        notes.push(format!(
            "the profile of {name} is of all its threads in one cache: they are taken to run in turn on one core"
        ));
    }
    let threads = profile.windows.iter().map(|window| window.thread).collect::<HashSet<_>>().len();
    if threads > 1 {
        notes.push(format!(
            "{name} has {threads} threads: they are taken to run in turn on one core, a window each, and to share no data"
        ));
    }
    let renamed = (profile.phases.iter().enumerate()).filter(|(place, phase)| phase.phase != letters(*place));
    let renamed: Vec<String> =
        renamed.map(|(place, phase)| format!("{} is {:?}", letters(place), phase.phase)).collect();
    if !renamed.is_empty() {
        notes.push(format!("phases of {name} are named in order: {}", renamed.join(", ")));
    }
    let counted = profile.windows.iter().any(|w| w.instructions > 0);
    let sizes = ground.sizes();
    let mut curves = Vec::new();
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    for (phase, number) in profile.phases.iter().zip(0..) {
        numbers.insert(&phase.phase, number);
    }
    let pooled = PooledCorrection::of(profile.phases.iter().map(|phase| &phase.profile))?;
    for described in profile.described_phases()? {
        let name = &described.phase.phase;
        let Some(mix) = described.accesses_per_instruction.or((!counted).then_some(1.0)) else {
            return Err(Failure::Run(format!(
                "phase {name:?} has instructions but no accesses per instruction: record the run with phase_guided_cache"
            )));
        };
        if !MIXES.contains(&mix) {
            return Err(Failure::Run(format!(
                "phase {name:?} has {mix:e} accesses per instruction: {:e} to {:e} can be modelled",
                MIXES.start(),
                MIXES.end()
            )));
        }
        let curve = modelled(ground, &pooled.fit(described.profile)?, mix, &sizes)?;
        curves.push((numbers[&**name], with_estimated_times(ground, curve, described.profile)?));
    }
    if !counted {
        notes.push(format!("{name} counts no instructions: its work is counted in accesses"));
    }
    let mut left_out = 0;
    let mut windows = Vec::new();
    for window in &profile.windows {
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
    Ok(Program::new(&**name, curves, windows)?.with_uncertainty(MODELLED)?)
}
