//! Groups of streams that were drawn at random, many of them near a cliff: whether ranges hold what happens on the chip,
//! whichever program comes first, and how far predictions without a flag are off.

use std::io::Write;
use std::num::NonZeroUsize;

use cachesharing::{CoRun, Offsets, Probes, Program, Settings};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index;
use serde::Serialize;
use serde_json::json;

use super::args::PredictArgs;
use super::ground::Ground;
use super::predict::sharing_model;
use super::single::part;
use super::streams::stream;
use super::{go_on, reference, solo};
use crate::cli::{Failure, Watch};
use crate::machines::testbed::programs::Recorded;
use crate::parallel::in_order;
use crate::report::{Table, percent};
use crate::tools::statcc_accuracy::truth::Machine;
use crate::tools::statcc_accuracy::{self, played};

/// Streams that groups are drawn from: every shape twice.
const STREAMS: u64 = 12;
/// Programs in a group, and groups of each size.
const SIZES: [usize; 4] = [2, 3, 4, 8];
const GROUPS: usize = 30;
/// A group has two stable states if its target is so much slower after one start than after another.
const BISTABLE: f64 = 0.15;
/// By how much the truth may lie beside a range, relative, and count as near.
const NEAR: f64 = 0.03;
/// Windows of a stream that StatCC takes: in fewer, a walk there and back is one window whose speed is taken to be even.
const WINDOWS: u64 = 128;

/// What is predicted of a target, and what became of it.
#[derive(Clone, Debug, Serialize)]
struct Judged {
    predicted: f64,
    low: f64,
    high: f64,
    flagged: bool,
    first_pass: f64,
    simulated: Vec<f64>, // after each start
}

impl Judged {
    /// Whether all that happened lies in the range or below a pass that loads its data, give or take `beside`.
    fn holds(&self, beside: f64) -> bool {
        let range = self.low * (1.0 - beside)..=self.high.max(self.first_pass) * (1.0 + beside);
        self.simulated.iter().all(|truth| range.contains(truth))
    }

    /// How far the prediction is from what happened, at least.
    fn error(&self) -> f64 {
        self.simulated.iter().map(|truth| (self.predicted / truth - 1.0).abs()).fold(f64::INFINITY, f64::min)
    }
}

/// A target beside others.
#[derive(Clone, Debug, Serialize)]
struct Group {
    programs: Vec<String>,
    bistable: bool,
    cachesharing: Judged, // slowdowns, after each start
    statcc: Judged,       // CPI, from empty caches
}

/// Runs the experiment and prints its result; answers whether it is whole.
pub(super) fn experiment(
    args: &PredictArgs,
    ground: &Ground,
    threads: NonZeroUsize,
    watch: &Watch<'_>,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let (seed, line_size) = (args.common.seed, args.chip.line_size());
    let lines = ground.settings.shared.geometry.lines().0;
    let (mut streams, mut programs, mut speeds) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..STREAMS {
        watch.show(format!("measuring stream {number} alone"));
        go_on(watch)?;
        let played = stream(number, seed, lines, line_size)?;
        let ground = Ground { window: played.recording.references(), ..ground.clone() };
        programs.push(solo::profile(&ground, &played, args.measured.curves, threads)?);
        speeds.push(reference::speed(&ground, &played)?);
        streams.push(played);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let sets: Vec<Vec<usize>> = SIZES
        .iter()
        .flat_map(|&size| vec![size; GROUPS])
        .map(|size| index::sample(&mut random, streams.len(), size).into_vec())
        .collect();
    watch.show("streams together");
    let alone = Alone { streams: &streams, programs: &programs, speeds: &speeds };
    let found = in_order(sets.len(), threads, &|| watch.is_interrupted(), |number| {
        group(args, ground, &alone, &sets[number], number)
    })?;
    if found.is_empty() {
        go_on(watch)?;
    }
    watch.clear();
    let whole = !watch.is_interrupted();
    let object = json!({
        "experiment": "cliffs",
        "seed": seed,
        "summary": summaries(&found),
        "groups": found,
        "incomplete": !whole,
    });
    args.common.present(
        None,
        |_| Ok(()),
        |out| writeln!(out, "{object}"),
        |out| write!(out, "{}", Table::from(table(&found)).text()),
        out,
    )?;
    Ok(whole)
}

/// All streams, and what each does alone.
struct Alone<'a> {
    streams: &'a [Recorded],
    programs: &'a [Program<u64>],
    speeds: &'a [f64], // accesses per cycle
}

