//! One stream of accesses: exact curves, and samples of it.

use reuse_sampler::replay::{Event, EventSource, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, CacheLines, GroupedProfiles, Line, LineSize, ReusePlan, Sampler, SamplerError, WindowPlan,
};

use super::Samples;
use crate::cli::Failure;
use crate::guided::{Course, CoursePhases};
use reuse_sampler::reference::{ExactLru, ExactRandom, RandomCachesError};

/// Accesses in a window that has a phase.
pub const PHASE_WINDOW: u64 = 100_000;

/// The accesses of a run, and its phases by its code.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The lines touched, in order.
    pub lines: Vec<Line>,
    /// The phases, of windows of [`PHASE_WINDOW`] accesses. One for all without code.
    pub course: Course,
}

impl Stream {
    /// Reads at most `limit` accesses. Threads are not distinguished.
    ///
    /// # Errors
    /// Those of the source and of the phase detector.
    pub fn read(source: &mut impl EventSource, limit: u64, seed: u64) -> Result<Self, Failure> {
        let (mut lines, mut phases) = (Vec::new(), CoursePhases::new(PHASE_WINDOW, seed)?);
        while let Some(event) = source.next_event()? {
            match event {
                Event::Block { address, instructions } => phases.block(address, instructions),
                Event::Access(access) => {
                    for line in LineSize::B64.lines(&access) {
                        lines.push(line);
                        phases.access()?;
                    }
                }
                _ => {}
            }
            if lines.len() as u64 >= limit {
                break;
            }
        }
        Ok(Self { lines, course: phases.finish()? })
    }
}

/// What is compared, and how it is sampled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cache sizes.
    pub sizes: Vec<CacheLines>,
    /// Windows of equal length that the run is divided into.
    pub windows: u64,
    /// Which accesses are sampled.
    pub plan: ReusePlan,
    /// Seed of the sampler and of the random caches.
    pub seed: u64,
    /// Simulations of each random cache that are averaged.
    pub simulations: u64,
}

/// Miss ratios by exact simulation, at each size.
#[derive(Clone, Debug)]
pub struct Exact {
    /// Accesses simulated.
    pub accesses: u64,
    /// Different lines touched.
    pub lines: u64,
    /// Least recently used.
    pub lru: Vec<f64>,
    /// Random replacement, averaged over simulations.
    pub random: Vec<f64>,
}

/// Plays `lines` to exact caches.
///
/// # Errors
/// [`RandomCachesError`] if the sizes cannot be simulated.
pub fn exact(lines: &[Line], settings: &Settings) -> Result<Exact, RandomCachesError> {
    let accesses = lines.len() as u64;
    let mut lru = ExactLru::new();
    for &line in lines {
        lru.access(line);
    }
    let lru = lru.total();
    let seeds: Vec<u64> = (0..settings.simulations).map(|k| settings.seed.wrapping_add(k)).collect();
    let at_once = (64 / seeds.len().clamp(1, 64)).max(1);
    let mut random = Vec::new();
    for sizes in settings.sizes.chunks(at_once) {
        let mut caches = ExactRandom::new(sizes, &seeds)?;
        for &line in lines {
            caches.access(line);
        }
        random.extend(caches.take_window().misses());
    }
    let ratio = |misses: f64| misses / accesses.max(1) as f64;
    Ok(Exact {
        accesses,
        lines: lru.cold(),
        lru: lru.misses(&settings.sizes).into_iter().map(|misses| ratio(misses as f64)).collect(),
        random: random.into_iter().map(ratio).collect(),
    })
}

/// Plays a run to the sampler. Each sample belongs to the window that started it.
///
/// # Errors
/// Those of the sampler.
pub fn samples(stream: &Stream, settings: &Settings) -> Result<Samples, SamplerError> {
    let length = (stream.lines.len() as u64).div_ceil(settings.windows.max(1)).max(1);
    let bursts = grouped(&stream.lines, settings, length, |window| window)?;
    let phase = |window| stream.course.phase_at(window * PHASE_WINDOW);
    let phases = grouped(&stream.lines, settings, PHASE_WINDOW, phase)?;
    Ok(Samples {
        whole: bursts.all(),
        windows: bursts.iter().map(|(_, profile)| profile.clone()).collect(),
        phases: phases.iter().map(|(_, profile)| profile.clone()).collect(),
    })
}

/// Profiles of the windows of `length` accesses that have the same key.
fn grouped<K: Ord + Clone>(
    lines: &[Line],
    settings: &Settings,
    length: u64,
    key: impl Fn(u64) -> K,
) -> Result<GroupedProfiles<K>, SamplerError> {
    let line_size = LineSize::B64;
    let options = ReplayOptions::windows_of(WindowLength::Accesses(length)).seed(settings.seed);
    let event = |line: &Line| Event::Access(Access::load(line.0 << line_size.shift(), 1));
    let mut sampler = ReplaySampler::new(lines.iter().map(event), options)?;
    let mut groups = GroupedProfiles::new(line_size);
    while let Some(window) = sampler.next_window(&WindowPlan::new(settings.plan))? {
        groups.add(&window, key(window.index.0))?;
    }
    Ok(groups)
}
