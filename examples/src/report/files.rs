//! The run as tables and profiles for other programs.

use std::io::{self, Write};

use serde::Serialize;

use super::Subject;
use reuse_sampler::{AccessCount, ReuseProfile};

/// `windows.csv`: a row per window. `basis` says where a window's miss ratios come from: its phase's profile, to
/// which the window contributed (`profiled`) or not (`phase`), or the profile of another phase (`borrowed`).
///
/// # Errors
/// What the writer answers.
pub fn write_windows(subject: &Subject<'_>, out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "window",
        "thread",
        "instructions",
        "accesses",
        "phase",
        "predicted",
        "profiled",
        "accesses_estimated",
        "basis",
    ])?;
    for window in &subject.run.windows {
        let name =
            |phase| subject.rank(phase).map_or(String::new(), |rank| subject.phases[rank].name.clone());
        let view = subject.rank(window.phase).map(|rank| &subject.phases[rank]);
        let basis = match view {
            Some(view) if view.borrowed_from.is_some() => "borrowed",
            Some(view) if view.curve.is_none() => "none",
            _ if window.profiled => "profiled",
            _ => "phase",
        };
        csv.write_record([
            window.index.0.to_string(),
            window.thread.0.to_string(),
            window.instructions.to_string(),
            window.accesses.get().map_or(String::new(), |n| n.to_string()),
            name(window.phase),
            window.predicted.map_or(String::new(), name),
            u8::from(window.profiled).to_string(),
            u8::from(matches!(window.accesses, AccessCount::Estimated(_))).to_string(),
            basis.to_owned(),
        ])?;
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

#[derive(Serialize)]
struct StoredRun<'a> {
    format: &'static str,
    version: u32,
    program: &'a str,
    incomplete: bool,
    line_size: u32,
    phases: Vec<StoredPhase<'a>>,
    windows: Vec<StoredWindow<'a>>,
}

#[derive(Serialize)]
struct StoredPhase<'a> {
    phase: &'a str,
    windows: u64,
    profiled: u64,
    instructions: u64,
    accesses_per_instruction: Option<f64>,
    hottest_code: Option<&'a str>,
    borrows_from: Option<&'a str>,
    profile: &'a ReuseProfile,
}

#[derive(Serialize)]
struct StoredWindow<'a> {
    window: u64,
    thread: u32,
    instructions: u64,
    accesses: Option<u64>,
    phase: &'a str,
}

/// `profile.json`: the reuse profile of each phase and the phase of each window, for the tools that go on from
/// here.
///
/// # Errors
/// What the writer answers.
pub fn write_profile(subject: &Subject<'_>, out: impl Write) -> io::Result<()> {
    let name = |rank: usize| subject.phases[rank].name.as_str();
    let phases = subject.phases.iter().map(|view| StoredPhase {
        phase: &view.name,
        windows: view.record.windows,
        profiled: view.record.profiled,
        instructions: view.record.instructions,
        accesses_per_instruction: view.record.mix(),
        hottest_code: view.location.as_ref().map(|(name, _)| name.as_str()),
        borrows_from: view.borrowed_from.as_deref(),
        profile: &view.record.profile,
    });
    let windows = subject.run.windows.iter().filter_map(|window| {
        Some(StoredWindow {
            window: window.index.0,
            thread: window.thread.0,
            instructions: window.instructions,
            accesses: window.accesses.get(),
            phase: name(subject.rank(window.phase)?),
        })
    });
    let stored = StoredRun {
        format: "phase-profile",
        version: 1,
        program: &subject.program,
        incomplete: subject.run.incomplete,
        line_size: subject.run.line_size.bytes(),
        phases: phases.collect(),
        windows: windows.collect(),
    };
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer(&mut out, &stored)?;
    out.flush()
}
