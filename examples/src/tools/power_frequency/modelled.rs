//! A program whose cycles nobody counted: its reuse profile says what misses, and the reference core what that
//! takes.
//!
//! Caches of any size are modelled with StatStack, phase by phase. What a hit in an outer level and a trip to memory
//! cost *on average*, overlap and all, and what they draw, is fitted to the core's training programs. That is far
//! less than counters count: no data flow, no mispredicted branch, no floating-point unit is seen.

use std::collections::HashMap;

use powersleuth::analysis::{Analysis, Profile};
use powersleuth::performance::{Counts, Event, StallBased};
use powersleuth::power::{PowerModel, TrainingSet};
use powersleuth::{Cycles, Error, Hertz, Watts};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};
use statstack::PooledCorrection;

use super::calibrate::{Calibration, MACHINE, OBSERVATION};
use super::study::CodeOf;
use crate::guided::{GuidedRun, PhaseRecord, pooled};
use crate::machines::ooo::{CoreSettings, Interval, PowerTruth};
use phase_detect::PhaseId;

/// Lines of 64 bytes in the reference core's three levels of cache.
const LEVELS: [CacheLines; 3] = [CacheLines(512), CacheLines(4096), CacheLines(32_768)];
/// Events of the power model that a reuse profile shows.
const EVENTS: [&str; 4] = ["instructions", "memory operations", "L2 references", "L2 misses"];

/// What happens in a stretch of execution, per instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Memory accesses.
    pub accesses: f64,
    /// Misses of each level of cache.
    pub misses: [f64; 3],
}

/// What traffic costs on the reference core.
#[derive(Clone, Debug)]
pub struct TrafficModel {
    frequency: Hertz,
    weights: [f64; 3], // cycles of an instruction; shown shares of on-chip and of memory latency
    memory_ns: f64,
    power: PowerModel,
}

impl Traffic {
    fn of(interval: &[Interval]) -> Self {
        let sum = |count: fn(&Interval) -> u64| interval.iter().map(count).sum::<u64>() as f64;
        let instructions = sum(|i| i.activity.instructions);
        let per = |count: f64| count / instructions;
        Self {
            accesses: per(sum(|i| i.activity.loads + i.activity.stores)),
            misses: [
                per(sum(|i| i.activity.l1_misses)),
                per(sum(|i| i.activity.l2_misses)),
                per(sum(|i| i.activity.llc_misses)),
            ],
        }
    }

    /// Of a phase, by its reuse profile, what the phases of the run have in common and its accesses per instruction; `None` if
    /// either the first or the last is missing.
    fn modelled(
        profile: &ReuseProfile,
        pooled: &PooledCorrection,
        accesses_per_instruction: Option<f64>,
    ) -> Option<Self> {
        let model = pooled.fit(profile).ok()?;
        let accesses = accesses_per_instruction?;
        let mut misses = LEVELS.map(|size| accesses * model.miss_ratio(size));
        // An outer level sees what misses the inner ones.
        misses[1] = misses[1].min(misses[0]);
        misses[2] = misses[2].min(misses[1]);
        Some(Self { accesses, misses })
    }

    /// Latencies per instruction that the core could see, in cycles: of hits in the outer levels, and of memory
    /// with a latency of `memory` cycles.
    fn latencies(&self, memory: f64) -> [f64; 2] {
        let [_, second, third, on_chip] = CoreSettings::default().cycles;
        let [l1, l2, llc] = self.misses;
        [(l1 - l2) * second + (l2 - llc) * third, llc * (on_chip + memory)]
    }

    fn events(&self) -> [f64; EVENTS.len()] {
        [1.0, self.accesses, self.misses[0], self.misses[1]]
    }
}

