//! What is known of a program from running it alone: a profile of each of its windows, and how many of their
//! accesses the private caches serve.

use reuse_sampler::{Line, ReuseProfile, SetDispersion, SetDispersionCounter};
use statcc::walk::{ProfiledWindow, Replacement, SetAssociativeCache, WindowedProgram};
use statcc::{LinearLatency, PrivateLevel, Program};

use super::truth::{Machine, Solo};
use crate::cli::Failure;
use crate::machines::chip::{CoreTiming, Geometry, Recording};

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
        first: &[ReuseProfile],
        later: &[ReuseProfile],
    ) -> Result<Self, Failure> {
        let windows = |profiles: &[ReuseProfile], pass: usize| -> Result<Vec<ProfiledWindow>, Failure> {
            let hits = |k: usize| 1.0 - solo.window(pass, k).l1_miss_ratio();
            let window = |(k, profile): (usize, &ReuseProfile)| {
                ProfiledWindow::new(profile, cpi_model(machine, mix, hits(k))?).map_err(Failure::run)
            };
            profiles.iter().enumerate().map(window).collect()
        };
        let (first_windows, later_windows) = (windows(first, 0)?, windows(later, 1)?);
        let accesses = solo.counters.accesses.max(1);
        let windowed =
            WindowedProgram::new(mix, window.max(1), accesses, dispersion, first_windows, later_windows);
        let mut all = ReuseProfile::new(machine.chip.line_size());
        for profile in first {
            all.merge(profile).map_err(Failure::run)?;
        }
        let whole = cpi_model(machine, mix, 1.0 - solo.counters.l1_miss_ratio())?;
        let whole = Program::in_order(&all, mix, whole).map_err(Failure::run)?;
        Ok(Self { windowed: windowed.map_err(Failure::run)?, whole })
    }

    /// Makes predictions start from the misses that `solo` counted in each window, alone with the whole cache: the
    /// profiles then only say what sharing adds. `passes` of them were counted.
    ///
    /// # Errors
    /// [`Failure::Run`] if what was counted is no miss ratio.
    pub fn counted(
        self,
        geometry: Geometry,
        replacement: Replacement,
        solo: &Solo,
        passes: u64,
    ) -> Result<Self, Failure> {
        let misses = |pass: usize, window: usize| solo.window(pass, window).miss_ratio();
        let windowed = self.windowed.counted_alone(cache(geometry)?, replacement, passes, misses);
        let whole = self.whole.counted_alone(solo.counters.miss_ratio());
        Ok(Self { windowed: windowed.map_err(Failure::run)?, whole: whole.map_err(Failure::run)? })
    }
}

/// The shared cache as the model has it.
///
/// # Errors
/// None for a geometry, which has sets and ways.
pub fn cache(geometry: Geometry) -> Result<SetAssociativeCache, Failure> {
    SetAssociativeCache::new(geometry.sets(), geometry.ways()).map_err(Failure::run)
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
    let mut counter =
        SetDispersionCounter::new(sets as usize, geometry.ways() as u32).map_err(Failure::run)?;
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

/// The CPI of a program on an in-order core of the chip, or the nearest thing to it.
fn cpi_model(machine: &Machine, mix: f64, l1_hits: f64) -> Result<LinearLatency, Failure> {
    let (CoreTiming::InOrder { base_cpi } | CoreTiming::OutOfOrder { base_cpi, .. }) = machine.timing;
    let latencies = machine.chip.latencies;
    let l1 = PrivateLevel { hit_ratio: l1_hits, latency: latencies.l1 };
    LinearLatency::new(base_cpi, mix, &[l1], latencies.shared, latencies.memory).map_err(Failure::run)
}
