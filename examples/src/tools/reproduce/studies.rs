//! Which command computes which figure, and where its JSON has it.

use serde_json::Value;

use super::Row;
use crate::cli::{Failure, invoke};
use crate::reference::accuracy;
use crate::tools::{
    cache_pirate, compare_detectors, corun_variability, phase_guided_vs_periodic, power_frequency,
    statcc_accuracy,
};

/// A command, and the figures that its JSON holds.
pub struct Study {
    /// Technique and paper.
    pub technique: &'static str,
    /// Name of the command.
    pub name: &'static str,
    /// Its arguments, separated by spaces: quick, default, full.
    arguments: [&'static str; 3],
    /// What its JSON shows.
    pub figures: &'static [Figure],
    /// Whether it also says which claims hold, and takes the user's programs.
    pub verdict: bool,
    tool: fn(Vec<String>, &mut Vec<u8>, &mut Vec<u8>) -> u8,
}

/// A figure of a paper.
pub struct Figure {
    /// What is measured.
    pub what: &'static str,
    /// The value in the paper.
    pub paper: &'static str,
    /// Ours, from the JSON.
    pub ours: fn(&Value) -> Option<String>,
}

/// How much is run, with which seed, on which programs of the user's.
#[derive(Clone, Copy, Debug)]
pub struct Effort<'a> {
    /// 0 to 2.
    pub level: usize,
    pub seed: u64,
    /// Each a command, its words separated by spaces.
    pub commands: &'a [String],
}

impl Study {
    fn words(&self, effort: Effort<'_>) -> Vec<String> {
        let mut words: Vec<String> =
            self.arguments[effort.level].split_whitespace().map(str::to_owned).collect();
        words.extend(["--seed".to_owned(), effort.seed.to_string()]);
        if self.verdict {
            words
                .extend(effort.commands.iter().flat_map(|command| ["--command".to_owned(), command.clone()]));
        }
        words
    }

    /// The command as a person would type it.
    pub fn command(&self, effort: Effort<'_>) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:".contains(c);
        let quoted = |word: &String| {
            if word.chars().all(plain) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
        };
        let words: Vec<String> = self.words(effort).iter().map(quoted).collect();
        format!("cargo run --release --example {} -- {}", self.name, words.join(" "))
    }

    /// Its JSON.
    pub fn run(&self, effort: Effort<'_>) -> Result<Value, Failure> {
        let mut words = self.words(effort);
        words.insert(0, self.name.to_owned());
        words.push("--json".to_owned());
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let status = (self.tool)(words, &mut out, &mut messages);
        serde_json::from_slice(&out).map_err(|error| {
            let said = String::from_utf8_lossy(&messages);
            Failure::Run(format!("{} ended with status {status}: {}; {error}", self.name, said.trim()))
        })
    }
}

/// The claims in the JSON of a verdict, one for each group of programs.
pub fn verdicts(command: &str, found: &Value) -> Option<Vec<Row>> {
    let table = found["tables"].as_array()?.iter().find(|table| table["name"] == "claims")?;
    let groups = table["columns"].as_array()?.get(3..)?;
    let text = |cell: &Value| cell.as_str().map(str::to_owned);
    let mut verdicts = Vec::new();
    for row in table["rows"].as_array()?.iter().filter_map(Value::as_array) {
        for (group, cells) in groups.iter().step_by(3).zip(row.get(3..)?.chunks_exact(3)) {
            let range = match (cells[1][0].as_f64(), cells[1][1].as_f64()) {
                (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
                _ => String::new(),
            };
            verdicts.push(Row {
                technique: text(&row[0])?,
                figure: format!("{}; {}", row[1].as_str()?, group.as_str()?),
                paper: text(&row[2])?,
                ours: cells[0].as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.2}{range}")),
                holds: Some(text(&cells[2])?),
                command: command.to_owned(),
            });
        }
    }
    Some(verdicts)
}

macro_rules! tool {
    ($module:ident) => {
        |words, out, messages| invoke(words, out, messages, $module::run)
    };
}

fn percent(value: f64, digits: usize) -> String {
    format!("{:.digits$} %", 100.0 * value)
}

