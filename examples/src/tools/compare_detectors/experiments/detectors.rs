//! All detectors and all signatures side by side, per program and on average.

use std::time::Instant;

use phase_detect::metrics::geometric_mean;
use phase_detect::{Error, Signature};

use super::super::code::{CodeKind, CodeSource};
use super::super::detectors::{Method, Outcome, Scores, scarphase};
use super::super::recording::{COUNTERS, PARTS, Recording, Window};
use super::{Setting, mean};
use crate::report::{Cell, Table};

/// The events that POP's signatures count here: what the program does, not how the machine takes it.
const POP_COUNTERS: [&str; 8] = [
    "loads",
    "stores",
    "branches",
    "backward branches",
    "short blocks",
    "long blocks",
    "accesses in sequence",
    "accesses far from the last",
];

const NOTE: &str = "CCoV: of CPI on the reference chip and of L2 misses per access, each with the whole program's \
variation for windows alone in their phase. STAB: instructions to measure until every phase's CPI is known to 5 % at \
95 %, per 100 G instructions. Sigma: weighted standard deviation of L2 misses per window. Predicted: by run lengths, and \
by the last phase. Microseconds of a window: building its signature, finding its phase. Lower is better but for \
predictions. Counters cost nothing to build where the machine counts.";

pub fn run(recordings: &[Recording], setting: Setting) -> Result<Vec<Table>, Error> {
    let mut tables = Vec::new();
    let mut all: Vec<Vec<(Outcome, Scores)>> = Vec::new();
    for recording in recordings {
        let scored = scored(recording, setting)?;
        let title = format!(
            "{}: {} windows of {} instructions{}",
            recording.name,
            recording.parts.len() / PARTS,
            recording.window,
            if recording.incomplete { " (interrupted: incomplete)" } else { "" }
        );
        let note = if tables.is_empty() { NOTE } else { "" };
        let mut table = Table::new("detectors", title, note, &[]);
        for (outcome, scores) in &scored {
            table.push(row(outcome, scores));
        }
        tables.push(table);
        all.push(scored);
    }
    if all.len() > 1 {
        tables.push(summary(&all)?);
    }
    Ok(tables)
}

/// Every detector on every signature it can be used with, and how good its phases are.
pub(super) fn scored(recording: &Recording, setting: Setting) -> Result<Vec<(Outcome, Scores)>, Error> {
    let windows = recording.windows();
    let outcomes = outcomes(recording, &windows, setting)?.into_iter();
    outcomes
        .map(|outcome| {
            let scores = outcome.scores(&windows, recording.window)?;
            Ok((outcome, scores))
        })
        .collect()
}

