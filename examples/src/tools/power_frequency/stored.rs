//! A run that another command recorded: its phase profile, modelled as a program would be that nobody counted.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use phase_detect::PhaseId;
use powersleuth::analysis::Analysis;
use powersleuth::power::OperatingPoints;
use reuse_sampler::LineSize;
use reuse_sampler::file::PhaseProfile;

use super::args::Args;
use super::calibrate::Calibration;
use super::counted::Setup;
use super::modelled::TrafficModel;
use super::recorded;
use super::study::{PhaseView, Study};
use crate::cli::{Failure, Watch};
use crate::profiles;

/// The study of a profile: of what was counted, or modelled for the core with these operating points.
pub(super) fn study(
    args: &Args,
    path: &Path,
    points: OperatingPoints,
    watch: &Watch<'_>,
) -> Result<Study, Failure> {
    let profile = profiles::read(path)?;
    let model = args.machine_model()?;
    let failed = |failure: Failure| Failure::Run(format!("{}: {failure}", path.display()));
    if let Some(section) = recorded::read(&profile).map_err(failed)? {
        return recorded::study(path, &profile, section, args.live_frequencies(), model.as_ref());
    }
    if model.is_some() {
        let what = "--power-model: nothing was counted of the run in the profile; leave it out";
        return Err(Failure::Usage(what.to_owned()));
    }
    check(path, &profile)?;
    let setup = args.setup(&points)?;
    modelled(path, &profile, &super::calibrate(points, &setup, watch)?, &setup)
}

/// Whether a profile can be modelled.
fn check(path: &Path, profile: &PhaseProfile) -> Result<(), Failure> {
    let failed = |problem: String| Err(Failure::Run(format!("{}: {problem}", path.display())));
    if profile.line_size() != LineSize::B64 {
        let bytes = profile.line_size().bytes();
        return failed(format!("recorded in lines of {bytes} bytes: the modelled core has lines of 64"));
    }
    let described = match profile.described_phases() {
        Ok(described) => described,
        Err(error) => return failed(error.to_string()),
    };
    let mut known =
        described.iter().filter(|of| of.accesses_per_instruction.is_some()).map(|of| &of.phase.phase);
    let counted =
        |name: &String| profile.windows.iter().any(|window| window.instructions > 0 && window.phase == *name);
    if !known.any(counted) {
        return failed(
            "no window has instructions and a phase with reuse samples and accesses per instruction: nothing to model"
                .to_owned(),
        );
    }
    Ok(())
}

/// The phases of `predicted`, whose numbers are their places in the file, as the file names them.
pub(super) fn views(
    stored: &PhaseProfile,
    predicted: &Analysis<PhaseId>,
) -> Result<Vec<PhaseView>, powersleuth::Error> {
    let mut views = Study::views(predicted, &HashMap::new(), |_| None)?;
    for view in &mut views {
        if let Some(phase) = stored.phases.get(view.phase.index()) {
            (view.name, view.code) = (phase.phase.clone(), phase.code.first().cloned());
        }
    }
    Ok(views)
}

/// The study of a run that nobody counted.
fn modelled(
    path: &Path,
    stored: &PhaseProfile,
    calibration: &Calibration,
    setup: &Setup,
) -> Result<Study, Failure> {
    let failed = |error: powersleuth::Error| Failure::Run(format!("{}: {error}", path.display()));
    let model = TrafficModel::fit(calibration, setup.seed)?;
    let predicted = model.predict_stored(stored, &setup.frequencies).map_err(failed)?;
    let views = views(stored, &predicted).map_err(failed)?;
    let mut notes = Vec::new();
    let modelled: usize = predicted.phases().iter().map(|phase| phase.intervals).sum();
    if modelled < stored.windows.len() {
        let (left_out, all) = (stored.windows.len() - modelled, stored.windows.len());
        notes.push(format!("{left_out} of {all} windows are left out: no instructions, or no reuse samples"));
    }
    let threads = stored.windows.iter().map(|window| window.thread).collect::<BTreeSet<_>>().len();
    if threads > 1 {
        notes.push(super::in_turn(threads));
    }
    let instructions: f64 = stored.windows.iter().map(|window| window.instructions as f64).sum();
    let interval = (instructions / modelled.max(1) as f64).round() as u64;
    let (program, incomplete) = (stored.program.clone(), stored.incomplete);
    Ok(super::modelled_study(program, &model, setup, interval, predicted, views, notes, incomplete))
}
