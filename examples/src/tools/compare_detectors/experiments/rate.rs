//! ScarPhase, figures I.8 and I.9: what the dynamic sample rate saves and costs.

use phase_detect::Error;

use super::super::detectors::{Scores, scarphase};
use super::super::recording::Recording;
use super::{Setting, mean};
use crate::report::{Cell, Table};

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let mut table = Table::new(
        "dynamic_rate",
        format!("The dynamic sample rate, from {} conditional branches a window", setting.samples),
        "Samples: mean per window (figure I.8; the paper's mean is 59 % of the static ones). Unclassified windows form one \
         phase in CCoV (figure I.9; the paper's mean is 0.4 %).",
        &[],
    );
    let mut sums = Vec::new();
    for recording in recordings {
        let windows = recording.windows();
        let scored = |dynamic| {
            let run = scarphase(recording, &windows, setting.samples, dynamic, setting.seed)?;
            let scores = Scores::of(&run.labels, &windows, recording.window)?;
            Ok::<_, Error>((run, scores))
        };
        let ((_, fixed), (run, scores)) = (scored(false)?, scored(true)?);
        let unclassified = run.labels.iter().filter(|label| label.is_none()).count() as f64;
        let values = [
            run.mean_samples,
            run.mean_samples / setting.samples as f64,
            unclassified / windows.len() as f64,
            fixed.ccov,
            scores.ccov,
            fixed.stab * 1e6,
            scores.stab * 1e6,
        ];
        table.push(row(&recording.name, values));
        sums.push(values);
    }
    let means = std::array::from_fn(|at| mean(sums.iter().map(|values| values[at])));
    table.push(row("mean", means));
    Ok(vec![table])
}

fn row(
    name: &str,
    [samples, share, unclassified, fixed, dynamic, stab, stab_dynamic]: [f64; 7],
) -> [(&'static str, Cell); 8] {
    [
        ("program", name.into()),
        ("samples", Cell::Number(samples)),
        ("of the static", Cell::Share(share)),
        ("unclassified", Cell::Share(unclassified)),
        ("CCoV static", Cell::Share(fixed)),
        ("CCoV dynamic", Cell::Share(dynamic)),
        ("STAB ppm static", Cell::Number(stab)),
        ("STAB ppm dynamic", Cell::Number(stab_dynamic)),
    ]
}
