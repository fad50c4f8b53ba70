//! Cache Pirating on the reference chip against caches of the true size: the paper's figures and tables.

use cache_pirate::{CurvePoint, Distrust, Order, Pace, Testbed, Threads, Trust, Until, Who};
use examples::machines::chip::{
    CacheSettings, ChipSettings, CoreSettings, Counters, Inclusion, Index, Policy, PrefetcherSettings,
};
use examples::machines::testbed::experiments::{
    Compared, Pattern, compare_recorded, figure_five, machines, mean_and_max, one_run, stealable,
    stressmark_rival, suite,
};
use examples::machines::testbed::programs::{Micro, Recorded};
use examples::machines::testbed::truth::scaled_nehalem;
use examples::machines::testbed::{PirateCore, SimulatedTestbed};
use reuse_sampler::LineSize;

/// The paper's 8 MiB, scaled down 128 times.
const CACHE: u64 = 64 << 10;
const WAY: u64 = CACHE / 16;

fn recorded(name: &str) -> Recorded {
    let workload = suite(CACHE).into_iter().find(|(n, _)| *n == name).unwrap().1;
    Recorded::workload(name, &workload, LineSize::B64).unwrap()
}

fn compared(policy: Policy, name: &str) -> Compared {
    let settings = scaled_nehalem(CACHE, policy).unwrap();
    compare_recorded(&settings, &recorded(name), Threads::Fixed(1), 4 * CACHE / 64, 1).unwrap()
}

#[test]
fn nothing_runs_between_runs_and_time_is_one_axis() {
    let settings = scaled_nehalem(CACHE, Policy::Lru).unwrap();
    let target = CoreSettings::new(Micro::random(2000, 1));
    let mut testbed = SimulatedTestbed::new(&settings, target, u64::MAX, 2, PirateCore::default()).unwrap();
    assert_eq!(testbed.max_threads(), 2);
    testbed.steal(8 * WAY, 2).unwrap();
    let begin = testbed.read().unwrap();
    assert_eq!((begin.elapsed, begin.target.time, begin.pirate.touches), (0.0, 0.0, 0.0));

    testbed.run(Who::Pirate, Until::Walks(2)).unwrap();
    let walked = testbed.read().unwrap();
    // Two walks of 512 lines; each thread may be past its own by the time the other is done, but not far.
    assert!((1024.0..1100.0).contains(&walked.pirate.touches), "{}", walked.pirate.touches);
    assert!((512.0..540.0).contains(&walked.pirate.fetches), "each line once: {}", walked.pirate.fetches);
    assert_eq!(testbed.lines_held(), 512);
    testbed.steal(4 * WAY, 2).unwrap();
    assert_eq!(testbed.lines_held(), 256, "what is given up leaves the cache");
    testbed.steal(8 * WAY, 2).unwrap();
    assert_eq!(walked.target, begin.target);

    testbed.run(Who::Target, Until::Work(10_000.0)).unwrap();
    let ran = testbed.read().unwrap();
    assert_eq!((ran.target.work, ran.pirate), (10_000.0, walked.pirate));
    // The target began when the pirate stopped, and its time is what passed since.
    assert!((ran.elapsed - walked.elapsed - ran.target.time).abs() < 1e-6);

    testbed.run(Who::Both, Until::Work(10_000.0)).unwrap();
    let both = testbed.read().unwrap();
    assert_eq!(both.target.work, 20_000.0);
    // Five cycles a line on each of two cores.
    let touches = both.pirate.touches - ran.pirate.touches;
    let time = both.target.time - ran.target.time;
    assert!((touches / (time / 5.0 * 2.0) - 1.0).abs() < 0.1, "{touches} in {time}");
}

