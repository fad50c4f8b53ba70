//! The Cache Pirating paper's figures and tables on the simulated chip, where the truth is known.
//!
//! Everything is scaled to a chip with a shared cache of a chosen size: working sets, intervals and the private
//! caches go with it (see [`scaled_nehalem`]). SPEC is replaced by the embedded
//! kernels. What the paper could not know, the true cache of each size, is here a simulation of the target alone.

use cache_pirate::{
    CacheCurve, CurvePoint, Measurements, Pace, PirateError, PirateParams, SharedCache, Threads, measure,
    measure_fixed,
};

use super::programs::{Micro, Recorded};
use super::truth::{alone_with_ways, scaled_nehalem};
use super::{PirateCore, SimulatedTestbed, stressmark};
use crate::machines::chip::{
    CacheSettings, ChipError, ChipSettings, CoreSettings, Counters, Frames, Inclusion, Index, Policy,
    PrefetcherSettings, Program,
};
use crate::workloads::{Kernel, Workload};

/// What an experiment may stumble over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The chip.
    #[error(transparent)]
    Chip(#[from] ChipError),
    /// The pirate.
    #[error(transparent)]
    Pirate(#[from] PirateError),
}

/// A curve measured by a pirate beside the truth.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Everything that was measured.
    pub run: Measurements,
    /// The curve.
    pub curve: CacheCurve,
    /// The target alone in a cache of each point's size.
    pub truth: Vec<Counters>,
    /// Where those follow accessed bits: the same if the last bit to be set clears itself too, which is the worst
    /// that a pirate's touching the last line can do (section III.3.2).
    pub worst_case: Option<Vec<Counters>>,
}

impl Compared {
    /// Points with their truths.
    pub fn points(&self) -> impl Iterator<Item = (&CurvePoint, &Counters)> {
        self.curve.points().iter().zip(&self.truth)
    }

    /// Absolute errors of the fetch ratio at the trusted points.
    pub fn fetch_errors(&self) -> impl Iterator<Item = f64> + '_ {
        let trusted = self.points().filter(|(point, _)| point.is_trusted());
        trusted.filter_map(|(point, truth)| Some((point.fetch_ratio? - truth.fetch_ratio()).abs()))
    }

    /// The same, to the range between [`truth`](Self::truth) and [`worst_case`](Self::worst_case).
    pub fn fetch_errors_beyond(&self) -> impl Iterator<Item = f64> + '_ {
        let worst = self.worst_case.as_deref().unwrap_or(&self.truth);
        let trusted = self.points().zip(worst).filter(|((point, _), _)| point.is_trusted());
        trusted.filter_map(|((point, truth), worst)| {
            let (one, other) = (truth.fetch_ratio(), worst.fetch_ratio());
            let found = point.fetch_ratio?;
            Some((one.min(other) - found).max(found - one.max(other)).max(0.0))
        })
    }

    /// Relative errors of the CPI at the trusted points.
    pub fn cpi_errors(&self) -> impl Iterator<Item = f64> + '_ {
        let trusted = self.points().filter(|(point, _)| point.is_trusted());
        trusted.map(|(point, truth)| (point.cpi / truth.cpi() - 1.0).abs())
    }

    /// How much longer the run took than the target alone with the whole cache.
    pub fn overhead(&self) -> f64 {
        self.truth.last().map_or(f64::NAN, |whole| self.run.overhead(whole.cpi()))
    }

    /// How much of that is the target's own: what it would take longer alone in caches of the sizes, one after the other
    /// for as much work each.
    pub fn explained(&self) -> f64 {
        let mean = self.truth.iter().map(Counters::cpi).sum::<f64>() / self.truth.len() as f64;
        self.truth.last().map_or(f64::NAN, |whole| mean / whole.cpi() - 1.0)
    }
}

/// Mean and maximum.
pub fn mean_and_max(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (mut n, mut sum, mut max) = (0.0, 0.0, 0.0_f64);
    for value in values {
        n += 1.0;
        sum += value;
        max = max.max(value);
    }
    (sum / f64::max(n, 1.0), max)
}

