//! All embedded programs as targets beside those that interfere, predicted and simulated: the paper's table IV.1, and
//! its figures IV.4 and IV.5 in numbers.

use std::io::Write;
use std::num::NonZeroUsize;

use cachesharing::{Offsets, Program, SlowdownDistribution};
use serde_json::{Value, json};

use super::args::{MethodName, PredictArgs};
use super::figures::sorted;
use super::ground::Ground;
use super::predict::{ByMethod, Question};
use super::{embedded, go_on, reference};
use crate::cli::{ByName, Failure, Watch};
use crate::machines::testbed::programs::Recorded;
use crate::output::OutputDir;
use crate::report::{Panel, Table, draw_panels, percent, write_document};

/// A target beside an interferer.
struct Pair {
    target: usize,
    interferer: usize,
    methods: Vec<ByMethod>,
    simulated: SlowdownDistribution,
    seconds: f64, // of simulation
}

impl Pair {
    fn error(&self, method: usize) -> f64 {
        self.methods[method].variability.distribution.mean_error(&self.simulated)
    }

    fn distance(&self, method: usize) -> f64 {
        self.methods[method].variability.distribution.kolmogorov_smirnov(&self.simulated)
    }

    fn speedup(&self, method: usize) -> f64 {
        self.seconds / self.methods[method].seconds
    }
}

/// Evaluates all pairs and reports the result; returns whether they are all, or those finished until an interrupt.
pub(super) fn evaluate(
    args: &PredictArgs,
    mut ground: Ground,
    threads: NonZeroUsize,
    folder: Option<&OutputDir>,
    watch: &Watch<'_>,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let bytes = ground.settings.shared.geometry.bytes();
    let (line_size, seed) = (args.chip.line_size(), args.common.seed);
    let names = embedded::NAMES.map(|(name, ..)| name);
    let load = |name: &&str| embedded::program(name, bytes, line_size, seed);
    let played: Vec<Recorded> = names.iter().map(load).collect::<Result<_, _>>()?;
    let programs = super::alone(args, &mut ground, &played, threads, watch)?;
    let interferers = |target| (0..names.len()).filter(|&i| embedded::NAMES[i].2).map(move |i| (target, i));
    let mut pairs = Vec::new();
    let mut whole = true;
    for (target, interferer) in (0..names.len()).flat_map(interferers) {
        watch.show(format!("{} beside {}", names[target], names[interferer]));
        let Some(pair) = pair(args, &ground, &played, &programs, (target, interferer), threads, watch)?
        else {
            whole = false;
            break;
        };
        pairs.push(pair);
    }
    if pairs.is_empty() {
        go_on(watch)?;
    }
    watch.clear();
    let lengths: Vec<u64> = played.iter().map(|p| p.recording.references()).collect();
    args.common.present(
        folder,
        |folder| files(&pairs, &names, folder),
        |out| writeln!(out, "{}", object(args, &pairs, &programs, &lengths, whole)),
        |out| {
            write!(
                out,
                "{}\n{}",
                Table::from(table(&pairs, &names)).text(),
                Table::from(summary(&pairs)).text()
            )
        },
        out,
    )?;
    Ok(whole)
}

/// A pair, or nothing where it was interrupted.
fn pair(
    args: &PredictArgs,
    ground: &Ground,
    played: &[Recorded],
    programs: &[Program<u64>],
    (target, interferer): (usize, usize),
    threads: NonZeroUsize,
    watch: &Watch<'_>,
) -> Result<Option<Pair>, Failure> {
    // Each pair has offsets of its own.
    let seed = args.common.seed.wrapping_mul(1000).wrapping_add((10 * target + interferer) as u64);
    let offsets = Offsets::random(args.offsets as usize, seed);
    let cache = ground.settings.shared.geometry;
    let both = [programs[target].clone(), programs[interferer].clone()];
    let question = Question {
        programs: &both,
        cache: ground.cache()?,
        way: (cache.bytes() / cache.ways()) as f64,
        model: args.model(),
        extrapolate: false,
        offsets: &offsets,
        threads,
    };
    let methods = question.methods(None)?;
    let recorded = [&played[target], &played[interferer]];
    let lists: Vec<Vec<f64>> = (0..offsets.count()).map(|run| offsets.of_run(run, 2)).collect();
    let alone = reference::alone(ground, recorded[0])?;
    let began = std::time::Instant::now();
    let runs = reference::together(ground, &recorded, &lists, threads, &|| watch.is_interrupted())?;
    let seconds = began.elapsed().as_secs_f64();
    if runs.len() < lists.len() {
        return Ok(None);
    }
    let slowdowns = runs.iter().map(|run| run.cycles / alone).collect();
    let simulated = SlowdownDistribution::new(slowdowns)?;
    Ok(Some(Pair { target, interferer, methods, simulated, seconds }))
}

const PHASE: usize = 2; // in MethodName::ALL
/// Standard deviation of slowdowns from which on runs differ by more than a prediction is likely to be off.
const VARIED: f64 = 0.02;

/// A row per pair.
fn table(pairs: &[Pair], names: &[&str]) -> Vec<Vec<String>> {
    let header =
        "target,beside,slower by,spread,invocations W,D,P,speed-up W,D,P,error W,D,P,oblivious,KS of P";
    let mut rows = vec![header.split(',').map(str::to_owned).collect::<Vec<_>>()];
    for pair in pairs {
        let mut row = vec![
            names[pair.target].to_owned(),
            names[pair.interferer].to_owned(),
            percent(pair.simulated.mean() - 1.0),
            percent(pair.simulated.standard_deviation()),
        ];
        row.extend((0..=PHASE).map(|method| pair.methods[method].variability.invocations.to_string()));
        row.extend((0..=PHASE).map(|method| format!("{:.0} x", pair.speedup(method))));
        row.extend((0..MethodName::ALL.len()).map(|method| percent(pair.error(method))));
        row.push(format!("{:.3}", pair.distance(PHASE)));
        rows.push(row);
    }
    rows
}

