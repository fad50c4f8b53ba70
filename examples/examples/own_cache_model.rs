//! A cache model of one's own behind `CacheModel`: curves, grouping and co-runs work with it.
//!
//! This one is a rule of thumb: a line survives as long as fewer accesses than the cache has lines come in between.
//! It errs on the safe side, because accesses to the same line count again and again. Held against StatStack, which
//! counts distinct lines.

use std::error::Error;

use reuse_sampler::{
    CacheLines, CacheModel, Evaluator, LineSize, Outcome, Reuse, ReuseDistance, ReuseDistribution,
    ReuseProfile,
};
use statcc::{CoRun, LinearLatency, Program};
use statstack::StatStack;

struct RuleOfThumb {
    line_size: LineSize,
    distribution: ReuseDistribution,
}

impl RuleOfThumb {
    fn fit(profile: &ReuseProfile) -> Self {
        Self { line_size: profile.line_size(), distribution: profile.distribution() }
    }
}

impl CacheModel for RuleOfThumb {
    fn line_size(&self) -> LineSize {
        self.line_size
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        Evaluator::step(ReuseDistance(size.0))
    }

    fn miss_ratio(&self, size: CacheLines) -> f64 {
        // Accesses whose line was used at least so many accesses ago, or never.
        size.0.checked_sub(1).map_or(1.0, |hits_up_to| self.distribution.beyond(hits_up_to))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A program that uses nine lines again at once, and every tenth after 20,000 accesses.
    let mut profile = ReuseProfile::new(LineSize::B64);
    profile.record_many(Outcome::Reused(ReuseDistance(3)), 900, 10);
    profile.record_many(Outcome::Reused(ReuseDistance(20_000)), 100, 10);

    let (own, statstack) = (RuleOfThumb::fit(&profile), StatStack::fit(&profile)?);
    println!("{:>8}  {:>13}  {:>9}", "lines", "rule of thumb", "StatStack");
    for lines in [2, 16, 1_024, 4_096, 16_384, 32_768] {
        let size = CacheLines(lines);
        println!("{lines:>8}  {:>13.3}  {:>9.3}", own.miss_ratio(size), statstack.miss_ratio(size));
    }
    let probability = own.miss_probability(Reuse::Distance(ReuseDistance(5_000)), CacheLines(4_096));
    println!("an access after 5,000 others misses in 4,096 lines with probability {probability}");

    // The same model decides who misses when two copies share the cache.
    let cpi = LinearLatency::new(1.0, 0.3, &[], 10.0, 130.0)?;
    let copy = || Program::in_order(&profile, 0.3, cpi.clone());
    let pair = CoRun::new(vec![copy()?, copy()?])?;
    let fit = |merged: &ReuseProfile| Ok::<_, statstack::Error>(RuleOfThumb::fit(merged));
    let solution = pair.solve(CacheLines(32_768), fit)?;
    println!("two copies in 32,768 lines: CPI {:.2} each", solution.programs()[0].cpi);
    Ok(())
}
