//! What is said at the end, and the line for each window.

use std::collections::BTreeMap;
use std::io::{self, Write};

use phase_detect::PhaseId;
use phase_detect::metrics::{Transition, phases_for_coverage};
use phase_detect::simpoint::{simpoints_file, weights_file};
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, ReuseProfile};
use serde_json::{Value, json};

use super::args::Args;
use super::detect::{Found, Labelled, Phase};
use super::input::Ended;
use super::{page, pictures};
use crate::cli::{ByName, Failure};
use crate::output::OutputDir;
use crate::report::{
    Cell, DistinctView, PhaseTable, ProcessRow, Row, TITLE, Table, count, letters, percent, plural,
    process_table, shortened, unnamed, write_profile,
};
use crate::target::Target;

/// The object for one window. `thread` is left out for the first thread, and
/// `predicted_next`, `confidence` and `change_within` are null while there is nothing to predict from.
pub fn write_line(window: &Labelled, out: &mut dyn Write) -> io::Result<()> {
    let line = Line {
        window: window.window,
        phase: window.phase.number(),
        predicted_next: window.prediction.map(|p| p.phase.number()),
        confidence: window.prediction.map(|p| p.confidence),
        change_within: window.change_within,
        transition: window.in_transition.then_some(true),
        thread: (window.thread != 0).then_some(window.thread),
    };
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)
}

#[derive(serde::Serialize)]
struct Line {
    window: u64,
    phase: u32,
    predicted_next: Option<u32>,
    confidence: Option<f64>,
    change_within: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transition: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
}

/// Everything that is known at the end.
pub struct Report<'a> {
    pub args: &'a Args,
    pub found: &'a Found,
    pub ended: &'a Ended,
    /// The code that each phase spends most of its instructions in, and their share.
    pub locations: BTreeMap<PhaseId, (String, f64)>,
    /// The code of each phase by name; empty without `--out`.
    pub code: BTreeMap<PhaseId, Vec<(String, f64)>>,
    /// The code that sets each phase apart from the others.
    pub distinct: BTreeMap<PhaseId, DistinctView>,
    pub transitions: BTreeMap<PhaseId, Transition<PhaseId>>,
    /// The rows that phases which are no transitions are shown in, by position among the [ranked](Self::ranked) ones.
    pub rows: Vec<Row>,
    pub processes: Vec<ProcessRow>,
    pub notes: Vec<String>,
}

/// Phases, the one with most accesses first, or instructions or windows where the input counts none; after them the
/// transitions. As in `report::Subject`, so that a phase has the same letter in both.
pub fn ranked<'a>(
    found: &'a Found,
    transitions: &BTreeMap<PhaseId, Transition<PhaseId>>,
) -> Vec<(PhaseId, &'a Phase)> {
    let mut ranked: Vec<_> = found.phases.iter().map(|(&phase, known)| (phase, known)).collect();
    let in_transition = |phase| transitions.contains_key(&phase);
    ranked.sort_by(|a, b| {
        (in_transition(a.0).cmp(&in_transition(b.0)))
            .then(b.1.weight.total_cmp(&a.1.weight))
            .then(b.1.windows.cmp(&a.1.windows).then(a.0.cmp(&b.0)))
    });
    ranked
}