#[test]
fn figure_five_random_accesses_match_whatever_the_policy() {
    for policy in [Policy::Lru, Policy::Nehalem] {
        let compared = figure_five(CACHE, policy, Pattern::Random).unwrap();
        assert!(compared.curve.stealable() >= 12 * WAY, "down to an eighth, as in the paper, or nearly");
        for (point, truth) in compared.points().filter(|(point, _)| point.is_trusted()) {
            // 64 K accesses each: five standard errors of a difference of two ratios near a half.
            let error = point.fetch_ratio.unwrap() - truth.fetch_ratio();
            assert!(
                error.abs() < 5.0 * 0.5 * (2.0_f64 / 65_536.0).sqrt() + 0.005,
                "{}: {error}",
                point.bytes
            );
            // A uniform access hits with the share of the array that the cache holds: its 16 ways hold all.
            let expected = 1.0 - point.bytes as f64 / CACHE as f64;
            assert!((point.fetch_ratio.unwrap() - expected).abs() < 0.04, "{}", point.bytes);
        }
    }
}

#[test]
fn figure_five_sequential_accesses_show_nehalems_rise() {
    // LRU: all misses until everything fits.
    let lru = figure_five(CACHE, Policy::Lru, Pattern::Sequential).unwrap();
    for (point, truth) in lru.points().filter(|(point, _)| point.is_trusted()) {
        let expected = if point.bytes == CACHE { 0.0 } else { 1.0 };
        assert!((point.fetch_ratio.unwrap() - expected).abs() < 0.002, "{point:?}");
        assert!((truth.fetch_ratio() - expected).abs() < 1e-9);
    }
    // Nehalem: some of the array stays, and the fetch ratio *rises* with the size over a part of the range, in
    // the true caches and in the pirate's curve alike.
    let nehalem = figure_five(CACHE, Policy::Nehalem, Pattern::Sequential).unwrap();
    // At such a rise no size is known well enough to be trusted, but the pirate has its lines.
    let held =
        |point: &CurvePoint| matches!(point.trust, Trust::Trusted | Trust::Untrusted(Distrust::Steep { .. }));
    let points: Vec<_> = nehalem.points().filter(|(point, _)| held(point)).collect();
    let rise = |ratio: &dyn Fn(usize) -> f64| {
        (1..points.len()).map(|i| ratio(i) - ratio(i - 1)).fold(f64::NEG_INFINITY, f64::max)
    };
    let (measured, truth) =
        (rise(&|i| points[i].0.fetch_ratio.unwrap()), rise(&|i| points[i].1.fetch_ratio()));
    assert!(truth > 0.01 && measured > 0.01, "rise {truth} and {measured}");
    assert!(points.iter().any(|(point, _)| point.bytes < CACHE && point.fetch_ratio.unwrap() < 0.9));
}

#[test]
fn figures_seven_and_eight_lru_leaves_a_cache_of_the_true_size() {
    // The bounds: 0.2 points on average, 2.7 at most.
    for name in ["hash_join", "btree", "pagerank", "key_value", "pointer_chase", "stream"] {
        let compared = compared(Policy::Lru, name);
        let (mean, max) = mean_and_max(compared.fetch_errors());
        assert!(mean <= 0.002 && max <= 0.027, "{name}: {mean} {max}");
        let (mean, _) = mean_and_max(compared.cpi_errors());
        assert!(mean <= 0.005, "{name}: CPI off by {mean}");
        assert!(compared.curve.stealable() >= 10 * WAY, "{name}: {}", compared.curve.stealable());
    }
}

#[test]
fn figures_seven_and_eight_nehalem() {
    // A little worse than LRU, because the pirate clears accessed bits that a true cache would not (section
    // III.3.2); the paper's own errors are 0.24 on average and 2.66 for the worst benchmark.
    let names = ["hash_join", "btree", "pagerank", "key_value"];
    let means = names.map(|name| mean_and_max(compared(Policy::Nehalem, name).fetch_errors()).0);
    let (mean, worst) = mean_and_max(means);
    assert!(mean <= 0.004 && worst <= 0.027, "{means:?}");
}

