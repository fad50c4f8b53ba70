//! Curves without a machine: each window's reuse, followed access by access, and StatStack.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use cachesharing::{CacheCurve, CurvePoint, ReuseTimes};
use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};
use statstack::StatStack;

use super::Ground;
use super::solo::SoloWindow;
use crate::cli::Failure;
use crate::guided::AddressHasher;
use crate::machines::testbed::modelled::modelled_curve;
use crate::machines::testbed::programs::Recorded;

/// The curve of each window of a program that has run once before.
pub(super) fn by_statstack(ground: &Ground, played: &Recorded) -> Result<Vec<SoloWindow>, Failure> {
    let sizes = ground.sizes();
    let windows = ground.windows(played).zip(profiles(ground, played));
    windows
        .map(|(accesses, profile)| {
            let curve = modelled(ground, &StatStack::fit(&profile)?, played.mix, &sizes)?;
            Ok((accesses as f64 / played.mix, with_estimated_times(ground, curve, &profile)?))
        })
        .collect()
}

/// Relative error of slowdowns predicted from modelled curves. With it, the ranges of `gzip`, `sqlite3`, `xz`, `sort` and
/// `python3`, sampled at 1 in 100, contain what is predicted from every access (60 pairs on three chips).
pub(super) const MODELLED: f64 = 0.025;

/// The curve that StatStack gives at the given sizes.
pub(super) fn modelled(
    ground: &Ground,
    model: &StatStack,
    mix: f64,
    sizes: &[u64],
) -> Result<CacheCurve, Failure> {
    let curve = modelled_curve(&ground.settings, model, mix, ground.base_cpi(), sizes)?;
    let points = curve.points().iter().filter_map(|p| {
        let (miss_ratio, fetch_ratio) = (p.miss_ratio?, p.fetch_ratio?);
        let mut point = CurvePoint::new(p.bytes, p.cpi, miss_ratio).with_fetch_ratio(fetch_ratio);
        point.hit_rate = p.hit_rate;
        Some(point)
    });
    CacheCurve::new(points.collect(), mix, ground.settings.line_size().bytes()).map_err(Failure::run)
}

/// The same curve with the reuse times that a profile leads to expect, where they are asked for.
pub(super) fn with_estimated_times(
    ground: &Ground,
    curve: CacheCurve,
    profile: &ReuseProfile,
) -> Result<CacheCurve, Failure> {
    if !ground.estimated {
        return Ok(curve);
    }
    let geometry = ground.settings.shared.geometry;
    let private = ground.settings.l2.unwrap_or(ground.settings.l1).geometry.lines();
    let way = geometry.bytes() / geometry.ways();
    let times = ReuseTimes::estimated(way, geometry.ways() as u32, private, profile);
    curve.with_reuse_times(times?).map_err(Failure::run)
}

/// The reuse of a stream of lines, window by window, from how long ago each access's line was touched.
#[derive(Default)]
pub(super) struct Reuse {
    last: HashMap<usize, LastTouches>, // by process
    next: u64,                         // number of the next access
}

/// Of each line, the number of the access that touched it last.
type LastTouches = HashMap<u64, u64, BuildHasherDefault<AddressHasher>>;

impl Reuse {
    /// Of a program that has run once before.
    pub fn after(played: &Recorded) -> Self {
        let last = played.recording.iter().zip(0..).map(|((line, _), number)| (line, number)).collect();
        Self { last: HashMap::from([(0, last)]), next: played.recording.references() }
    }

    /// The profile of a window of a process.
    pub fn window(
        &mut self,
        process: usize,
        line_size: LineSize,
        lines: impl Iterator<Item = u64>,
    ) -> ReuseProfile {
        let mut profile = ReuseProfile::new(line_size);
        let began = self.next;
        let last = self.last.entry(process).or_default();
        for line in lines {
            let outcome = match last.insert(line, self.next) {
                Some(before) => Outcome::Reused(ReuseDistance(self.next - before - 1)),
                None => Outcome::Dangling,
            };
            profile.record(outcome, 1);
            self.next += 1;
        }
        profile.add_accesses(self.next - began);
        profile
    }

    /// A process has ended: nothing of it is touched again.
    pub fn forget(&mut self, process: usize) {
        self.last.remove(&process);
    }
}

/// The profile of each window of a program that has run once before.
pub(super) fn profiles(ground: &Ground, played: &Recorded) -> Vec<ReuseProfile> {
    let mut reuse = Reuse::after(played);
    let (recording, mut begin) = (&played.recording, 0);
    let window = |accesses| {
        let lines = recording.lines(begin, begin + accesses);
        begin += accesses;
        reuse.window(0, recording.line_size(), lines)
    };
    ground.windows(played).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_not_touched_again() {
        let (mut reuse, line_size) = (Reuse::default(), LineSize::default());
        let reused = |profile: &ReuseProfile| profile.accesses() - profile.dangling_weight();
        assert_eq!(reused(&reuse.window(1, line_size, [7, 8, 7].into_iter())), 1);
        assert_eq!(reused(&reuse.window(2, line_size, [7, 8].into_iter())), 0);
        assert_eq!(reused(&reuse.window(1, line_size, [7, 8].into_iter())), 2);
        reuse.forget(1);
        assert_eq!(reused(&reuse.window(1, line_size, [7].into_iter())), 0);
        assert_eq!(reused(&reuse.window(2, line_size, [8].into_iter())), 1);
    }
}
