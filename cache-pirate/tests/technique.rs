//! The technique on the simple testbed against caches of the true size.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use cache_pirate::measure::choose_threads;
use cache_pirate::simple::{SimpleMachine, SimpleTestbed};
use cache_pirate::{
    CurvePoint, Distrust, Interval, MemoryCounts, Outcome, Pace, PirateError, PirateParams, Reading,
    SharedCache, Testbed, Threads, Trust, Until, Who, measure, measure_fixed,
};
use common::{MACHINE, WAY, miss_ratio, params, random_lines};
use quickcheck::{QuickCheck, TestResult};

#[test]
fn what_is_left_behaves_exactly_like_a_cache_of_that_size() {
    // Under LRU the pirate's lines are always younger than the target's victim (Paper III, figure 4), so a run
    // at a fixed size has exactly the misses of the smaller cache. The warm-up ends within the first 12,000.
    let stream: Vec<u64> = random_lines(1000, 1).take(60_000).collect();
    for ways in [16, 12, 5, 2] {
        let machine = SimpleMachine { pirate_hit_time: 0.1, ..MACHINE };
        let mut testbed = SimpleTestbed::new(machine, stream.iter().copied()).unwrap();
        let plan = PirateParams { interval: Some(3_000.0), ..params() }.check(testbed.cache()).unwrap();
        let run = measure_fixed(&mut testbed, &plan, ways as u64 * WAY).unwrap();
        assert!(run.ended);
        let whole: Vec<&Interval> =
            run.intervals.iter().filter(|i| i.counts.target.work == 3_000.0).collect();
        let measured: f64 = whole.iter().map(|i| i.counts.target.memory.unwrap().misses).sum();
        // The run ends with the stream, so the intervals are its end.
        let begin = 60_000 - run.intervals.iter().map(|i| i.counts.target.work).sum::<f64>() as usize;
        let end = begin + whole.len() * 3_000;
        let truth = miss_ratio(64, ways, &stream[..end], begin);
        assert!(whole.len() >= 16, "{} intervals", whole.len());
        assert!(whole.iter().all(|i| i.trust.is_trusted() && i.counts.pirate.fetches == 0.0), "{ways} ways");
        assert_eq!(measured, (truth * (end - begin) as f64).round(), "{ways} ways");
    }
}

#[test]
fn one_run_gives_all_sizes() {
    let stream: Vec<u64> = random_lines(1500, 2).take(1_000_000).collect();
    let mut testbed = SimpleTestbed::new(MACHINE, stream.iter().copied()).unwrap();
    let plan = PirateParams { interval: Some(5_000.0), ..params() }.check(testbed.cache()).unwrap();
    let run = measure(&mut testbed, &plan).unwrap();
    let curve = run.curve().unwrap();
    assert_eq!(curve.points().len(), 16);
    for (i, point) in curve.points().iter().enumerate() {
        assert_eq!(point.bytes, (i as u64 + 1) * WAY);
        let truth = miss_ratio(64, i + 1, &stream[..400_000], 50_000);
        let error = point.miss_ratio.unwrap() - truth;
        // Both are estimates of one probability: five standard errors of their difference.
        let n = point.intervals as f64 * 5_000.0;
        let deviation = (truth * (1.0 - truth) * (1.0 / n + 1.0 / 350_000.0)).sqrt();
        assert!(error.abs() < 5.0 * deviation, "{} bytes: off by {error}", point.bytes);
        assert_eq!(point.fetch_ratio, point.miss_ratio);
        // 10 a hit, 100 a miss
        assert!((point.cpi - (10.0 + 90.0 * point.miss_ratio.unwrap())).abs() < 1e-9);
        let bandwidth = point.miss_ratio.unwrap() * 64.0 / point.cpi;
        assert!((point.bandwidth.unwrap() - bandwidth).abs() < 1e-12);
        let hits = (1.0 - point.miss_ratio.unwrap()) / point.cpi;
        assert!((point.hit_rate.unwrap() - hits).abs() < 1e-12);
        assert_eq!(point.mix, Some(1.0));
    }
    // The whole time is the target's own and the time it stood still.
    let total = run.total;
    assert!((total.elapsed - total.target.time - run.suspended).abs() < 1e-6 * total.elapsed);
}