#[test]
fn figure_nine_more_threads_steal_no_less() {
    for name in ["stream", "gather"] {
        let steal = |threads| stealable(CACHE, Policy::Nehalem, &recorded(name), threads).unwrap();
        let (one, two) = (steal(1), steal(2));
        assert!(one >= CACHE / 2 && two >= one, "{name}: {one} {two}");
    }
}

#[test]
fn table_two_one_run_for_all_sizes() {
    let settings = scaled_nehalem(CACHE, Policy::Lru).unwrap();
    let program = recorded("pagerank");
    let pass = program.instructions();
    let continuous = one_run(&settings, &program, pass, Pace::Continuous, 1).unwrap();
    // 16 sizes without a gap, on a core that hides no latency: what the target loses to smaller caches.
    let sampling = Pace::Sampling { mean_gap: 16.0 * 30.0 * pass, seed: 1 };
    let sampled = one_run(&settings, &program, pass, sampling, 3).unwrap();
    assert!(sampled.overhead < 0.055 && sampled.overhead < 0.3 * continuous.overhead, "{sampled:?}");
    assert!(continuous.cpi_error.0 < 0.005 && sampled.cpi_error.0 < 0.005, "{continuous:?} {sampled:?}");
    // The pirate's own warm-ups are a small part of it.
    assert!(continuous.suspended < 0.03, "{continuous:?}");
    assert!(continuous.explained > 0.1 && continuous.beyond().abs() < 0.15, "{continuous:?}");
}

#[test]
fn figures_three_ten_and_eleven_prefetching_parts_fetches_from_misses() {
    let mut settings = scaled_nehalem(CACHE, Policy::Lru).unwrap();
    let program = recorded("stream");
    let run = |settings: &ChipSettings| {
        compare_recorded(settings, &program, Threads::Fixed(1), 4 * CACHE / 64, 1).unwrap()
    };
    let without = run(&settings);
    settings.prefetcher = Some(PrefetcherSettings::default());
    let with = run(&settings);
    let half = |compared: &Compared| *compared.curve.at(CACHE / 2).unwrap();
    let (on, off) = (half(&with), half(&without));
    assert!(on.is_trusted() && off.is_trusted());
    assert_eq!(off.fetch_ratio, off.miss_ratio);
    // A stream is fetched all the same, but hardly waited for: figure 10's 470.lbm against figure 11.
    assert!(on.fetch_ratio.unwrap() > 4.0 * on.miss_ratio.unwrap(), "{on:?}");
    assert!((on.fetch_ratio.unwrap() / off.fetch_ratio.unwrap() - 1.0).abs() < 0.1, "{on:?} {off:?}");
    assert!(on.cpi < 0.8 * off.cpi && on.bandwidth > off.bandwidth);
    // Both by the truth's measure too.
    for compared in [&with, &without] {
        let (mean, max) = mean_and_max(compared.fetch_errors());
        assert!(mean <= 0.002 && max <= 0.027, "{mean} {max}");
    }
}

#[test]
fn the_stressmark_takes_bandwidth_that_the_pirate_leaves_alone() {
    let rival = stressmark_rival(CACHE).unwrap();
    // Section III.6: 37 % more on the paper's machine; by how much depends on the memory's bandwidth.
    assert!(rival.stressmark_cpi > 1.1 * rival.pirate_cpi, "{rival:?}");
    assert!((0.4..0.6).contains(&rival.stressmark_share), "{rival:?}");
    assert!((rival.pirate_cpi / rival.true_cpi - 1.0).abs() < 0.005, "{rival:?}");
    assert!(rival.stressmark_fetches_per_cycle > 100.0 * rival.pirate_fetches_per_cycle, "{rival:?}");
}

