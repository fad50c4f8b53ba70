//! Single windows: programs that do the same throughout, in pairs and in groups of four, predicted by one invocation of
//! the model and simulated, in three sizes of the shared cache.
//!
//! Without phases nothing is left but the model of sharing: how far predictions are off that are not flagged as standing
//! on a cliff, and whether the truth lies in the range that is printed for those that are.

use std::io::Write;
use std::num::NonZeroUsize;

use cachesharing::{CacheCurve, Offsets, Probes, Sharing, share};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index;
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Model, PredictArgs};
use super::ground::Ground;
use super::predict::sharing_model;
use super::{embedded, go_on, reference, solo};
use crate::cli::{Failure, Watch};
use crate::machines::testbed::programs::Recorded;
use crate::parallel::in_order;
use crate::report::{Table, bytes, percent};

/// The shared cache's size is divided by these, and the private caches' with it.
const DIVISORS: [u64; 3] = [1, 4, 16];
/// Programs in a group, and groups in each size.
const GROUP: usize = 4;
const GROUPS: usize = 20;
/// By how much the truth may lie beside the range of a flagged prediction, relative, and count as inside: as much as
/// predictions that are not flagged are off.
const BESIDE: f64 = 0.03;

/// One program in one group.
#[derive(Serialize)]
struct Prediction {
    name: &'static str,
    predicted: f64, // CPI
    simulated: f64, // CPI
    on_cliff: bool,
    range: (f64, f64), // of the predicted CPI
    bytes: f64,
}

impl Prediction {
    fn error(&self) -> f64 {
        (self.predicted / self.simulated - 1.0).abs()
    }

    /// Whether the truth lies in the range that is printed, give or take `beside` of it.
    fn inside(&self, beside: f64) -> bool {
        let (low, high) = self.range;
        (low * (1.0 - beside)..=high * (1.0 + beside)).contains(&self.simulated)
    }
}

/// Programs that ran together in a cache of so many bytes.
#[derive(Serialize)]
struct Group {
    cache_bytes: u64,
    members: Vec<Prediction>,
}

/// Programs of one size of the cache: what they are, and what they do alone.
struct Alone {
    played: Vec<Recorded>,
    curves: Vec<CacheCurve>,
    speeds: Vec<f64>, // accesses per cycle
}

/// Runs the experiment and reports the result; returns whether it is whole, or what was finished until an interrupt.
pub(super) fn experiment(
    args: &PredictArgs,
    ground: &Ground,
    threads: NonZeroUsize,
    watch: &Watch<'_>,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let mut groups = Vec::new();
    for divisor in DIVISORS {
        let ground = smaller(ground, divisor)?;
        let size = ground.settings.shared.geometry.bytes();
        watch.show(format!("measuring windows alone in {}", bytes(size)));
        let alone = alone(args, &ground, threads)?;
        watch.show(format!("windows together in {}", bytes(size)));
        let sets = sets(alone.played.len(), args.common.seed);
        groups.extend(in_order(sets.len(), threads, &|| watch.is_interrupted(), |number| {
            group(args, &ground, &alone, &sets[number], number)
        })?);
        if watch.is_interrupted() {
            break;
        }
    }
    if groups.is_empty() {
        go_on(watch)?;
    }
    watch.clear();
    let whole = !watch.is_interrupted();
    args.common.present(
        None,
        |_| Ok(()),
        |out| writeln!(out, "{}", object(args, &groups, whole)),
        |out| write!(out, "{}\n{}", Table::from(worst(&groups)).text(), Table::from(table(&groups)).text()),
        out,
    )?;
    Ok(whole)
}

/// The chip with caches of a part of the size.
fn smaller(ground: &Ground, divisor: u64) -> Result<Ground, Failure> {
    let mut ground = ground.clone();
    for cache in [&mut ground.settings.l1, &mut ground.settings.shared] {
        cache.geometry = cache.geometry.with_fewer_sets(divisor).map_err(|error| {
            Failure::Usage(format!("single windows are run in a {divisor}th of the caches, too: {error}"))
        })?;
    }
    Ok(ground)
}

/// Every window alone.
fn alone(args: &PredictArgs, ground: &Ground, threads: NonZeroUsize) -> Result<Alone, Failure> {
    let cache = ground.settings.shared.geometry.bytes();
    let mut alone = Alone { played: Vec::new(), curves: Vec::new(), speeds: Vec::new() };
    for (name, ..) in embedded::STEADY {
        let played = embedded::steady(name, cache, args.chip.line_size(), args.common.seed)?;
        let ground = Ground { window: played.recording.references(), ..ground.clone() };
        let program = solo::profile(&ground, &played, args.measured.curves, threads)?;
        alone.curves.extend(program.phases().iter().map(|(_, curve)| curve.clone()));
        alone.speeds.push(reference::speed(&ground, &played)?);
        alone.played.push(played);
    }
    Ok(alone)
}

/// All pairs of `count` programs, those of a program with itself included, and groups that are drawn.
fn sets(count: usize, seed: u64) -> Vec<Vec<usize>> {
    let pairs = (0..count).flat_map(|a| (a..count).map(move |b| vec![a, b]));
    let mut random = StdRng::seed_from_u64(seed);
    let groups = (0..GROUPS).map(|_| index::sample(&mut random, count, GROUP.min(count)).into_vec());
    pairs.chain(groups).collect()
}

