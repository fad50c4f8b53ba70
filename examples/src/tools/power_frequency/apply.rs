//! A schedule followed on the simulated processor, whose clock is what the files of a machine say.
//!
//! The embedded program runs again, interval by interval and as long as it would really take, each at the frequency that
//! its policy stands at. A guard process restores the limits after whatever ends this one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use phase_detect::{PhaseId, Ppm, Predictor};
use powersleuth::analysis::{Cost, Schedule};
use powersleuth::linux::{Follower, Pin, Tree, policies};
use powersleuth::{Hertz, Seconds};

use super::study::Study;
use crate::cli::Failure;

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// What the intervals that ran cost.
    pub total: Cost,
    /// What they cost at the highest frequency.
    pub fastest: Cost,
    /// Changes of frequency.
    pub changes: u64,
    /// Share of the intervals whose phase was predicted.
    pub right: f64,
}

/// Follows `schedule` on the program of `study`, whose truth is known, until its end or until `interrupted` is set; the
/// frequency is lowered no sooner than `dwell` after a change.
///
/// # Errors
/// [`Failure`] if the machine has not these frequencies, or a file cannot be read or written.
pub fn apply(
    study: &Study,
    schedule: &Schedule<PhaseId>,
    files: &Tree,
    dwell: Seconds,
    interrupted: &AtomicBool,
) -> Result<Applied, Failure> {
    let Some(truth) = &study.truth else {
        return Err(Failure::Run(
            "only an embedded workload can be followed: its costs are known".to_owned(),
        ));
    };
    let fastest = truth.fastest();
    let interval = truth.program_costs()[fastest.0].time / truth.intervals() as f64;
    let dwell = (dwell / interval).ceil().min(f64::from(u32::MAX)) as u32;
    let found = policies(files)?;
    let pin = Pin::guarded(files.clone(), found)?;
    let mut follower = Follower::new(pin, schedule.clone(), dwell)?;
    let mut predictor = Ppm::default();
    let mut applied = Applied { total: Cost::default(), fastest: Cost::default(), changes: 0, right: 0.0 };
    let (mut ran, mut right) = (0_u32, 0_u32);
    'run: for instance in truth.instances() {
        for number in instance.intervals.clone() {
            if interrupted.load(Ordering::Relaxed) {
                break 'run;
            }
            let next = predictor.predict().map(|prediction| prediction.phase);
            follower.enter(next.as_ref())?;
            let cost = truth.interval_costs(number)[level(files, truth.frequencies())?];
            sleep(Duration::from_secs_f64(cost.time.0));
            applied.total += cost;
            applied.fastest += truth.interval_costs(number)[fastest.0];
            right += u32::from(next == Some(instance.phase));
            ran += 1;
            predictor.observe(instance.phase);
        }
    }
    applied.changes = follower.changes();
    applied.right = f64::from(right) / f64::from(ran.max(1));
    follower.stop()?;
    Ok(applied)
}

/// Number of the frequency that the processor runs at: the upper limit, as a governor under load would choose.
fn level(files: &Tree, frequencies: &[Hertz]) -> Result<usize, Failure> {
    let limit = policies(files)?[0].limits.1;
    // The kernel counts in kilohertz.
    frequencies.iter().position(|f| (f.0 - limit.0).abs() < 1e3).ok_or_else(|| {
        Failure::Run(format!(
            "the processor stands at {} GHz, to which nothing here has set it: end what else sets its limits",
            limit.ghz()
        ))
    })
}
