//! The ways of the shared cache given out to programs, predicted from their curves and, where programs can be played,
//! measured on the chip.

use cachesharing::SharedCache;
use cachesharing::partition::{Partition, Policy, partition};
use serde_json::{Value, json};

use super::ground::Ground;
use super::predict::{Question, sharing_model};
use super::reference;
use super::tables::slower;
use crate::cli::Failure;
use crate::machines::testbed::programs::Recorded;

/// How ways are given out: the names of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PolicyName {
    /// A partition for each program: the least sum of slowdowns (utility-based)
    Ucp,
    /// A partition for each program: the least largest slowdown
    Fair,
    /// Programs share partitions where that lowers the sum of slowdowns
    Clusters,
    /// All programs share all ways
    Free,
}

impl PolicyName {
    const fn policy(self) -> Policy {
        match self {
            Self::Ucp => Policy::Utility,
            Self::Fair => Policy::Fair,
            Self::Clusters => Policy::Clusters,
            Self::Free => Policy::Free,
        }
    }
}

/// Ways given out, beside free sharing.
pub(super) struct Ways {
    chosen: Divided,
    free: Divided,
}

struct Divided {
    partition: Partition,
    simulated: Option<Vec<f64>>, // slowdown of each program
}

/// Start offsets from which each program of a cluster is simulated.
const RUNS: usize = 8;

/// Gives out the ways of the cache of `question`, which has `ways` of them.
pub(super) fn of(
    question: &Question<'_>,
    ways: u64,
    policy: PolicyName,
    played: Option<(&Ground, &[Recorded])>,
) -> Result<Ways, Failure> {
    let ways = u32::try_from(ways).unwrap_or(u32::MAX);
    let cache = SharedCache::new(question.cache.bytes() as u64).and_then(|cache| cache.with_ways(ways));
    let cache = cache.map_err(Failure::usage)?;
    let programs: Vec<_> = question.programs.iter().collect();
    let model = sharing_model(question.model);
    let divided = |policy: Policy| -> Result<Divided, Failure> {
        let partition = partition(&cache, &programs, &model, policy).map_err(Failure::usage)?;
        let simulated = played.map(|(ground, played)| simulated(question, ground, played, &partition));
        Ok(Divided { partition, simulated: simulated.transpose()? })
    };
    Ok(Ways { chosen: divided(policy.policy())?, free: divided(Policy::Free)? })
}

/// Slowdowns on the chip: clusters have ways of their own, so that each is run on a cache of its ways.
fn simulated(
    question: &Question<'_>,
    ground: &Ground,
    played: &[Recorded],
    partition: &Partition,
) -> Result<Vec<f64>, Failure> {
    let mut slowdowns = vec![1.0; played.len()];
    for cluster in &partition.clusters {
        let mut part = ground.clone();
        let geometry = ground.settings.shared.geometry.with_ways(u64::from(cluster.ways));
        part.settings.shared.geometry = geometry?;
        for (place, &target) in cluster.programs.iter().enumerate() {
            let mut list: Vec<&Recorded> = cluster.programs.iter().map(|&i| &played[i]).collect();
            list.rotate_left(place);
            let runs = question.offsets.count().min(RUNS);
            let offsets: Vec<Vec<f64>> =
                (0..runs).map(|run| question.offsets.of_run(run, list.len())).collect();
            let runs = if list.len() == 1 { 1 } else { runs };
            let cycles = reference::together(&part, &list, &offsets[..runs], question.threads, &|| false)?;
            let mean = cycles.iter().map(|run| run.cycles).sum::<f64>() / runs as f64;
            slowdowns[target] = mean / reference::alone(ground, &played[target])?;
        }
    }
    Ok(slowdowns)
}

/// As JSON.
pub(super) fn object(ways: &Ways) -> Value {
    let divided = |of: &Divided| {
        json!({
            "clusters": of.partition.clusters.iter().map(|c| json!({
                "programs": c.programs, "ways": c.ways, "mask": format!("{:#x}", c.mask),
            })).collect::<Vec<_>>(),
            "slowdowns": of.partition.slowdowns,
            "total": of.partition.total(),
            "worst": of.partition.worst(),
            "simulated": of.simulated,
        })
    };
    let mut object = divided(&ways.chosen);
    object["free"] = divided(&ways.free);
    object
}