#[test]
fn newer_machines_are_measured_right_or_not_trusted() {
    // Programs whose curves are steep somewhere. What is not trusted has other values than the truth by up to 60
    // points; what is trusted may not. At 128 and 256 KiB, over twelve programs, see the README of cache-pirate.
    // Limits were not chosen on caches of this size, nor on 32 ways.
    let programs = ["hash_join", "btree", "pagerank", "stream", "gather"].map(recorded);
    let mut machines = machines(CACHE, 3).unwrap();
    for (name, policy, ways) in [
        ("LRU, 32 ways", Policy::Lru, 32),
        ("tree-PLRU, 32 ways", Policy::TreePlru, 32),
        ("tree-PLRU, 8 ways", Policy::TreePlru, 8),
        ("accessed bits, 32 ways", Policy::Nehalem, 32),
    ] {
        let mut settings = scaled_nehalem(CACHE, policy).unwrap();
        settings.shared.geometry = settings.shared.geometry.with_ways(ways).unwrap();
        machines.push((name, settings));
    }
    // Several of these at once, with larger second levels: lines that are there in place of the shared cache are missing in
    // other sets now than then, or hide the pirate's lines at several sizes.
    for (name, inclusion, part) in [
        ("hashed victim cache, prefetching", Inclusion::Victim, 8),
        ("hashed, not inclusive, prefetching", Inclusion::None, 4),
    ] {
        let paper = scaled_nehalem(CACHE, Policy::Lru).unwrap();
        let shared =
            CacheSettings { geometry: paper.shared.geometry.with_index(Index::Hashed), ..paper.shared };
        let l2 = Some(CacheSettings::lru(CACHE / part, 8, LineSize::B64).unwrap());
        let prefetcher = Some(PrefetcherSettings::default());
        machines.push((name, ChipSettings { shared, l2, inclusion, prefetcher, ..paper }));
    }
    for (name, settings) in machines {
        let accesses = 4 * settings.shared.geometry.lines().0;
        let whole = settings.shared.geometry.bytes();
        let compared: Vec<Compared> = programs
            .iter()
            .map(|program| compare_recorded(&settings, program, Threads::Fixed(1), accesses, 1).unwrap())
            .collect();
        let stolen = |c: &Compared| c.curve.trusted().filter(|point| point.bytes < whole).count();
        let trusted: usize = compared.iter().map(stolen).sum();
        let all: usize = compared.iter().map(|c| c.curve.points().len() - 1).sum();
        let lru = compared.iter().all(|c| c.run.placement.order == Order::LastTouch);
        let others = ["SRRIP", "PLRU", "accessed bits", "random"];
        assert_eq!(lru, !others.iter().any(|policy| name.contains(policy)), "{name}");
        // With nothing stolen the program is alone, and what a cache other than LRU keeps of it depends on what was there
        // before: the truth's 2 passes begin with an empty one.
        let judged =
            |(point, _): &(&CurvePoint, &Counters)| point.is_trusted() && (lru || point.bytes < whole);
        let judged = || compared.iter().flat_map(|c| c.points().filter(judged));
        let (mean, max) =
            mean_and_max(judged().map(|(p, t)| (p.fetch_ratio.unwrap() - t.fetch_ratio()).abs()));
        let (cpi, cpi_max) = mean_and_max(judged().map(|(p, t)| (p.cpi / t.cpi() - 1.0).abs()));
        match name {
            "SRRIP" | "random" => assert_eq!(trusted, 0, "{name}"),
            // Two ways of eight are a quarter of the cache.
            "tree-PLRU, 8 ways" => {}
            _ if !lru => assert!(trusted > 0, "{name}"),
            "4 KiB frames" => {}
            "hashed victim cache, prefetching" | "hashed, not inclusive, prefetching" => {
                assert!(10 * trusted >= 3 * all, "{name}: {trusted} of {all} trusted");
            }
            _ => assert!(10 * trusted >= 7 * all, "{name}: {trusted} of {all} trusted"),
        }
        assert!(mean <= 0.005 && max <= 0.03, "{name}: fetch ratio off by {mean}, {max}");
        assert!(cpi <= 0.02 && cpi_max <= 0.08, "{name}: CPI off by {cpi}, {cpi_max}");
    }
}