/// Measures a curve at every number of ways, and plays the target alone at each for the truth: `measured`
/// accesses after `skipped` ones.
///
/// # Errors
/// [`ExperimentError`] for parameters out of range, or a target that ends before anything is measured.
pub fn compare<P: Program>(
    settings: &ChipSettings,
    target: impl Fn() -> Result<CoreSettings<P>, ChipError>,
    passes: u64,
    threads: usize,
    params: &PirateParams,
    (skipped, measured): (u64, u64),
) -> Result<Compared, ExperimentError> {
    let geometry = settings.shared.geometry;
    let cache = SharedCache { bytes: geometry.bytes(), line_size: settings.line_size().bytes() };
    let plan = params.check(cache)?;
    let mut testbed = SimulatedTestbed::new(settings, target()?, passes, threads, PirateCore::default())?;
    let run = measure(&mut testbed, &plan)?;
    let curve = run.curve()?;
    let way = cache.bytes / geometry.ways();
    let truth = |settings: &ChipSettings| {
        let ways = curve.points().iter().map(|point| point.bytes.div_ceil(way));
        ways.map(|ways| alone_with_ways(settings, ways, target()?, skipped, measured))
            .collect::<Result<Vec<Counters>, ChipError>>()
    };
    let worst_case = (settings.shared.policy == Policy::Nehalem).then(|| {
        let mut settings = settings.clone();
        settings.shared.policy = Policy::NehalemWorstCase;
        truth(&settings)
    });
    Ok(Compared { truth: truth(settings)?, worst_case: worst_case.transpose()?, run, curve })
}

/// Measures a recorded program: as many whole passes per interval as make `accesses` accesses or more, so that
/// every size sees the same program, and `cycles` cycles.
///
/// # Errors
/// As [`compare`].
pub fn compare_recorded(
    settings: &ChipSettings,
    program: &Recorded,
    threads: Threads,
    accesses: u64,
    cycles: u64,
) -> Result<Compared, ExperimentError> {
    compare_passes(settings, program, threads, accesses, cycles, None)
}

/// The same at `sizes`, or at the plan's own.
fn compare_passes(
    settings: &ChipSettings,
    program: &Recorded,
    threads: Threads,
    accesses: u64,
    cycles: u64,
    sizes: Option<Vec<u64>>,
) -> Result<Compared, ExperimentError> {
    let pass = program.recording.references();
    let passes = accesses.div_ceil(pass);
    let interval = passes as f64 * program.instructions();
    let params = PirateParams {
        sizes,
        interval: Some(interval),
        // One pass fills an LRU cache as the next one finds it.
        target_warm_up: Some(program.instructions().max(0.25 * interval)),
        threads,
        cycles: Some(cycles),
        pace: Pace::Continuous,
        ..PirateParams::default()
    };
    let target = || Ok(CoreSettings::new(program.player()?));
    compare(settings, target, u64::MAX, most(threads), &params, (2 * pass, passes * pass))
}

/// Cores for the pirate: the paper's machine has three beside the target's.
const fn most(threads: Threads) -> usize {
    match threads {
        Threads::Fixed(threads) => threads,
        Threads::Auto => 3,
    }
}

/// The kernels with working sets from a quarter to one and a half times a cache of `bytes`.
pub fn suite(bytes: u64) -> Vec<(&'static str, Workload)> {
    let items = |each: u64| (bytes / each).max(1) as usize;
    let side = ((bytes / 40) as f64).sqrt() as usize;
    let kernels = [
        Kernel::Quicksort { keys: items(16) },
        Kernel::Mergesort { keys: items(24) },
        Kernel::HashJoin { build: items(56), probe: items(14) },
        Kernel::MatmulNaive { n: side },
        Kernel::MatmulBlocked { n: side, tile: 8 },
        Kernel::BTree { keys: items(40), lookups: items(40) },
        Kernel::Bfs { vertices: items(64), degree: 8 },
        Kernel::PageRank { vertices: items(80), degree: 8, iterations: 3 },
        Kernel::KeyValue { keys: bytes / 100, requests: items(25), skew_percent: 99 },
        Kernel::Stream { length: items(32), passes: 4 },
        Kernel::PointerChase { nodes: items(128), hops: items(16) },
        Kernel::Gather { length: items(6), picks: items(6) },
    ];
    kernels.into_iter().map(|kernel| (kernel.name(), Workload::kernel(kernel, 1, 1))).collect()
}

