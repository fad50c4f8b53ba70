//! What each program does alone: a curve over the cache's size for every window of it.
//!
//! Three ways to measure, all of a program that has run before: the chip with fewer of the shared cache's ways, as
//! cache partitioning would do it; a simulated pirate that steals the rest of the cache; and reuse profiles turned
//! into curves by `StatStack`, which needs no machine.

use std::num::NonZeroUsize;

use cache_pirate::{Testbed, Until, Who};
use cachesharing::{CacheCurve, Program, ReuseTimes, Window};
use phase_detect::{Clusterer, Pop, PopConfig, Signature};

use super::Ground;
use super::bench::{Bench, Measured, point};
use super::reuse::{MODELLED, by_statstack};
use crate::cli::Failure;
use crate::machines::chip::{Counters, Program as _};
use crate::machines::testbed::programs::Recorded;
use crate::machines::testbed::{PirateCore, SimulatedTestbed};
use crate::parallel::in_order;

/// How curves are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Curves {
    /// On the chip with fewer ways of its shared cache
    Ways,
    /// Beside a simulated pirate that steals part of the shared cache
    Pirate,
    /// Modelled by StatStack from the program's reuse
    Statstack,
}

/// A pirate that fetches more of the lines it touches does not hold what it is to steal.
const MOST_PIRATE_FETCHES: f64 = 0.01;

/// One window of a program: its work and its curve.
pub(super) type SoloWindow = (f64, CacheCurve);

/// Measures every window of `played` and sorts the windows into phases.
pub(super) fn profile(
    ground: &Ground,
    played: &Recorded,
    curves: Curves,
    threads: NonZeroUsize,
) -> Result<Program<u64>, Failure> {
    let program = phased(ground, &played.name, windows(ground, played, curves, threads)?)?;
    let uncertainty = if curves == Curves::Statstack { MODELLED } else { 0.0 };
    program.with_uncertainty(uncertainty).map_err(Failure::run)
}

/// Measures every window of `played`.
fn windows(
    ground: &Ground,
    played: &Recorded,
    curves: Curves,
    threads: NonZeroUsize,
) -> Result<Vec<SoloWindow>, Failure> {
    let windows = match curves {
        Curves::Ways => {
            let line = ground.settings.line_size().bytes();
            let windows = ground.windows(played).zip(alone(ground, played, ground.sizes(), threads)?);
            let windows = windows.map(|(accesses, Measured { points, reuse_times, .. })| {
                let curve = CacheCurve::new(points, played.mix, line)?;
                Ok((accesses as f64 / played.mix, timed(curve, reuse_times)?))
            });
            return windows.collect();
        }
        Curves::Pirate => beside_pirates(ground, played, threads)?,
        Curves::Statstack => by_statstack(ground, played)?,
    };
    if !ground.reuse_times {
        return Ok(windows);
    }
    let windows = windows.into_iter().zip(alone(ground, played, Vec::new(), threads)?);
    windows.map(|((work, curve), alone)| Ok((work, timed(curve, alone.reuse_times)?))).collect()
}

/// A curve with reuse times, if any were counted.
pub(super) fn timed(curve: CacheCurve, times: Option<ReuseTimes>) -> Result<CacheCurve, Failure> {
    match times {
        Some(times) => curve.with_reuse_times(times).map_err(Failure::run),
        None => Ok(curve),
    }
}

/// Measures the windows of `played` alone with caches of these sizes.
fn alone(
    ground: &Ground,
    played: &Recorded,
    sizes: Vec<u64>,
    threads: NonZeroUsize,
) -> Result<Vec<Measured>, Failure> {
    let warm_up = ground.warm_up(played);
    let mut player = played.player()?.starting_at(played.recording.references() - warm_up);
    let mut references = std::iter::from_fn(|| {
        player.next_reference().or_else(|| {
            player.restart();
            player.next_reference()
        })
    });
    let mut bench = Bench::new(ground, sizes, threads)?;
    bench.warm_up(references.by_ref().take(warm_up as usize))?;
    let window = |accesses| bench.window(references.by_ref().take(accesses as usize), accesses);
    ground.windows(played).map(window).collect()
}

