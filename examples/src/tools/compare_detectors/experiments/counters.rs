//! POP's selection of counters (section III, table I) on two configurations of the reference chip.

use phase_detect::selection::CounterSelection;
use phase_detect::{Error, PhaseId, Signature};

use super::super::code::{CodeKind, CodeSource};
use super::super::detectors::{Method, Scores};
use super::super::recording::{COUNTERS, Recording, Window};
use super::Setting;
use crate::report::{Cell, Table};

/// Phases of different programs are different phases: each program's begin at a multiple of this.
const NUMBERS: u32 = 1 << 16;

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let (mut base, mut other, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    let mut programs = Vec::new();
    for (recording, number) in recordings.iter().zip(0_u32..) {
        let windows = recording.windows();
        let mut source = CodeSource::new(CodeKind::Bbv, recording, setting.seed)?;
        let signatures: Vec<_> = windows.iter().map(|w| source.signature(w, 0)).collect();
        let reference = Method::SimPoint.labels(&signatures, setting.seed)?;
        for (window, label) in windows.iter().zip(reference) {
            let Some(label) = label else { continue };
            base.push(counts(window, 0)?);
            other.push(counts(window, 1)?);
            labels.push(PhaseId::new(number * NUMBERS + label.number()));
        }
        programs.push((recording, windows));
    }
    let selected = CounterSelection::default().select(&base, &[&other], &labels)?;
    let mut table = Table::new(
        "counters",
        "Counters that distinguish phases".to_owned(),
        &format!(
            "Change: average percentage difference between the reference chip and one with a prefetcher, twice the first \
             level and twice the translations; 1 % and more is out. Score: Gini importance of a random forest that predicts SimPoint's \
             phases ({:.1} % of the windows it was not grown from). As the POP paper's table I.",
            100.0 * selected.accuracy
        ),
        &["counter", "change", "score", "chosen"],
    );
    for ranked in &selected.ranked {
        table.rows.push(vec![
            COUNTERS[ranked.counter + 1].into(),
            Cell::Share(ranked.change),
            Cell::Number(ranked.score),
            if selected.chosen.contains(&ranked.counter) { "yes".into() } else { Cell::None },
        ]);
    }
    let passed = |counter: usize| selected.ranked.iter().any(|r| r.counter == counter);
    for (counter, &change) in selected.changes.iter().enumerate().filter(|(c, _)| !passed(*c)) {
        let name = COUNTERS[counter + 1].into();
        table.rows.push(vec![name, Cell::Share(change), Cell::None, "depends on the machine".into()]);
    }
    let mut detected = Table::new(
        "counters_detected",
        "POP with the chosen counters, on both machines".to_owned(),
        "The same phases on both machines are what the selection is for: agreement is the adjusted Rand index of the two.",
        &["program", "phases", "CCoV CPI", "phases, other", "agreement", "agreement with all counters"],
    );
    for (recording, windows) in programs {
        let on = |machine: usize, chosen: bool| {
            let signatures: Vec<Option<Signature>> = windows
                .iter()
                .map(|w| {
                    let all = counts(w, machine)?;
                    Ok(Some(if chosen { selected.project(&all)? } else { all }))
                })
                .collect::<Result<_, Error>>()?;
            Method::Pop.labels(&signatures, setting.seed)
        };
        let (plain, others) = (on(0, true)?, on(1, true)?);
        let agreement = phase_detect::metrics::adjusted_rand_index(&plain, &others)?;
        let with_all = phase_detect::metrics::adjusted_rand_index(&on(0, false)?, &on(1, false)?)?;
        let scores = Scores::of(&plain, &windows, recording.window)?;
        let scores_others = Scores::of(&others, &windows, recording.window)?;
        detected.rows.push(vec![
            Cell::Text(recording.name.clone()),
            Cell::from(scores.phases),
            Cell::Share(scores.ccov),
            Cell::from(scores_others.phases),
            Cell::Number(agreement),
            Cell::Number(with_all),
        ]);
    }
    Ok(vec![table, detected])
}

/// All counters of a window on one machine, per instruction, but the number of instructions itself.
fn counts(window: &Window, machine: usize) -> Result<Signature, Error> {
    let instructions = window.instructions.max(1) as f64;
    Signature::raw(window.counters[machine][1..].iter().map(|count| count / instructions).collect::<Vec<_>>())
}
