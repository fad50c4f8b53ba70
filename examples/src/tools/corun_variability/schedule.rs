//! Who should run beside whom: every program beside every other, and the pairing that costs least.

use cachesharing::{CoSchedule, Objective, Pairing, co_schedule};
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

/// As JSON: mean slowdowns, a row for each target, and pairings.
pub(super) fn object(schedule: &CoSchedule) -> Value {
    json!({
        "names": schedule.names(),
        "mean_slowdowns": schedule.means(),
        "best_by_total": schedule.best_pairing(Objective::Total),
        "best_by_worst": schedule.best_pairing(Objective::Worst),
        "worst_by_total": schedule.worst_pairing(Objective::Total),
    })
}

/// As a table: targets down, interferers across.
pub(super) fn table(schedule: &CoSchedule) -> Vec<Vec<String>> {
    let names = schedule.names();
    let mut rows = vec![["slower by, beside".to_owned()].into_iter().chain(names.iter().cloned()).collect()];
    for (name, means) in names.iter().zip(schedule.means()) {
        rows.push([name.clone()].into_iter().chain(means.into_iter().map(slower)).collect());
    }
    rows
}

/// The best and the worst pairing in words.
pub(super) fn pairings(schedule: &CoSchedule) -> Vec<String> {
    let line = |what: &str, pairing: &Pairing| {
        let name = |i: usize| schedule.names().get(i).map_or("", String::as_str);
        let pairs: Vec<String> =
            pairing.pairs.iter().map(|&(a, b)| format!("{} with {}", name(a), name(b))).collect();
        let alone = pairing.alone.map_or(String::new(), |i| format!(", {} alone", name(i)));
        let mean = pairing.total / schedule.names().len() as f64;
        let (mean, worst) = (slower(mean), slower(pairing.worst));
        format!("{what}: {}{alone}: {mean} slower on average, {worst} at worst", pairs.join(", "))
    };
    vec![
        line("Best pairing", &schedule.best_pairing(Objective::Total)),
        line("Fairest pairing", &schedule.best_pairing(Objective::Worst)),
        line("Worst pairing", &schedule.worst_pairing(Objective::Total)),
    ]
}