/// What was counted in a window at one size, and whether it can be relied upon.
struct Counted {
    counters: Counters,
    trusted: bool,
}

/// Measures each size in a pass of its own, beside a pirate that steals the rest, and puts the windows together.
fn beside_pirates(
    ground: &Ground,
    played: &Recorded,
    threads: NonZeroUsize,
) -> Result<Vec<SoloWindow>, Failure> {
    let (sizes, cache) = (ground.sizes(), ground.settings.shared.geometry.bytes());
    let measure = |size| beside_pirate(ground, played, cache - size);
    let passes = in_order(sizes.len(), threads, &|| false, |i| measure(sizes[i]))?;
    let line = ground.settings.line_size().bytes();
    ground
        .windows(played)
        .enumerate()
        .map(|(number, accesses)| {
            let points = sizes.iter().zip(&passes).filter_map(|(&bytes, pass)| {
                let counted = pass.get(number)?;
                counted.trusted.then(|| point(bytes, &counted.counters))
            });
            let curve = CacheCurve::new(points.collect(), played.mix, line)?;
            Ok((accesses as f64 / played.mix, curve))
        })
        .collect()
}

/// Counts each window of a pass while a pirate steals `stolen` bytes.
fn beside_pirate(ground: &Ground, played: &Recorded, stolen: u64) -> Result<Vec<Counted>, Failure> {
    let warm_up = ground.warm_up(played);
    let core = ground.core(played, played.recording.references() - warm_up)?;
    let testbed = SimulatedTestbed::new(&ground.settings, core, u64::MAX, 1, PirateCore::default());
    let mut testbed = testbed?;
    let who = if stolen > 0 { Who::Both } else { Who::Target };
    testbed.steal(stolen, 1)?;
    // The second walk finds what the first one brought in.
    testbed.run(Who::Pirate, Until::Walks(2))?;
    testbed.run(who, Until::Work(warm_up as f64 / played.mix))?;
    let mut last = (testbed.target_counters(), testbed.read()?.pirate);
    ground
        .windows(played)
        .map(|accesses| {
            testbed.run(who, Until::Work(accesses as f64 / played.mix))?;
            let now = (testbed.target_counters(), testbed.read()?.pirate);
            let touches = now.1.touches - last.1.touches;
            let fetches = now.1.fetches - last.1.fetches;
            let trusted = stolen == 0 || fetches <= MOST_PIRATE_FETCHES * touches;
            let counters = now.0 - last.0;
            last = now;
            Ok(Counted { counters, trusted })
        })
        .collect()
}

/// Puts windows of like speed at every size into one phase.
///
/// A trace has no code to tell phases by. What matters here is what a window does at each size of the cache, and that
/// does not depend on who runs beside it.
pub(super) fn phased(
    ground: &Ground,
    name: &str,
    windows: impl IntoIterator<Item = SoloWindow>,
) -> Result<Program<u64>, Failure> {
    let mut phases = Phases::new(ground)?;
    let members = windows
        .into_iter()
        .map(|(work, curve)| Ok(Window::measured(work, phases.of(&curve)?, curve)))
        .collect::<Result<Vec<_>, Failure>>()?;
    Program::new(name, [], members).map_err(Failure::run)
}

/// Phases by speed at every size.
pub(super) struct Phases {
    sizes: Vec<u64>,
    clusterer: Pop,
}

impl Phases {
    pub fn new(ground: &Ground) -> Result<Self, Failure> {
        let config = PopConfig { threshold: ground.threshold, capacity: None, ..PopConfig::default() };
        Ok(Self { sizes: ground.sizes(), clusterer: Pop::new(config).map_err(Failure::usage)? })
    }

    /// The phase of a window with this curve.
    pub fn of(&mut self, curve: &CacheCurve) -> Result<u64, Failure> {
        let speeds: Vec<f64> = self.sizes.iter().map(|&bytes| curve.cpi(bytes as f64)).collect();
        let signature = Signature::raw(speeds)?;
        Ok(self.clusterer.classify(&signature)?.phase.index() as u64)
    }
}
