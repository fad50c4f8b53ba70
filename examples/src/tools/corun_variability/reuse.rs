//! Curves without a machine: each window's reuse, followed access by access, and StatStack.

use std::collections::HashMap;

use cachesharing::{CacheCurve, CurvePoint};
use reuse_sampler::{Outcome, ReuseDistance, ReuseProfile};

use super::Ground;
use super::solo::SoloWindow;
use crate::cli::Failure;
use crate::cli::Recorded;
use crate::machines::testbed::modelled::modelled_curve;

/// The curve of each window of a program that has run once before, from how long ago each access's line was touched.
pub(super) fn by_statstack(ground: &Ground, played: &Recorded) -> Result<Vec<SoloWindow>, Failure> {
    let sizes = ground.sizes();
    let mut reuse = Reuse::new(played);
    ground
        .windows(played)
        .map(|accesses| {
            let profile = reuse.next(accesses);
            let curve = modelled(ground, &profile, played.mix, &sizes)?;
            Ok((accesses as f64 / played.mix, curve))
        })
        .collect()
}

/// The curve that StatStack gives a profile at the given sizes.
pub(super) fn modelled(
    ground: &Ground,
    profile: &ReuseProfile,
    mix: f64,
    sizes: &[u64],
) -> Result<CacheCurve, Failure> {
    let curve =
        modelled_curve(&ground.settings, profile, mix, ground.base_cpi, sizes).map_err(Failure::run)?;
    let points = curve.points().iter().filter_map(|p| {
        let (miss_ratio, fetch_ratio) = (p.miss_ratio?, p.fetch_ratio?);
        Some(CurvePoint { bytes: p.bytes, cpi: p.cpi, miss_ratio, fetch_ratio, hit_rate: p.hit_rate })
    });
    CacheCurve::new(points.collect(), mix, profile.line_size().bytes()).map_err(Failure::run)
}

/// The reuse of a recording in its second pass.
struct Reuse<'a> {
    played: &'a Recorded,
    last: HashMap<u64, u64>, // line to the number of the access that touched it last
    next: u64,               // number of the next access, over both passes
}

impl<'a> Reuse<'a> {
    fn new(played: &'a Recorded) -> Self {
        let last = played.recording.iter().zip(0..).map(|((line, _), number)| (line, number)).collect();
        Self { played, last, next: played.recording.references() }
    }

    /// The profile of the next `accesses` accesses.
    fn next(&mut self, accesses: u64) -> ReuseProfile {
        let mut profile = ReuseProfile::new(self.played.recording.line_size());
        let begin = self.next - self.played.recording.references();
        for line in self.played.recording.lines(begin, begin + accesses) {
            let outcome = match self.last.insert(line, self.next) {
                Some(before) => Outcome::Reused(ReuseDistance(self.next - before - 1)),
                None => Outcome::Dangling,
            };
            profile.record(outcome, 1);
            self.next += 1;
        }
        profile.add_accesses(accesses);
        profile
    }
}
