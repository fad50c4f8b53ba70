//! The run as tables and profiles for other programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use phase_detect::PhaseId;
use phase_detect::metrics::distinct_code;
use reuse_sampler::AccessCount;
use reuse_sampler::file::{FileError, PhaseProfile, ProfiledPhase, ProfiledWindow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::subject::named_code;
use super::{Subject, named};
use crate::cli::Failure;
use crate::guided::{CurvePoint, GuidedRun, PhaseCurve, PhaseRecord};
use crate::output::OutputDir;
use crate::profiles::encode;

/// A value as JSON, without the fields that it does not have.
pub fn present(value: impl Serialize) -> Value {
    let mut value = json!(value);
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// `windows.csv`: a row per window. `basis` says where a window's miss ratios come from: its phase's profile, to
/// which the window contributed (`profiled`) or not (`phase`), or the profile of another phase (`borrowed`).
///
/// # Errors
/// What the writer answers.
pub fn write_windows(subject: &Subject<'_>, out: impl Write) -> io::Result<()> {
    write_csv(
        out,
        subject.run.windows.iter().map(|window| {
            let name =
                |phase| subject.rank(phase).map_or(String::new(), |rank| subject.phases[rank].name.clone());
            let view = subject.rank(window.phase).map(|rank| &subject.phases[rank]);
            let basis = match view {
                Some(view) if view.borrowed_from.is_some() => "borrowed",
                Some(view) if view.curve.is_none() => "none",
                _ if window.profiled => "profiled",
                _ => "phase",
            };
            let estimated = matches!(window.accesses, AccessCount::Estimated(_));
            [
                ("window", window.index.0.to_string()),
                ("thread", window.thread.0.to_string()),
                ("instructions", window.instructions.to_string()),
                ("accesses", window.accesses.get().map_or(String::new(), |n| n.to_string())),
                ("phase", name(window.phase)),
                ("predicted", window.predicted.map_or(String::new(), name)),
                ("profiled", u8::from(window.profiled).to_string()),
                ("accesses_estimated", u8::from(estimated).to_string()),
                ("basis", basis.to_owned()),
            ]
        }),
    )
}

/// Writes rows of texts as CSV, first the names of the columns, which each row repeats.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write_csv<const N: usize>(
    out: impl Write,
    rows: impl IntoIterator<Item = [(&'static str, String); N]>,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for row in named(rows) {
        csv.write_record(row)?;
    }
    csv.flush()
}

/// `mrc.csv`: a row per phase and cache size. `windows.csv` has the phase of each window. `low` and `high` bound what the
/// samples leave open.
///
/// # Errors
/// What the writer answers.
pub fn write_miss_ratios(subject: &Subject<'_>, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    writeln!(out, "phase,bytes,miss_ratio,low,high")?;
    let line_size = subject.run.line_size;
    for view in &subject.phases {
        let Some(curve) = view.curve else { continue };
        for (size, point) in subject.curves.sizes.iter().zip(&curve.points) {
            let (name, bytes) = (&view.name, size.bytes(line_size));
            let (low, high) = (point.lowest(), point.highest());
            writeln!(out, "{name},{bytes},{:.6},{low:.6},{high:.6}", point.miss_ratio)?;
        }
    }
    out.flush()
}

/// Miss ratios of the whole run and of a phase over cache sizes, as `profile.json` has them in its section `miss_ratios`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredCurves {
    /// The cache model; empty in files that were written before this key existed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Cache sizes in bytes, ascending.
    pub bytes: Vec<u64>,
    /// The run's.
    pub average: Vec<StoredPoint>,
    /// Each phase's, by name.
    pub phases: BTreeMap<String, Vec<StoredPoint>>,
}

impl StoredCurves {
    /// The sizes, in bytes, that the run's curve covers: up to any, if it is flat in the end, or nothing misses there.
    pub fn range(&self) -> (u64, u64) {
        let flat = match *self.average {
            [.., a, b] => b.miss_ratio.min((a.miss_ratio - b.miss_ratio).abs()) < 1e-6,
            _ => false,
        };
        let largest = self.bytes.last().copied().unwrap_or(0);
        (self.bytes.first().copied().unwrap_or(0), if flat { u64::MAX } else { largest })
    }

    /// Checks what whoever interpolates relies on.
    ///
    /// # Errors
    /// Where the first mistake is, its value, and what it should be.
    pub fn check(&self) -> Result<(), String> {
        if self.bytes.is_empty() || !self.bytes.is_sorted_by(|a, b| a < b) || self.bytes[0] == 0 {
            return Err(format!("bytes is {:?}: give cache sizes above 0, ascending", self.bytes));
        }
        let phases = self.phases.iter().map(|(phase, points)| (format!("phases[{phase:?}]"), points));
        for (path, points) in [("average".to_owned(), &self.average)].into_iter().chain(phases) {
            if points.len() != self.bytes.len() {
                let (points, sizes) = (points.len(), self.bytes.len());
                return Err(format!("{path} has {points} points: give one for each of the {sizes} sizes"));
            }
            for (place, point) in points.iter().enumerate() {
                let StoredPoint { miss_ratio, low, high, model_error } = *point;
                let ascending = [0.0, low, miss_ratio, high, 1.0].is_sorted_by(|a, b| *a <= b + 1e-9);
                if !ascending || !(0.0..=1.0).contains(&model_error) {
                    return Err(format!(
                        "{path}[{place}] is {miss_ratio} from {low} to {high}, model error {model_error}: give ratios from 0 \
                         to 1, the miss ratio between its bounds"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A miss ratio with the bounds of a 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPoint {
    /// The miss ratio.
    pub miss_ratio: f64,
    /// What is between the lowest and the highest that samples, their scatter and the model's error leave open.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// How far either would be off by the model's error alone; runs that are modelled alike share it.
    #[serde(default)]
    pub model_error: f64,
}

impl From<&CurvePoint> for StoredPoint {
    /// What borrowing leaves open follows from the phases, and is left out.
    fn from(point: &CurvePoint) -> Self {
        let point = CurvePoint { interval: point.unborrowed, ..*point };
        Self {
            miss_ratio: point.miss_ratio,
            low: point.lowest(),
            high: point.highest(),
            model_error: point.model_error,
        }
    }
}

/// `profile.json`: what was observed, for the tools that go on from here; and, with the feature, `profile.parquet`, which
/// holds the same.
///
/// # Errors
/// What the folder answers.
pub fn write_profile(profile: &PhaseProfile, folder: &OutputDir) -> Result<(), Failure> {
    let write = |name, parquet| {
        folder.write(name, |out| {
            let encoded = encode(profile, parquet).map_err(io::Error::other)?;
            out.write_all(&encoded)
        })
    };
    write("profile.json", false)?;
    if cfg!(feature = "parquet") { write("profile.parquet", true) } else { Ok(()) }
}

/// A run with the reuse profile of each phase and the phase of each window.
///
/// # Errors
/// What serialization answers.
pub fn stored_profile(subject: &Subject<'_>) -> Result<PhaseProfile, FileError> {
    let mut stored = PhaseProfile::new(&*subject.program, subject.run.line_size);
    stored.machine.clone_from(&subject.machine);
    stored.incomplete = subject.run.incomplete;
    stored.scope = subject.scope.in_files();
    stored.phases = subject
        .phases
        .iter()
        .map(|view| {
            let mut phase = stored_phase(view.name.clone(), view.record);
            phase.hottest_code = view.location.as_ref().map(|(name, _)| name.clone());
            phase.code.clone_from(&view.code);
            phase.distinct_code = view.distinct.as_ref().map(|code| code.name.clone());
            phase.borrows_from.clone_from(&view.borrowed_from);
            phase
        })
        .collect();
    let name = |phase| Some(subject.phases[subject.rank(phase)?].name.clone());
    stored.windows = stored_windows(subject.run, name);
    let points = |curve: &PhaseCurve| curve.points.iter().map(StoredPoint::from).collect::<Vec<_>>();
    let curves = StoredCurves {
        model: subject.model.clone(),
        bytes: subject.curves.sizes.iter().map(|size| size.bytes(subject.run.line_size)).collect(),
        average: points(&subject.curves.average),
        phases: subject
            .phases
            .iter()
            .filter_map(|view| Some((view.name.clone(), points(view.curve?))))
            .collect(),
    };
    stored.set_section("miss_ratios", &curves)?;
    Ok(stored)
}

/// A run with the reuse profile of each phase and the phase of each window, before any model. `label` names phases, `locate`
/// code.
pub fn guided_profile(
    run: &GuidedRun,
    program: &str,
    label: impl Fn(PhaseId) -> String,
    mut locate: impl FnMut(u64) -> Option<String>,
) -> PhaseProfile {
    let mut stored = PhaseProfile::new(program, run.line_size);
    stored.incomplete = run.incomplete;
    let code: Vec<_> = run.phases.iter().map(|record| (record.phase, record.code.blocks())).collect();
    let distinct = distinct_code(&code, 1);
    for (record, (_, code)) in run.phases.iter().zip(code) {
        let mut phase = stored_phase(label(record.phase), record);
        phase.hottest_code = record.hottest_block().and_then(|(block, _)| locate(block));
        phase.code = named_code(code, &mut locate);
        let apart = distinct.get(&record.phase).and_then(|codes| codes.first());
        phase.distinct_code = apart.and_then(|code| locate(code.block));
        phase.borrows_from = record.stand_in().map(&label);
        stored.phases.push(phase);
    }
    stored.windows = stored_windows(run, |phase| Some(label(phase)));
    stored
}

/// Windows and instructions of each phase, from the windows of the profile.
pub fn sum_windows(profile: &mut PhaseProfile) {
    for phase in &mut profile.phases {
        let windows = profile.windows.iter().filter(|window| window.phase == phase.phase);
        phase.windows = windows.clone().count() as u64;
        phase.instructions = windows.map(|window| window.instructions).sum();
    }
}

/// What is known of a phase but for its code.
fn stored_phase(name: String, record: &PhaseRecord) -> ProfiledPhase {
    let mut phase = ProfiledPhase::new(name, record.profile.clone());
    (phase.windows, phase.profiled) = (record.windows, record.profiled);
    (phase.instructions, phase.accesses_per_instruction) = (record.instructions, record.mix());
    phase
}

/// The windows of the phases that have a name.
fn stored_windows(run: &GuidedRun, name: impl Fn(PhaseId) -> Option<String>) -> Vec<ProfiledWindow> {
    let windows = run.windows.iter().filter_map(|window| {
        Some(ProfiledWindow {
            window: window.index.0,
            thread: window.thread.0,
            instructions: window.instructions,
            accesses: window.accesses.get(),
            phase: name(window.phase)?,
        })
    });
    windows.collect()
}