impl TrafficModel {
    /// Fitted to the calibration's training programs at its highest frequency.
    ///
    /// # Formula
    /// `CPI = w_0 + w_1 (hits_2 l_2 + hits_3 l_3) + w_2 misses (l_c + ns f)`; the weights minimise the sum of
    /// squared relative errors. Power as in [`Calibration::power`], with fewer events.
    ///
    /// # Errors
    /// As [`TrainingSet::fit`].
    pub fn fit(calibration: &Calibration, seed: u64) -> Result<Self, Error> {
        let frequencies = calibration.frequencies();
        let clock = frequencies.len().saturating_sub(1);
        let frequency = *frequencies.last().ok_or(Error::Empty { what: "frequencies" })?;
        let point = calibration.points().at(frequency)?;
        let memory_ns = calibration.latency().0 * 1e9;
        let mut sensor = PowerTruth::new(seed);
        let mut set = TrainingSet::new(EVENTS.map(Event::fixed))?;
        let mut rows = Vec::new();
        for part in calibration.runs().flat_map(|(_, run)| run.intervals.chunks(OBSERVATION)) {
            let instructions: f64 = part.iter().map(|i| i.activity.instructions as f64).sum();
            let cycles: f64 = part.iter().map(|i| i.clocks[clock].cycles).sum();
            let energy: f64 =
                part.iter().map(|i| sensor.read(i, clock, &point).0 * i.clocks[clock].cycles).sum();
            let traffic = Traffic::of(part);
            let counts = traffic.events().map(|per_instruction| per_instruction * instructions);
            set.push(&counts, Cycles(cycles), &point, Watts(energy / cycles))?;
            let [on_chip, memory] = traffic.latencies(memory_ns * frequency.ghz());
            let cpi = cycles / instructions;
            rows.push([1.0 / cpi, on_chip / cpi, memory / cpi]);
        }
        let capacitance = set.fit()?.into_capacitance();
        let power = PowerModel::new(MACHINE, calibration.points().clone(), capacitance);
        Ok(Self { frequency, weights: fit_to_ones(&rows)?, memory_ns, power })
    }

    /// Frequency that profiles are modelled at.
    pub const fn frequency(&self) -> Hertz {
        self.frequency
    }

    /// Cycles of an instruction, and those of them that memory sets the length of.
    pub fn cycles(&self, traffic: &Traffic) -> [f64; 2] {
        let memory = self.memory_ns * self.frequency.ghz();
        let [on_chip, far] = traffic.latencies(memory);
        let [instruction, shown, shown_far] = self.weights;
        let scaling = shown_far * traffic.misses[2] * memory;
        [instruction + shown * on_chip + shown_far * far, scaling]
    }

    /// What each window of `run` costs at each of `frequencies`, with the code of its phases. Windows of phases
    /// that have no profile are left out.
    ///
    /// # Errors
    /// [`Error::Empty`] if none has; as [`Analysis::predict`].
    pub fn predict(
        &self,
        run: &GuidedRun,
        frequencies: &[Hertz],
    ) -> Result<(Analysis<PhaseId>, CodeOf), Error> {
        let pooled = pooled(run);
        let modelled = |phase: &PhaseRecord| {
            let described_by = run.described_by(phase.phase)?;
            Traffic::modelled(&described_by.profile, &pooled, phase.mix().or(described_by.mix()))
        };
        let traffic: Vec<Option<Traffic>> = run.phases.iter().map(modelled).collect();
        let windows = run.windows.iter().map(|window| (window.phase, window.instructions));
        let analysis = self.cost(&traffic, windows, frequencies)?;
        let code = run.phases.iter().map(|phase| (phase.phase, phase.code.clone())).collect();
        Ok((analysis, code))
    }

