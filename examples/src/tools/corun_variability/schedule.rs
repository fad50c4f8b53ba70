//! Who should run beside whom: every program beside every other, and the pairing that costs least.

use cachesharing::{CoSchedule, Objective, Pairing, Slowdown, co_schedule};
use serde_json::{Value, json};

use super::predict::{Question, sharing_model};
use super::tables::slower;
use crate::cli::Failure;

/// The co-schedule matrix of the programs of a question, by the phase method.
pub(super) fn of(question: &Question<'_>) -> Result<CoSchedule, Failure> {
    let programs: Vec<_> = question.programs.iter().collect();
    let settings = question.settings(cachesharing::Method::Phase);
    let model = sharing_model(question.model);
    co_schedule(question.cache, &programs, &model, settings, question.offsets, question.threads)
        .map_err(Failure::run)
}

/// As JSON: mean slowdowns with their ranges, a row for each target, and pairings.
pub(super) fn object(schedule: &CoSchedule) -> Value {
    let programs = 0..schedule.names().len();
    let of = |part: fn(&Slowdown) -> Value| -> Value {
        let row =
            |target| programs.clone().filter_map(|beside| schedule.range(target, beside).map(part)).collect();
        programs.clone().map(row).collect::<Vec<Value>>().into()
    };
    json!({
        "names": schedule.names(),
        "mean_slowdowns": schedule.means(),
        "low": of(|range| range.low.into()),
        "high": of(|range| range.high.into()),
        "flagged": of(|range| range.flagged.into()),
        "best_by_total": schedule.best_pairing(Objective::Total),
        "best_by_worst": schedule.best_pairing(Objective::Worst),
        "worst_by_total": schedule.worst_pairing(Objective::Total),
    })
}

/// What marks slowdowns that are not sure.
pub(super) const UNSURE: &str = "*";

/// Whether any of the slowdowns is not sure.
pub(super) fn is_unsure(schedule: &CoSchedule) -> bool {
    let programs = 0..schedule.names().len();
    programs.clone().any(|target| programs.clone().any(|beside| flagged(schedule, target, beside)))
}

fn flagged(schedule: &CoSchedule, target: usize, beside: usize) -> bool {
    schedule.range(target, beside).is_some_and(|range| range.flagged)
}

/// As a table: targets down, interferers across.
pub(super) fn table(schedule: &CoSchedule) -> Vec<Vec<String>> {
    let names = schedule.names();
    let mut rows = vec![["slower by, beside".to_owned()].into_iter().chain(names.iter().cloned()).collect()];
    for (target, (name, means)) in names.iter().zip(schedule.means()).enumerate() {
        let mark = |beside| if flagged(schedule, target, beside) { UNSURE } else { "" };
        let means = means.into_iter().enumerate().map(|(beside, mean)| slower(mean) + mark(beside));
        rows.push([name.clone()].into_iter().chain(means).collect());
    }
    rows
}

/// The best and the worst pairing in words.
pub(super) fn pairings(schedule: &CoSchedule) -> Vec<String> {
    let line = |what: &str, pairing: &Pairing| {
        let name = |i: usize| schedule.names().get(i).map_or("", String::as_str);
        let pairs: Vec<String> =
            pairing.pairs.iter().map(|&(a, b)| format!("{} with {}", name(a), name(b))).collect();
        let unsure = pairing.pairs.iter().any(|&(a, b)| flagged(schedule, a, b) || flagged(schedule, b, a));
        let mark = if unsure { UNSURE } else { "" };
        let alone = pairing.alone.map_or(String::new(), |i| format!(", {} alone", name(i)));
        let mean = pairing.total / schedule.names().len() as f64;
        let (mean, worst) = (slower(mean), slower(pairing.worst));
        format!("{what}: {}{alone}: {mean} slower on average, {worst} at worst{mark}", pairs.join(", "))
    };
    vec![
        line("Best pairing", &schedule.best_pairing(Objective::Total)),
        line("Fairest pairing", &schedule.best_pairing(Objective::Worst)),
        line("Worst pairing", &schedule.worst_pairing(Objective::Total)),
    ]
}
