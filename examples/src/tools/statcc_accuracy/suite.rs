//! The paper's three experiments on embedded programs: all pairs, sampled profiles, wrong CPI models; and mixes
//! of four.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::seq::index;
use rand::{RngExt, SeedableRng};
use reuse_sampler::SetDispersion;
use serde::Serialize;
use statcc::Outlook;
use statcc::walk::{self, Walked};

use super::distances::{Distances, Pass};
use super::model::Model;
use super::programs::{Choice, choose};
use super::sampling::{self, Sampled};
use super::statistics::Summary;
use super::steady::{self, Steady};
use super::subject::{Known, cache, dispersion};
use super::truth::{Machine, Simulated, Solo};
use crate::cli::Failure;
use crate::machines::chip::corun::Until;
use crate::machines::testbed::programs::Recorded;
use crate::parallel::{Stop, on_each};

/// Errors of the CPI models in the paper's table 3.
pub const ALPHAS: [f64; 3] = [0.9, 1.0, 1.1];
/// Programs in a mix.
const MIX: usize = 4;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The chip.
    pub machine: Machine,
    /// What predicts.
    pub model: Model,
    /// Accesses of each program.
    pub accesses: u64,
    /// Windows of each program.
    pub windows: u64,
    /// Mixes of four.
    pub mixes: u32,
    /// Samplings at each rate.
    pub repetitions: u32,
    /// Those rates, as mean gaps, each at least 1.
    pub gaps: Vec<f64>,
    /// Whether predictions start from the misses counted of each program alone.
    pub counted: bool,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// A program chosen, alone.
#[derive(Clone, Debug, Serialize)]
pub struct Alone {
    /// Its name.
    pub name: String,
    /// Accesses per instruction.
    pub mix: f64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Cycles per instruction.
    pub cpi: f64,
    /// Errors of all predictions of it in pairs: a row of table 2.
    pub errors: Summary,
}

/// One program in one group.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Misses per access, simulated.
    pub miss_ratio: f64,
    /// And predicted.
    pub predicted_miss_ratio: f64,
    /// Cycles per instruction, simulated.
    pub cpi: f64,
    /// And predicted.
    pub predicted_cpi: f64,
    /// Lines of the shared cache held on average, simulated.
    pub lines: f64,
    /// And predicted.
    pub predicted_lines: f64,
    /// (simulated CPI - predicted CPI) / simulated CPI: the paper's equation 4.
    pub error: f64,
    /// The same for one profile of each whole program.
    pub steady_error: f64,
    /// Whether that was flagged as sitting on a cliff.
    pub cliff: bool,
    /// Lowest and highest CPI predicted in slightly smaller to slightly larger caches.
    pub predicted_range: (f64, f64),
    /// Whether those are so far apart that the range is to be used, not the number.
    pub flagged: bool,
}

/// Programs that ran together.
pub type Group = Vec<Outcome>;

/// A cell of table 3: what changes when the CPI models of a pair are wrong by these factors.
#[derive(Clone, Debug, Serialize)]
pub struct WrongModels {
    /// Factor on the first program's CPI.
    pub first: f64,
    /// Factor on the second's.
    pub second: f64,
    /// Increase of the average absolute error of the miss ratio.
    pub miss_ratio: f64,
    /// Increase of the average relative error of the CPI.
    pub cpi: f64,
}

/// All results.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was chosen from what.
    pub choices: Vec<Choice>,
    /// The programs chosen.
    pub programs: Vec<Alone>,
    /// All pairs, those of a program with itself included.
    pub pairs: Vec<Group>,
    /// Mixes of four different programs.
    pub mixes: Vec<Group>,
    /// Table 3.
    pub wrong_models: Vec<WrongModels>,
    /// Figure 10.
    pub sampled: Vec<Sampled>,
    /// Whether an interrupt ended it early: groups and samplings are then those finished until then, and tables that
    /// need all of them are left out.
    pub incomplete: bool,
}

impl Results {
    /// Errors of all pairs.
    pub fn pair_errors(&self) -> Summary {
        Summary::of(self.pairs.iter().flatten().map(|outcome| outcome.error))
    }

    /// Errors of all pairs, predicted from one profile of each whole program: of those not flagged as sitting
    /// on a cliff, and of those that are.
    pub fn steady_errors(&self, cliff: bool) -> Summary {
        let outcomes = self.pairs.iter().flatten().filter(|outcome| outcome.cliff == cliff);
        Summary::of(outcomes.map(|outcome| outcome.steady_error))
    }

    /// Errors of all mixes.
    pub fn mix_errors(&self) -> Summary {
        Summary::of(self.mixes.iter().flatten().map(|outcome| outcome.error))
    }
}