fn group(
    args: &PredictArgs,
    ground: &Ground,
    alone: &Alone<'_>,
    set: &[usize],
    number: usize,
) -> Result<Group, Failure> {
    let programs: Vec<&Program<u64>> = set.iter().map(|&i| &alone.programs[i]).collect();
    let played: Vec<&Recorded> = set.iter().map(|&i| &alone.streams[i]).collect();
    let speeds: Vec<f64> = set.iter().map(|&i| alone.speeds[i]).collect();
    let settings = Settings { probes: Probes::Cliffs, ..Settings::default() };
    let run = CoRun::new(ground.cache()?, &programs, sharing_model(args.model()), settings);
    let offsets = Offsets::random(number + 1, args.common.seed).of_run(number, set.len());
    let predicted = run?.slowdown(&offsets);
    let target = played[0].recording.references() as f64 / speeds[0];
    let simulated = reference::after_each_start(ground, &played, &offsets, &speeds)?;
    let simulated: Vec<f64> = simulated.into_iter().map(|cycles| cycles / target).collect();
    let least = simulated.iter().copied().fold(f64::INFINITY, f64::min);
    let bistable = simulated.iter().any(|&slowdown| slowdown > least * (1.0 + BISTABLE));
    let cachesharing = Judged {
        predicted: predicted.slowdown,
        low: predicted.low,
        high: predicted.high,
        flagged: predicted.flagged,
        first_pass: predicted.first_pass,
        simulated,
    };
    let machine = Machine { chip: ground.settings.clone(), timing: ground.timing };
    let model = statcc_accuracy::Model::of(args.chip.policy());
    let cloned: Vec<Recorded> = played.into_iter().cloned().collect();
    let target = played::play(&cloned, &machine, model, WINDOWS, true)?.swap_remove(0);
    let statcc = Judged {
        predicted: target.predicted.cpi,
        low: target.predicted_range.0,
        high: target.predicted_range.1,
        flagged: target.flagged,
        first_pass: target.predicted.cpi, // it is one
        simulated: vec![target.simulated.cpi],
    };
    let programs = cloned.into_iter().map(|played| played.name).collect();
    Ok(Group { programs, bistable, cachesharing, statcc })
}

/// What is asked of the predictions of groups of one size.
#[derive(Clone, Debug, Default, Serialize)]
struct Summary {
    what: &'static str,
    programs: Option<usize>,
    groups: usize,
    bistable: usize,
    held: usize,     // of those bistable: all that happened lies in the range
    near: usize,     // or next to it
    flagged: usize,  // of all
    mean_error: f64, // of the others
    largest_error: f64,
}

fn summary<'a>(
    what: &'static str,
    programs: Option<usize>,
    groups: &'a [Group],
    of: impl Fn(&'a Group) -> &'a Judged,
) -> Summary {
    let mut summary = Summary { what, programs, ..Summary::default() };
    let mut errors = Vec::new();
    for group in groups.iter().filter(|group| programs.is_none_or(|size| group.programs.len() == size)) {
        let judged = of(group);
        summary.groups += 1;
        summary.flagged += usize::from(judged.flagged);
        if group.bistable {
            summary.bistable += 1;
            summary.held += usize::from(judged.holds(0.0));
            summary.near += usize::from(judged.holds(NEAR));
        }
        if !judged.flagged {
            errors.push(judged.error());
        }
    }
    summary.mean_error = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    summary.largest_error = errors.into_iter().fold(0.0, f64::max);
    summary
}

fn summaries(groups: &[Group]) -> Vec<Summary> {
    let sizes = || SIZES.into_iter().map(Some).chain([None]);
    let ours = sizes().map(|size| summary("cachesharing", size, groups, |group| &group.cachesharing));
    let statcc = sizes().map(|size| summary("statcc", size, groups, |group| &group.statcc));
    ours.chain(statcc).collect()
}

fn table(groups: &[Group]) -> Vec<Vec<String>> {
    let header =
        "crate,programs,groups,bistable,truth in range,within 3 % of it,flagged,error of others,largest";
    let mut rows = vec![header.split(',').map(str::to_owned).collect::<Vec<_>>()];

    rows.extend(summaries(groups).into_iter().map(|s| {
        let size = s.programs.map_or("all".to_owned(), |size| size.to_string());
        let mut row = vec![s.what.to_owned(), size, s.groups.to_string(), s.bistable.to_string()];
        row.extend([part(s.held, s.bistable), part(s.near, s.bistable), part(s.flagged, s.groups)]);
        row.extend([percent(s.mean_error), percent(s.largest_error)]);
        row
    }));
    rows
}
