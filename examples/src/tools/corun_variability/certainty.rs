//! How sure a predicted distribution is: what is exceeded how often, and how many offsets it takes to know more.

use cachesharing::SlowdownDistribution;
use serde_json::{Value, json};

use super::args::PredictArgs;
use super::tables::slower;
use crate::report::percent;

/// To within which part of itself the mean slowdown is to be known.
const MEAN_WITHIN: f64 = 0.001;
/// To within which part of the runs the distribution function is to be known.
const RUNS_WITHIN: f64 = 0.1;
/// The quantile that is printed with its interval.
const TAIL: f64 = 0.95;

/// In words.
pub(super) fn lines(args: &PredictArgs, of: &SlowdownDistribution) -> Vec<String> {
    let exceeded =
        args.exceeding.iter().map(|&x| format!("{x} %: {}", percent(of.exceeding(1.0 + x / 100.0))));
    let mut lines = vec![format!(
        "Probability of being slower by more than {}.",
        exceeded.collect::<Vec<_>>().join(", ")
    )];
    let sure = percent(args.confidence);
    if let Ok((low, high)) = of.mean_interval(args.confidence) {
        lines.push(format!(
            "With {sure} confidence the mean lies between {} and {},",
            slower(low),
            slower(high)
        ));
    }
    if let Ok((low, high)) = of.quantile_interval(TAIL, args.confidence) {
        let side = |side: Option<f64>| side.map_or("an unknown value".to_owned(), slower);
        lines.push(format!(
            "and what {} of the runs stay below between {} and {}.",
            percent(TAIL),
            side(low),
            side(high)
        ));
    }
    if let (Ok(mean), Ok(all)) = needed(args, of) {
        lines.push(format!(
            "Offsets needed for that confidence: {mean} for the mean to {}, {all} for the whole distribution to {} of the runs.",
            percent(MEAN_WITHIN),
            percent(RUNS_WITHIN)
        ));
    }
    lines
}

/// As JSON.
pub(super) fn object(args: &PredictArgs, of: &SlowdownDistribution) -> Value {
    let (mean, all) = needed(args, of);
    json!({
        "confidence": args.confidence,
        "exceeding": args.exceeding.iter().map(|&x| json!([x, of.exceeding(1.0 + x / 100.0)])).collect::<Vec<_>>(),
        "mean_interval": of.mean_interval(args.confidence).ok(),
        "quantile": TAIL,
        "quantile_interval": of.quantile_interval(TAIL, args.confidence).ok(),
        "offsets_for_mean": {"within": MEAN_WITHIN, "offsets": mean.ok()},
        "offsets_for_distribution": {"within": RUNS_WITHIN, "offsets": all.ok()},
    })
}

type Count = Result<u64, cachesharing::Error>;

/// Offsets needed for the mean, and for the distribution.
fn needed(args: &PredictArgs, of: &SlowdownDistribution) -> (Count, Count) {
    (
        of.offsets_for_mean(MEAN_WITHIN, args.confidence),
        SlowdownDistribution::offsets_for_distribution(RUNS_WITHIN, args.confidence),
    )
}