fn row(outcome: &Outcome, scores: &Scores) -> [(&'static str, Cell); 13] {
    [
        ("signature", Cell::Text(outcome.signature.clone())),
        ("detector", Cell::Text(outcome.method.clone())),
        ("phases", Cell::from(scores.phases)),
        ("for 90 %", Cell::from(scores.cover)),
        ("CoV CPI", Cell::Share(scores.cov)),
        ("CCoV CPI", Cell::Share(scores.ccov)),
        ("CCoV misses", Cell::Share(scores.ccov_misses)),
        ("STAB ppm", Cell::Number(scores.stab * 1e6)),
        ("sigma misses", Cell::Number(scores.sigma)),
        ("predicted", scores.predicted.into()),
        ("last value", scores.last_value.into()),
        ("build us", microseconds(outcome.build)),
        ("detect us", microseconds(outcome.detect)),
    ]
}

fn microseconds(seconds: Option<f64>) -> Cell {
    seconds.map_or(Cell::None, |seconds| Cell::Number(seconds * 1e6))
}

fn outcomes(recording: &Recording, windows: &[Window], setting: Setting) -> Result<Vec<Outcome>, Error> {
    let Setting { samples, threshold, seed } = setting;
    let counted = Method::LeaderFollower(threshold);
    let mut outcomes = Vec::new();
    for kind in [CodeKind::Bbv].into_iter().chain(CodeKind::SAMPLED) {
        let mut source = CodeSource::new(kind, recording, seed)?;
        let start = Instant::now();
        let signatures: Vec<_> = windows.iter().map(|w| source.signature(w, samples)).collect();
        let seconds = start.elapsed().as_secs_f64();
        let methods = match kind {
            CodeKind::Bbv => &[counted, Method::SimPoint, Method::KMeans][..],
            _ => &[Method::SAMPLED],
        };
        for &method in methods {
            outcomes.push(Outcome::of(kind.name(), method, &signatures, Some(seconds), seed)?);
        }
    }
    let start = Instant::now();
    let dynamic = scarphase(recording, windows, samples, true, seed)?;
    let seconds = start.elapsed().as_secs_f64() / windows.len().max(1) as f64;
    outcomes.push(Outcome {
        signature: "CBRV, dynamic rate".to_owned(),
        method: Method::SAMPLED.name(),
        labels: dynamic.labels,
        build: Some(seconds), // both in one
        detect: None,
    });
    for memory in &recording.memory {
        let frequencies = memory.windows.iter().flatten().next().map(Signature::kind)
            == Some(phase_detect::SignatureKind::Frequency);
        let methods = if frequencies { &[counted, Method::KMeans][..] } else { &[Method::KMeans] };
        for &method in methods {
            outcomes.push(Outcome::of(&memory.name, method, &memory.windows, Some(memory.seconds), seed)?);
        }
    }
    let counts: Vec<_> = windows.iter().map(counters).collect();
    for method in [Method::Pop, Method::KMeans] {
        outcomes.push(Outcome::of("8 counters", method, &counts, None, seed)?);
    }
    Ok(outcomes)
}

/// POP's counts of a window, per instruction.
pub(super) fn counters(window: &Window) -> Option<Signature> {
    let counts: Vec<f64> = COUNTERS
        .iter()
        .zip(window.counters[0])
        .filter(|(name, _)| POP_COUNTERS.contains(name))
        .map(|(_, count)| count / window.instructions.max(1) as f64)
        .collect();
    Signature::raw(counts).ok()
}

/// As the POP paper's table III and the wavelet paper's figure 4 put it: over all programs.
fn summary(all: &[Vec<(Outcome, Scores)>]) -> Result<Table, Error> {
    let mut table = Table::new(
        "summary",
        format!("All {} programs", all.len()),
        "Geometric means as in the POP paper's table III (stability: 1 - CoV of CPI); sigma: arithmetic mean as in the \
         wavelet paper's figure 4; predictions: mean difference in points.",
        &[],
    );
    for (at, (outcome, _)) in all.first().into_iter().flatten().enumerate() {
        let scores: Vec<Scores> = all.iter().filter_map(|program| program.get(at)).map(|(_, s)| *s).collect();
        let values = |value: fn(&Scores) -> f64| scores.iter().map(value).collect::<Vec<f64>>();
        let gain = mean(scores.iter().filter_map(|s| Some(100.0 * (s.predicted? - s.last_value?))));
        table.push([
            ("signature", Cell::Text(outcome.signature.clone())),
            ("detector", Cell::Text(outcome.method.clone())),
            ("stability", Cell::Share(geometric_mean(&values(|s| (1.0 - s.cov).max(0.0)))?)),
            ("phases", Cell::Number(geometric_mean(&values(|s| s.phases as f64))?)),
            ("CCoV CPI", Cell::Share(geometric_mean(&values(|s| s.ccov))?)),
            ("STAB ppm", Cell::Number(geometric_mean(&values(|s| s.stab * 1e6))?)),
            ("sigma misses", Cell::Number(mean(scores.iter().map(|s| s.sigma)))),
            ("run length - last value", Cell::Number(gain)),
        ]);
    }
    Ok(table)
}
