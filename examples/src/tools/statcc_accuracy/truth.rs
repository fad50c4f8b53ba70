//! What happens on the reference chip: programs alone, window by window, and together.

use crate::cli::{Failure, Recorded};
use crate::machines::chip::corun::{self, Until};
use crate::machines::chip::{ChipSettings, CoreSettings, CoreTiming, Counters, Player};

/// A program alone.
#[derive(Clone, Debug)]
pub struct Solo {
    /// Its first pass, from empty caches.
    pub counters: Counters,
    passes: Vec<Vec<Counters>>, // by windows; at least one
}

impl Solo {
    /// What was counted in a window of a pass; of later passes than were played, the last one stands for them.
    #[must_use]
    pub fn window(&self, pass: usize, window: usize) -> &Counters {
        let pass = self.passes.get(pass).or(self.passes.last());
        pass.and_then(|windows| windows.get(window)).unwrap_or(&self.counters)
    }
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
    /// Plays a program `passes` times, alone, in windows of `window` references.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the chip cannot be built.
    pub fn alone(&self, program: &Recorded, window: u64, passes: u64) -> Result<Solo, Failure> {
        let length = program.recording.references();
        let until = Until::Accesses(length.saturating_mul(passes));
        let record =
            corun::recorded(&self.chip, vec![self.core(program)?], until, window).map_err(Failure::usage)?;
        let mut by_pass: Vec<Vec<Counters>> = Vec::new();
        for stretch in &record {
            if stretch.windows == [0] {
                by_pass.push(Vec::new());
            }
            if let Some(pass) = by_pass.last_mut() {
                pass.extend(&stretch.counters);
            }
        }
        let counters = by_pass.first().map(|pass| pass.iter().copied().sum()).unwrap_or_default();
        Ok(Solo { counters, passes: by_pass })
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