    /// The same of a stored run, whose phases are numbered by their place.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn predict_stored(
        &self,
        run: &PhaseProfile,
        frequencies: &[Hertz],
    ) -> Result<Analysis<PhaseId>, Error> {
        let profiles = run.phases.iter().map(|phase| &phase.profile);
        let pooled = PooledCorrection::of(profiles).unwrap_or_default(); // what cannot be modelled is left out below
        let modelled = |phase: &ProfiledPhase| {
            let described_by = run.described_by(phase)?;
            let mix = phase.accesses_per_instruction.or(described_by.accesses_per_instruction);
            Traffic::modelled(&described_by.profile, &pooled, mix)
        };
        let traffic: Vec<Option<Traffic>> = run.phases.iter().map(modelled).collect();
        let places: HashMap<&str, PhaseId> =
            run.phases.iter().zip(0..).map(|(phase, place)| (&*phase.phase, PhaseId::new(place))).collect();
        let place = |window: &ProfiledWindow| Some((*places.get(&*window.phase)?, window.instructions));
        self.cost(&traffic, run.windows.iter().filter_map(place), frequencies)
    }

    /// What windows cost whose phases have this traffic, by number.
    fn cost(
        &self,
        traffic: &[Option<Traffic>],
        windows: impl Iterator<Item = (PhaseId, u64)>,
        frequencies: &[Hertz],
    ) -> Result<Analysis<PhaseId>, Error> {
        let mut profile = Profile::new(self.frequency, EVENTS.map(Event::fixed))?;
        for (phase, instructions) in windows.filter(|&(_, instructions)| instructions > 0) {
            let Some(Some(traffic)) = traffic.get(phase.index()) else { continue };
            let instructions = instructions as f64;
            let [cycles, memory] = self.cycles(traffic).map(|per_instruction| per_instruction * instructions);
            let misses = traffic.misses[2] * instructions;
            let counts = Counts::new(instructions, Cycles(cycles), Cycles(memory), misses)?;
            profile.push(phase, counts, &traffic.events().map(|rate| rate * instructions))?;
        }
        Analysis::predict(&profile, &StallBased::exact_stalls(), &self.power, frequencies)
    }
}

/// Weights that bring every row's weighted sum closest to 1, by Cramer's rule on the normal equations. One that
/// would be negative is left out.
fn fit_to_ones(rows: &[[f64; 3]]) -> Result<[f64; 3], Error> {
    let mut used = [true; 3];
    loop {
        let sum = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum::<f64>();
        let matrix: [[f64; 3]; 3] = std::array::from_fn(|i| {
            std::array::from_fn(|j| if used[i] && used[j] { sum(i, j) } else { f64::from(u8::from(i == j)) })
        });
        let right: [f64; 3] =
            std::array::from_fn(|i| if used[i] { rows.iter().map(|row| row[i]).sum() } else { 0.0 });
        let whole = determinant(&matrix);
        let scale: f64 = (0..3).map(|i| matrix[i][i]).product();
        if whole <= 1e-9 * scale {
            return Err(Error::Dependent { event: "misses of one level".to_owned() });
        }
        let weights: [f64; 3] = std::array::from_fn(|column| {
            let mut replaced = matrix;
            for (row, value) in replaced.iter_mut().zip(right) {
                row[column] = value;
            }
            determinant(&replaced) / whole
        });
        match weights.iter().position(|&weight| weight < 0.0) {
            Some(negative) => used[negative] = false,
            None => return Ok(weights),
        }
    }
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_made_the_rows_are_found_and_none_is_negative() {
        let made = |weights: [f64; 3], rows: &[[f64; 3]]| -> Vec<[f64; 3]> {
            let sum = |row: &[f64; 3]| row.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>();
            rows.iter().map(|row| row.map(|x| x / sum(row))).collect()
        };
        let rows = [[1.0, 0.2, 0.0], [1.0, 0.9, 3.0], [1.0, 0.1, 7.0], [1.0, 2.0, 0.5], [1.0, 0.5, 0.5]];
        let found = fit_to_ones(&made([0.4, 0.7, 0.25], &rows)).unwrap();
        for (found, expected) in found.iter().zip([0.4, 0.7, 0.25]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        let found = fit_to_ones(&made([0.9, -0.1, 0.25], &rows)).unwrap();
        assert_eq!(found[1], 0.0);
        assert!(found[0] > 0.0 && found[2] > 0.0);
        assert!(fit_to_ones(&[[1.0, 2.0, 4.0]; 5]).is_err());
    }
}
