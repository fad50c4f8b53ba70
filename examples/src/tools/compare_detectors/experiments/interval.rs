//! POP, figure 5: CoV and STAB against the length of windows, with phases from SimPoint on all blocks.

use phase_detect::Error;

use super::super::code::{CodeKind, CodeSource};
use super::super::detectors::{Method, Scores, scarphase};
use super::super::recording::Recording;
use super::{Setting, mean};
use crate::report::{Cell, Table};

/// Lengths of windows, in parts of a window.
const LENGTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Fewest windows from which phases can be detected.
const FEWEST: usize = 8;

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let mut table = Table::new(
        "interval",
        "CoV and STAB by the length of windows".to_owned(),
        "Means over all programs with at least 8 windows of that length. CoV of CPI and STAB at 95 % and 5 % of SimPoint's \
         phases on all blocks, as the POP paper's figure 5, which finds CoV rise and STAB fall as windows get shorter. Then \
         STAB of ScarPhase with static and dynamic sample rate.",
        &[],
    );
    let Some(first) = recordings.first() else { return Ok(vec![table]) };
    for parts in LENGTHS {
        let length = first.length_of(parts);
        let mut all = Vec::new();
        for recording in recordings {
            let windows = recording.windows_of(parts);
            if windows.len() < FEWEST {
                continue;
            }
            let mut source = CodeSource::new(CodeKind::Bbv, recording, setting.seed)?;
            let signatures: Vec<_> = windows.iter().map(|w| source.signature(w, 0)).collect();
            let labels = Method::SimPoint.labels(&signatures, setting.seed)?;
            let scores = Scores::of(&labels, &windows, length)?;
            let scar = |dynamic| {
                let run = scarphase(recording, &windows, setting.samples, dynamic, setting.seed)?;
                Ok::<_, Error>(Scores::of(&run.labels, &windows, length)?.stab)
            };
            all.push((scores, scar(false)?, scar(true)?));
        }
        if all.is_empty() {
            continue;
        }
        table.push([
            ("instructions", Cell::from(length as usize)),
            ("programs", Cell::from(all.len())),
            ("phases", Cell::Number(mean(all.iter().map(|a| a.0.phases as f64)))),
            ("CoV", Cell::Share(mean(all.iter().map(|a| a.0.cov)))),
            ("STAB ppm", Cell::Number(mean(all.iter().map(|a| a.0.stab * 1e6)))),
            ("STAB ppm, ScarPhase", Cell::Number(mean(all.iter().map(|a| a.1 * 1e6)))),
            ("STAB ppm, dynamic rate", Cell::Number(mean(all.iter().map(|a| a.2 * 1e6)))),
        ]);
    }
    Ok(vec![table])
}
