//! A counted run in a phase profile: what was counted of each interval, and the models that predicted from it, as section
//! `counters`. So other frequencies, objectives and models can be asked about after the run.

use std::path::Path;

use phase_detect::PhaseId;
use powersleuth::Hertz;
use powersleuth::analysis::{Analysis, Profile};
use powersleuth::calibration::{MachineModel, TimeModel};
use powersleuth::power::PowerModel;
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, ReuseProfile};
use serde::{Deserialize, Serialize};

use super::args::as_written;
use super::stored::views;
use super::study::{Study, Used};
use crate::cli::Failure;
use crate::report::sum_windows;

/// Section with the counts.
const COUNTERS: &str = "counters";

/// What was counted of a run, and what it was predicted with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "P: Clone + Deserialize<'de>"))]
pub struct Counted<P> {
    /// The machine, as models of power name it.
    pub machine: String,
    /// The counts of each interval.
    pub profile: Profile<P>,
    /// The model of time.
    pub time: TimeModel,
    /// The model of power.
    pub power: PowerModel,
}

impl<P: Clone> Counted<P> {
    /// The same with other names for the phases.
    fn named<Q: Clone>(&self, name: impl Fn(&P) -> Result<Q, Failure>) -> Result<Counted<Q>, Failure> {
        let mut profile = Profile::new(self.profile.frequency(), self.profile.events().to_vec())?;
        for (phase, counts, power) in self.profile.iter() {
            profile.push(name(phase)?, *counts, power)?;
        }
        Ok(Counted { machine: self.machine.clone(), profile, time: self.time, power: self.power.clone() })
    }
}

/// The section.
#[derive(Serialize, Deserialize)]
pub(super) struct Section {
    source: String,
    basis: String,
    interval: u64,
    frequencies: Vec<Hertz>,
    margin: Option<f64>,
    notes: Vec<String>,
    #[serde(flatten)]
    counted: Counted<String>,
}

/// The profile of a study, if it was counted; `processor` is what it ran on.
///
/// # Errors
/// What serialization answers.
pub fn profile(study: &Study, processor: Option<String>) -> Result<Option<PhaseProfile>, Failure> {
    let Some(counted) = &study.counted else { return Ok(None) };
    let name = |phase: &PhaseId| match study.rank(*phase) {
        Some(rank) => Ok(study.views[rank].name.clone()),
        None => Err(Failure::Run(format!("phase {phase} has no name"))),
    };
    let counted = counted.named(name)?;
    let mut stored = PhaseProfile::new(&*study.program, LineSize::B64);
    (stored.machine, stored.incomplete) = (processor, study.incomplete);
    stored.windows = (0..)
        .zip(counted.profile.iter())
        .map(|(window, (phase, counts, _))| ProfiledWindow {
            window,
            thread: 0,
            instructions: counts.instructions().round() as u64,
            accesses: None,
            phase: phase.clone(),
        })
        .collect();
    for view in &study.views {
        let mut phase = ProfiledPhase::new(view.name.clone(), ReuseProfile::new(LineSize::B64));
        phase.hottest_code = view.code.as_ref().map(|(code, _)| code.clone());
        phase.code = view.code.iter().cloned().collect();
        stored.phases.push(phase);
    }
    sum_windows(&mut stored);
    let section = Section {
        source: study.source.to_owned(),
        basis: study.basis.clone(),
        interval: study.interval,
        frequencies: study.predicted.frequencies().to_vec(),
        margin: study.margin,
        notes: study.notes.clone(),
        counted,
    };
    stored.set_section(COUNTERS, &section)?;
    Ok(Some(stored))
}

/// What a profile holds, if its run was counted.
pub(super) fn read(stored: &PhaseProfile) -> Result<Option<Section>, Failure> {
    Ok(stored.section(COUNTERS)?)
}

/// The study of a counted run at `asked` frequencies, or at those that were asked about then; with `model`, if there is one,
/// in place of the models that were used then.
pub(super) fn study(
    path: &Path,
    stored: &PhaseProfile,
    section: Section,
    asked: Vec<Hertz>,
    model: Option<&MachineModel>,
) -> Result<Study, Failure> {
    let failed = |problem: &dyn std::fmt::Display| Failure::Run(format!("{}: {problem}", path.display()));
    let place = |phase: &String| match stored.phases.iter().position(|known| known.phase == *phase) {
        Some(place) => Ok(PhaseId::new(place as u32)),
        None => Err(Failure::Run(format!("an interval is of phase {phase:?}, which is not listed"))),
    };
    let mut counted = section.counted.named(place).map_err(|error| failed(&error))?;
    let clock = counted.profile.frequency();
    let meant = |frequency| as_written(frequency, counted.power.points());
    let frequencies =
        if asked.is_empty() { section.frequencies } else { asked.into_iter().map(meant).collect() };
    let mut notes = section.notes;
    let (mut margin, mut models) = (section.margin, None);
    if let Some(model) = model {
        model.power.check_machine(&counted.machine)?;
        let what = "the clock of the run, in a calibration";
        let fit = model.time_at(clock).ok_or(powersleuth::Error::NotCounted { interval: 0, what })?;
        (counted.time, counted.power, margin) = (fit.model, model.power.clone(), Some(fit.margin));
        models = Some(Used::of(model, clock, &frequencies));
        notes.push("predicted by other models than when it was counted".to_owned());
    }
    let predicted = Analysis::predict(&counted.profile, &counted.time, &counted.power, &frequencies)
        .map_err(|error| failed(&error))?;
    let used = || Used {
        performance: counted.time.name(),
        power: counted.power.machine().to_owned(),
        errors: Vec::new(),
    };
    Ok(Study {
        program: stored.program.clone(),
        basis: section.basis,
        source: if section.source == super::counted::SOURCE { super::counted::SOURCE } else { "counters" },
        modelled: false,
        interval: section.interval,
        profiled_at: clock,
        margin,
        views: views(stored, &predicted).map_err(|error| failed(&error))?,
        predicted,
        truth: None,
        models: models.unwrap_or_else(used),
        notes,
        processes: Vec::new(),
        incomplete: stored.incomplete,
        counted: Some(counted),
    })
}