#[test]
fn a_pirate_that_fetches_nothing_is_exact_on_random_machines_and_streams() {
    fn law(sets: u8, ways: u8, lines: u16, seed: u64, left: u8) -> TestResult {
        let machine = SimpleMachine {
            sets: usize::from(sets % 16) + 1,
            ways: usize::from(ways % 7) + 2,
            pirate_hit_time: 0.1, // fast enough to hold nearly anything
            ..MACHINE
        };
        let left = usize::from(left) % machine.ways + 1;
        let stream: Vec<u64> = random_lines(u64::from(lines % 300) + 1, seed).take(9_000).collect();
        let mut testbed = SimpleTestbed::new(machine, stream.iter().copied()).unwrap();
        let params = PirateParams { interval: Some(3_000.0), target_warm_up: Some(3_000.0), ..params() };
        let plan = PirateParams { cycles: Some(1), ..params }.check(testbed.cache()).unwrap();
        let bytes = (machine.sets * left * 64) as u64;
        let run = measure_fixed(&mut testbed, &plan, bytes).unwrap();
        let interval = run.intervals[0];
        if interval.counts.pirate.fetches > 0.0 {
            return TestResult::discard(); // it lost lines and had to fetch them again
        }
        if !interval.trust.is_trusted() {
            return TestResult::failed();
        }
        let end = run.total.target.work as usize;
        let truth = miss_ratio(machine.sets as u64, left, &stream[..end], end - 3_000);
        TestResult::from_bool(interval.counts.target.memory.unwrap().misses == (truth * 3e3).round())
    }
    QuickCheck::new().tests(40).quickcheck(law as fn(u8, u8, u16, u64, u8) -> TestResult);
}

#[test]
fn a_pirate_that_is_too_slow_is_found_out_and_bounds_the_size() {
    // A stream without reuse takes a line from each set every 64 accesses of 100: the pirate must come round to
    // each of its lines within (16 - k) * 6400, so at 40 per line of 64 k lines it can hold k = 11 ways at most.
    let machine = SimpleMachine { pirate_hit_time: 40.0, pirate_miss_time: 100.0, ..MACHINE };
    let mut testbed = SimpleTestbed::new(machine, 0..4_000_000).unwrap();
    let plan = params().check(testbed.cache()).unwrap();
    let curve = measure(&mut testbed, &plan).unwrap().curve().unwrap();
    assert_eq!(curve.stealable(), 11 * WAY);
    for point in curve.points() {
        let stolen = 16 * WAY - point.bytes;
        let lost = (point.pirate_fetch_ratio * stolen as f64).ceil() as u64;
        assert_eq!(point.effective_bytes, (point.bytes, point.bytes + lost));
        if stolen > 11 * WAY {
            let Trust::Untrusted(Distrust::LostLines { fetch_ratio, limit }) = point.trust else {
                panic!("{} bytes: {:?}", point.bytes, point.trust);
            };
            assert!(fetch_ratio > limit && limit == 0.01);
        } else {
            assert_eq!(point.trust, Trust::Trusted);
            assert!(point.pirate_fetch_ratio <= 0.01);
        }
    }
}

#[test]
fn more_threads_hold_more() {
    let stealable = |threads| {
        let machine = SimpleMachine {
            pirate_hit_time: 40.0,
            pirate_miss_time: 100.0,
            threads: 4,
            free_threads: 4,
            ..MACHINE
        };
        let mut testbed = SimpleTestbed::new(machine, 0..4_000_000).unwrap();
        let plan = PirateParams { threads, ..params() }.check(testbed.cache()).unwrap();
        measure(&mut testbed, &plan).unwrap().curve().unwrap().stealable()
    };
    // As above with 40 / n per line: 16 - k >= 0.4 k / n.
    assert_eq!(stealable(Threads::Fixed(1)), 11 * WAY);
    assert_eq!(stealable(Threads::Fixed(2)), 13 * WAY);
    assert_eq!(stealable(Threads::Fixed(4)), 14 * WAY);
    assert_eq!(stealable(Threads::Auto), 14 * WAY);
}

