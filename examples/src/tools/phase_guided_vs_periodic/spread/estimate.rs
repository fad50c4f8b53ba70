//! From the bursts of one repetition to the miss ratio of the run.
//!
//! The paper averages over bursts, so that what scatters is how many bursts fall into each phase. How long each phase is,
//! however, is known exactly from the code, which is counted all the time: the stratified estimate weighs phases by
//! that, and chance is left within phases only. Both estimates have the same expectation as long as every phase has a
//! burst (the stratified one is a ratio of sums, off by the order of one over the number of bursts in a phase).

use std::collections::BTreeMap;

use reuse_sampler::{CacheLines, CacheModel, LineSize, ReuseProfile};
use statstack::{Error, StatStack};

use super::repetitions::Piece;
use crate::guided::Course;

/// Mean over the bursts of their modelled miss ratio at each size, weighted by their accesses; nothing if there is no
/// burst.
pub fn averaged(pieces: &[Piece], line_size: LineSize, sizes: &[CacheLines]) -> Result<Vec<f64>, Error> {
    let mut mean = Mean::new(sizes.len());
    for burst in pieces.chunk_by(|a, b| a.burst == b.burst) {
        let mut profile = ReuseProfile::new(line_size);
        for piece in burst {
            piece.record(&mut profile);
        }
        let accesses: u64 = burst.iter().map(|piece| piece.accesses.end - piece.accesses.start).sum();
        mean.add(accesses as f64, &curve(&profile, sizes)?);
    }
    Ok(mean.get())
}

/// Mean over the phases, weighted by their accesses, of the mean over their parts of bursts, weighted by samples. A phase
/// without any is taken for the most similar one that has some.
pub fn stratified(
    pieces: &[Piece],
    course: &Course,
    line_size: LineSize,
    sizes: &[CacheLines],
) -> Result<Vec<f64>, Error> {
    let mut phases: BTreeMap<u32, Mean> = BTreeMap::new();
    for piece in pieces {
        let of_phase =
            phases.entry(course.phase_at(piece.accesses.start)).or_insert_with(|| Mean::new(sizes.len()));
        of_phase.add(piece.samples() as f64, &curve(&piece.profile(line_size), sizes)?);
    }
    let phases: BTreeMap<u32, Vec<f64>> =
        phases.into_iter().map(|(phase, mean)| (phase, mean.get())).collect();
    let mut mean = Mean::new(sizes.len());
    for (window, &phase) in course.windows.iter().enumerate() {
        let mut similar = course.similar.get(phase as usize).into_iter().flatten();
        if let Some(curve) = similar.find_map(|phase| phases.get(phase)) {
            mean.add(course.accesses_of(window) as f64, curve);
        }
    }
    Ok(mean.get())
}

fn curve(profile: &ReuseProfile, sizes: &[CacheLines]) -> Result<Vec<f64>, Error> {
    Ok(StatStack::fit(profile)?.curve(sizes).points.into_iter().map(|point| point.1).collect())
}

/// A weighted mean of curves.
struct Mean {
    sums: Vec<f64>,
    weight: f64,
}

impl Mean {
    fn new(sizes: usize) -> Self {
        Self { sums: vec![0.0; sizes], weight: 0.0 }
    }

    fn add(&mut self, weight: f64, curve: &[f64]) {
        for (sum, value) in self.sums.iter_mut().zip(curve) {
            *sum += weight * value;
        }
        self.weight += weight;
    }

    /// Nothing if nothing was added.
    fn get(self) -> Vec<f64> {
        if self.weight > 0.0 {
            self.sums.into_iter().map(|sum| sum / self.weight).collect()
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const SIZES: [CacheLines; 2] = [CacheLines(64), CacheLines(1024)];

    /// A run of 600 windows in three phases, of which phase k misses 64 lines with probability 0.1 + 0.3 k + noise.
    fn run(seed: u64) -> (Course, Vec<f64>) {
        let mut random = StdRng::seed_from_u64(seed);
        let windows: Vec<u32> = (0..600).map(|window| [0, 1, 0, 2, 1][window / 30 % 5]).collect();
        let misses = windows
            .iter()
            .map(|&phase| 0.1 + 0.3 * f64::from(phase) + 0.05 * random.random::<f64>())
            .collect();
        let similar = vec![vec![0, 1, 2], vec![1, 0, 2], vec![2, 1, 0]];
        (Course { length: 1000, accesses: 600_000, windows, similar }, misses)
    }

    fn piece(window: usize, misses: f64, random: &mut StdRng) -> Piece {
        let mut piece = Piece {
            burst: window as u32,
            accesses: 1000 * window as u64..1000 * (window as u64 + 1),
            ..Piece::default()
        };
        for _ in 0..50 {
            // Far beyond 1024 lines, or never again, or at once.
            match random.random::<f64>() {
                x if x < misses / 2.0 => piece.dangling += 1,
                x if x < misses => piece.reused.push(1_000_000),
                _ => piece.reused.push(1),
            }
        }
        piece
    }

    /// Windows drawn independently, as no sampler does in order: mean and standard deviation of both estimates.
    #[test]
    fn weighing_phases_changes_the_scatter_and_not_the_mean() {
        let (course, misses) = run(1);
        let truth = misses.iter().sum::<f64>() / 600.0;
        let (mut plain, mut weighed) = (Vec::new(), Vec::new());
        let mut random = StdRng::seed_from_u64(2);
        for _ in 0..400 {
            let mut windows: Vec<usize> = (0..600).filter(|_| random.random::<f64>() < 0.1).collect();
            windows.dedup();
            let pieces: Vec<Piece> = windows.iter().map(|&w| piece(w, misses[w], &mut random)).collect();
            plain.push(averaged(&pieces, LineSize::B64, &SIZES).unwrap()[0]);
            weighed.push(stratified(&pieces, &course, LineSize::B64, &SIZES).unwrap()[0]);
        }
        let moments = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / 400.0;
            (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 399.0).sqrt())
        };
        let ((mean, scatter), (weighed, weighed_scatter)) = (moments(&plain), moments(&weighed));
        // Four standard errors of the mean of 400.
        assert!((mean - truth).abs() < 4.0 * scatter / 20.0, "{mean} {truth} {scatter}");
        assert!(
            (weighed - truth).abs() < 4.0 * weighed_scatter / 20.0,
            "{weighed} {truth} {weighed_scatter}"
        );
        // 60 windows: 0.23 between phases over the root of 60 is 0.03; samples alone, 0.45 over that of 3,000, 0.008.
        assert!(scatter > 0.025 && weighed_scatter < 0.011, "{scatter} {weighed_scatter}");
    }

    #[test]
    fn a_phase_without_bursts_borrows_from_the_most_similar() {
        let (course, _) = run(1);
        let mut random = StdRng::seed_from_u64(3);
        // Windows 0 and 30: phases 0 and 1; phase 2 is like 1.
        let pieces = [piece(0, 0.0, &mut random), piece(30, 1.0, &mut random)];
        let found = stratified(&pieces, &course, LineSize::B64, &SIZES).unwrap();
        let others = course.windows.iter().filter(|&&phase| phase > 0).count() as f64 / 600.0;
        assert!((found[0] - others).abs() < 1e-9, "{found:?} {others}");
        assert_eq!(stratified(&[], &course, LineSize::B64, &SIZES).unwrap(), [0.0; 0]);
        assert_eq!(averaged(&[], LineSize::B64, &SIZES).unwrap(), [0.0; 0]);
    }
}
