//! What the crate makes can be sent to other threads, and shared between them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste

use powersleuth::Error;
use powersleuth::analysis::{Analysis, Goal, Outcome, Plan, Profile, Schedule};
use powersleuth::calibration::MachineModel;
use powersleuth::performance::{Counts, MissBased, QuadraticStalls, StallBased};
use powersleuth::power::{EffectiveCapacitance, Fit, OperatingPoints, PowerModel, TrainingSet};

fn shared<T: Send + Sync>() {}

#[test]
fn threads_may_share_what_the_crate_makes() {
    shared::<(Analysis<u64>, Goal, Outcome<u64>, Plan, Profile<u64>, Schedule<u64>)>();
    shared::<(MachineModel, PowerModel, EffectiveCapacitance, Fit, OperatingPoints, TrainingSet)>();
    shared::<(Counts, MissBased, QuadraticStalls, StallBased, Error)>();
}
