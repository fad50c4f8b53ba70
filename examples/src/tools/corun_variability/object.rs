//! The result as one JSON object.

use cachesharing::{BandwidthDistribution, Culprit, SlowdownDistribution};
use serde_json::{Value, json};

use super::args::PredictArgs;
use super::{Findings, Truth, certainty, schedule, ways};
use crate::cli::ByName;
use crate::report::letters;

/// Quantiles that are reported.
pub(super) const QUANTILES: [f64; 7] = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0];
/// Culprits that are reported.
pub(super) const CULPRITS: usize = 20;

/// The whole result.
pub(super) fn object(args: &PredictArgs, found: &Findings) -> Value {
    let answer = &found.answer;
    let range = answer.chosen().range();
    let mut object = json!({
        "programs": found.programs.iter().map(program).collect::<Vec<_>>(),
        "cache_bytes": found.cache.bytes(),
        "seed": args.common.seed,
        "method": args.method.name(),
        "sharing": found.model.name(),
        "bandwidth_limit": found.cache.memory().map(|limit| limit.bytes_per_time()),
        "offsets": (0..answer.chosen().slowdowns.len())
            .map(|run| found.offsets.of_run(run, found.programs.len())[1..].to_vec())
            .collect::<Vec<_>>(),
        "predicted": distribution(&answer.chosen().distribution, &answer.chosen().slowdowns),
        "slowdown": range.slowdown,
        "low": range.low,
        "high": range.high,
        "flagged": range.flagged,
        "first_pass": range.first_pass,
        "ranges": answer.chosen().ranges,
        "certainty": certainty::object(args, &answer.chosen().distribution),
        "cycles_alone": found.truth.as_ref().map(|truth| truth.alone),
        "reference": found.truth.as_ref().map(|truth| distribution(&truth.distribution, &truth.slowdowns)),
        "comparison": found.truth.as_ref().map(|truth| comparison(found, truth)),
        "time_on_cliff": answer.chosen().time_on_cliff,
        "time_waiting": answer.chosen().time_waiting,
        "methods": methods(args, found),
        "culprits": answer.culprits.iter().take(CULPRITS).map(culprit).collect::<Vec<_>>(),
        "co_phases": answer.co_phases.len(),
        "target_share_bytes": answer.share,
        "way_less": answer.sensitivity.one_less,
        "way_more": answer.sensitivity.one_more,
        "bandwidth": {
            "fastest": demand(&answer.fastest.demand),
            "slowest": demand(&answer.slowest.demand),
        },
        "notes": found.notes,
        "incomplete": found.interrupted,
    });
    if let Some(schedule) = &found.schedule {
        object["schedule"] = schedule::object(schedule);
    }
    if let Some(ways) = &found.ways {
        object["partition"] = ways::object(ways);
    }
    if args.timings {
        if let Some(truth) = &found.truth {
            object["reference_seconds"] = json!(truth.seconds);
        }
    }
    object
}

fn culprit(culprit: &Culprit<u64>) -> Value {
    let phases = std::iter::once(&culprit.phase).chain(&culprit.beside);
    let mut value = json!(culprit);
    value["names"] = phases.map(|&phase| letters(phase as usize)).collect();
    value
}

/// Bandwidth that is exceeded for parts of the time.
fn demand(of: &BandwidthDistribution) -> Value {
    let exceeded = |p: &f64| json!([p, of.exceeded_during(*p)]);
    json!({ "mean": of.mean(), "exceeded_during": QUANTILES.iter().map(exceeded).collect::<Vec<_>>() })
}

fn program(program: &cachesharing::Program<u64>) -> Value {
    json!({
        "name": program.name(),
        "windows": program.window_count(),
        "phases": program.phases().len(),
        "work": program.work(),
    })
}

fn distribution(of: &SlowdownDistribution, slowdowns: &[f64]) -> Value {
    json!({
        "mean": of.mean(),
        "standard_deviation": of.standard_deviation(),
        "quantiles": QUANTILES.iter().map(|&p| json!([p, of.quantile(p)])).collect::<Vec<_>>(),
        "slowdowns": slowdowns,
    })
}

/// The predicted and the simulated distribution over the offsets that were simulated.
fn comparison(found: &Findings, truth: &Truth) -> Value {
    let predicted = found.predicted_of(found.answer.chosen, truth);
    predicted.map_or(Value::Null, |predicted| {
        json!({
            "mean_error": predicted.mean_error(&truth.distribution),
            "kolmogorov_smirnov": predicted.kolmogorov_smirnov(&truth.distribution),
            "levy_per_point": predicted.levy(&truth.distribution, 0.01).ok(),
            "mean_difference": predicted.mean_difference(&truth.distribution),
        })
    })
}

fn methods(args: &PredictArgs, found: &Findings) -> Vec<Value> {
    let per_method = |(number, by): (usize, &super::predict::ByMethod)| {
        let mut value = json!({
            "method": by.method.name(),
            "invocations": by.variability.invocations,
            "steps": by.variability.steps,
            "mean": by.variability.distribution.mean(),
        });
        if let Some(truth) = &found.truth {
            let predicted = found.predicted_of(number, truth);
            value["mean_error"] = json!(predicted.as_ref().map(|p| p.mean_error(&truth.distribution)));
            value["kolmogorov_smirnov"] = json!(predicted.map(|p| p.kolmogorov_smirnov(&truth.distribution)));
            if args.timings {
                value["speedup"] = json!(found.speedup(by.seconds, truth));
            }
        }
        if args.timings {
            value["seconds"] = json!(by.seconds);
        }
        value
    };
    found.answer.methods.iter().enumerate().map(per_method).collect()
}