#[test]
fn threads_stop_where_the_target_notices() {
    for free in 1..=4 {
        let machine = SimpleMachine { threads: 4, free_threads: free, ..MACHINE };
        let mut testbed = SimpleTestbed::new(machine, random_lines(500, 3)).unwrap();
        let plan = params().check(testbed.cache()).unwrap();
        let choice = choose_threads(&mut testbed, &plan).unwrap();
        assert_eq!(choice.threads, free, "{choice:?}");
        assert!(choice.one_thread_holds && !choice.ended);
        if let Some(failed) = choice.trials.iter().find(|trial| trial.threads > free) {
            assert!((failed.rise() - 0.1).abs() < 0.01, "{failed:?}"); // a tenth per thread too many
        }
    }
}

#[test]
fn a_program_that_drifts_by_itself_is_not_blamed_on_the_pirate_and_stops_the_search() {
    // Every access slower than the last: each trial's references differ.
    let machine = SimpleMachine { threads: 4, free_threads: 4, ..MACHINE };
    let drifting = (0_u64..).map(|i| if (i * i) % 4_000_000 < i * 20 { i } else { 0 });
    let mut testbed = SimpleTestbed::new(machine, drifting).unwrap();
    let plan = params().check(testbed.cache()).unwrap();
    let choice = choose_threads(&mut testbed, &plan).unwrap();
    assert_eq!((choice.threads, choice.trials.len()), (1, 3), "{choice:?}");
}

#[test]
fn sampling_costs_less_and_finds_the_same() {
    let run = |pace| {
        let mut testbed = SimpleTestbed::new(MACHINE, random_lines(900, 4).take(1_500_000)).unwrap();
        let plan = PirateParams { interval: Some(5_000.0), pace, ..params() }.check(testbed.cache()).unwrap();
        measure(&mut testbed, &plan).unwrap()
    };
    let continuous = run(Pace::Continuous);
    let sampled = run(Pace::Sampling { mean_gap: 125_000.0, seed: 5 });
    let (full, fewer) = (continuous.curve().unwrap(), sampled.curve().unwrap());
    let alone = full.points().last().unwrap().cpi;
    assert!(sampled.overhead(alone) < 0.6 * continuous.overhead(alone));
    assert!(fewer.points().len() == 16 && fewer.points()[0].intervals < full.points()[0].intervals);
    for (one, other) in full.points().iter().zip(fewer.points()) {
        // Five standard errors: 1/sqrt(n) of accesses, at most 0.5.
        let n = other.intervals as f64 * 5_000.0;
        assert!((one.miss_ratio.unwrap() - other.miss_ratio.unwrap()).abs() < 5.0 * 0.5 / n.sqrt() * 1.5);
    }
    let again = run(Pace::Sampling { mean_gap: 125_000.0, seed: 5 });
    assert_eq!(again, sampled, "the seed decides");
}

#[test]
fn what_the_pirates_losses_spare_is_bounded() {
    // A pirate that can hardly hold its lines: where it lost some, the target is better off than in a true cache,
    // but by no more than a fetch for each.
    let stream: Vec<u64> = random_lines(1000, 8).take(600_000).collect();
    let machine = SimpleMachine { pirate_hit_time: 3.0, ..MACHINE };
    let mut testbed = SimpleTestbed::new(machine, stream.iter().copied()).unwrap();
    let lenient = PirateParams { fetch_ratio_limit: 1.0, spared_limit: 1.0, cycles: Some(1), ..params() };
    let plan = lenient.check(testbed.cache()).unwrap();
    let curve = measure(&mut testbed, &plan).unwrap().curve().unwrap();
    let (mut lost, mut refused) = (0, 0);
    for point in curve.points() {
        let truth = miss_ratio(64, (point.bytes / WAY) as usize, &stream, 100_000);
        let (found, spared) = (point.fetch_ratio.unwrap(), point.spared.unwrap());
        let noise = 5.0 * (2.0 * 0.25 / 20_000.0_f64).sqrt(); // five standard errors of 20,000 accesses
        assert!(found > truth - spared - noise && found < truth + noise, "{truth} {point:?}");
        lost += u32::from(found < truth - noise);
        refused += u32::from(spared > 0.02);
    }
    assert!(lost > 0 && refused >= lost, "{lost} {refused}");
    let plan = PirateParams { fetch_ratio_limit: 1.0, cycles: Some(1), ..params() };
    let mut testbed = SimpleTestbed::new(machine, stream.iter().copied()).unwrap();
    let strict = measure(&mut testbed, &plan.check(curve.cache()).unwrap()).unwrap().curve().unwrap();
    let spared = |point: &&CurvePoint| matches!(point.trust, Trust::Untrusted(Distrust::Spared { .. }));
    assert_eq!(strict.points().iter().filter(spared).count(), refused as usize);
}

