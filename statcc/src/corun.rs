//! A set of programs that run together, and what they do to each other at given speeds.

use reuse_sampler::{CacheLines, CacheModel, Clock, LineSize, ReuseProfile};

use crate::error::BadCpi;
use crate::pieces::{Resolution, probability};
use crate::{Error, Program};

/// Programs that share one cache.
///
/// [`solve`](Self::solve) predicts what becomes of them.
#[derive(Clone, Debug)]
pub struct CoRun {
    programs: Vec<Program>, // at least one, all of one line size
    factors: Vec<f64>,      // what each CPI is multiplied by, > 0
}

impl CoRun {
    /// Programs that run at the same time on cores of their own and share a cache, but no data.
    ///
    /// # Errors
    /// [`Error::NoPrograms`], [`Error::MixedLineSizes`].
    pub fn new(programs: Vec<Program>) -> Result<Self, Error> {
        let Some(first) = programs.first() else { return Err(Error::NoPrograms) };
        let left = first.line_size();
        if let Some(other) = programs.iter().find(|p| p.line_size() != left) {
            return Err(Error::MixedLineSizes { left: left.bytes(), right: other.line_size().bytes() });
        }
        let factors = vec![1.0; programs.len()];
        Ok(Self { programs, factors })
    }

    /// The same programs with CPI models that are wrong by a factor each: what the models answer is multiplied
    /// by it while the programs compete. Reported CPIs are the true models' at the miss ratios found.
    ///
    /// # Errors
    /// [`Error::FactorCount`] unless there is a factor for each program, [`Error::Factor`] unless each is
    /// finite and above 0.
    pub fn with_cpi_errors(mut self, factors: &[f64]) -> Result<Self, Error> {
        if factors.len() != self.programs.len() {
            return Err(Error::FactorCount { given: factors.len(), programs: self.programs.len() });
        }
        if let Some(&factor) = factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(Error::Factor { factor });
        }
        self.factors = factors.to_vec();
        Ok(self)
    }

    /// The programs, in the order given.
    #[must_use]
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Line size of all profiles.
    #[must_use]
    pub fn line_size(&self) -> LineSize {
        self.programs[0].line_size()
    }

    /// Cycles per access of each program at these miss ratios, as the programs compete with.
    pub(crate) fn paces(&self, miss_ratios: &[f64]) -> Result<Vec<f64>, BadCpi> {
        let programs = self.programs.iter().zip(&self.factors).zip(miss_ratios).enumerate();
        programs
            .map(|(program, ((p, factor), &miss_ratio))| {
                let cpi = p.cpi_at(miss_ratio);
                if cpi.is_finite() && cpi > 0.0 {
                    Ok(cpi * factor / p.mix())
                } else {
                    Err(BadCpi { program, miss_ratio, cpi })
                }
            })
            .collect()
    }

    /// The interleaved stream of programs that take `paces` cycles per access.
    pub(crate) fn merged(&self, resolution: Resolution, paces: &[f64]) -> ReuseProfile {
        let mut merged = ReuseProfile::with_clock(self.line_size(), Clock::Accesses);
        for (program, stretch) in self.programs.iter().zip(stretches(paces)) {
            program.stream().stretch_into(&mut merged, resolution, stretch, stretch.recip());
        }
        merged
    }

    /// Miss ratio of each program in the stream that `model` was fitted to, off by `corrections`.
    pub(crate) fn miss_ratios(
        &self,
        resolution: Resolution,
        paces: &[f64],
        size: CacheLines,
        model: &impl CacheModel,
        corrections: &[f64],
    ) -> Vec<f64> {
        let at = model.at(size);
        let programs = self.programs.iter().zip(stretches(paces)).zip(corrections);
        programs
            .map(|((p, stretch), correction)| {
                let misses = p.asked().miss_ratio(resolution, stretch, &at) + correction;
                misses.max(0.0).min(p.most_misses())
            })
            .collect()
    }
}

/// Lines that each program holds: the size at which, alone, a line would stay as long as it does here.
pub fn shares(
    paces: &[f64],
    size: CacheLines,
    together: &impl CacheModel,
    alone: &[impl CacheModel],
) -> Vec<f64> {
    let at = together.at(size);
    stretches(paces)
        .zip(alone)
        .map(|(stretch, alone)| {
            // The age at which a line is as likely as not to be gone, in the program's own accesses.
            let age = first_where(u64::MAX >> 1, |d| probability(&at, d, stretch) >= 0.5);
            let gone = probability(&at, age, stretch);
            // If even the oldest stay, any size will do in which they do alone.
            let stays = |lines: u64| {
                let alone = probability(&alone.at(CacheLines(lines)), age, 1.0);
                alone < gone || alone == 0.0
            };
            first_where(size.0, stays) as f64
        })
        .collect()
}

/// Accesses of all programs to one of each.
pub fn stretches(paces: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let all: f64 = paces.iter().map(|pace| pace.recip()).sum();
    // Alone, rounding must not move a distance.
    paces.iter().map(move |pace| if paces.len() == 1 { 1.0 } else { (all * pace).max(1.0) })
}

/// Smallest number up to `limit` where `holds`, which does not turn false again; `limit` if it holds nowhere
/// below.
fn first_where(limit: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}
