//! The strategies: which windows are sampled how densely, and what is concluded of the others.

use std::collections::BTreeMap;

use phase_detect::GuideConfig;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reuse_sampler::{
    AccessCount, CacheLines, CacheModel, LineSize, Outcome, ReuseCount, ReusePlan, ReuseProfile, SampleGap,
    ThreadId, Window, WindowIndex, differences_within_phase,
};
use statstack::StatStack;

use super::recording::{RecordedWindow, Recording};
use super::thinning::thin;
use crate::cli::Failure;
use crate::guided::{GuidedOptions, GuidedRun, PhaseGuide, Replacement, RunCurves, WindowRecord};

/// What a strategy says of a run.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Miss ratio of each window at each size.
    pub windows: Vec<Vec<f64>>,
    /// Samples taken.
    pub samples: u64,
    /// Windows in which samples were taken.
    pub profiled: usize,
    /// Phases found; 0 where none are looked for.
    pub phases: usize,
}

/// Windows at random distances, each by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// Mean distance of profiled windows, at least 1.
    pub every: f64,
    /// Mean gap between samples in a profiled window, in accesses.
    pub gap: f64,
}

/// Windows of each phase, modelled together; the model of a window differs as far as its samples do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guided {
    /// Mean gap after the first profiled window of a phase, in windows of the phase.
    pub first_gap: f64,
    /// Largest mean gap between profiled windows of a phase, in windows of the phase.
    pub gap_limit: f64,
    /// Mean gap between samples in a profiled window, in accesses.
    pub gap: f64,
    /// Threshold of clustering.
    pub threshold: f64,
}

impl Default for Guided {
    /// For short windows, of which phases have many that differ a little: coarser phases and wider gaps than a live
    /// run in windows of 10 M instructions begins with. Every access of a profiled window.
    fn default() -> Self {
        Self { first_gap: 8.0, gap_limit: 64.0, gap: 1.0, threshold: 0.4 }
    }
}

impl Periodic {
    /// Profiles windows at exponentially distributed distances (as the paper does, to not fall in step with the
    /// program), models each by itself and takes what lies between two of them from both, in proportion to how near
    /// they are.
    pub fn estimate(&self, recording: &Recording, seed: u64) -> Estimate {
        let mut random = StdRng::seed_from_u64(seed);
        let mut estimate = Estimate { windows: Vec::new(), samples: 0, profiled: 0, phases: 0 };
        let mut known: Vec<(usize, Vec<f64>)> = Vec::new();
        let mut next = (random.random::<f64>() * self.every) as usize;
        while let Some(window) = recording.windows.get(next) {
            let mut profile = ReuseProfile::new(recording.line_size);
            for (outcome, count) in thin(&window.reuse, self.gap, &mut random) {
                profile.record_many(outcome, count, 1);
            }
            estimate.profiled += 1;
            estimate.samples += profile.samples();
            if let Ok(model) = StatStack::fit(&profile) {
                known.push((next, model.curve(&recording.sizes).points.iter().map(|p| p.1).collect()));
            }
            let draw: f64 = 1.0 - random.random::<f64>();
            next += 1 + (-draw.ln() * (self.every - 1.0)).round() as usize;
        }
        estimate.windows = between(&known, recording.windows.len(), recording.sizes.len());
        estimate
    }
}

/// Straight lines between the known windows, level before the first and after the last.
fn between(known: &[(usize, Vec<f64>)], windows: usize, sizes: usize) -> Vec<Vec<f64>> {
    let mut after = 0; // known[after] is the first known window not before the present one
    (0..windows)
        .map(|window| {
            while known.get(after).is_some_and(|k| k.0 < window) {
                after += 1;
            }
            match (after.checked_sub(1).and_then(|before| known.get(before)), known.get(after)) {
                (None, None) => vec![0.0; sizes],
                (Some(only), None) | (None, Some(only)) => only.1.clone(),
                (Some(a), Some(b)) => {
                    let share = (window - a.0) as f64 / (b.0 - a.0) as f64;
                    a.1.iter().zip(&b.1).map(|(a, b)| a + share * (b - a)).collect()
                }
            }
        })
        .collect()
}

impl Guided {
    /// Lets the phases of the windows decide what is profiled, as [`run_guided`](crate::guided::run_guided) does with
    /// a live program. A window is said to miss as its phase does, and by as much more or less as the profiled windows
    /// of the phase around it are believed to differ.
    ///
    /// # Errors
    /// [`Failure`] if the detector refuses a window.
    pub fn estimate(&self, recording: &Recording, seed: u64) -> Result<Estimate, Failure> {
        let Ran { mut run, samples, mut seen } = self.run(recording, seed)?;
        thin_out_dense(&mut run, &mut seen, recording, &mut StdRng::seed_from_u64(seed));
        let curves = RunCurves::fit(&run, Replacement::Lru, &recording.sizes);
        let average: Vec<f64> = curves.average.points.iter().map(|p| p.miss_ratio).collect();
        let curve = |window| match curves.of(window) {
            Some(curve) => curve.points.iter().map(|p| p.miss_ratio).collect(),
            None => average.clone(),
        };
        let mut course: Vec<Vec<f64>> = run.windows.iter().map(curve).collect();
        add_differences(&mut course, &run, seen, &recording.sizes)?;
        Ok(Estimate { windows: course, samples, profiled: run.profiled(), phases: run.phases.len() })
    }