#[test]
fn a_budget_is_kept_and_biases_nothing() {
    // Stretches of 400,000 accesses that do not care for the cache and that do: where cycles cost nothing they
    // follow each other closely, and must not count for more than the others.
    let phased = || {
        let (mut small, mut large) = (random_lines(50, 1), random_lines(900, 2));
        (0_u64..24_000_000).map(move |i| {
            if (i / 400_000) % 2 == 0 { small.next().unwrap() } else { 10_000 + large.next().unwrap() }
        })
    };
    let run = |pace| {
        let mut testbed = SimpleTestbed::new(MACHINE, phased()).unwrap();
        let params = PirateParams { interval: Some(2_000.0), pace, ..params() };
        let plan = PirateParams { sizes: Some(vec![8 * WAY, 16 * WAY]), ..params }.check(testbed.cache());
        measure(&mut testbed, &plan.unwrap()).unwrap()
    };
    let run = run(Pace::Budget { overhead: 0.05, seed: 3 });
    // Alone, all accesses hit. What is not booked: lines that one phase lost while the other one was measured.
    let regained = 30.0 * 512.0 * 90.0 / (24e6 * 10.0);
    let overhead = run.overhead(10.0);
    assert!((0.04..0.052 + regained).contains(&overhead), "{overhead}");
    // Twice as many cycles or more in the cheap half of the run as in the other.
    let slow = |interval: &&Interval| interval.stolen > 0 && interval.counts.target.cpi() > 20.0;
    let (all, slow) = (run.intervals.len() / 2, run.intervals.iter().filter(slow).count());
    assert!(all > 100 && 3 * slow < all, "{slow} of {all}");
    // Half of the accesses miss with 1 - 512 / 900. Cycles are a random sample of stretches: of the dear half as
    // many as are counted above.
    let expected = 0.5 * (1.0 - 512.0 / 900.0);
    let found = run.curve().unwrap().at(8 * WAY).and_then(|point| point.miss_ratio).unwrap();
    let tolerance = 5.0 * expected / (slow as f64).sqrt();
    assert!((found - expected).abs() < tolerance, "{found} instead of {expected}, {slow} of {all}");
    let unweighted: f64 = run
        .intervals
        .iter()
        .filter(|i| i.stolen > 0)
        .map(|i| i.counts.target.memory.unwrap().misses / i.counts.target.work)
        .sum::<f64>()
        / all as f64;
    assert!((found - expected).abs() < 0.5 * (unweighted - expected).abs(), "{found} {unweighted}");
}

#[test]
fn a_target_that_ends_early_is_recognised() {
    let mut testbed = SimpleTestbed::new(MACHINE, 0..10).unwrap();
    let plan = params().check(testbed.cache()).unwrap();
    let run = measure(&mut testbed, &plan).unwrap();
    assert!(run.ended && run.intervals.is_empty());
    assert!(
        matches!(run.curve(), Err(PirateError::NothingMeasured { interval, work }) if (interval, work) == (20_000.0, 10.0))
    );

    // No warm-up: ten accesses into the first interval.
    let mut testbed = SimpleTestbed::new(MACHINE, 0..10).unwrap();
    let plan = PirateParams { target_warm_up: Some(0.0), ..params() }.check(testbed.cache()).unwrap();
    let curve = measure(&mut testbed, &plan).unwrap().curve().unwrap();
    let point = curve.points()[0];
    assert_eq!(point.trust, Trust::Untrusted(Distrust::Truncated { work: 10.0 }));
    assert_eq!((point.miss_ratio, point.cpi_error), (Some(1.0), None));
}

/// A testbed whose two sides stop sharing the cache at some probe.
struct Migrating<T> {
    inner: T,
    probes: u32,
    moves_at: u32,
}

impl<T: Testbed> Testbed for Migrating<T> {
    type Error = T::Error;
    fn cache(&self) -> SharedCache {
        self.inner.cache()
    }
    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), T::Error> {
        self.inner.steal(bytes, threads)
    }
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, T::Error> {
        self.inner.run(who, until)
    }
    fn read(&mut self) -> Result<Reading, T::Error> {
        self.inner.read()
    }
    fn shares_cache(&mut self) -> Result<Option<bool>, T::Error> {
        self.probes += 1;
        Ok(Some(self.probes < self.moves_at))
    }
}

