//! What is known of a program from running it alone: a profile of each of its windows, and how many of their
//! accesses the private caches serve.

use reuse_sampler::{Line, ReuseProfile, SetDispersion, SetDispersionCounter};
use statcc::walk::{ProfiledWindow, Replacement, SetAssociativeCache, WindowedProgram};
use statcc::{LinearLatency, MeasuredCpi, PrivateLevel, Program, Traffic, WindowCpi};

use super::distances::Profiles;
use super::truth::{Machine, Solo};
use crate::cli::Failure;
use crate::machines::chip::{CoreTiming, Counters, Geometry, Recording};

/// A program in windows, and as a whole.
#[derive(Clone, Debug)]
pub struct Known {
    /// In windows.
    pub windowed: WindowedProgram,
    /// Its first pass as one program of one speed.
    pub whole: Program,
}

impl Known {
    /// A program of which each window of `window` accesses reaches back as `first` says of its first pass and
    /// `later` of all others, and did on `machine` alone as `solo` says; its lines fall on the sets of the
    /// shared cache as `dispersion` says.
    ///
    /// # Errors
    /// [`Failure::Run`] if a model cannot be built.
    pub fn new(
        machine: &Machine,
        mix: f64,
        solo: &Solo,
        window: u64,
        dispersion: SetDispersion,
        first: &[Profiles],
        later: &[Profiles],
    ) -> Result<Self, Failure> {
        let windows = |profiles: &[Profiles], pass: usize| -> Result<Vec<ProfiledWindow>, Failure> {
            let hits = |k: usize| 1.0 - solo.window(pass, k).shared_access_ratio();
            let window = |(k, profile): (usize, &Profiles)| {
                let cpi = cpi_model(machine, mix, hits(k), &solo.measured(pass, k))?;
                let window = match &profile.touches {
                    Some(touches) => {
                        ProfiledWindow::new(touches, cpi).and_then(|w| w.asking_for(&profile.uses))
                    }
                    None => ProfiledWindow::new(&profile.uses, cpi),
                };
                window.map_err(Failure::run)
            };
            profiles.iter().enumerate().map(window).collect()
        };
        let (first_windows, later_windows) = (windows(first, 0)?, windows(later, 1)?);
        let accesses = solo.counters.accesses.max(1);
        let windowed =
            WindowedProgram::new(mix, window.max(1), accesses, dispersion, first_windows, later_windows);
        let merged = |of: &dyn Fn(&Profiles) -> Option<&ReuseProfile>| {
            let mut all = ReuseProfile::new(machine.chip.line_size());
            first.iter().filter_map(of).try_for_each(|profile| all.merge(profile)).map(|()| all)
        };
        let (uses, touches) = (merged(&|of| Some(&of.uses))?, merged(&|of| of.touches.as_ref())?);
        let hits = 1.0 - solo.counters.shared_access_ratio();
        let whole = cpi_model(machine, mix, hits, &solo.all_measured())?;
        let stream = if touches.is_empty() { &uses } else { &touches };
        let whole = Program::new(stream, mix, whole)?.with_private_hits(hits)?.asking_for(&uses)?;
        Ok(Self { windowed: windowed?, whole })
    }

    /// Makes predictions start from the misses that `solo` counted in each window, alone with the whole cache: the
    /// profiles then only say what sharing adds. `passes` of them were counted.
    ///
    /// # Errors
    /// [`Failure::Run`] if what was counted is no miss ratio.
    pub fn counted(
        self,
        machine: &Machine,
        replacement: Replacement,
        solo: &Solo,
        passes: u64,
    ) -> Result<Self, Failure> {
        let misses = |pass: usize, window: usize| solo.window(pass, window).miss_ratio();
        let windowed = self.windowed.counted_alone(cache(machine)?, replacement, passes, misses);
        let whole = self.whole.counted_alone(solo.counters.miss_ratio());
        Ok(Self { windowed: windowed?, whole: whole? })
    }
}

/// The shared cache, and the memory behind it, as the model has them.
///
/// # Errors
/// None for a chip that can be built.
pub fn cache(machine: &Machine) -> Result<SetAssociativeCache, Failure> {
    let geometry = machine.chip.shared.geometry;
    let cache = SetAssociativeCache::new(geometry.sets(), geometry.ways());
    let Some(lines) = machine.chip.lines_per_cycle else { return cache.map_err(Failure::run) };
    let queue = machine.chip.latencies.queue(machine.chip.prefetcher.is_some());
    cache.and_then(|cache| cache.with_memory(lines, queue)).map_err(Failure::run)
}

/// Places in a program from which it is looked back.
const PLACES: u64 = 6;
/// Accesses looked back at most.
const REACH: u64 = 3_000_000;

/// How the lines of a recorded program fall on the sets of the shared cache.
///
/// # Errors
/// None for a geometry, which has sets and ways.
pub fn dispersion(recording: &Recording, geometry: Geometry) -> Result<SetDispersion, Failure> {
    let sets = geometry.sets();
    let mut counter = SetDispersionCounter::new(sets as usize, geometry.ways() as u32)?;
    let length = recording.references() as usize;
    for place in 1..=PLACES {
        let end = (length as u64 * place / PLACES) as usize;
        // A program that is over starts again: look back around the corner.
        let back = (0..length.min(REACH as usize)).map(|step| (end + length - 1 - step) % length);
        let lines = back.map_while(|at| recording.get(at)).map(|(line, _)| line);
        counter.look_back(lines.map(|line| (Line(line), geometry.index().set(line, sets))));
    }
    Ok(counter.finish())
}

/// The CPI of a program by the chip's latencies, or as it was `measured` where they do not give it.
fn cpi_model(machine: &Machine, mix: f64, hits: f64, measured: &[Counters]) -> Result<WindowCpi, Failure> {
    let hits = hits.clamp(0.0, 1.0);
    if !measured.is_empty() {
        let cpi = MeasuredCpi::new(measured.iter().map(|at| (at.miss_ratio(), at.cpi())), hits);
        let traffic = |at: &Counters| Traffic {
            miss_ratio: at.miss_ratio(),
            fetched: at.fetch_ratio(),
            stalled: at.memory_stall_cycles / at.accesses.max(1) as f64,
        };
        let cpi = cpi.and_then(|cpi| cpi.with_traffic(measured.iter().map(traffic)));
        return cpi.map(WindowCpi::from).map_err(Failure::run);
    }
    let (CoreTiming::InOrder { base_cpi } | CoreTiming::OutOfOrder { base_cpi, .. }) = machine.timing;
    let latencies = machine.chip.latencies;
    let l1 = PrivateLevel { hit_ratio: hits, latency: latencies.l1 };
    let model = LinearLatency::new(base_cpi, mix, &[l1], latencies.shared, latencies.memory);
    model.map(WindowCpi::from).map_err(Failure::run)
}
