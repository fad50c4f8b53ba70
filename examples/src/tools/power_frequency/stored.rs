//! A run that another command recorded: its phase profile, modelled as a program would be that nobody counted.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use reuse_sampler::LineSize;
use reuse_sampler::file::PhaseProfile;

use super::calibrate::Calibration;
use super::counted::Setup;
use super::modelled::TrafficModel;
use super::study::Study;
use crate::cli::Failure;
use crate::profiles;

/// Reads a profile that can be modelled.
pub(super) fn read(path: &Path) -> Result<PhaseProfile, Failure> {
    let profile = profiles::read(path)?;
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
    Ok(profile)
}

/// The study of it. Phases keep the names that the file gives them.
pub(super) fn study(
    path: &Path,
    stored: &PhaseProfile,
    calibration: &Calibration,
    setup: &Setup,
) -> Result<Study, Failure> {
    let failed = |error: powersleuth::Error| Failure::Run(format!("{}: {error}", path.display()));
    let model = TrafficModel::fit(calibration, setup.seed)?;
    let predicted = model.predict_stored(stored, &setup.frequencies).map_err(failed)?;
    let mut views = Study::views(&predicted, &HashMap::new(), |_| None).map_err(failed)?;
    for view in &mut views {
        if let Some(phase) = stored.phases.get(view.phase.index()) {
            (view.name, view.code) = (phase.phase.clone(), phase.code.first().cloned());
        }
    }
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
