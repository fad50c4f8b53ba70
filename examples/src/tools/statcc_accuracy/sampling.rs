//! The paper's experiment 2 (its figure 10): what sampled profiles add to the errors.

use serde::Serialize;

use super::distances::Pass;
use super::statistics::Summary;
use super::steady;
use super::subject::Known;
use super::suite::{Judged, Subject, Suite};
use crate::cli::Failure;
use crate::parallel::{Stop, on_each};

/// What sampling adds to the errors at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Sampled {
    /// Share of the accesses that were sampled.
    pub rate: f64,
    /// Samples of each program.
    pub samples: f64,
    /// Times that each program was sampled.
    pub repetitions: usize,
    /// Mean change of the predicted CPI with its sign, relative to the simulated one: the bias of sampling.
    pub bias: f64,
    /// Change of the predicted CPI, relative to the simulated one.
    pub cpi: Summary,
    /// The same around the mean of all repetitions of that prediction, as the paper normalises its figure.
    pub cpi_spread: Summary,
    /// Change of the predicted miss ratio.
    pub miss_ratio: Summary,
    /// As [`cpi`](Self::cpi), where one profile describes each whole program, as in the paper.
    pub one_profile_cpi: Summary,
    /// And around the means.
    pub one_profile_cpi_spread: Summary,
}

/// What became of a program in a pair when profiles were sampled.
#[derive(Clone, Copy, Debug)]
struct Change {
    cpi: f64,
    miss_ratio: f64,
    one_profile_cpi: f64,
}

/// Samples every program anew for each repetition, with a mean gap of `gap`, and predicts all pairs from that. Nothing
/// if an interrupt came before the first repetition.
pub(super) fn added(
    suite: &Suite,
    subjects: &[Subject],
    pairs: &[Judged],
    gap: f64,
    interrupted: Stop<'_>,
) -> Result<Option<Sampled>, Failure> {
    let repetitions: Vec<u64> = (0..u64::from(suite.repetitions)).collect();
    let changes = on_each(&repetitions, interrupted, |repetition| {
        let sampled = subjects.iter().enumerate().map(|(number, subject)| {
            let seed = suite.seed.wrapping_add(repetition * subjects.len() as u64 + number as u64);
            sample(suite, subject, gap, seed)
        });
        let sampled: Vec<Known> = sampled.collect::<Result<_, _>>()?;
        let changes = pairs.iter().map(|pair| changes(suite, &sampled, pair));
        Ok(changes.collect::<Result<Vec<_>, Failure>>()?.concat())
    })?;
    if changes.is_empty() {
        return Ok(None);
    }
    let of = |what: fn(&Change) -> f64| Summary::of(changes.iter().flatten().map(what));
    let spread = |what: fn(&Change) -> f64| Summary::of(around_means(&changes, what));
    let count = changes.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    Ok(Some(Sampled {
        rate: gap.recip(),
        samples: suite.accesses as f64 / gap,
        repetitions: changes.len(),
        bias: changes.iter().flatten().map(|change| change.cpi).sum::<f64>() / count,
        cpi: of(|change| change.cpi),
        cpi_spread: spread(|change| change.cpi),
        miss_ratio: of(|change| change.miss_ratio),
        one_profile_cpi: of(|change| change.one_profile_cpi),
        one_profile_cpi_spread: spread(|change| change.one_profile_cpi),
    }))
}

/// A program of which only a sample is known.
fn sample(suite: &Suite, subject: &Subject, gap: f64, seed: u64) -> Result<Known, Failure> {
    let profiles = subject.distances.sampled(subject.window, Pass::First, gap, seed);
    let known = Known::new(
        &suite.machine,
        subject.recorded.mix,
        &subject.solo,
        subject.window,
        subject.dispersion.clone(),
        &profiles,
        &[],
    )?;
    suite.counted(known, &subject.solo)
}

/// The changes of a pair's programs.
fn changes(suite: &Suite, sampled: &[Known], pair: &Judged) -> Result<Vec<Change>, Failure> {
    let known: Vec<&Known> = pair.members.iter().map(|&m| &sampled[m]).collect();
    let predicted = suite.predict(&known, &[])?;
    let size = suite.machine.chip.shared.geometry.lines();
    let steady = steady::solve(&known, size, suite.model.replacement())?;
    let programs = 0..pair.members.len();
    Ok(programs
        .map(|k| {
            let simulated = pair.simulated[k].counters.cpi();
            Change {
                cpi: (predicted[k].cpi() - pair.predicted[k].cpi()) / simulated,
                miss_ratio: predicted[k].miss_ratio() - pair.predicted[k].miss_ratio(),
                one_profile_cpi: (steady[k].cpi - pair.steady[k].cpi) / simulated,
            }
        })
        .collect())
}

/// Changes less the mean change of the same program in the same pair: a repetition is a list over all programs of all
/// pairs. What n repetitions spread around their own mean is widened to what they spread around the true one, by the
/// root of n / (n - 1).
fn around_means(repetitions: &[Vec<Change>], what: fn(&Change) -> f64) -> impl Iterator<Item = f64> {
    let n = repetitions.len() as f64;
    let predictions = repetitions.first().map_or(0, Vec::len);
    let widened = if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 1.0 };
    (0..predictions).flat_map(move |at| {
        let mean = repetitions.iter().map(|changes| what(&changes[at])).sum::<f64>() / n;
        repetitions.iter().map(move |changes| widened * (what(&changes[at]) - mean))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_that_around_each_predictions_own_mean() {
        let change = |cpi| Change { cpi, miss_ratio: 0.0, one_profile_cpi: 0.0 };
        // The first prediction is off by 5 whenever it is made, give or take 1; the second by -2, always.
        let repetitions = [vec![change(6.0), change(-2.0)], vec![change(4.0), change(-2.0)]];
        let spread: Vec<f64> = around_means(&repetitions, |change| change.cpi).collect();
        // Two values 1 beside their mean: an unbiased standard deviation of the square root of 2.
        let root = 2.0_f64.sqrt();
        assert_eq!(spread, [root, -root, 0.0, 0.0]);
        // A single repetition says nothing about the spread.
        assert_eq!(around_means(&repetitions[..1], |change| change.cpi).sum::<f64>(), 0.0);
    }
}