/// Chips that differ from the paper's in one thing each, with a shared cache of `bytes`: what processors after 2017
/// have, and policies that are not LRU.
///
/// # Errors
/// As [`scaled_nehalem`].
pub fn machines(bytes: u64, seed: u64) -> Result<Vec<(&'static str, ChipSettings)>, ChipError> {
    let paper = scaled_nehalem(bytes, Policy::Lru)?;
    let second = CacheSettings::lru(bytes / 16, 8, paper.line_size())?;
    let hashed = paper.shared.geometry.with_index(Index::Hashed);
    let with_l2 = |inclusion| ChipSettings { l2: Some(second), inclusion, ..paper.clone() };
    let with_policy = |policy| ChipSettings { shared: paper.shared.with_policy(policy), ..paper.clone() };
    Ok(vec![
        ("huge pages", paper.clone()),
        ("4 KiB frames", ChipSettings { frames: Some(Frames { seed }), ..paper.clone() }),
        (
            "hashed sets",
            ChipSettings { shared: CacheSettings { geometry: hashed, ..paper.shared }, ..paper.clone() },
        ),
        ("not inclusive", with_l2(Inclusion::None)),
        ("victim cache", with_l2(Inclusion::Victim)),
        ("prefetching", ChipSettings { prefetcher: Some(PrefetcherSettings::default()), ..paper.clone() }),
        ("SRRIP", with_policy(Policy::Srrip)),
        ("tree-PLRU", with_policy(Policy::TreePlru)),
        ("accessed bits", with_policy(Policy::Nehalem)),
        ("random", with_policy(Policy::Random { seed })),
    ])
}

/// Chips that differ from the paper's in several things at once: shared caches of one to two and a half times `bytes` in 8 to
/// 32 ways, with second levels of 8 to 25 % of them. Nothing was chosen on these.
///
/// # Errors
/// As [`ChipSettings::paper`]; [`ChipError::Geometry`] unless `bytes` is a multiple of 512 lines.
pub fn combined_machines(bytes: u64, seed: u64) -> Result<Vec<(&'static str, ChipSettings)>, ChipError> {
    use Inclusion::{Inclusive, None as Free, Victim};
    let kib = |n: u64| n * bytes / 128;
    let plru = Policy::TreePlru;
    let chip = |shared: (u64, u64), policy, hashed, l2: (u64, u64), inclusion, prefetching: bool| {
        let paper = ChipSettings::paper()?;
        let cache = |(size, ways)| CacheSettings::lru(kib(size), ways, paper.line_size());
        let mut shared = cache(shared)?.with_policy(policy);
        if hashed {
            shared.geometry = shared.geometry.with_index(Index::Hashed);
        }
        Ok::<_, ChipError>(ChipSettings {
            l1: cache((2, 4))?,
            l2: Some(cache(l2)?),
            shared,
            inclusion,
            prefetcher: prefetching.then(PrefetcherSettings::default),
            lines_per_cycle: Some(1.0 / 14.0),
            ..paper
        })
    };
    let frames = ChipSettings {
        frames: Some(Frames { seed }),
        ..chip((256, 16), Policy::Lru, false, (24, 12), Victim, false)?
    };
    Ok(vec![
        ("PLRU, hash, pref.", chip((192, 16), plru, true, (32, 16), Free, true)?),
        ("PLRU, 32 ways", chip((256, 32), plru, false, (20, 10), Free, false)?),
        ("PLRU, incl, pref.", chip((320, 16), plru, false, (32, 8), Inclusive, true)?),
        ("PLRU, 8, victim", chip((192, 8), plru, true, (16, 8), Victim, false)?),
        ("24, victim, hash", chip((192, 24), Policy::Lru, true, (48, 12), Victim, true)?),
        ("9 ways, hashed", chip((144, 9), Policy::Lru, true, (28, 7), Free, false)?),
        ("acc. bits, victim", chip((160, 20), Policy::Nehalem, true, (16, 8), Victim, false)?),
        ("RRIP, incl, pref.", chip((192, 16), Policy::Srrip, false, (16, 8), Inclusive, true)?),
        ("RRIP, 12 ways", chip((192, 12), Policy::Srrip, false, (24, 12), Free, false)?),
        ("4 KiB, victim", frames),
    ])
}

