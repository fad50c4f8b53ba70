//! Speeds and miss ratios that agree: the equation system of the StatCC paper, solved from both extremes.
//!
//! The unknowns are the cycles per access of each program. A step merges the profiles at the assumed paces,
//! fits the cache model, reads off each program's miss ratio and takes the paces that follow; how the next
//! paces are chosen is in [`path`](crate::path). Of two programs, making one slower never makes it faster again
//! nor the other slower: a step is monotone in the ratio of the paces, so that its extreme solutions are what
//! the extreme starts lead to.

use reuse_sampler::{CacheLines, CacheModel, ReuseProfile};

use crate::SolveError;
use crate::corun::{CoRun, shares};
use crate::path::{Path, Step};
use crate::pieces::Resolution;
use crate::solution::{Outlook, Prediction, Share, Solution};

/// How solutions are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SolverSettings {
    /// Largest relative difference between a CPI assumed and the CPI that follows from it. Default 1e-4.
    pub tolerance: f64,
    /// Steps at most, from each start and for each cache size. Default 60.
    pub steps: u32,
    /// How far around the cache size cliffs are looked for, as a fraction of it; 0 for not at all. Default
    /// 0.07.
    pub margin: f64,
    /// Spread of a program's CPI, relative to its lowest, from which it counts as sitting on a cliff. Default
    /// 0.15.
    pub cliff: f64,
}

impl Default for SolverSettings {
    fn default() -> Self {
        Self { tolerance: 1e-4, steps: 60, margin: 0.07, cliff: 0.15 }
    }
}

/// Solutions with all paces within this of each other are one.
const SAME: f64 = 0.02;
/// Tolerance at coarse resolution, whose own error is larger.
const COARSE_TOLERANCE: f64 = 5e-3;

impl CoRun {
    /// Predicts what becomes of the programs in a shared cache of `size`.
    ///
    /// `factory` fits a cache model to a profile: `StatStack::fit` for LRU, `StatCache::fit` for random
    /// replacement, or any other.
    ///
    /// # Formula
    /// With w\[i\] = CPI\[i\] / mix\[i\] cycles per access, there are s\[i\] = w\[i\] * sum of 1 / w\[j\]
    /// accesses of all programs to one of program i. Its distances r are stretched to (r + 1) s\[i\] - 1, its
    /// distribution is weighted by 1 / s\[i\], and all together are the profile of the interleaved stream. The
    /// model fitted to that gives each access its probability to miss; each program's miss ratio is their mean
    /// over its own accesses, and its CPI model answers the CPI again.
    ///
    /// # Errors
    /// [`SolveError::Fit`] for those of `factory`; [`SolveError::Cpi`] if a CPI model returns no positive, finite number.
    ///
    /// # Cost
    /// Some 20 fits at coarse resolution for finding all solutions and cliffs, then 3 to 10 at full resolution
    /// for each solution.
    ///
    /// # References
    /// Eklöv, thesis, Paper II (StatCC), equations 2 and 3.
    pub fn solve<M, E, F>(&self, size: CacheLines, factory: F) -> Result<Prediction, SolveError<E>>
    where
        M: CacheModel,
        F: Fn(&ReuseProfile) -> Result<M, E>,
    {
        self.solve_with(&SolverSettings::default(), size, factory)
    }