/// A testbed that counts misses of demand accesses only, as many processors do.
struct DemandOnly<T>(T);

impl<T: Testbed> Testbed for DemandOnly<T> {
    type Error = T::Error;
    fn cache(&self) -> SharedCache {
        self.0.cache()
    }
    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), T::Error> {
        self.0.steal(bytes, threads)
    }
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, T::Error> {
        self.0.run(who, until)
    }
    fn read(&mut self) -> Result<Reading, T::Error> {
        let mut reading = self.0.read()?;
        reading.target.memory = reading.target.memory.map(|m| MemoryCounts { fetches: None, ..m });
        Ok(reading)
    }
}

#[test]
fn misses_are_not_passed_off_as_fetches() {
    let mut testbed = DemandOnly(SimpleTestbed::new(MACHINE, random_lines(900, 6)).unwrap());
    let plan = PirateParams { cycles: Some(1), ..params() }.check(testbed.cache()).unwrap();
    let curve = measure(&mut testbed, &plan).unwrap().curve().unwrap();
    for point in curve.points() {
        assert!(point.miss_ratio.is_some() && point.hit_rate.is_some());
        assert_eq!((point.fetch_ratio, point.bandwidth), (None, None));
    }
}

#[test]
fn a_target_that_takes_the_pirates_lines_is_noticed() {
    for seed in 0..20 {
        // As many new lines as fit between two rounds of the pirate, and more: it cannot keep 12 ways.
        let machine = SimpleMachine { pirate_hit_time: 60.0, pirate_miss_time: 100.0, ..MACHINE };
        let mut testbed = SimpleTestbed::new(machine, random_lines(1 << 40, seed)).unwrap();
        let plan = PirateParams { sizes: Some(vec![4 * WAY]), cycles: Some(1), ..params() };
        let plan = plan.check(testbed.cache()).unwrap();
        let run = measure(&mut testbed, &plan).unwrap();
        assert_eq!(run.capacity.not_held, None, "alone it holds them");
        let Trust::Untrusted(Distrust::LostLines { .. }) = run.intervals[0].trust else {
            panic!("seed {seed}: {:?}", run.intervals[0]);
        };
    }
}

#[test]
fn intervals_around_a_failed_probe_do_not_count() {
    // Two probes per interval: the sixth is the one after the third interval.
    let inner = SimpleTestbed::new(MACHINE, random_lines(900, 6)).unwrap();
    let mut testbed = Migrating { inner, probes: 0, moves_at: 6 };
    let params = PirateParams { cycles: Some(1), threads: Threads::Fixed(1), ..params() };
    let plan = params.check(testbed.cache()).unwrap();
    let run = measure(&mut testbed, &plan).unwrap();
    let not_shared = Trust::Untrusted(Distrust::NotShared);
    let trust: Vec<Trust> = run.intervals.iter().map(|interval| interval.trust).collect();
    assert_eq!(trust[..4], [Trust::Trusted, Trust::Trusted, not_shared, not_shared]);
    assert!(trust[3..].iter().all(|&t| t == not_shared));
}

#[test]
fn a_trusted_interval_outweighs_untrusted_ones() {
    let machine = SimpleMachine { pirate_hit_time: 0.1, ..MACHINE };
    let inner = SimpleTestbed::new(machine, random_lines(900, 7)).unwrap();
    let mut testbed = Migrating { inner, probes: 0, moves_at: 2 * 16 + 1 };
    let params = PirateParams {
        cycles: Some(3),
        threads: Threads::Fixed(1),
        interval: Some(2_000.0),
        spared_limit: 1.0,
        ..params()
    };
    let plan = params.check(testbed.cache()).unwrap();
    let curve = measure(&mut testbed, &plan).unwrap().curve().unwrap();
    let whole = curve.points().last().unwrap(); // nothing stolen: needs no sharing
    assert_eq!(whole.intervals, 3);
    assert!(curve.points().iter().all(CurvePoint::is_trusted));
    assert!(curve.points().iter().rev().skip(1).all(|point| point.intervals == 1));
}