/// Measures a recorded program at each number of ways of such a chip, in one cycle of whole passes.
///
/// # Errors
/// As [`compare`].
pub fn compare_at_ways(settings: &ChipSettings, program: &Recorded) -> Result<Compared, ExperimentError> {
    let geometry = settings.shared.geometry;
    let sizes = (1..=geometry.ways()).map(|ways| ways * geometry.bytes() / geometry.ways()).collect();
    compare_passes(settings, program, Threads::Fixed(1), 4 * geometry.lines().0, 1, Some(sizes))
}

/// How the micro-benchmarks read their array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Uniformly at random.
    Random,
    /// In order, over and over.
    Sequential,
}

/// Figure 5: an array as large as the cache of `bytes`, read at random or in order.
///
/// # Errors
/// As [`compare`].
pub fn figure_five(bytes: u64, policy: Policy, pattern: Pattern) -> Result<Compared, ExperimentError> {
    let settings = scaled_nehalem(bytes, policy)?;
    let lines = settings.shared.geometry.lines().0;
    let accesses = 64 * lines;
    let params = PirateParams {
        interval: Some(4.0 * accesses as f64), // a read every fourth instruction
        target_warm_up: Some(4.0 * 16.0 * lines as f64),
        threads: Threads::Fixed(1),
        cycles: Some(1),
        ..PirateParams::default()
    };
    let target = || {
        Ok(CoreSettings::new(match pattern {
            Pattern::Random => Micro::random(lines, 1),
            Pattern::Sequential => Micro::sequential(lines),
        }))
    };
    compare(&settings, target, u64::MAX, 1, &params, (16 * lines, accesses))
}

/// Figure 9: the most that so many pirate threads can steal from a program, in bytes.
///
/// # Errors
/// As [`compare`].
pub fn stealable(
    bytes: u64,
    policy: Policy,
    program: &Recorded,
    threads: usize,
) -> Result<u64, ExperimentError> {
    let settings = scaled_nehalem(bytes, policy)?;
    let pass = program.recording.references();
    let passes = (4 * settings.shared.geometry.lines().0).div_ceil(pass);
    let interval = passes as f64 * program.instructions();
    let params = PirateParams {
        interval: Some(interval),
        target_warm_up: Some(program.instructions()),
        threads: Threads::Fixed(threads),
        cycles: Some(1),
        ..PirateParams::default()
    };
    let cache = SharedCache { bytes, line_size: settings.line_size().bytes() };
    let target = CoreSettings::new(program.player()?);
    let mut testbed = SimulatedTestbed::new(&settings, target, u64::MAX, threads, PirateCore::default())?;
    Ok(measure(&mut testbed, &params.check(cache)?)?.curve()?.stealable())
}

/// A row of table 2.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct OneRun {
    /// Instructions per interval.
    pub interval: f64,
    /// Execution time above that of the target alone with the whole cache, as a fraction.
    pub overhead: f64,
    /// The same of the target alone, in caches of the sizes one after the other for as much work each.
    pub explained: f64,
    /// Part of the run in which the target stood still.
    pub suspended: f64,
    /// Relative error of the CPI against true caches: mean and maximum over the trusted sizes.
    pub cpi_error: (f64, f64),
    /// The same against a pirate that steals one size for a whole run, which is what the paper's table compares
    /// with.
    pub against_fixed: (f64, f64),
    /// Sizes that are trusted.
    pub trusted: usize,
}