/// In words: the ways of each cluster with its mask, and what that gains over free sharing.
pub(super) fn lines(ways: &Ways, names: &[&str]) -> Vec<String> {
    let mean = |slowdowns: &[f64]| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
    let mut lines: Vec<String> = Vec::new();
    for cluster in &ways.chosen.partition.clusters {
        let members: Vec<&str> = cluster.programs.iter().map(|&i| names[i]).collect();
        lines.push(format!("  mask {:#x}, {} ways: {}", cluster.mask, cluster.ways, members.join(", ")));
    }
    let predicted = [&ways.chosen, &ways.free].map(|of| slower(mean(&of.partition.slowdowns)));
    let mut line = format!("  mean slowdown predicted {}, {} shared freely", predicted[0], predicted[1]);
    if let (Some(chosen), Some(free)) = (&ways.chosen.simulated, &ways.free.simulated) {
        line += &format!("; simulated {}, {} shared freely", slower(mean(chosen)), slower(mean(free)));
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use cachesharing::Offsets;
    use clap::Parser;

    use super::*;
    use crate::tools::corun_variability::{Args, Curves, Model, embedded, ground, solo};

    /// Least sum of slowdowns of any division on the chip: `by_ways[i][w - 1]` is the slowdown of program i.
    fn exhaustive(by_ways: &[Vec<f64>], left: usize) -> f64 {
        let Some((first, rest)) = by_ways.split_first() else { return 0.0 };
        let most = left - rest.len();
        let least = if rest.is_empty() { most } else { 1 };
        (least..=most)
            .map(|ways| first[ways - 1] + exhaustive(rest, left - ways))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn ways_are_within_one_per_cent_of_the_best_division_on_the_chip_and_gain_over_none() {
        let args = Args::try_parse_from(["corun_variability", "--llc-size", "64KiB", "--l1-size", "1KiB"])
            .unwrap()
            .predict;
        let mut ground = ground(&args).unwrap();
        let geometry = ground.settings.shared.geometry;
        let threads = NonZeroUsize::MIN;
        let mut gained = 0;
        for names in [
            &["solver", "joiner"][..],
            &["store", "solver", "sorter"],
            &["paths", "solver", "joiner", "store"],
        ] {
            let program =
                |name: &&str| embedded::program(name, geometry.bytes(), args.chip.line_size(), 7).unwrap();
            let played: Vec<Recorded> = names.iter().map(program).collect();
            ground.window = Ground::window(played.iter().map(|p| p.recording.references()).max().unwrap());
            let profile = |played| solo::profile(&ground, played, Curves::Ways, threads).unwrap();
            let programs: Vec<_> = played.iter().map(profile).collect();
            let alone = |ways: u64, played: &Recorded| {
                let mut part = ground.clone();
                part.settings.shared.geometry = geometry.with_ways(ways).unwrap();
                reference::alone(&part, played).unwrap()
            };
            let by_ways = |played: &Recorded| -> Vec<f64> {
                let whole = alone(geometry.ways(), played);
                (1..=geometry.ways()).map(|ways| alone(ways, played) / whole).collect()
            };
            let best = exhaustive(&played.iter().map(by_ways).collect::<Vec<_>>(), geometry.ways() as usize);
            let question = Question {
                programs: &programs,
                cache: ground.cache().unwrap(),
                way: 4096.0,
                model: Model::Settled,
                extrapolate: false,
                offsets: &Offsets::random(4, 3),
                threads,
            };
            let total = |of: &Divided| of.simulated.as_ref().unwrap().iter().sum::<f64>();
            let on_chip = Some((&ground, played.as_slice()));
            let ucp = of(&question, geometry.ways(), PolicyName::Ucp, on_chip).unwrap();
            let (apart, free) = (total(&ucp.chosen), total(&ucp.free));
            let clusters =
                total(&of(&question, geometry.ways(), PolicyName::Clusters, on_chip).unwrap().chosen);
            assert!(apart <= 1.01 * best, "{names:?}: {apart} and at best {best}");
            // What is predicted of a cluster may be off by some per cent, on the chip.
            assert!(clusters <= 1.03 * apart.min(free), "{names:?}: {clusters}, {apart} apart, {free} free");
            gained += usize::from(apart.min(clusters) < 0.98 * free);
        }
        assert!(gained > 0, "nothing gained in any group");
    }
}