/// Mean and largest error of the mean slowdown, and the median distance of the distributions, by method.
struct Summary {
    method: String,
    mean: f64,
    most: f64,
    distance: f64, // median Kolmogorov-Smirnov distance
    varied: f64,   // the same of the pairs whose slowdown varies
    levy: f64,     // median, in points of slowdown
    speedup: f64,  // geometric mean
}

fn summaries(pairs: &[Pair]) -> Vec<Summary> {
    let count = pairs.len().max(1) as f64;
    let of = |(number, name): (usize, &MethodName)| {
        let varied = pairs.iter().filter(|pair| pair.simulated.standard_deviation() >= VARIED);
        let levy = |pair: &Pair| {
            let predicted = &pair.methods[number].variability.distribution;
            predicted.levy(&pair.simulated, 0.01).unwrap_or(1.0)
        };
        Summary {
            method: name.name(),
            mean: pairs.iter().map(|pair| pair.error(number)).sum::<f64>() / count,
            most: pairs.iter().map(|pair| pair.error(number)).fold(0.0, f64::max),
            distance: median(pairs.iter().map(|pair| pair.distance(number)).collect()),
            varied: median(varied.map(|pair| pair.distance(number)).collect()),
            levy: median(pairs.iter().map(levy).collect()),
            speedup: (pairs.iter().map(|pair| pair.speedup(number).ln()).sum::<f64>() / count).exp(),
        }
    };
    MethodName::ALL.iter().enumerate().map(of).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn summary(pairs: &[Pair]) -> Vec<Vec<String>> {
    let header = [
        "method",
        "mean error",
        "largest",
        "median KS distance",
        "spread >= 2 %",
        "median Levy, 1 % steps",
        "speed-up",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(summaries(pairs).into_iter().map(|s| {
        let distances = [s.distance, s.varied, s.levy].map(|d| format!("{d:.3}"));
        let errors = [percent(s.mean), percent(s.most)];
        let cells = [s.method].into_iter().chain(errors).chain(distances);
        cells.chain([format!("{:.0} x", s.speedup)]).collect()
    }));
    rows
}

fn object(
    args: &PredictArgs,
    pairs: &[Pair],
    programs: &[Program<u64>],
    lengths: &[u64],
    whole: bool,
) -> Value {
    let program = |(program, accesses): (&Program<u64>, &u64)| {
        json!({
            "name": program.name(),
            "accesses": accesses,
            "windows": program.window_count(),
            "phases": program.phases().len(),
        })
    };
    let pair = |pair: &Pair| {
        let method = |(number, by): (usize, &ByMethod)| {
            let mut value = json!({
                "method": by.method.name(),
                "invocations": by.variability.invocations,
                "mean": by.variability.distribution.mean(),
                "mean_error": pair.error(number),
                "kolmogorov_smirnov": pair.distance(number),
                "time_on_cliff": by.variability.time_on_cliff,
            });
            if args.timings {
                value["seconds"] = json!(by.seconds);
                value["speedup"] = json!(pair.speedup(number));
            }
            value
        };
        json!({
            "target": programs[pair.target].name(),
            "beside": programs[pair.interferer].name(),
            "simulated": pair.simulated.mean(),
            "spread": pair.simulated.standard_deviation(),
            "methods": pair.methods.iter().enumerate().map(method).collect::<Vec<_>>(),
        })
    };
    let summary = |s: Summary| {
        json!({"method": s.method, "mean_error": s.mean, "largest_error": s.most,
               "median_kolmogorov_smirnov": s.distance,
               "median_kolmogorov_smirnov_where_varied": s.varied, "median_levy_per_point": s.levy})
    };
    json!({
        "programs": programs.iter().zip(lengths).map(program).collect::<Vec<_>>(),
        "offsets": args.offsets,
        "seed": args.common.seed,
        "pairs": pairs.iter().map(pair).collect::<Vec<_>>(),
        "summary": summaries(pairs).into_iter().map(summary).collect::<Vec<_>>(),
        "incomplete": !whole,
    })
}

/// `evaluation.svg`, a panel per target, and a page with the tables.
fn files(pairs: &[Pair], names: &[&str], folder: &OutputDir) -> Result<(), Failure> {
    let panel = |(target, name): (usize, &&str)| {
        let lines = pairs.iter().filter(|pair| pair.target == target).flat_map(|pair| {
            let beside = names[pair.interferer];
            let predicted = &pair.methods[PHASE].variability.distribution;
            [
                sorted(format!("beside {beside}"), pair.interferer, false, predicted),
                sorted(format!("beside {beside} (simulated)"), pair.interferer, true, &pair.simulated),
            ]
        });
        Panel { across: "runs (%)".to_owned(), up: format!("{name} slower (%)"), lines: lines.collect() }
    };
    let panels: Vec<Panel> = names.iter().enumerate().map(panel).collect();
    let title = "Slowdowns of all targets, sorted";
    let svg = draw_panels(title, &panels).map_err(Failure::Run)?;
    folder.write("evaluation.svg", |out| out.write_all(svg.as_bytes()))?;
    let body = format!(
        "{}<h2>All pairs</h2>\n{}<figure><div class=\"plot\">{svg}</div></figure>\n",
        Table::from(summary(pairs)).html(),
        Table::from(table(pairs, names)).html()
    );
    let page = |out: &mut dyn Write| write_document("Predicted and simulated slowdowns", &body, out);
    folder.write("report.html", page)
}