/// Table 2: all sizes in one run of `program`, which starts over until `cycles` cycles are done, against whole
/// passes in true caches and beside a pirate that keeps to one size.
///
/// # Errors
/// As [`compare`].
pub fn one_run(
    settings: &ChipSettings,
    program: &Recorded,
    interval: f64,
    pace: Pace,
    cycles: u64,
) -> Result<OneRun, ExperimentError> {
    let params = PirateParams {
        interval: Some(interval),
        target_warm_up: Some(program.instructions().max(interval)),
        threads: Threads::Fixed(1),
        pace,
        cycles: Some(cycles),
        ..PirateParams::default()
    };
    let pass = program.recording.references();
    let target = || Ok(CoreSettings::new(program.player()?));
    let compared = compare(settings, target, u64::MAX, 1, &params, (2 * pass, pass))?;
    let fixed = PirateParams { interval: Some(program.instructions()), cycles: Some(1), ..params };
    let fixed = fixed.check(compared.curve.cache())?;
    let mut errors = Vec::new();
    for point in compared.curve.trusted() {
        let mut testbed = SimulatedTestbed::new(settings, target()?, u64::MAX, 1, PirateCore::default())?;
        let whole = measure_fixed(&mut testbed, &fixed, point.bytes)?.curve()?;
        errors.extend(whole.points().iter().map(|whole| (point.cpi / whole.cpi - 1.0).abs()));
    }
    Ok(OneRun {
        interval,
        overhead: compared.overhead(),
        explained: compared.explained(),
        suspended: compared.run.suspended / compared.run.total.elapsed,
        cpi_error: mean_and_max(compared.cpi_errors()),
        against_fixed: mean_and_max(errors),
        trusted: compared.curve.trusted().count(),
    })
}

impl OneRun {
    /// Execution time above that which the target's own curve explains, if it ran without gaps, as a fraction.
    pub fn beyond(&self) -> f64 {
        (1.0 + self.overhead) / (1.0 + self.explained) - 1.0
    }
}

/// The pirate and the Stressmark, each stealing half of the cache from the sequential micro-benchmark.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Rivals {
    /// CPI of the target alone in half the cache.
    pub true_cpi: f64,
    /// As the pirate measures it.
    pub pirate_cpi: f64,
    /// As the Stressmark measures it.
    pub stressmark_cpi: f64,
    /// Share of the cache that the Stressmark believes to hold.
    pub stressmark_share: f64,
    /// Lines per cycle that the pirate took from memory.
    pub pirate_fetches_per_cycle: f64,
    /// Lines per cycle that the Stressmark took from memory.
    pub stressmark_fetches_per_cycle: f64,
}

/// Section III.6: what it costs that the Stressmark misses. LRU, a cache of `bytes`, and prefetching, by which the
/// sequential target needs the memory's whole bandwidth.
///
/// # Errors
/// As [`compare`].
pub fn stressmark_rival(bytes: u64) -> Result<Rivals, ExperimentError> {
    let mut settings = scaled_nehalem(bytes, Policy::Lru)?;
    settings.prefetcher = Some(PrefetcherSettings::default());
    let lines = settings.shared.geometry.lines().0;
    let accesses = (16 * lines, 16 * lines);
    let target = || CoreSettings::new(Micro::sequential(lines));
    let truth = alone_with_ways(&settings, 8, target(), accesses.0, accesses.1)?;
    let params = PirateParams {
        sizes: Some(vec![bytes / 2]),
        interval: Some(4.0 * accesses.1 as f64),
        target_warm_up: Some(4.0 * accesses.0 as f64),
        threads: Threads::Fixed(1),
        cycles: Some(1),
        ..PirateParams::default()
    };
    let compared = compare(&settings, || Ok(target()), u64::MAX, 1, &params, accesses)?;
    let interval = compared.run.intervals.first().map(|interval| interval.counts).unwrap_or_default();
    let stressed = stressmark::holding(&settings, target, lines / 2, accesses, 1)?;
    Ok(Rivals {
        true_cpi: truth.cpi(),
        pirate_cpi: interval.target.cpi(),
        stressmark_cpi: stressed.target.cpi(),
        stressmark_share: stressed.inferred_lines / lines as f64,
        pirate_fetches_per_cycle: interval.pirate.fetches / interval.target.time,
        stressmark_fetches_per_cycle: stressed.stressmark.fetches() as f64 / stressed.target.cycles,
    })
}
