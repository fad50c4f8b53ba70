//! The wavelet paper's figures 6 and 7: what matrix size and modulus are worth and cost.

use phase_detect::Error;

use super::super::detectors::{Method, Scores};
use super::super::recording::{GRID_MODULI, GRID_SIZES, Recording, grid_name};
use super::{Setting, mean};
use crate::report::{Cell, Table};

/// `recordings` hold the wavelets of the grid.
pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let columns: Vec<String> = std::iter::once("modulus".to_owned())
        .chain(GRID_SIZES.map(|size| format!("{size}x{size}")))
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut sigma = Table::new(
        "wavelet_sigma",
        "Weighted standard deviation of L2 misses, by wavelet matrix and modulus".to_owned(),
        "k-means with 10 phases, mean over all programs; as the wavelet paper's figure 6, whose best is 16x16 and 64 KiB.",
        &columns,
    );
    let mut cost = Table::new(
        "wavelet_cost",
        "Nanoseconds per instruction, by wavelet matrix and modulus".to_owned(),
        "Image and transform, and clustering, over all instructions; as the wavelet paper's figure 7 (9 ns at 16x16).",
        &columns,
    );
    for modulus in GRID_MODULI {
        let label = Cell::Text(format!("{} KiB", modulus >> 10));
        let (mut sigmas, mut costs) = (vec![label.clone()], vec![label]);
        for size in GRID_SIZES {
            let name = grid_name(size, modulus);
            let mut measured = Vec::new();
            for recording in recordings {
                let Some(memory) = recording.memory.iter().find(|m| m.name == name) else { continue };
                let windows = recording.windows();
                let start = std::time::Instant::now();
                let labels = Method::KMeans.labels(&memory.windows, setting.seed)?;
                let seconds = memory.seconds + start.elapsed().as_secs_f64();
                let instructions: u64 = windows.iter().map(|w| w.instructions).sum();
                let scores = Scores::of(&labels, &windows, recording.window)?;
                measured.push((scores.sigma, 1e9 * seconds / instructions as f64));
            }
            sigmas.push(Cell::Number(mean(measured.iter().map(|m| m.0))));
            costs.push(Cell::Number(mean(measured.iter().map(|m| m.1))));
        }
        sigma.rows.push(sigmas);
        cost.rows.push(costs);
    }
    Ok(vec![sigma, cost])
}