fn points(value: f64) -> String {
    format!("{value:.2} points")
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Mean of the absolute errors of a model, one fitted to each window, in points.
fn model_error(found: &Value, model: &str) -> Option<f64> {
    let rows = found["mean_absolute_error"].as_array()?;
    rows.iter().find(|row| row["model"] == model && row["grouping"] == "windows")?["points"].as_f64()
}

/// The share of errors of StatStack below 0.2 points.
fn small_errors(found: &Value) -> Option<f64> {
    let rows = found["traces"].as_array()?.iter().filter_map(|trace| trace["models"].as_array()).flatten();
    let chosen = rows.filter(|row| row["model"] == "StatStack" && row["grouping"] == "windows");
    let errors = chosen.filter_map(|row| row["errors"].as_array()).flatten().filter_map(Value::as_f64);
    mean(errors.map(|error| f64::from(u8::from(error.abs() < 0.2))))
}

/// A cell in the row of means of a table of `compare_detectors`.
fn cell(found: &Value, table: &str, column: &str) -> Option<f64> {
    let table = found["tables"].as_array()?.iter().find(|candidate| candidate["name"] == table)?;
    let column = table["columns"].as_array()?.iter().position(|name| name == column)?;
    table["rows"].as_array()?.iter().find(|row| row[0] == "mean")?[column].as_f64()
}

/// A figure of the phase method of `corun_variability --evaluate`.
fn by_phase(found: &Value, figure: &str) -> Option<f64> {
    found["summary"].as_array()?.iter().find(|row| row["method"] == "phase")?[figure].as_f64()
}

/// Mean over the programs of the mean error that `path` leads to.
fn over_programs(found: &Value, path: &str) -> Option<f64> {
    mean(found["programs"].as_array()?.iter().filter_map(|program| program.pointer(path)?.as_f64()))
}

/// Mean over the curves of the pirate.
fn over_curves(found: &Value, path: &str) -> Option<f64> {
    mean(found["curves"].as_array()?.iter().filter_map(|curve| curve.pointer(path)?.as_f64()))
}

/// In the order of the pipeline: phases, profiles, sharing, frequency.
pub const STUDIES: &[Study] = &[
    Study {
        technique: "ScarPhase",
        name: "compare_detectors",
        arguments: [
            "--workload dual --limit 40 --experiment rate,profiling",
            "--workload few,multi --limit 200 --experiment rate,profiling",
            "--experiment rate,profiling",
        ],
        figures: &[
            Figure {
                what: "samples taken with a dynamic rate",
                paper: "59 %",
                ours: |found| Some(percent(cell(found, "dynamic_rate", "of the static")?, 0)),
            },
            Figure {
                what: "error of a window's CPI, periodic sampling",
                paper: "24 %",
                ours: |found| Some(percent(cell(found, "profiling", "window: periodic")?, 0)),
            },
            Figure {
                what: "error of a window's CPI, by phase",
                paper: "10 to 11 %",
                ours: |found| Some(percent(cell(found, "profiling", "window: static")?, 0)),
            },
        ],
        verdict: false,
        tool: tool!(compare_detectors),
    },
    Study {
        technique: "phase detectors",
        name: "compare_detectors",
        arguments: [
            "--workload dual,few --limit 40 --experiment verdict",
            "--workload few,phased,layouts,multi,same_code --limit 600 --experiment verdict --stride-entries 10000",
            "--workload few,phased,layouts,multi,same_code --experiment verdict --stride-entries 10000",
        ],
        figures: &[],
        verdict: true,
        tool: tool!(compare_detectors),
    },
    Study {
        technique: "StatStack, StatCache",
        name: "model_accuracy",
        arguments: [
            "--workload matmul_blocked --workload key_value --limit 1000000 --windows 4 --one-in 100",
            "--workload matmul_blocked --workload key_value --workload quicksort --workload btree --limit 10000000 --one-in 1000",
            "--workload matmul_blocked --workload matmul_naive --workload key_value --workload quicksort --workload btree \
             --workload hash_join --workload bfs --workload pagerank --one-in 1000",
        ],
        figures: &[
            Figure {
                what: "StatStack: errors below 0.2 points of miss ratio",
                paper: "90 % (S1), 74 % (S2)",
                ours: |found| Some(percent(small_errors(found)?, 0)),
            },
            Figure {
                what: "StatStack: mean absolute error",
                paper: "not stated",
                ours: |found| Some(points(model_error(found, "StatStack")?)),
            },
            Figure {
                what: "StatCache: mean absolute error",
                paper: "not stated",
                ours: |found| Some(points(model_error(found, "StatCache")?)),
            },
        ],
        verdict: false,
        tool: |words, out, messages| invoke(words, out, messages, accuracy::run),
    },
    Study {
        technique: "phase-guided profiling",
        name: "phase_guided_vs_periodic",
        arguments: [
            "--workload few --seeds 1 --brief",
            "--workload few,multi --seeds 3 --brief",
            "--seeds 10",
        ],
        figures: &[
            Figure {
                what: "CDF error, periodic",
                paper: "1.76 points",
                ours: |found| Some(points(found["mean"]["cdf_error_periodic"].as_f64()?)),
            },
            Figure {
                what: "CDF error, phase-guided",
                paper: "1.08 points",
                ours: |found| Some(points(found["mean"]["cdf_error_guided"].as_f64()?)),
            },
            Figure {
                what: "overhead, periodic over phase-guided",
                paper: "6.3",
                ours: |found| Some(format!("{:.1}", found["mean"]["overhead_ratio"].as_f64()?)),
            },
        ],
        verdict: false,
        tool: tool!(phase_guided_vs_periodic),
    },
    Study {
        technique: "StatCC",
        name: "statcc_accuracy",
        arguments: [
            "--accesses 200000 --llc-size 64KiB --l1-size 1KiB --mixes 2 --repetitions 2",
            "--accesses 1000000 --llc-size 256KiB --l1-size 4KiB --mixes 10 --repetitions 3",
            "",
        ],
        figures: &[
            Figure {
                what: "mean error of CPI, 55 pairs",
                paper: "1.9 %",
                ours: |found| Some(percent(found["pair_errors"]["mean"].as_f64()?, 1)),
            },
            Figure {
                what: "median error of CPI",
                paper: "0.4 %",
                ours: |found| Some(percent(found["pair_errors"]["median"].as_f64()?, 1)),
            },
        ],
        verdict: false,
        tool: tool!(statcc_accuracy),
    },
    Study {
        technique: "Cache Pirating",
        name: "cache_pirate",
        arguments: [
            "--experiment patterns --cache 32KiB",
            "--experiment patterns --cache 128KiB",
            "--experiment patterns,one-run --cache 128KiB",
        ],
        figures: &[Figure {
            what: "mean absolute error of the fetch ratio, where trusted",
            paper: "0.2 points",
            ours: |found| Some(points(100.0 * over_curves(found, "/fetch_error/0")?)),
        }],
        verdict: false,
        tool: tool!(cache_pirate),
    },
    Study {
        technique: "phase-aware cache sharing",
        name: "corun_variability",
        arguments: [
            "--evaluate --llc-size 64KiB --l1-size 1KiB --offsets 4 --curve-sizes 8",
            "--evaluate --llc-size 64KiB --l1-size 1KiB --offsets 20",
            "--evaluate --llc-size 64KiB --l1-size 1KiB --offsets 100",
        ],
        figures: &[
            Figure {
                what: "mean error of the mean slowdown, phase method",
                paper: "0.41 %",
                ours: |found| Some(percent(by_phase(found, "mean_error")?, 2)),
            },
            Figure {
                what: "largest error",
                paper: "1.8 %",
                ours: |found| Some(percent(by_phase(found, "largest_error")?, 1)),
            },
        ],
        verdict: false,
        tool: tool!(corun_variability),
    },
    Study {
        technique: "Power-Sleuth",
        name: "power_frequency",
        arguments: ["--accuracy"; 3],
        figures: &[
            Figure {
                what: "error of time, highest to lowest frequency, stall-based",
                paper: "3.9 %",
                ours: |found| Some(percent(over_programs(found, "/time/max -> min/stall-based/mean")?, 1)),
            },
            Figure {
                what: "error of time, with calibrated stalls",
                paper: "not in the paper",
                ours: |found| Some(percent(over_programs(found, "/time/max -> min/calibrated/mean")?, 1)),
            },
            Figure {
                what: "error of power at another frequency",
                paper: "3.5 %",
                ours: |found| Some(percent(over_programs(found, "/power/cross/mean")?, 1)),
            },
        ],
        verdict: false,
        tool: tool!(power_frequency),
    },
];

/// Arguments of every study are accepted by its command.
#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn accepts<A: Parser>(study: &Study) {
        for level in 0..3 {
            let commands = ["ls -l".to_owned()];
            let effort = Effort { level, seed: 3, commands: &commands };
            let all = std::iter::once(study.name.to_owned()).chain(study.words(effort));
            assert!(A::try_parse_from(all).is_ok(), "{}", study.command(effort));
        }
    }

    #[test]
    fn every_command_is_understood() {
        for study in STUDIES {
            match study.name {
                "compare_detectors" => accepts::<compare_detectors::Args>(study),
                "model_accuracy" => accepts::<accuracy::Args>(study),
                "phase_guided_vs_periodic" => accepts::<phase_guided_vs_periodic::Args>(study),
                "statcc_accuracy" => accepts::<statcc_accuracy::Args>(study),
                "cache_pirate" => accepts::<cache_pirate::Args>(study),
                "corun_variability" => accepts::<corun_variability::Args>(study),
                "power_frequency" => accepts::<power_frequency::Args>(study),
                other => panic!("{other} is not checked"),
            }
        }
    }
}