fn group(
    args: &PredictArgs,
    ground: &Ground,
    alone: &Alone,
    set: &[usize],
    number: usize,
) -> Result<Group, Failure> {
    let curves: Vec<&CacheCurve> = set.iter().map(|&i| &alone.curves[i]).collect();
    let played: Vec<&Recorded> = set.iter().map(|&i| &alone.played[i]).collect();
    let speeds: Vec<f64> = set.iter().map(|&i| alone.speeds[i]).collect();
    let mut sharing = Sharing::default();
    // What does the same throughout has settled.
    let model = if args.model() == Model::Age { Model::Settled } else { args.model() };
    share(&sharing_model(model), &ground.cache()?, &curves, Probes::Cliffs, &mut sharing)?;
    let offsets = Offsets::random(number + 1, args.common.seed).of_run(number, set.len());
    let counted = reference::steady(ground, &played, &offsets, &speeds)?;
    let each = set.iter().zip(sharing.shares()).zip(counted);
    let members = each.map(|((&program, share), counters)| Prediction {
        name: embedded::STEADY[program].0,
        predicted: share.cpi,
        simulated: counters.cpi(),
        on_cliff: share.on_cliff,
        range: share.cpi_range,
        bytes: share.bytes,
    });
    Ok(Group { cache_bytes: ground.settings.shared.geometry.bytes(), members: members.collect() })
}

/// What is asked of predictions.
#[derive(Default, Serialize)]
struct Summary {
    windows: &'static str,
    cache_bytes: Option<u64>,
    sets: usize,
    predictions: usize,
    on_cliff: usize,
    inside_range: usize,              // of those on a cliff: the truth in the range
    within_3_percent_of_range: usize, // or next to it
    mean_error: f64,                  // CPI error of the others
    largest_error: f64,
}

fn summary<'a>(
    windows: &'static str,
    cache_bytes: Option<u64>,
    groups: impl Iterator<Item = &'a Group>,
) -> Summary {
    let mut summary = Summary { windows, cache_bytes, ..Summary::default() };
    let mut sum = 0.0;
    for group in groups {
        summary.sets += 1;
        for prediction in &group.members {
            summary.predictions += 1;
            if prediction.on_cliff {
                summary.on_cliff += 1;
                summary.inside_range += usize::from(prediction.inside(0.0));
                summary.within_3_percent_of_range += usize::from(prediction.inside(BESIDE));
            } else {
                sum += prediction.error();
                summary.largest_error = summary.largest_error.max(prediction.error());
            }
        }
    }
    summary.mean_error = sum / (summary.predictions - summary.on_cliff).max(1) as f64;
    summary
}

/// Pairs and larger groups, of each size and of all.
fn summaries(groups: &[Group]) -> Vec<Summary> {
    let mut sizes: Vec<Option<u64>> = vec![None];
    for group in groups {
        if !sizes.contains(&Some(group.cache_bytes)) {
            sizes.push(Some(group.cache_bytes));
        }
    }
    sizes.rotate_left(1);
    let mut all = Vec::new();
    for (what, pairs) in [("pairs", true), ("groups of four", false)] {
        for &size in &sizes {
            let of = |group: &&Group| {
                (group.members.len() == 2) == pairs && size.is_none_or(|size| size == group.cache_bytes)
            };
            all.push(summary(what, size, groups.iter().filter(of)));
        }
    }
    all
}

pub(super) fn part(count: usize, of: usize) -> String {
    if of == 0 { "-".to_owned() } else { percent(count as f64 / of as f64) }
}

fn table(groups: &[Group]) -> Vec<Vec<String>> {
    let header =
        "windows,cache,sets,predictions,on a cliff,truth in range,within 3 % of it,error of others,largest";
    let mut rows = vec![header.split(',').map(str::to_owned).collect::<Vec<_>>()];
    rows.extend(summaries(groups).into_iter().map(|s| {
        let size = s.cache_bytes.map_or("all".to_owned(), bytes);
        let mut row = vec![s.windows.to_owned(), size, s.sets.to_string(), s.predictions.to_string()];
        row.push(part(s.on_cliff, s.predictions));
        row.extend([part(s.inside_range, s.on_cliff), part(s.within_3_percent_of_range, s.on_cliff)]);
        row.extend([percent(s.mean_error), percent(s.largest_error)]);
        row
    }));
    rows
}

/// Predictions that are listed.
const WORST: usize = 10;

/// The predictions that are off most without a flag.
fn worst(groups: &[Group]) -> Vec<Vec<String>> {
    let mut all: Vec<(&Group, &Prediction)> = groups
        .iter()
        .flat_map(|group| group.members.iter().map(move |member| (group, member)))
        .filter(|(_, member)| !member.on_cliff)
        .collect();
    all.sort_by(|a, b| b.1.error().total_cmp(&a.1.error()));
    let header = ["largest errors", "cache", "among", "CPI predicted", "simulated", "error"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(all.into_iter().take(WORST).map(|(group, member)| {
        let among: Vec<&str> = group.members.iter().map(|m| m.name).collect();
        vec![
            member.name.to_owned(),
            bytes(group.cache_bytes),
            among.join(" "),
            format!("{:.3}", member.predicted),
            format!("{:.3}", member.simulated),
            percent(member.error()),
        ]
    }));
    rows
}

fn object(args: &PredictArgs, groups: &[Group], whole: bool) -> Value {
    json!({
        "experiment": "windows",
        "seed": args.common.seed,
        "summary": summaries(groups),
        "sets": groups,
        "incomplete": !whole,
    })
}