impl Report<'_> {
    /// [The phases in order](ranked).
    pub fn ranked(&self) -> Vec<(PhaseId, &Phase)> {
        ranked(self.found, &self.transitions)
    }

    /// The letters by which other commands and files name the phases.
    pub fn names(&self) -> BTreeMap<PhaseId, String> {
        self.ranked().into_iter().enumerate().map(|(rank, (phase, _))| (phase, letters(rank))).collect()
    }

    /// What `profile.json` holds: no samples, since none were taken.
    fn profile(&self) -> PhaseProfile {
        let names = self.names();
        let mut profile = PhaseProfile::new(&*self.ended.name, LineSize::B64);
        profile.machine = self.ended.target.as_ref().and_then(Target::machine);
        profile.incomplete = self.ended.incomplete;
        for (phase, known) in self.ranked() {
            let mut stored = ProfiledPhase::new(&*names[&phase], ReuseProfile::new(LineSize::B64));
            (stored.windows, stored.instructions) = (known.windows, known.instructions);
            stored.accesses_per_instruction = known.mix();
            stored.hottest_code = self.locations.get(&phase).map(|(code, _)| code.clone());
            stored.distinct_code = self.distinct.get(&phase).map(|code| code.name.clone());
            stored.code = self.code.get(&phase).cloned().unwrap_or_default();
            profile.phases.push(stored);
        }
        let windows = self.found.labelled.iter().map(|window| ProfiledWindow {
            window: window.window,
            thread: window.thread,
            instructions: window.done.instructions,
            accesses: window.done.accesses,
            phase: names[&window.phase].clone(),
        });
        profile.windows = windows.collect();
        profile
    }

    /// Share of the run.
    pub fn share(&self, phase: &Phase) -> f64 {
        let all = match self.found.instructions {
            0 => self.found.labelled.len() as u64,
            instructions => instructions,
        };
        self.found.size(phase) as f64 / all.max(1) as f64
    }

    /// Phases that are not transitions, and the number of transitions and of their windows.
    pub fn settled(&self) -> (usize, usize, u64) {
        let windows = self.transitions.keys().map(|phase| self.found.phases[phase].windows).sum();
        (self.found.phases.len() - self.transitions.len(), self.transitions.len(), windows)
    }

    /// The phases as a table, folded.
    pub fn table(&self) -> PhaseTable {
        let mut table =
            Table::bare(&["phase", "windows", "share", "first window", "name", "code that sets it apart"]);
        for (rank, (phase, known)) in self.ranked().into_iter().enumerate() {
            let code = match self.transitions.get(&phase) {
                Some(Transition::Mixture(a, b)) => format!("between {a} and {b}"),
                _ => self.distinct.get(&phase).map_or_else(String::new, ToString::to_string),
            };
            table.rows.push(vec![
                Cell::Key(phase.to_string(), rank),
                Cell::Count(known.windows),
                Cell::Share(self.share(known)),
                Cell::Count(known.first_window),
                Cell::Text(letters(rank)),
                Cell::Text(code),
            ]);
        }
        let ranked = self.ranked();
        PhaseTable::new(table, self.transitions.len(), (2, 2), &self.rows, |row| {
            let first = row.phases.iter().map(|&at| ranked[at].1.first_window).min().unwrap_or(0);
            let name = Cell::Text(letters(row.phases[0])).and_more(row.phases.len() - 1);
            vec![Cell::Count(first), name, row.code()]
        })
    }

    /// Phases needed for a share of the windows outside transitions.
    pub fn coverage(&self, share: f64) -> usize {
        let labels = self.found.labelled.iter().map(|window| window.phase);
        let labels: Vec<PhaseId> = labels.filter(|phase| !self.transitions.contains_key(phase)).collect();
        phases_for_coverage(&labels, share).unwrap_or(0)
    }

    /// Mean number of windows in a row of one phase.
    pub fn mean_run(&self) -> f64 {
        let runs = self.found.score.changes + self.found.threads as u64;
        let settled = self.found.labelled.iter().filter(|window| !window.in_transition).count();
        settled as f64 / runs.max(1) as f64
    }

    /// How often "it stays in the phase it is in" would have been right.
    pub fn last_value_accuracy(&self) -> Option<f64> {
        let score = self.found.score;
        (score.windows > 0).then(|| 1.0 - score.changes as f64 / score.windows as f64)
    }

    /// The last object.
    pub fn summary(&self) -> Value {
        let Self { args, found, ended, .. } = self;
        let names = self.names();
        let ranked = self.ranked();
        let first_of = |row: &Row| names[&ranked[row.phases[0]].0].clone();
        let family =
            |row: &Row| row.phases.iter().map(|&at| (ranked[at].0, first_of(row))).collect::<Vec<_>>();
        let families: BTreeMap<PhaseId, String> = self.rows.iter().flat_map(family).collect();
        let phases: Vec<Value> = found
            .phases
            .iter()
            .map(|(phase, known)| {
                let location = self.locations.get(phase);
                let distinct = self.distinct.get(phase);
                let mixture = match self.transitions.get(phase) {
                    Some(Transition::Mixture(a, b)) => Some([a.number(), b.number()]),
                    _ => None,
                };
                json!({
                    "phase": phase.number(),
                    "name": names[phase],
                    "family": families.get(phase),
                    "windows": known.windows,
                    "share": known.windows as f64 / found.labelled.len().max(1) as f64,
                    "instructions": known.instructions,
                    "first_window": known.first_window,
                    "transition": self.transitions.contains_key(phase),
                    "mixture": mixture,
                    "hottest_code": location.map(|l| &l.0),
                    "hottest_code_share": location.map(|l| l.1),
                    "distinct_code": distinct.map(|code| &code.name),
                    "distinct_code_share": distinct.map(|code| code.share),
                    "distinct_code_elsewhere": distinct.map(|code| code.elsewhere),
                })
            })
            .collect();
        let (settled, transitions, in_transitions) = self.settled();
        let mut summary = json!({
            "source": ended.name,
            "incomplete": ended.incomplete,
            "notes": self.notes,
            "clusterer": args.clusterer.name(),
            "threshold": args.threshold(),
            "predictor": args.predictor.name(),
            "seed": args.common.seed,
            "windows": found.labelled.len(),
            "threads": found.threads,
            "instructions": (found.instructions > 0).then_some(found.instructions),
            "phases": settled,
            "transitions": {"clusters": transitions, "windows": in_transitions},
            "coverage": {"0.8": self.coverage(0.8), "0.9": self.coverage(0.9)},
            "mean_run_length": self.mean_run(),
            "predictions": found.score.windows,
            "prediction_accuracy": found.score.accuracy(),
            "changes": found.score.changes,
            "change_accuracy": found.score.change_accuracy(),
            "last_value_accuracy": self.last_value_accuracy(),
            "phase_list": phases,
        });
        if !self.processes.is_empty() {
            summary["processes"] = json!(self.processes);
        }
        json!({ "summary": summary })
    }

    /// The same for people.
    pub fn write_table(&self, folder: Option<&OutputDir>, out: &mut dyn Write) -> io::Result<()> {
        let found = self.found;
        writeln!(out, "{}{}", shortened(&self.ended.name, TITLE), self.state())?;
        let threads =
            if found.threads > 1 { format!(" of {} threads", found.threads) } else { String::new() };
        let instructions = match found.instructions {
            0 => String::new(),
            n => format!(", {} instructions", count(n)),
        };
        let windows = plural(found.labelled.len(), "window", "windows");
        writeln!(out, "{windows}{threads}{instructions}; {}", self.sentence())?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        let names = self.distinct.values().map(|code| &code.name);
        write!(out, "\n{}{}", self.table().shown.text(), unnamed(names))?;
        if self.processes.len() > 1 {
            write!(out, "\n{}", process_table(&self.processes))?;
        }
        match folder {
            Some(folder) => writeln!(out, "\nThe pictures: {}", folder.path().join("report.html").display()),
            None => writeln!(out, "\nFor a line per window, add --json; for pictures, --out DIR."),
        }
    }

    pub fn state(&self) -> &'static str {
        if self.ended.incomplete { "  (incomplete: observed in part)" } else { "" }
    }

    /// Phases, coverage and predictions in a sentence.
    pub fn sentence(&self) -> String {
        let largest = match self.coverage(0.9) {
            1 => "the largest holds".to_owned(),
            largest => format!("the {largest} largest hold"),
        };
        let mut text = format!(
            "{} by {}, {largest} 90 % of the windows outside transitions, {:.1} windows in a row on average",
            plural(self.settled().0, "phase", "phases"),
            self.args.clusterer.name(),
            self.mean_run()
        );
        if let (Some(right), Some(last)) = (self.found.score.accuracy(), self.last_value_accuracy()) {
            text += &format!(
                "; {} of the windows predicted right by {} (always the same phase as before: {})",
                percent(right),
                self.args.predictor.name(),
                percent(last)
            );
        }
        text + "."
    }

    /// Writes `report.html`, its pictures, `windows.csv`, `profile.json` and SimPoint's files.
    pub fn write_files(&self, folder: &OutputDir) -> Result<(), Failure> {
        let pictures = pictures::draw(self)?;
        let text = |name: &str, content: &str| folder.write(name, |out| out.write_all(content.as_bytes()));
        text("phases.svg", &pictures.bar)
            .and_then(|()| text("similarity.svg", &pictures.similarity))
            .and_then(|()| text("projection.svg", &pictures.projection))
            .and_then(|()| text("report.html", &page::page(self, &pictures)))
            .and_then(|()| folder.write("windows.csv", |out| self.write_windows(out)))
            .and_then(|()| write_profile(&self.profile(), folder))?;
        if let Some(simpoint) = &self.found.simpoint {
            text("phases.simpoints", &simpoints_file(simpoint.points()))
                .and_then(|()| text("phases.weights", &weights_file(simpoint.points())))
                .and_then(|()| text("phases.labels", &simpoint.labels_file()))?;
            if let Some(percent) = self.args.coverage {
                let share = f64::from(percent) / 100.0;
                let points = simpoint.covering(share);
                text(&format!("phases.simpoints.lpt{share}"), &simpoints_file(&points))
                    .and_then(|()| text(&format!("phases.weights.lpt{share}"), &weights_file(&points)))?;
            }
        }
        Ok(())
    }

    fn write_windows(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "window,thread,phase,predicted_next,confidence,transition,change_within")?;
        for window in &self.found.labelled {
            let predicted = window.prediction.map_or(String::new(), |p| p.phase.to_string());
            let within = window.change_within.map_or(String::new(), |windows| windows.to_string());
            let confidence = window.prediction.map_or(String::new(), |p| p.confidence.to_string());
            writeln!(
                out,
                "{},{},{},{predicted},{confidence},{},{within}",
                window.window, window.thread, window.phase, window.in_transition
            )?;
        }
        Ok(())
    }
}