    /// The same with settings of the caller's.
    ///
    /// # Errors
    /// [`SolveError::Fit`] for those of `factory`; [`SolveError::Cpi`] if a CPI model returns no positive, finite number.
    pub fn solve_with<M, E, F>(
        &self,
        settings: &SolverSettings,
        size: CacheLines,
        factory: F,
    ) -> Result<Prediction, SolveError<E>>
    where
        M: CacheModel,
        F: Fn(&ReuseProfile) -> Result<M, E>,
    {
        let mut solver =
            Solver { corun: self, settings, factory, corrections: vec![0.0; self.programs().len()] };
        let alone = solver.alone(size)?;
        solver.corrections.clone_from(&alone.corrections);
        let mut solutions = Vec::new();
        for point in solver.search(size, &alone.paces)? {
            let polished = solver.fixed_point(Resolution::Fine, size, &point)?;
            if !solutions.iter().any(|known: &Point<M>| same(&known.paces, &polished.paces)) {
                solutions.push(polished);
            }
        }
        let mut ranges: Vec<(f64, f64)> = vec![(f64::INFINITY, 0.0); self.programs().len()];
        let mut widen = |miss_ratios: &[f64]| {
            for ((program, &m), range) in self.programs().iter().zip(miss_ratios).zip(&mut ranges) {
                let cpi = program.cpi_at(m);
                *range = (range.0.min(cpi), range.1.max(cpi));
            }
        };
        for point in &solutions {
            widen(&point.miss_ratios);
        }
        if settings.margin > 0.0 && self.programs().len() > 1 {
            for factor in [1.0 - settings.margin, 1.0 + settings.margin] {
                let near = CacheLines((size.0 as f64 * factor).round().max(0.0) as u64);
                for start in solver.extremes(&alone.paces)? {
                    widen(&solver.fixed_point(Resolution::Coarse, near, &start)?.miss_ratios);
                }
            }
        }
        let outlook = ranges
            .iter()
            .map(|&(lowest_cpi, highest_cpi)| Outlook {
                lowest_cpi,
                highest_cpi,
                cliff: highest_cpi > lowest_cpi * (1.0 + settings.cliff),
            })
            .collect();
        let solutions = solutions.iter().map(|point| solver.finish(size, point, &alone.models)).collect();
        Ok(Prediction { solutions, outlook })
    }
}

struct Solver<'a, F> {
    corun: &'a CoRun,
    settings: &'a SolverSettings,
    factory: F,
    corrections: Vec<f64>, // what was counted of each program alone, less what the model says of it
}

/// The programs alone: their fitted models, and their paces with the whole cache.
struct Alone<M> {
    models: Vec<M>,
    paces: Vec<f64>,
    corrections: Vec<f64>, // of the models' miss ratios, by what was counted
}

/// Where an iteration ended.
struct Point<M> {
    assumed: Vec<f64>, // paces that `model` was fitted for
    model: M,
    miss_ratios: Vec<f64>,
    paces: Vec<f64>, // that follow from the miss ratios
    residual: f64,
    steps: u32,
}

