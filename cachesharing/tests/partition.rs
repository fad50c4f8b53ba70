//! Ways given out against every other way to give them out.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use cachesharing::partition::{Partition, Policy, partition};
use cachesharing::{Error, EvictionAge, Program, SharedCache};
use common::{Draws, scan, stream, uniform};

const CACHE: u64 = 1 << 20;
const WAYS: u32 = 16;

fn cache() -> SharedCache {
    SharedCache::new(CACHE).unwrap().with_ways(WAYS).unwrap()
}

fn divided(programs: &[Program<u64>], policy: Policy) -> Partition {
    let list: Vec<&Program<u64>> = programs.iter().collect();
    partition(&cache(), &list, &EvictionAge::default(), policy).unwrap()
}

fn drawn(draws: &mut Draws, count: usize) -> Vec<Program<u64>> {
    let program = |draws: &mut Draws| {
        let footprint = (0.1 + 1.4 * draws.unit()) * CACHE as f64;
        let curve = match (3.0 * draws.unit()) as u32 {
            0 => uniform(0.02 + 0.2 * draws.unit(), 0.3, footprint, CACHE),
            1 => scan(0.02 + 0.2 * draws.unit(), 0.3, footprint, CACHE),
            _ => stream(0.05 + 0.1 * draws.unit(), 0.3, CACHE),
        };
        Program::steady("p", 0, curve, 1e8).unwrap()
    };
    (0..count).map(|_| program(draws)).collect()
}

/// Every way to give `left` ways to programs from number `from` on: slowdowns.
fn every(programs: &[Program<u64>], from: usize, left: u32, so_far: &[f64], each: &mut impl FnMut(&[f64])) {
    if from == programs.len() {
        return each(so_far);
    }
    let last = from + 1 == programs.len();
    let most = left - (programs.len() - from - 1) as u32;
    for ways in if last { most } else { 1 }..=most {
        let bytes = CACHE as f64 * f64::from(ways) / f64::from(WAYS);
        let slowdown = programs[from].time_alone(bytes) / programs[from].time_alone(CACHE as f64);
        every(programs, from + 1, left - ways, &[so_far, &[slowdown]].concat(), each);
    }
}

#[test]
fn no_other_division_is_better() {
    let mut draws = Draws(5);
    for count in [1, 2, 3, 4, 4, 4] {
        let programs = drawn(&mut draws, count);
        let (mut total, mut worst) = (f64::INFINITY, f64::INFINITY);
        every(&programs, 0, WAYS, &[], &mut |slowdowns| {
            total = total.min(slowdowns.iter().sum());
            worst = worst.min(slowdowns.iter().copied().fold(0.0, f64::max));
        });
        let (utility, fair) = (divided(&programs, Policy::Utility), divided(&programs, Policy::Fair));
        assert!((utility.total() / total - 1.0).abs() < 1e-9, "{} and {total}", utility.total());
        assert!((fair.worst() / worst - 1.0).abs() < 1e-9, "{} and {worst}", fair.worst());
        assert!(fair.total() >= utility.total() - 1e-9);
    }
}

#[test]
fn clusters_are_no_worse_than_own_partitions_and_free_sharing() {
    let mut draws = Draws(11);
    let mut gained = 0;
    for count in [2, 3, 5, 6] {
        let programs = drawn(&mut draws, count);
        let total = |policy| divided(&programs, policy).total();
        let clusters = total(Policy::Clusters);
        let (own, free) = (total(Policy::Utility), total(Policy::Free));
        assert!(clusters <= own.min(free) * (1.0 + 1e-9), "{clusters}, {own} apart, {free} free");
        gained += usize::from(clusters < 0.99 * free);
    }
    assert!(gained > 0, "nothing to gain in any group");
}

#[test]
fn masks_cover_all_ways_once_and_more_programs_than_ways_are_clustered() {
    let programs = drawn(&mut Draws(3), 20);
    let found = divided(&programs, Policy::Clusters);
    let mut members: Vec<usize> = found.clusters.iter().flat_map(|c| c.programs.clone()).collect();
    members.sort_unstable();
    assert_eq!(members, (0..20).collect::<Vec<_>>());
    let mut all = 0;
    for cluster in &found.clusters {
        assert_eq!(cluster.mask & all, 0);
        assert_eq!(cluster.mask.count_ones(), cluster.ways);
        let shifted = cluster.mask >> cluster.mask.trailing_zeros();
        assert_eq!(shifted & (shifted + 1), 0, "a mask with a hole: {:b}", cluster.mask);
        all |= cluster.mask;
    }
    assert_eq!(all, (1 << WAYS) - 1);
    let list: Vec<&Program<u64>> = programs.iter().collect();
    let refused = partition(&cache(), &list, &EvictionAge::default(), Policy::Fair);
    assert!(matches!(refused, Err(Error::Count { count: 20, .. })), "{refused:?}");
    let without_ways = SharedCache::new(CACHE).unwrap();
    let refused = partition(&without_ways, &list, &EvictionAge::default(), Policy::Free);
    assert!(matches!(refused, Err(Error::Value { .. })), "{refused:?}");
}

#[test]
fn a_stream_is_kept_out_of_the_way_of_a_table() {
    let table = Program::steady("table", 0, uniform(0.2, 0.3, 0.8 * CACHE as f64, CACHE), 1e8).unwrap();
    let streaming = Program::steady("stream", 0, stream(0.15, 0.35, CACHE), 1e8).unwrap();
    let programs = [table, streaming];
    let (free, utility) = (divided(&programs, Policy::Free), divided(&programs, Policy::Utility));
    // Its four fifths are 12.8 ways; more are worth nothing to it.
    assert!(utility.clusters[0].ways >= 13, "{utility:?}");
    assert!(free.slowdowns[0] > 1.05 * utility.slowdowns[0], "{free:?} {utility:?}");
}
