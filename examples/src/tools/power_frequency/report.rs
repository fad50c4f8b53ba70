//! What is printed: tables for people, JSON for programs.

use std::io::{self, Write};

use phase_detect::PhaseId;
use powersleuth::analysis::{Analysis, Cost, Level, Outcome};
use powersleuth::calibration::Route;
use serde_json::{Value, json};

use super::apply::Applied;
use super::study::{Advice, Study};
use super::{figures, files, page};
use crate::cli::Failure;
use crate::output::OutputDir;
use crate::report::{Cell, Table, percent, plural, process_table, quantity};

/// Rows of the table on the terminal; the page has them all.
const ROWS: usize = 12;

/// The whole result.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was found.
    pub study: &'a Study,
    /// What to do about it.
    pub advice: &'a Advice,
    /// What is minimised, in words.
    pub objective: &'static str,
    /// What the whole program must keep to, in words and as JSON.
    pub limits: Option<(String, Value)>,
    /// What came of following it, if it was followed.
    pub applied: Option<Applied>,
    /// Seed of the run.
    pub seed: u64,
}

impl Report<'_> {
    /// The level of a phase in the schedule.
    pub fn level(&self, phase: PhaseId) -> Level {
        self.advice.schedule.level(&phase).unwrap_or(self.study.predicted.fastest())
    }

    /// A level in GHz.
    pub fn ghz(&self, level: Level) -> f64 {
        self.study.predicted.frequencies()[level.0].ghz()
    }

    /// `4.2 % longer, 21 % less energy` than at the highest frequency.
    pub fn against(outcome: &Outcome<PhaseId>, fastest: &Outcome<PhaseId>) -> String {
        Self::change(outcome.total, fastest.total)
    }

    fn change(now: Cost, then: Cost) -> String {
        let change = |now: f64, then: f64, more: &str, less: &str| {
            let ratio = now / then - 1.0;
            format!("{} {}", percent(ratio.abs()), if ratio < 0.0 { less } else { more })
        };
        format!(
            "{}, {}",
            change(now.time.0, then.time.0, "longer", "shorter"),
            change(now.energy.0, then.energy.0, "more energy", "less energy")
        )
    }

    /// Writes all files.
    pub fn write(&self, folder: &OutputDir) -> Result<(), Failure> {
        let pictures = figures::Pictures::draw(self).map_err(Failure::Run)?;
        for (name, picture) in pictures.files() {
            folder.write(name, |out| out.write_all(picture.as_bytes()))?;
        }
        folder
            .write("report.html", |out| page::write(self, &pictures, out))
            .and_then(|()| folder.write("intervals.csv", |out| files::write_intervals(self, out)))
            .and_then(|()| folder.write("phases.csv", |out| files::write_phases(self, out)))
            .and_then(|()| folder.write("pareto.csv", |out| files::write_front(self, out)))
            .and_then(|()| folder.write("report.json", |out| writeln!(out, "{}", self.object())))
    }

    /// Prints the tables.
    pub fn write_table(&self, folder: Option<&OutputDir>, out: &mut dyn Write) -> io::Result<()> {
        self.write_text(out)?;
        match folder {
            Some(folder) => writeln!(out, "\nThe pictures: {}", folder.path().join("report.html").display()),
            None => writeln!(out, "\nFor energy over time and frequency as a picture, add --out DIR."),
        }
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let study = self.study;
        let analysis = &study.predicted;
        writeln!(
            out,
            "{}{}",
            study.program,
            if study.incomplete { "  (incomplete: observed in part)" } else { "" }
        )?;
        writeln!(out, "{}", study.basis())?;
        writeln!(out, "Models: {}.", study.models.in_words())?;
        for note in &study.notes {
            writeln!(out, "note: {note}")?;
        }
        writeln!(
            out,
            "{} of {} instructions, {} in {}.\n",
            plural(analysis.intervals(), "interval", "intervals"),
            crate::report::count(study.interval),
            plural(analysis.phases().len(), "phase", "phases"),
            plural(analysis.instances().len(), "instance", "instances")
        )?;
        write!(out, "{}", self.table(ROWS, false).text())?;
        for line in self.recommendation() {
            writeln!(out, "{line}")?;
        }
        if study.processes.len() > 1 {
            write!(out, "\n{}", process_table(&study.processes))?;
        }
        Ok(())
    }

    /// The first phases and the whole; with how far each number is from the truth, if that is asked for and known.
    pub fn table(&self, most: usize, against_truth: bool) -> Table {
        let study = self.study;
        let truth = study.truth.as_ref().filter(|_| against_truth);
        let mut table = Table::bare(&["phase", "intervals"]);
        for level in self.ends() {
            let ghz = self.ghz(level);
            table.columns.extend(["time", "power", "energy"].map(|what| format!("{what} at {ghz:.2}")));
        }
        table.columns.extend(["best GHz".to_owned(), "hottest code".to_owned()]);
        let cells = |costs: &[Cost], truth: Option<&[Cost]>| {
            self.ends().map(|level| {
                let cell = |of: fn(Cost) -> f64, unit: &str| {
                    let value = of(costs[level.0]);
                    let off =
                        truth.map(|truth| format!(" ({:+.1} %)", 100.0 * (value / of(truth[level.0]) - 1.0)));
                    Cell::Figure(quantity(value, unit) + &off.unwrap_or_default())
                };
                [cell(|c| c.time.0, "s"), cell(|c| c.power().0, "W"), cell(|c| c.energy.0, "J")]
            })
        };
        for (rank, view) in study.views.iter().enumerate().take(most) {
            let Some(phase) = Study::phase(&study.predicted, view.phase) else { continue };
            let truth = truth.and_then(|truth| Study::phase(truth, view.phase));
            let code = view.code.as_ref().map(|(name, share)| format!("{name} ({})", percent(*share)));
            let mut row = vec![Cell::Key(view.name.clone(), rank), phase.intervals.into()];
            row.extend(cells(&phase.costs, truth.map(|truth| truth.costs.as_slice())).concat());
            row.push(Cell::Figure(format!("{:.2}", self.ghz(self.level(view.phase)))));
            row.push(Cell::Text(code.unwrap_or_default()));
            table.rows.push(row);
        }
        if study.views.len() > most {
            let mut row = vec![Cell::Text(format!("{} more", study.views.len() - most))];
            row.resize(table.columns.len(), "".into());
            table.rows.push(row);
        }
        let mut all = vec!["all".into(), study.predicted.intervals().into()];
        all.extend(cells(study.predicted.program_costs(), truth.map(Analysis::program_costs)).concat());
        all.extend(["".into(), "".into()]);
        table.rows.push(all);
        table
    }

    /// The highest frequency and the lowest.
    pub fn ends(&self) -> [Level; 2] {
        [self.study.predicted.fastest(), Level(0)]
    }

    /// What is recommended and what it brings, in a few lines.
    pub fn recommendation(&self) -> Vec<String> {
        let (study, advice) = (self.study, self.advice);
        let bound = percent(advice.goal.slowdown());
        let mut lines = vec![
            String::new(),
            format!(
                "Least {} with no phase more than {bound} slower than at {:.2} GHz:",
                self.objective,
                self.ghz(study.predicted.fastest())
            ),
            format!(
                "  predicted: {}; {} changes of frequency",
                Self::against(&advice.predicted, &advice.fastest),
                advice.predicted.transitions
            ),
        ];
        if let Some((limits, _)) = &self.limits {
            lines.push(format!("  {limits}"));
        }
        if let Some(margin) = study.margin {
            lines.push(format!(
                "  the bound allows for an error of {} of the time that scales with the clock",
                percent(margin * study.predicted.doubt())
            ));
        }
        if let Some([followed, fastest]) = &advice.really {
            lines.push(format!("  in truth:  {}", Self::against(followed, fastest)));
            let broken: Vec<String> = followed
                .violations(advice.goal.slowdown())
                .map(|phase| {
                    let name = study.rank(phase.phase).map_or("?", |rank| study.views[rank].name.as_str());
                    format!("{name} by {}", percent(phase.slowdown - advice.goal.slowdown()))
                })
                .collect();
            if !broken.is_empty() {
                lines.push(format!("  in truth the bound is broken in {}", broken.join(", ")));
            }
        }
        if let Some(applied) = &self.applied {
            lines.push(format!(
                "  applied:   {}; {} changes of frequency; the phase of {} of the intervals was predicted",
                Self::change(applied.total, applied.fastest),
                applied.changes,
                percent(applied.right)
            ));
        }
        if let Ok(Some([time, power])) = study.errors(Level(0)) {
            lines.push(format!(
                "Errors at {:.2} GHz by phase instance: time {} on average, {} at most; power {}, {}.",
                self.ghz(Level(0)),
                percent(time.mean),
                percent(time.worst),
                percent(power.mean),
                percent(power.worst)
            ));
        }
        lines
    }

    /// Everything as one JSON object.
    pub fn object(&self) -> Value {
        let (study, advice) = (self.study, self.advice);
        let analysis = &study.predicted;
        let costs = |predicted: &[Cost], really: Option<&[Cost]>| -> Vec<Value> {
            let row = |(level, (cost, frequency)): (usize, (&Cost, &powersleuth::Hertz))| {
                let mut row = cost_object(*cost);
                row["ghz"] = json!(frequency.ghz());
                if let Some(really) = really {
                    row["truth"] = cost_object(really[level]);
                }
                row
            };
            predicted.iter().zip(analysis.frequencies()).enumerate().map(row).collect()
        };
        let truth_of = |phase| Some(Study::phase(study.truth.as_ref()?, phase)?.costs.as_slice());
        let phases: Vec<Value> = study
            .views
            .iter()
            .filter_map(|view| {
                let phase = Study::phase(analysis, view.phase)?;
                Some(json!({
                    "phase": view.name,
                    "intervals": phase.intervals,
                    "instances": phase.instances,
                    "instructions": phase.instructions,
                    "hottest_code": view.code.as_ref().map(|(name, _)| name),
                    "hottest_code_share": view.code.as_ref().map(|(_, share)| share),
                    "costs": costs(&phase.costs, truth_of(view.phase)),
                    "recommended_ghz": self.ghz(self.level(view.phase)),
                }))
            })
            .collect();
        let outcome = |outcome: &Outcome<PhaseId>| {
            let mut object = cost_object(outcome.total);
            object["transitions"] = json!(outcome.transitions);
            object["violations"] = outcome
                .violations(advice.goal.slowdown())
                .map(|phase| {
                    let name = study.rank(phase.phase).map(|rank| &study.views[rank].name);
                    json!({"phase": name, "slowdown": phase.slowdown})
                })
                .collect();
            object
        };
        let applied = self.applied.map(|applied| {
            let mut object = cost_object(applied.total);
            object["joules_at_highest"] = json!(applied.fastest.energy.0);
            object["seconds_at_highest"] = json!(applied.fastest.time.0);
            object["transitions"] = json!(applied.changes);
            object["phases_predicted"] = json!(applied.right);
            object
        });
        let errors = study
            .errors(Level(0))
            .ok()
            .flatten()
            .map(|[time, power]| json!({"ghz": self.ghz(Level(0)), "time": time, "power": power}));
        let mut object = json!({
            "program": study.program,
            "basis": study.basis(),
            "source": study.source,
            "modelled": study.modelled,
            "incomplete": study.incomplete,
            "models": {
                "performance": study.models.performance,
                "power": study.models.power,
                "errors": study.models.errors.iter().map(route_object).collect::<Vec<_>>(),
            },
            "notes": study.notes,
            "seed": self.seed,
            "interval": study.interval,
            "intervals": analysis.intervals(),
            "instances": analysis.instances().len(),
            "profiled_at_ghz": study.profiled_at.ghz(),
            "frequencies_ghz": analysis.frequencies().iter().map(|f| f.ghz()).collect::<Vec<_>>(),
            "phases": phases,
            "program_costs": costs(analysis.program_costs(), study.truth.as_ref().map(Analysis::program_costs)),
            "schedule": {
                "objective": self.objective,
                "bound": advice.goal.slowdown(),
                "margin": study.margin.map(|margin| margin * study.predicted.doubt()),
                "limits": self.limits.as_ref().map(|(_, limits)| limits),
                "predicted": outcome(&advice.predicted),
                "at_highest": outcome(&advice.fastest),
                "best_by_instance": outcome(&advice.best),
                "truth": advice.really.as_ref().map(|[followed, _]| outcome(followed)),
                "truth_at_highest": advice.really.as_ref().map(|[_, fastest]| outcome(fastest)),
                "applied": applied,
                "loss_against_exhaustive_search": advice.regret.as_ref().map(|regret| regret.mean),
            },
            "errors": errors,
            "pareto": advice.front.iter().map(|point| cost_object(point.cost)).collect::<Vec<_>>(),
        });
        if !study.processes.is_empty() {
            object["processes"] = json!(study.processes);
        }
        object
    }
}

fn cost_object(cost: Cost) -> Value {
    json!({"seconds": cost.time.0, "joules": cost.energy.0, "watts": cost.power().0})
}

/// Errors that were measured on the way to one frequency.
fn route_object(route: &Route) -> Value {
    json!({"ghz": route.to.ghz(), "time": route.time, "power": route.power})
}