    /// The run itself.
    pub(super) fn run(&self, recording: &Recording, seed: u64) -> Result<Ran, Failure> {
        let reuse = match SampleGap::mean(self.gap) {
            Ok(gap) if self.gap > 1.0 => ReusePlan::Sparse(gap),
            _ => ReusePlan::Every,
        };
        let options = GuidedOptions {
            reuse,
            guide: GuideConfig {
                profile_first: 0,
                first_gap: self.first_gap,
                gap_limit: self.gap_limit,
                seed,
                ..GuideConfig::default()
            },
            threshold: self.threshold,
            line_size: recording.line_size,
            ..GuidedOptions::default()
        };
        let mut random = StdRng::seed_from_u64(seed);
        let mut guide = PhaseGuide::new(options)?;
        let mut plan = guide.initial_plan();
        let (mut samples, mut seen) = (0, BTreeMap::new());
        for (index, recorded) in recording.windows.iter().enumerate() {
            let mut window = unseen(recorded, index, recording.line_size);
            if plan.reuse.starts_samples() {
                window.accesses = AccessCount::Measured(recorded.accesses);
                let count = |(outcome, count): (Outcome, u64)| ReuseCount {
                    outcome,
                    started_in: window.index,
                    count,
                };
                let chosen = thin(&recorded.reuse, self.gap, &mut random);
                window.counts = chosen.iter().copied().map(count).collect();
                samples += chosen.iter().map(|&(_, count)| count).sum::<u64>();
                seen.insert(index, chosen);
            }
            plan = guide.take(&window)?;
        }
        Ok(Ran { run: guide.finish(recording.incomplete)?, samples, seen })
    }
}

/// A phase-guided run on a recording.
pub(super) struct Ran {
    pub(super) run: GuidedRun,
    pub(super) samples: u64,
    /// Samples by window, of those that were profiled.
    seen: Seen,
}

type Seen = BTreeMap<usize, Vec<(Outcome, u64)>>;

/// Windows that make more than so many times as many accesses as their phase usually does are no picture of it.
const DENSE: f64 = 2.0;

/// Leaves windows that make far more accesses than others of their phase as many samples as those have. A phase's curve
/// stands for its windows, not for their accesses: one window in which a string instruction clears 50 MB would otherwise decide
/// what all others are said to miss.
fn thin_out_dense(run: &mut GuidedRun, seen: &mut Seen, recording: &Recording, random: &mut StdRng) {
    let density = |window: &RecordedWindow| window.accesses as f64 / recording.time(window).max(1.0);
    for record in &mut run.phases {
        let windows: Vec<usize> =
            seen.keys().copied().filter(|&index| run.windows[index].phase == record.phase).collect();
        let mut densities: Vec<f64> = windows.iter().map(|&at| density(&recording.windows[at])).collect();
        densities.sort_unstable_by(f64::total_cmp);
        let Some(&usual) = densities.get(densities.len().saturating_sub(1) / 2) else { continue };
        if densities.last().is_none_or(|&densest| densest <= DENSE * usual) {
            continue;
        }
        let mut left = Vec::new();
        for index in windows {
            let more = density(&recording.windows[index]) / usual;
            let Some(chosen) = seen.get_mut(&index) else { continue };
            if more > DENSE {
                *chosen = thin(chosen, more, random);
            }
            left.extend_from_slice(chosen);
        }
        record.profile = profile_of(&left, recording.line_size);
    }
}

/// A profile of samples, each of which counts one access.
fn profile_of(counts: &[(Outcome, u64)], line_size: LineSize) -> ReuseProfile {
    let mut profile = ReuseProfile::new(line_size);
    for &(outcome, count) in counts {
        profile.record_many(outcome, count, 1);
    }
    profile
}

/// Adds to the curve of each window's phase what is believed to be different in it.
fn add_differences(
    course: &mut [Vec<f64>],
    run: &GuidedRun,
    mut seen: Seen,
    sizes: &[CacheLines],
) -> Result<(), reuse_sampler::Error> {
    for record in &run.phases {
        let Ok(model) = StatStack::fit(&record.profile) else { continue };
        let of_phase =
            |(index, window): (usize, &WindowRecord)| (window.phase == record.phase).then_some(index);
        let windows: Vec<usize> = run.windows.iter().enumerate().filter_map(of_phase).collect();
        let profiled = windows
            .iter()
            .enumerate()
            .filter_map(|(at, index)| Some((at, profile_of(&seen.remove(index)?, run.line_size))));
        let (places, profiles): (Vec<usize>, Vec<ReuseProfile>) =
            profiled.filter(|(_, profile)| !profile.is_empty()).unzip();
        let differences = differences_within_phase(&profiles.iter().collect::<Vec<_>>(), &model, sizes)?;
        let differences: Vec<_> = places.into_iter().zip(differences).collect();
        for (&index, difference) in windows.iter().zip(between(&differences, windows.len(), sizes.len())) {
            for (miss_ratio, more) in course[index].iter_mut().zip(difference) {
                *miss_ratio = (*miss_ratio + more).clamp(0.0, 1.0);
            }
        }
    }
    Ok(())
}

/// A window of which only the code is known.
fn unseen(recorded: &RecordedWindow, index: usize, line_size: LineSize) -> Window {
    let mut window = Window::new(WindowIndex(index as u64), ThreadId(0), line_size);
    window.instructions = recorded.instructions;
    window.code.clone_from(&recorded.code);
    window
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_is_in_proportion() {
        let known = [(1, vec![0.0, 1.0]), (5, vec![0.4, 0.0])];
        let course = between(&known, 7, 2);
        assert_eq!(course[0], [0.0, 1.0]);
        assert!((course[2][0] - 0.1).abs() < 1e-12 && (course[4][1] - 0.25).abs() < 1e-12);
        assert_eq!(course[6], [0.4, 0.0]);
        assert_eq!(between(&[], 1, 2), [[0.0, 0.0]]);
    }
}
