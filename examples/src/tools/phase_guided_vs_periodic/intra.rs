//! How much windows of one phase differ: figures 5 and 7 of the paper.
//!
//! The first k windows of each phase, or k at random, are used in place of all of them; the error is that of the whole
//! run's miss ratio, averaged over the cache sizes. Windows are taken as they truly were, so that what shows is the
//! variation within phases and nothing of sampling or of a model.

use std::collections::BTreeMap;

use phase_detect::PhaseId;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::recording::Recording;
use super::score::mean;

/// Error in percentage points by the number of windows taken of each phase.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Variation {
    /// Windows of each phase; of a phase with fewer, all.
    pub windows: Vec<usize>,
    /// Taken in the order in which they ran.
    pub in_order: Vec<f64>,
    /// Taken at random, mean over the seeds.
    pub at_random: Vec<f64>,
}

/// Numbers of windows that are tried: four an octave, up to `most`.
fn numbers(most: usize) -> Vec<usize> {
    let quarters = 4 * most.max(1).ilog2();
    let mut numbers: Vec<usize> =
        (0..=quarters).map(|k| 2_f64.powf(f64::from(k) / 4.0).round() as usize).collect();
    numbers.push(most);
    numbers.dedup();
    numbers
}

/// The error by windows taken, given the phase of each window.
pub fn variation(recording: &Recording, phases: &[PhaseId], seeds: &[u64]) -> Variation {
    let mut members: BTreeMap<PhaseId, Vec<usize>> = BTreeMap::new();
    for (window, &phase) in phases.iter().enumerate() {
        members.entry(phase).or_default().push(window);
    }
    let most = members.values().map(Vec::len).max().unwrap_or(1).max(1);
    let numbers = numbers(most);
    let in_order: Vec<Vec<usize>> = members.into_values().collect();
    let by_number = |members: &[Vec<usize>]| -> Vec<f64> {
        numbers.iter().map(|&number| error(recording, members, number)).collect()
    };
    let shuffled: Vec<Vec<f64>> = seeds
        .iter()
        .map(|&seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut members = in_order.clone();
            for windows in &mut members {
                windows.shuffle(&mut random);
            }
            by_number(&members)
        })
        .collect();
    let at_random = (0..numbers.len())
        .map(|k| mean(&shuffled.iter().map(|errors| errors[k]).collect::<Vec<_>>()))
        .collect();
    Variation { in_order: by_number(&in_order), at_random, windows: numbers }
}

fn error(recording: &Recording, members: &[Vec<usize>], number: usize) -> f64 {
    let truth = recording.average();
    let all = recording.accesses().max(1) as f64;
    let mut found = vec![0.0; truth.len()];
    for windows in members {
        let accesses = |windows: &[usize]| -> f64 {
            windows.iter().map(|&w| recording.windows[w].accesses as f64).sum()
        };
        let taken = &windows[..number.min(windows.len())];
        let share = accesses(windows) / accesses(taken).max(1.0) / all;
        for &window in taken {
            let window = &recording.windows[window];
            for (sum, ratio) in found.iter_mut().zip(&window.miss_ratio) {
                *sum += ratio * window.accesses as f64 * share;
            }
        }
    }
    let apart: Vec<f64> = truth.iter().zip(&found).map(|(a, b)| 100.0 * (a - b).abs()).collect();
    mean(&apart)
}
