//! Lines of which only some words can be watched at a time, and lines that are reused many samples later.

use std::collections::{BTreeMap, HashMap};

use reuse_sampler::perf::Coverage;
use reuse_sampler::{Clock, LineSize, Outcome, ReuseProfile, ReuseSample};

use super::targets::{JUMP, MANY_LINES, ROUND, SWEEP_LINES, jumps, places};
use super::{Checked, Run, conserved, expect, expected_distance, observe, options, sparse};

/// The samples that the loop's load began: those of the program counter that began most.
fn of_the_loop(run: &Run) -> Vec<ReuseSample> {
    let samples = || run.windows.iter().flat_map(|window| &window.samples);
    let mut by_place: BTreeMap<u64, u64> = BTreeMap::new();
    samples().for_each(|sample| *by_place.entry(sample.begin.pc).or_default() += 1);
    let most = by_place.iter().max_by_key(|(_, count)| **count).map(|(pc, _)| *pc);
    samples().filter(|sample| Some(sample.begin.pc) == most).copied().collect()
}

fn profile(samples: &[ReuseSample], clock: Clock) -> ReuseProfile {
    let mut profile = ReuseProfile::with_clock(LineSize::B64, clock);
    for sample in samples {
        profile.record(sample.outcome, sample.weight);
    }
    profile
}

/// P(D > d) of the lines of words that are loaded in this order, one in every `round` instructions, for those that are
/// loaded again.
fn exact(words: impl Iterator<Item = usize>, round: u64, clock: Clock, distances: &[u64]) -> Vec<f64> {
    let mut last: HashMap<usize, usize> = HashMap::new();
    let (mut beyond, mut reused) = (vec![0.0; distances.len()], 0.0);
    for (n, word) in words.enumerate() {
        let Some(before) = last.insert(word / 8, n) else { continue };
        let rounds = (n - before) as u64;
        let distance = if clock == Clock::Accesses { rounds - 1 } else { rounds * round - 1 };
        reused += 1.0;
        for (beyond, d) in beyond.iter_mut().zip(distances) {
            *beyond += f64::from(u8::from(distance > *d));
        }
    }
    beyond.into_iter().map(|beyond| beyond / reused).collect()
}

/// What is watched of a line and what is not make up the line: at most 5 % and two standard errors off. How much of a line is
/// seen is known from the same samples, which makes the error of some 2,000 of them 1.8 times as large (simulated).
pub fn partly_watched(name: &str) -> Checked {
    let mut options = options(10_000_000);
    options.coverage = Coverage::Line;
    let rounds = if name == "words" { 15_000_000 } else { 10_000_000 };
    let run = observe(&format!("{name} {rounds}"), &options, sparse(10_000.0)?)?;
    conserved(&run)?;
    let clock = run.windows[0].clock;
    let distances = [10, 1_000, 10_000, 30_000, 60_000];
    let truth = if name == "words" {
        exact(jumps().take(4_000_000), JUMP, clock, &distances)
    } else {
        let places = places(name, MANY_LINES);
        exact(places.iter().copied().cycle().take(20 * places.len()), ROUND, clock, &distances)
    };
    let samples = of_the_loop(&run);
    let found = profile(&samples, clock);
    let mut lines = Vec::new();
    for (d, truth) in distances.into_iter().zip(truth).filter(|(_, truth)| *truth > 0.0) {
        let estimate = found.distribution().beyond(d);
        let followed = samples.iter().filter(|sample| match sample.outcome {
            Outcome::Reused(_) | Outcome::Invalidated(_) | Outcome::Dangling => true,
            Outcome::Censored { at_least } => at_least >= d,
        });
        let deviation = 1.8 * ((1.0 - truth) / truth / followed.count() as f64).sqrt();
        let error = estimate / truth - 1.0;
        lines.push(format!("P(D > {d}) of {truth:.3} {:+.1} +- {:.1} %", 100.0 * error, 100.0 * deviation));
        expect(error.abs() <= 0.05 + 2.0 * deviation, || lines.join(", "))?;
    }
    Ok(format!("{} samples; {}", samples.len(), lines.join(", ")))
}

/// A sweep over 4 MiB whose lines are reused 20 samples later, each watched for itself.
pub fn far_sweep() -> Checked {
    let round = expected_distance(Clock::Instructions, SWEEP_LINES as u64);
    // One in four instructions is a load.
    let gap = round as f64 / 4.0 / 20.0;
    let run = observe("sweep 8000000", &options(10_000_000), sparse(gap)?)?;
    conserved(&run)?;
    let clock = run.windows[0].clock;
    let distance = expected_distance(clock, SWEEP_LINES as u64);
    let samples = of_the_loop(&run);
    let reused = samples.iter().filter(|sample| matches!(sample.outcome, Outcome::Reused(_))).count();
    let distribution = profile(&samples, clock).distribution();
    // What is still open at the end is followed for ever: four samples.
    let [before, after] = [0.98, 1.02].map(|factor| distribution.beyond((distance as f64 * factor) as u64));
    expect(reused >= 10 && before > 0.9 && after < 0.2, || {
        format!("{reused} of {} reused, P(D > d) {before:.3} before and {after:.3} behind", samples.len())
    })?;
    Ok(format!(
        "{} samples, {reused} reused 20 samples later; P(D > d) {before:.3} before that distance and {after:.3} behind it",
        samples.len()
    ))
}