/// A program with all that is known of it.
pub(super) struct Subject {
    pub recorded: Recorded,
    pub distances: Distances,
    pub solo: Solo,
    pub window: u64,
    known: Known,
    pub dispersion: SetDispersion,
}

/// A group that was simulated, and what was predicted of it.
pub(super) struct Judged {
    pub members: Vec<usize>,
    pub simulated: Vec<Simulated>,
    pub predicted: Vec<Walked>,
    pub ranges: Vec<Outlook>,
    pub steady: Vec<Steady>,
}

impl Suite {
    /// Does all of it, or what is finished once `interrupted`. `tell` is told what is being done.
    ///
    /// # Errors
    /// [`Failure`] if the chip cannot be built, a program cannot be recorded or no pair was finished.
    pub fn run(&self, tell: &dyn Fn(&'static str), interrupted: Stop<'_>) -> Result<Results, Failure> {
        let cut_short = AtomicBool::new(false);
        let interrupted: Stop<'_> = &|| {
            cut_short.fetch_or(interrupted(), Ordering::Relaxed);
            cut_short.load(Ordering::Relaxed)
        };
        let size = self.machine.chip.shared.geometry.lines();
        let line_size = self.machine.chip.line_size();
        tell("choosing programs");
        let choices = choose(size, self.accesses, line_size, self.seed)?;
        tell("running the programs alone");
        let chosen: Vec<Choice> = choices.iter().copied().filter(|choice| choice.chosen).collect();
        let subjects = on_each(&chosen, &|| false, |choice| self.subject(choice))?;
        let count = subjects.len();
        let pairs: Vec<Vec<usize>> = (0..count).flat_map(|a| (a..count).map(move |b| vec![a, b])).collect();
        tell("running all pairs");
        let pairs = self.judge(&subjects, &pairs, interrupted)?;
        if pairs.is_empty() {
            return Err(Failure::run("interrupted before anything was predicted"));
        }
        tell("running mixes of four");
        let mixes = self.judge(&subjects, &self.draw_mixes(count), interrupted)?;
        tell("predicting with wrong CPI models");
        let wrong_models = if interrupted() { Vec::new() } else { self.wrong_models(&subjects, &pairs)? };
        let mut sampled = Vec::new();
        for &gap in self.gaps.iter().filter(|_| self.repetitions > 0) {
            tell("predicting from samples");
            sampled.extend(sampling::added(self, &subjects, &pairs, gap, interrupted)?);
        }
        let groups =
            |judged: &[Judged]| -> Vec<Group> { judged.iter().map(|g| group(&subjects, g)).collect() };
        let (pairs, mixes) = (groups(&pairs), groups(&mixes));
        let programs = subjects.iter().map(|subject| alone(subject, &pairs)).collect();
        let incomplete = cut_short.load(Ordering::Relaxed);
        Ok(Results { choices, programs, pairs, mixes, wrong_models, sampled, incomplete })
    }

    fn subject(&self, choice: &Choice) -> Result<Subject, Failure> {
        let recorded = choice.candidate.record(self.accesses, self.machine.chip.line_size(), self.seed)?;
        let distances = Distances::of(&recorded.recording, self.machine.prefetching());
        let window = distances.references().div_ceil(self.windows);
        let solo = self.machine.alone(&recorded, window, 1)?;
        let profiles = distances.profiles(window, Pass::First);
        let dispersion = dispersion(&recorded.recording, self.machine.chip.shared.geometry)?;
        let known =
            Known::new(&self.machine, recorded.mix, &solo, window, dispersion.clone(), &profiles, &[])?;
        let known = self.counted(known, &solo)?;
        Ok(Subject { recorded, distances, solo, window, known, dispersion })
    }

    /// With what was counted alone, if that is to be used.
    pub(super) fn counted(&self, known: Known, solo: &Solo) -> Result<Known, Failure> {
        let replacement = self.model.replacement();
        if self.counted { known.counted(&self.machine, replacement, solo, 1) } else { Ok(known) }
    }

    /// Simulates groups of programs until the first has ended, and predicts the same; those begun before an interrupt.
    fn judge(
        &self,
        subjects: &[Subject],
        groups: &[Vec<usize>],
        interrupted: Stop<'_>,
    ) -> Result<Vec<Judged>, Failure> {
        on_each(groups, interrupted, |members| {
            let programs: Vec<&Recorded> = members.iter().map(|&m| &subjects[m].recorded).collect();
            let simulated = self.machine.together(&programs, Until::FirstEnded)?;
            let known: Vec<&Known> = members.iter().map(|&m| &subjects[m].known).collect();
            let predicted = self.predict(&known, &[])?;
            let windowed: Vec<_> = known.iter().map(|known| &known.windowed).collect();
            let (cache, replacement) = (cache(&self.machine)?, self.model.replacement());
            let ranges = walk::outlook(&windowed, cache, replacement, walk::Until::FirstEnded, &predicted)?;
            let steady =
                steady::solve(&known, self.machine.chip.shared.geometry.lines(), self.model.replacement())?;
            Ok(Judged { steady, members: members.clone(), simulated, predicted, ranges })
        })
    }

