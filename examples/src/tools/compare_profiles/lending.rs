//! How far off a run may be where one phase stands in for another.

use std::collections::HashMap;

use reuse_sampler::file::{PhaseProfile, ProfiledPhase};

use super::estimate::point;
use crate::guided::lending_margin;
use crate::report::StoredCurves;

/// What a run borrows.
#[derive(Clone, Debug)]
pub(super) struct Lending {
    /// Each phase that was profiled, with the one that would stand in for it.
    tried: Vec<(String, String)>,
    /// Accesses in phases never profiled, relative to all: the root of the sum of the squares, as their errors differ.
    share: f64,
}

impl Lending {
    pub fn of(profile: &PhaseProfile) -> Self {
        let mut weights: HashMap<&str, f64> = HashMap::new();
        for window in &profile.windows {
            *weights.entry(&window.phase).or_default() +=
                window.accesses.unwrap_or(window.instructions) as f64;
        }
        let total: f64 = weights.values().sum();
        let (borrowing, profiled): (Vec<&ProfiledPhase>, Vec<&ProfiledPhase>) =
            profile.phases.iter().partition(|phase| phase.borrows_from.is_some());
        let squares =
            borrowing.iter().map(|phase| weights.get(&*phase.phase).map_or(0.0, |w| (w / total).powi(2)));
        let lender = |phase: &ProfiledPhase| {
            let others = profiled.iter().filter(|other| other.phase != phase.phase);
            let nearest = others.max_by(|a, b| alike(phase, a).total_cmp(&alike(phase, b)))?;
            Some((phase.phase.clone(), nearest.phase.clone()))
        };
        Self {
            share: squares.sum::<f64>().sqrt(),
            tried: profiled.iter().filter_map(|p| lender(p)).collect(),
        }
    }

    /// Half the 95 % interval of a miss ratio that another phase lends. Where fewer than two phases were profiled,
    /// it may be anything.
    pub fn of_phase(&self, curves: &StoredCurves, bytes: u64) -> f64 {
        let at = |name: &String| Some(point(&curves.bytes, curves.phases.get(name)?, bytes)?.miss_ratio);
        lending_margin(self.tried.iter().filter_map(|(own, lent)| Some(at(own)? - at(lent)?)))
    }

    /// The same of the run's miss ratio.
    pub fn of_run(&self, curves: &StoredCurves, bytes: u64) -> f64 {
        if self.share > 0.0 { self.share * self.of_phase(curves, bytes) } else { 0.0 }
    }
}

/// Share of the instructions in the same code of one run.
fn alike(one: &ProfiledPhase, other: &ProfiledPhase) -> f64 {
    let there: HashMap<&str, f64> = other.code.iter().map(|(name, share)| (&**name, *share)).collect();
    one.code.iter().filter_map(|(name, share)| there.get(&**name).map(|there| share.min(*there))).sum()
}

#[cfg(test)]
mod tests {
    use reuse_sampler::file::ProfiledWindow;
    use reuse_sampler::{LineSize, ReuseProfile};

    use super::*;
    use crate::report::StoredPoint;

    /// Name, code, and miss ratio.
    type Given<'a> = (&'a str, &'a [(&'a str, f64)], Option<f64>);

    /// Phases of this code and miss ratio in four windows of as many accesses; those without a ratio borrow.
    fn run(phases: &[Given<'_>]) -> (PhaseProfile, StoredCurves) {
        let mut profile = PhaseProfile::new("", LineSize::B64);
        let mut curves = StoredCurves { bytes: vec![1024], ..StoredCurves::default() };
        for (name, code, miss_ratio) in phases {
            let mut phase = ProfiledPhase::new(*name, ReuseProfile::new(LineSize::B64));
            phase.code = code.iter().map(|&(name, share)| (name.to_owned(), share)).collect();
            phase.borrows_from = miss_ratio.is_none().then(|| "A".to_owned());
            profile.phases.push(phase);
            let window = profile.windows.len() as u64;
            let phase = (*name).to_owned();
            profile.windows.push(ProfiledWindow {
                window,
                thread: 0,
                instructions: 9,
                accesses: Some(4),
                phase,
            });
            let miss_ratio = miss_ratio.unwrap_or(0.1);
            let point = StoredPoint { miss_ratio, low: miss_ratio, high: miss_ratio, model_error: 0.0 };
            curves.phases.insert((*name).to_owned(), vec![point]);
        }
        (profile, curves)
    }

    #[test]
    fn lending_errs_as_between_phases_that_were_profiled() {
        // A and B would lend to each other, C would borrow from B: errors of 0.1, 0.1 and 0.3.
        let three: [Given<'_>; 3] = [
            ("A", &[("f", 0.9), ("g", 0.1)], Some(0.1)),
            ("B", &[("f", 0.6), ("g", 0.4)], Some(0.2)),
            ("C", &[("g", 0.8), ("h", 0.2)], Some(0.5)),
        ];
        let (profile, curves) = run(&[&three[..], &[("D", &[("h", 1.0)], None)]].concat());
        let lending = Lending::of(&profile);
        let wanted = 1.5 * (0.11_f64 / 3.0).sqrt();
        assert!((lending.of_phase(&curves, 1024) - wanted).abs() < 1e-12, "{lending:?}");
        assert!((lending.of_run(&curves, 1024) - wanted / 4.0).abs() < 1e-12, "{lending:?}");
        // All profiled, and one alone.
        let (profile, curves) = run(&three);
        assert_eq!(Lending::of(&profile).of_run(&curves, 1024), 0.0);
        let (profile, curves) = run(&[three[0], ("D", &[("h", 1.0)], None)]);
        assert_eq!(Lending::of(&profile).of_run(&curves, 1024), 0.5);
    }
}
