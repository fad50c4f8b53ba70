//! Runs over time, predicted and simulated, in bins of equal length (the paper's figure IV.8).

use cachesharing::{BandwidthDistribution, TrajectoryBin};

use super::reference::{Run, Stretch};

/// Bins of a run.
const BINS: f64 = 200.0;

/// Length of a bin for a run of this length, the same for what is compared with it.
pub(super) fn width(time: f64) -> f64 {
    time / BINS
}

/// A simulated program over time: each stretch spread evenly over the bins that it lies in.
pub(super) fn simulated(track: &[Stretch], width: f64, line: f64) -> Vec<TrajectoryBin> {
    let mut bins: Vec<TrajectoryBin> = Vec::new();
    for stretch in track {
        let (begin, length) = (stretch.start, stretch.counters.cycles);
        let mut at = begin;
        while at < begin + length {
            let number = (at / width) as usize;
            // At least a little further, whatever rounding says.
            let until = ((number + 1) as f64 * width).min(begin + length).max(at + 1e-9 * width);
            while bins.len() <= number {
                let mut bin = TrajectoryBin::default();
                bin.start = bins.len() as f64 * width;
                bins.push(bin);
            }
            let (bin, part) = (&mut bins[number], (until - at) / length);
            bin.time += until - at;
            bin.work += part * stretch.counters.instructions;
            bin.bytes += part * length * stretch.lines as f64 * line;
            bin.bandwidth += part * stretch.counters.fetches() as f64 * line;
            at = until;
        }
    }
    bins.retain(|bin| bin.time > 1e-6 * width);
    for bin in &mut bins {
        bin.bytes /= bin.time;
        bin.bandwidth /= bin.time;
    }
    bins
}

/// How much bandwidth all programs together took, over the time of a simulated run.
pub(super) fn demand(run: &Run, width: f64, line: f64) -> BandwidthDistribution {
    let programs: Vec<Vec<TrajectoryBin>> =
        run.track.iter().map(|track| simulated(track, width, line)).collect();
    let bins = programs.iter().map(Vec::len).min().unwrap_or(0);
    let together = |i: usize| {
        let bandwidth = programs.iter().map(|bins| bins[i].bandwidth).sum();
        (bandwidth, programs[0][i].time)
    };
    BandwidthDistribution::new((0..bins).map(together))
}