    pub(super) fn predict(&self, known: &[&Known], cpi_errors: &[f64]) -> Result<Vec<Walked>, Failure> {
        let windowed: Vec<_> = known.iter().map(|known| &known.windowed).collect();
        let cache = cache(&self.machine)?;
        Ok(walk::walk(&windowed, cache, self.model.replacement(), walk::Until::FirstEnded, cpi_errors)?)
    }

    /// Mixes of different programs; each program is in about as many as any other.
    fn draw_mixes(&self, count: usize) -> Vec<Vec<usize>> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut deck: Vec<usize> = Vec::new();
        (0..self.mixes)
            .map(|_| {
                let mut mix: Vec<usize> = Vec::new();
                while mix.len() < MIX.min(count) {
                    if !deck.iter().any(|card| !mix.contains(card)) {
                        deck.extend(index::sample(&mut random, count, count));
                    }
                    let at = random.random_range(0..deck.len());
                    if !mix.contains(&deck[at]) {
                        mix.push(deck.swap_remove(at));
                    }
                }
                mix
            })
            .collect()
    }

    fn wrong_models(&self, subjects: &[Subject], pairs: &[Judged]) -> Result<Vec<WrongModels>, Failure> {
        let mean = |predicted: &[Vec<Walked>], error: &dyn Fn(&Simulated, &Walked) -> f64| -> f64 {
            let errors = pairs.iter().zip(predicted).flat_map(|(pair, predicted)| {
                pair.simulated.iter().zip(predicted).map(|(s, p)| error(s, p).abs()).collect::<Vec<_>>()
            });
            Summary::of(errors).mean
        };
        let ratio = |s: &Simulated, p: &Walked| p.miss_ratio() - s.counters.miss_ratio();
        let right: Vec<Vec<Walked>> = pairs.iter().map(|pair| pair.predicted.clone()).collect();
        let mut cells = Vec::new();
        for first in ALPHAS {
            for second in ALPHAS.into_iter().filter(|&second| second != first) {
                let wrong = on_each(pairs, &|| false, |pair| {
                    let known: Vec<&Known> = pair.members.iter().map(|&m| &subjects[m].known).collect();
                    self.predict(&known, &[first, second])
                })?;
                cells.push(WrongModels {
                    first,
                    second,
                    miss_ratio: mean(&wrong, &ratio) - mean(&right, &ratio),
                    cpi: mean(&wrong, &error) - mean(&right, &error),
                });
            }
        }
        Ok(cells)
    }
}

/// The paper's equation 4.
fn error(simulated: &Simulated, predicted: &Walked) -> f64 {
    let truth = simulated.counters.cpi();
    (truth - predicted.cpi()) / truth
}

fn group(subjects: &[Subject], judged: &Judged) -> Group {
    let predicted = judged.predicted.iter().zip(&judged.ranges);
    let outcomes = judged.members.iter().zip(&judged.simulated).zip(predicted).zip(&judged.steady);
    outcomes
        .map(|(((&member, simulated), (predicted, range)), steady)| Outcome {
            name: subjects[member].recorded.name.clone(),
            miss_ratio: simulated.counters.miss_ratio(),
            predicted_miss_ratio: predicted.miss_ratio(),
            cpi: simulated.counters.cpi(),
            predicted_cpi: predicted.cpi(),
            lines: simulated.lines,
            predicted_lines: predicted.lines(),
            error: error(simulated, predicted),
            steady_error: 1.0 - steady.cpi / simulated.counters.cpi(),
            cliff: steady.cliff,
            predicted_range: (range.lowest_cpi, range.highest_cpi),
            flagged: range.cliff,
        })
        .collect()
}

fn alone(subject: &Subject, pairs: &[Group]) -> Alone {
    let name = &subject.recorded.name;
    let errors = pairs.iter().flatten().filter(|outcome| &outcome.name == name).map(|outcome| outcome.error);
    let counters = subject.solo.counters;
    Alone {
        name: name.clone(),
        mix: subject.recorded.mix,
        miss_ratio: counters.miss_ratio(),
        cpi: counters.cpi(),
        errors: Summary::of(errors),
    }
}
