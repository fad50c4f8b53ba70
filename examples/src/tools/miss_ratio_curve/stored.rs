//! The parts of the run as a phase profile: models fitted to them and averaged give the curve back.

use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, ReuseProfile, ThreadId};

use super::args::{Args, CacheSide};
use super::bursts::Part;
use super::source::Run;
use crate::cli::ByName;
use crate::report::letters;
use crate::target::Scope;

/// A part of the run that a model was fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    thread: ThreadId,
    instructions: u64,
    profile: ReuseProfile,
}

impl Stretch {
    /// The `parts` of what `thread` did in which anything was executed, with samples or without: a thread that starts late has
    /// parts before it.
    pub fn of(thread: ThreadId, parts: &[Part]) -> Vec<Self> {
        let executed = parts.iter().filter(|part| !part.profile.is_empty() || part.profile.accesses() > 0);
        let stretch =
            |part: &Part| Self { thread, instructions: part.instructions, profile: part.profile.clone() };
        executed.map(stretch).collect()
    }
}

/// Why no profile gives the curve back, where none does.
pub fn without(args: &Args, scope: Scope) -> Option<String> {
    let why = match () {
        () if args.model.is_exact() => format!("{} takes no reuse samples", args.model.name()),
        () if args.prefetch.is_some() => "reuse samples do not show what a prefetcher fetches".to_owned(),
        () if args.side == CacheSide::Instruction => "it would be taken for the reuse of data".to_owned(),
        () if scope == Scope::Shared => "samples of all threads in one cache are not kept by part".to_owned(),
        () => return None,
    };
    Some(format!("no profile.json is written: {why}; phase_guided_cache --out DIR writes one"))
}

/// `profile.json`: each part is a window and a phase of its own, named A, B, ... in order of time, thread after thread.
pub fn profile(run: &Run, line_size: LineSize) -> PhaseProfile {
    let mut profile = PhaseProfile::new(&*run.source, line_size);
    profile.machine.clone_from(&run.machine);
    profile.incomplete = run.measured.incomplete;
    for (number, stretch) in run.measured.stretches.iter().enumerate() {
        let (instructions, accesses) = (stretch.instructions, stretch.profile.accesses());
        let mut phase = ProfiledPhase::new(letters(number), stretch.profile.clone());
        (phase.windows, phase.profiled) = (1, u64::from(!stretch.profile.is_empty()));
        phase.instructions = instructions;
        phase.accesses_per_instruction =
            (instructions > 0 && accesses > 0).then(|| accesses as f64 / instructions as f64);
        profile.windows.push(ProfiledWindow {
            window: number as u64,
            thread: stretch.thread.0,
            instructions,
            accesses: (accesses > 0).then_some(accesses),
            phase: phase.phase.clone(),
        });
        profile.phases.push(phase);
    }
    profile
}
