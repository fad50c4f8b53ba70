//! Shares of the misses by instruction, from samples, against a count of every access.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;

use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, AccessKind, CacheLines, Evaluator, HotSpot, HotSpots, LineSize, Outcome, ReuseDistance,
    ReusePlan, SampleGap, Sampler, Window, WindowPlan,
};

/// A line leaves this cache when it was not touched for so many accesses.
const KEEPS: u64 = 2_000;

/// Four instructions: a hot table, a table that does not fit, a sweep that is never seen again, and a store that follows
/// it closely.
fn stream() -> Vec<Access> {
    let mut state = 5_u64;
    let mut random = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..400_000_u64)
        .map(|i| match i % 8 {
            0 => Access::load((1 << 40) + i / 8 * 64, 8).at(30),
            1 => Access::store((1 << 40) + i / 8 * 64, 8).at(40),
            2 | 3 => Access::load((1 << 30) + random(6_000) * 64, 8).at(20),
            _ => Access::load(random(100) * 64, 8).at(10),
        })
        .collect()
}

#[derive(Clone, Copy, Default)]
struct Counted {
    accesses: f64,
    misses: f64,
    first: f64,
    wasted: f64,
}

fn counted(stream: &[Access]) -> HashMap<u64, Counted> {
    let mut by_pc: HashMap<u64, Counted> = HashMap::new();
    let mut last: HashMap<u64, (u64, u64)> = HashMap::new();
    for (now, access) in (0..).zip(stream) {
        let before = last.insert(access.address / 64, (now, access.pc));
        let missed = before.is_none_or(|(at, _)| now - at > KEEPS);
        let here = by_pc.entry(access.pc).or_default();
        here.accesses += 1.0;
        here.misses += f64::from(u8::from(missed));
        here.first += f64::from(u8::from(before.is_none()));
        if let (true, Some((_, pc))) = (missed, before) {
            by_pc.get_mut(&pc).unwrap().wasted += 1.0;
        }
    }
    for (_, pc) in last.values() {
        by_pc.get_mut(pc).unwrap().wasted += 1.0;
    }
    by_pc
}

fn sampled<K: Ord + Clone>(
    stream: &[Access],
    gap: f64,
    site: impl Fn(reuse_sampler::Site) -> K + Copy,
) -> HotSpots<K> {
    let options = ReplayOptions::windows_of(WindowLength::Accesses(50_000)).seed(9);
    let mut sampler =
        ReplaySampler::new(stream.iter().map(|&access| Event::Access(access)), options).unwrap();
    let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(gap).unwrap()));
    let mut spots = HotSpots::new();
    while let Some(window) = sampler.next_window(&plan).unwrap() {
        spots.add(&window, site).unwrap();
    }
    spots
}

#[test]
fn shares_are_those_of_a_count() {
    let stream = stream();
    let exact = counted(&stream);
    let all: f64 = exact.values().map(|site| site.misses).sum();
    // Sampled, shares of 20,000 samples have a standard error of 0.35 points, those of one instruction's accesses among
    // 2,500 of 1 point; where every access is a sample, what is left is the rounding of distances near the limit.
    for (gap, within) in [(20.0, 0.03), (1.0, 0.002)] {
        let spots = sampled(&stream, gap, |site| site.pc);
        let ranked = spots.rank(&Evaluator::step(ReuseDistance(KEEPS)));
        assert_eq!(ranked.len(), 4);
        let total: f64 = ranked.iter().map(|spot| spot.misses).sum();
        assert!((total - 1.0).abs() < 1e-9);
        assert!(ranked.is_sorted_by(|a, b| a.misses >= b.misses));
        for spot in &ranked {
            let site = exact[&spot.site];
            let first = if site.misses > 0.0 { site.first / site.misses } else { 0.0 };
            for (what, found, truth) in [
                ("accesses", spot.accesses, site.accesses / stream.len() as f64),
                ("misses", spot.misses, site.misses / all),
                ("miss ratio", spot.miss_ratio, site.misses / site.accesses),
                ("first touches", spot.first_touches * spot.misses, first * site.misses / all),
                ("wasted", spot.wasted, site.wasted / site.accesses),
            ] {
                assert!((found - truth).abs() < within, "{what} of {} at {gap}: {found} {truth}", spot.site);
            }
        }
        // Nobody wants the lines that the store leaves; the load before it leaves them to the store.
        let hints: Vec<u64> = HotSpot::non_temporal(&ranked).iter().map(|spot| spot.site).collect();
        assert_eq!(hints, [40]);
    }
}

#[test]
fn loads_and_stores_arrive_apart() {
    let stream = stream();
    let spots = sampled(&stream, 20.0, |site| site.kind);
    let arrivals = |kind| spots.arrivals(&kind).unwrap().distribution();
    // Every store finds its line one access later, every eighth load comes to a new line.
    assert!(arrivals(AccessKind::Store).beyond(0) < 0.01);
    let first = arrivals(AccessKind::Load).dangling();
    let truth = (50_000.0 + 6_000.0 + 100.0) / 350_000.0;
    assert!((first - truth).abs() < 0.02, "{first} {truth}"); // 17,500 loads: four standard errors are 0.011
    assert!(HotSpots::<u64>::new().arrivals(&1).is_none());
}

#[test]
fn nothing_seen_is_nothing_reported() {
    let spots = HotSpots::<u64>::new();
    assert!(spots.rank(&Evaluator::step(ReuseDistance(1))).is_empty());
    assert_eq!((spots.samples(), spots.sites().count()), (0, 0));
    // A single sample that nothing ended: its site makes all of the misses.
    let mut spots = HotSpots::new();
    let site = reuse_sampler::Site { pc: 7, kind: AccessKind::Load };
    let sample = reuse_sampler::ReuseSample {
        outcome: Outcome::Dangling,
        started_in: reuse_sampler::WindowIndex(0),
        thread: reuse_sampler::ThreadId(0),
        begin: site,
        end: None,
        weight: 1,
    };
    let mut window = Window::new(sample.started_in, sample.thread, LineSize::B64);
    window.samples.push(sample);
    spots.add(&window, |site| site.pc).unwrap();
    let ranked = spots.rank(&Evaluator::step(ReuseDistance(CacheLines(1).0)));
    assert_eq!((ranked[0].misses, ranked[0].first_touches, ranked[0].wasted), (1.0, 1.0, 1.0));
}