impl<M: CacheModel, E, F: Fn(&ReuseProfile) -> Result<M, E>> Solver<'_, F> {
    fn alone(&self, size: CacheLines) -> Result<Alone<M>, SolveError<E>> {
        let mut models = Vec::new();
        let mut miss_ratios = Vec::new();
        let mut corrections = Vec::new();
        for program in self.corun.programs() {
            let mut profile = ReuseProfile::new(program.line_size());
            program.stream().stretch_into(&mut profile, Resolution::Fine, 1.0, 1.0);
            let model = (self.factory)(&profile).map_err(SolveError::Fit)?;
            let at = model.at(size);
            let modelled = program.asked().miss_ratio(Resolution::Fine, 1.0, &at);
            drop(at);
            miss_ratios.push(program.counted().unwrap_or(modelled).min(program.most_misses()));
            corrections.push(program.counted().map_or(0.0, |counted| counted - modelled));
            models.push(model);
        }
        Ok(Alone { models, paces: self.corun.paces(&miss_ratios)?, corrections })
    }

    /// Paces with everything missing.
    fn slow(&self) -> Result<Vec<f64>, SolveError<E>> {
        Ok(self.corun.paces(&vec![1.0; self.corun.programs().len()])?)
    }

    /// Starts that lie beyond every solution: of two programs, each slow beside the other fast; of more, all
    /// slow and all fast.
    fn extremes(&self, fast: &[f64]) -> Result<Vec<Vec<f64>>, SolveError<E>> {
        let slow = self.slow()?;
        Ok(match (slow.as_slice(), fast) {
            (&[a, b], &[c, d]) => vec![vec![a, d], vec![c, b]],
            _ => vec![slow, fast.to_vec()],
        })
    }

    /// Distinct solutions at coarse resolution, the one reached from empty caches first.
    fn search(&self, size: CacheLines, fast: &[f64]) -> Result<Vec<Vec<f64>>, SolveError<E>> {
        let slow = self.slow()?;
        let programs = slow.len();
        if programs == 1 {
            return Ok(vec![slow]);
        }
        let mut starts = self.extremes(fast)?;
        if programs > 2 {
            for program in 0..programs {
                let mut one_slow = fast.to_vec();
                one_slow[program] = slow[program];
                let mut one_fast = slow.clone();
                one_fast[program] = fast[program];
                starts.extend([one_slow, one_fast]);
            }
        }
        let mut found: Vec<Vec<f64>> = Vec::new();
        for start in starts {
            let point = self.fixed_point(Resolution::Coarse, size, &start)?;
            if !found.iter().any(|known| same(known, &point.paces)) {
                found.push(point.paces);
            }
        }
        if programs == 2 && found.len() > 1 {
            let cold = self.fixed_point(Resolution::Coarse, size, &slow)?.paces;
            found.retain(|known| !same(known, &cold));
            found.insert(0, cold);
        }
        Ok(found)
    }

    /// The miss ratios at `paces` and how far the paces that follow from them are off.
    fn evaluate(
        &self,
        resolution: Resolution,
        size: CacheLines,
        paces: &[f64],
    ) -> Result<(Step, M), SolveError<E>> {
        let model = (self.factory)(&self.corun.merged(resolution, paces)).map_err(SolveError::Fit)?;
        let miss_ratios = self.corun.miss_ratios(resolution, paces, size, &model, &self.corrections);
        let next = self.corun.paces(&miss_ratios)?;
        Ok((Step::new(paces, miss_ratios, &next), model))
    }

    /// Iterates from `paces` until assumed and resulting paces agree. Answers the best point met.
    fn fixed_point(
        &self,
        resolution: Resolution,
        size: CacheLines,
        paces: &[f64],
    ) -> Result<Point<M>, SolveError<E>> {
        let tolerance = match resolution {
            Resolution::Coarse => self.settings.tolerance.max(COARSE_TOLERANCE),
            Resolution::Fine => self.settings.tolerance,
        };
        let (mut step, model) = self.evaluate(resolution, size, paces)?;
        let mut best = (step.clone(), model);
        let mut path = Path::default();
        let mut steps = 1;
        while best.0.residual > tolerance && steps < self.settings.steps {
            let Some(paces) = path.next(&step) else { break };
            let (next, model) = self.evaluate(resolution, size, &paces)?;
            step = next;
            steps += 1;
            if step.residual < best.0.residual {
                best = (step.clone(), model);
            }
        }
        let (step, model) = best;
        let (assumed, paces) = (step.assumed(), step.paces());
        Ok(Point { assumed, model, miss_ratios: step.miss_ratios, paces, residual: step.residual, steps })
    }

    /// Puts a point into the caller's terms.
    fn finish(&self, size: CacheLines, point: &Point<M>, alone: &[M]) -> Solution {
        let lines = shares(&point.assumed, size, &point.model, alone);
        let programs = self.corun.programs().iter().zip(&point.miss_ratios).zip(lines);
        let programs = programs.map(|((program, &miss_ratio), lines)| {
            let cpi = program.cpi_at(miss_ratio);
            Share { cpi, miss_ratio, lines, misses_per_cycle: miss_ratio * program.mix() / cpi }
        });
        Solution {
            programs: programs.collect(),
            residual: point.residual,
            converged: point.residual <= self.settings.tolerance,
            iterations: point.steps,
        }
    }
}

/// Whether two solutions are one.
fn same(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a / b - 1.0).abs() <= SAME)
}
