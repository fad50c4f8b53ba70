//! What happens on the reference chip: programs alone, window by window, and together.

use crate::cli::Failure;
use crate::machines::chip::corun::{self, Until};
use crate::machines::chip::{ChipSettings, CoreSettings, CoreTiming, Counters, Player, PrivateCaches};
use crate::machines::testbed::programs::Recorded;

/// A program alone.
#[derive(Clone, Debug)]
pub struct Solo {
    /// Its first pass, from empty caches.
    pub counters: Counters,
    passes: Passes,
    sized: Vec<Passes>, // by rising ways of the shared cache, all of them last; none where latencies give the CPI
}

/// What was counted in each window of each pass.
type Passes = Vec<Vec<Counters>>;

/// Parts of the ways of the shared cache, in sixteenths, in which a CPI is measured as a function of the misses.
const SIXTEENTHS: [u64; 6] = [1, 2, 4, 8, 12, 16];

impl Solo {
    /// What was counted in a window of a pass; later passes, which were not played, are taken to be as the last one.
    pub fn window(&self, pass: usize, window: usize) -> &Counters {
        window_of(&self.passes, pass, window).unwrap_or(&self.counters)
    }

    /// What was counted of a window in each measured size, where latencies do not give the CPI.
    pub fn measured(&self, pass: usize, window: usize) -> Vec<Counters> {
        self.sized.iter().filter_map(|of| window_of(of, pass, window).copied()).collect()
    }

    /// The same of the first pass as a whole.
    pub fn all_measured(&self) -> Vec<Counters> {
        self.sized.iter().map(first_pass).collect()
    }
}

/// Later passes, which were not played, are taken to be as the last one.
fn window_of(passes: &Passes, pass: usize, window: usize) -> Option<&Counters> {
    passes.get(pass).or(passes.last()).and_then(|windows| windows.get(window))
}

fn first_pass(passes: &Passes) -> Counters {
    passes.first().map(|pass| pass.iter().copied().sum()).unwrap_or_default()
}

/// A program beside others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// What was counted, over all of its passes.
    pub counters: Counters,
    /// Lines of the shared cache that it held, averaged over time.
    pub lines: f64,
}

/// The chip and how its cores execute.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Caches and latencies.
    pub chip: ChipSettings,
    /// Each core.
    pub timing: CoreTiming,
}

impl Machine {
    /// Whether every line from memory is waited for.
    pub fn waits_for_each_line(&self) -> bool {
        matches!(self.timing, CoreTiming::InOrder { .. }) && self.chip.prefetcher.is_none()
    }

    /// The private caches of a core, if it prefetches.
    pub fn prefetching(&self) -> Option<PrivateCaches> {
        self.chip.prefetcher.map(|_| PrivateCaches::new(&self.chip))
    }

    /// Whether latencies give the CPI: not where they are hidden, prefetched away or waited for longer.
    fn adds_up(&self) -> bool {
        self.waits_for_each_line() && self.chip.lines_per_cycle.is_none() && self.chip.l2.is_none()
    }

    /// Plays a program `passes` times, alone, in windows of `window` references; also in fewer ways of the shared cache,
    /// where only that shows what misses cost.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the chip cannot be built.
    pub fn alone(&self, program: &Recorded, window: u64, passes: u64) -> Result<Solo, Failure> {
        let by_pass = self.pass_by_pass(&self.chip, program, window, passes)?;
        let geometry = self.chip.shared.geometry;
        let mut sized = Vec::new();
        let mut ways: Vec<u64> = SIXTEENTHS.iter().map(|part| (geometry.ways() * part / 16).max(1)).collect();
        ways.dedup();
        for ways in ways.into_iter().filter(|_| !self.adds_up()) {
            let mut chip = self.chip.clone();
            chip.shared.geometry = geometry.with_ways(ways).map_err(Failure::usage)?;
            sized.push(self.pass_by_pass(&chip, program, window, passes)?);
        }
        Ok(Solo { counters: first_pass(&by_pass), passes: by_pass, sized })
    }

    fn pass_by_pass(
        &self,
        chip: &ChipSettings,
        program: &Recorded,
        window: u64,
        passes: u64,
    ) -> Result<Passes, Failure> {
        let length = program.recording.references();
        let until = Until::Accesses(length.saturating_mul(passes));
        let record =
            corun::recorded(chip, vec![self.core(program)?], until, window).map_err(Failure::usage)?;
        let mut by_pass: Passes = Vec::new();
        for stretch in &record {
            if stretch.windows == [0] {
                by_pass.push(Vec::new());
            }
            if let Some(pass) = by_pass.last_mut() {
                pass.extend(&stretch.counters);
            }
        }
        Ok(by_pass)
    }

    /// Plays programs together until `until`.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the chip cannot be built.
    pub fn together(&self, programs: &[&Recorded], until: Until) -> Result<Vec<Simulated>, Failure> {
        let cores: Result<Vec<_>, Failure> = programs.iter().map(|program| self.core(program)).collect();
        let shortest = programs.iter().map(|p| p.recording.references()).min().unwrap_or(1);
        let record = corun::recorded(&self.chip, cores?, until, shortest.div_ceil(OCCUPANCY_SAMPLES))
            .map_err(Failure::usage)?;
        let simulated = (0..programs.len()).map(|core| {
            let counters: Counters = record.iter().map(|stretch| stretch.counters[core]).sum();
            let mut before = 0;
            let held: f64 = record
                .iter()
                .map(|stretch| {
                    let (begin, end) = (before, stretch.lines[core]);
                    before = end;
                    f64::midpoint(begin as f64, end as f64) * stretch.counters[core].cycles
                })
                .sum();
            Simulated { counters, lines: if counters.cycles > 0.0 { held / counters.cycles } else { 0.0 } }
        });
        Ok(simulated.collect())
    }

    fn core(&self, program: &Recorded) -> Result<CoreSettings<Player>, Failure> {
        Ok(CoreSettings { timing: self.timing, ..CoreSettings::new(program.player()?) })
    }
}

/// How often, at least, the shares of the cache are looked at.
const OCCUPANCY_SAMPLES: u64 = 256;
