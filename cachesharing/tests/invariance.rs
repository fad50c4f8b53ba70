//! Laws of a co-run followed over time: how a program is cut into windows, in which order short phases alternate and how
//! often a short co-runner restarts changes nothing.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::num::NonZeroUsize;

use cachesharing::{
    CacheCurve, CoRun, EvictionAge, Method, Offsets, Probes, Program, Random, Settings, SharedCache, Until,
    Window, variability,
};
use common::{Draws, scan, stream, uniform};

const CACHE: u64 = 1 << 18;

fn slowdown(programs: &[&Program<u64>], method: Method, offsets: &[f64]) -> f64 {
    let settings = Settings { method, probes: Probes::One, extrapolate: false };
    let cache = SharedCache::new(CACHE).unwrap();
    let run = CoRun::new(cache, programs, EvictionAge::followed(), settings).unwrap();
    run.run(offsets, Until::TargetEnds, |_| {}).slowdown()
}

/// Two phases that alternate every `window` instructions, the first of them `first`.
fn alternating(curves: &[CacheCurve; 2], window: f64, work: f64, first: u64) -> Program<u64> {
    let phases = [(0, curves[0].clone()), (1, curves[1].clone())];
    let windows = (0..(work / window) as u64).map(|i| Window::of_phase(window, (i + first) % 2));
    Program::new("alternating", phases, windows).unwrap()
}

fn agree(a: f64, b: f64, within: f64, what: &str) {
    assert!((a / b - 1.0).abs() < within, "{what}: {a} and {b}");
}

#[test]
fn the_order_of_short_phases_and_the_method_do_not_matter() {
    // A table that fits and one that does not, beside a stream.
    let tables =
        [uniform(0.2, 0.3, 0.5 * CACHE as f64, CACHE), uniform(0.1, 0.35, 0.9 * CACHE as f64, CACHE)];
    let streaming = Program::steady("stream", 0, stream(0.08, 0.3, CACHE), 3e7).unwrap();
    for window in [1e3, 1e4, 1e5] {
        let of = |first, method| {
            let target = alternating(&tables, window, 2e7, first);
            slowdown(&[&target, &streaming], method, &[])
        };
        let truth = of(0, Method::Window);
        assert!(truth > 1.1, "nothing to predict: {truth}");
        agree(of(1, Method::Phase), truth, 5e-3, "the other phase first");
        agree(of(0, Method::Phase), truth, 1e-2, "by phases and by windows");
    }
}

#[test]
fn cutting_windows_finer_changes_nothing() {
    let mut draws = Draws(77);
    for _ in 0..6 {
        let footprint = |draws: &mut Draws| (0.2 + 1.5 * draws.unit()) * CACHE as f64;
        let tables = [0; 2].map(|_| uniform(0.02 + 0.2 * draws.unit(), 0.3, footprint(&mut draws), CACHE));
        let period = 1e4 * (1.0 + 9.0 * draws.unit()).powi(2);
        let other =
            Program::steady("other", 0, uniform(0.15, 0.3, footprint(&mut draws), CACHE), 3e7).unwrap();
        let cut = |parts: u32| {
            let phases = [(0, tables[0].clone()), (1, tables[1].clone())];
            let windows = (0..200u64 * u64::from(parts))
                .map(|i| Window::of_phase(period / f64::from(parts), i / u64::from(parts) % 2));
            Program::new("cut", phases, windows).unwrap()
        };
        let whole = slowdown(&[&cut(1), &other], Method::Window, &[]);
        for parts in [2, 7, 30] {
            agree(slowdown(&[&cut(parts), &other], Method::Window, &[]), whole, 5e-3, "cut finer");
        }
    }
}

#[test]
fn the_length_of_a_steady_co_runners_pass_does_not_matter() {
    let target = Program::steady("target", 0, uniform(0.2, 0.3, 0.7 * CACHE as f64, CACHE), 3e7).unwrap();
    let of = |pass: f64| {
        let other = Program::steady("other", 0, stream(0.1, 0.35, CACHE), pass).unwrap();
        slowdown(&[&target, &other], Method::Phase, &[])
    };
    let whole = of(1e8);
    for pass in [1e3, 3e3, 1e4, 1e6] {
        agree(of(pass), whole, 5e-3, "passes");
    }
    // The same of a pass of two phases, from wherever it starts.
    let tables = [stream(0.1, 0.35, CACHE), uniform(0.1, 0.35, 0.3 * CACHE as f64, CACHE)];
    let of = |window: f64, offset: f64| {
        let other = alternating(&tables, window, 2.0 * window, 0);
        slowdown(&[&target, &other], Method::Phase, &[0.0, offset])
    };
    let whole = of(1e3, 0.0);
    for (window, offset) in [(1e3, 0.7), (3e3, 0.0), (1e4, 0.0), (1e4, 0.4)] {
        agree(of(window, offset), whole, 5e-3, "passes of two phases");
    }
}

#[test]
fn a_short_co_runner_does_not_cost_in_proportion_to_its_restarts() {
    let target = Program::steady("target", 0, uniform(0.2, 0.3, 0.7 * CACHE as f64, CACHE), 1e11).unwrap();
    let tables = [stream(0.1, 0.35, CACHE), uniform(0.1, 0.35, 0.3 * CACHE as f64, CACHE)];
    for (window, most) in [(5e2, 10_000), (1e5, 10_000), (1e7, 10_000)] {
        for method in [Method::Window, Method::Phase] {
            let other = alternating(&tables, window, 2.0 * window, 0);
            let settings = Settings { method, probes: Probes::One, extrapolate: false };
            for model in [EvictionAge::followed(), EvictionAge::default()] {
                let cache = SharedCache::new(CACHE).unwrap();
                let run = CoRun::new(cache, &[&target, &other], model, settings).unwrap();
                let outcome = run.run(&[0.0, 0.3], Until::TargetEnds, |_| {});
                assert!(outcome.steps < most, "{} steps for passes of {window}", outcome.steps);
                agree(outcome.work[0], 1e11, 1e-9, "the target's work");
            }
        }
    }
}

#[test]
fn many_programs_of_many_phases_are_remembered() {
    // 4^32 sets of phases cannot be numbered.
    let tables = [0.1, 0.3, 0.6, 1.2].map(|part| uniform(0.05, 0.3, part * CACHE as f64, CACHE));
    let programs: Vec<Program<u64>> = (0..32)
        .map(|seed| {
            let phases = (0..).zip(tables.iter().cloned()).collect::<Vec<_>>();
            let windows = (0..12u64).map(|i| Window::of_phase(1e9, (i / 3 + seed) % 4));
            Program::new("p", phases, windows).unwrap()
        })
        .collect();
    let list: Vec<&Program<u64>> = programs.iter().collect();
    let settings = Settings { method: Method::Phase, probes: Probes::One, extrapolate: false };
    let cache = SharedCache::new(CACHE).unwrap();
    let run = CoRun::new(cache, &list, EvictionAge::default(), settings).unwrap();
    let first = run.run(&[], Until::TargetEnds, |_| {});
    let solved = run.co_phases_solved();
    assert!(solved > 0 && solved as u64 <= first.steps);
    assert_eq!(run.run(&[], Until::TargetEnds, |_| {}), first);
    assert_eq!(run.co_phases_solved(), solved);
    assert_eq!(run.co_phases().len(), solved);
}

#[test]
fn two_stable_states_are_a_range_and_a_gentle_curve_is_not() {
    let settings = |method| Settings { method, probes: Probes::Cliffs, extrapolate: false };
    let cache = SharedCache::new(CACHE).unwrap();
    let streaming = Program::steady("stream", 0, stream(0.15, 0.35, CACHE), 1e8).unwrap();
    // Together with what the stream inserts meanwhile, the scan fills the cache just about when it comes round.
    let walk = Program::steady("scan", 0, scan(0.3, 0.3, 0.6 * CACHE as f64, CACHE), 2e7).unwrap();
    let table = Program::steady("table", 0, uniform(0.1, 0.3, 2.0 * CACHE as f64, CACHE), 2e7).unwrap();
    for part in [-0.1, 1.0, f64::NAN] {
        assert!(table.clone().with_uncertainty(part).is_err(), "{part}");
    }
    for method in [Method::Window, Method::Phase] {
        for model in [EvictionAge::followed(), EvictionAge::default()] {
            let of = |target: &Program<u64>| {
                CoRun::new(cache, &[target, &streaming], model, settings(method)).unwrap().slowdown(&[])
            };
            let cliff = of(&walk);
            assert!(cliff.flagged && cliff.low < 1.1 && cliff.high > 3.0, "{method:?}: {cliff:?}");
            assert!((cliff.low..=cliff.high).contains(&cliff.slowdown), "{cliff:?}");
            let gentle = of(&table);
            assert!(!gentle.flagged && gentle.high <= 1.03 * gentle.slowdown, "{method:?}: {gentle:?}");
            assert!(gentle.low >= 0.97 * gentle.slowdown && gentle.low <= gentle.slowdown, "{gentle:?}");
            // Curves that are less than measured widen both ends, and flag what is then open.
            for (part, flagged) in [(0.002, false), (0.08, true)] {
                let doubted = of(&table.clone().with_uncertainty(part).unwrap());
                assert_eq!((doubted.slowdown, doubted.flagged), (gentle.slowdown, flagged));
                assert!((doubted.high / gentle.high - (1.0 + part)).abs() < 1e-9, "{doubted:?} {gentle:?}");
                assert!(doubted.low <= gentle.low && doubted.low >= (1.0 - part) * gentle.low - 1e-9);
                assert!(doubted.low >= 0.99, "nobody gains from others: {doubted:?}");
            }
        }
    }
}

#[test]
fn models_without_memory_say_what_may_lag() {
    let settings = Settings { method: Method::Phase, probes: Probes::Cliffs, extrapolate: false };
    let cache = SharedCache::new(CACHE).unwrap();
    let table = |part: f64| uniform(0.1, 0.3, part * CACHE as f64, CACHE);
    let other = Program::steady("stream", 0, stream(0.15, 0.35, CACHE), 1e8).unwrap();
    let windows = |work: f64| (0..8).map(move |i| Window::of_phase(work, i % 2));
    let of =
        |target: &Program<u64>| CoRun::new(cache, &[target, &other], Random, settings).unwrap().slowdown(&[]);
    let phases = || [(0, table(0.7)), (1, table(2.0))];
    let changing = of(&Program::new("changing", phases(), windows(1e5)).unwrap());
    let cost = changing.slowdown - 1.0;
    assert!(cost > 0.1 && changing.flagged, "{changing:?}");
    assert!(changing.low < 1.0 + 0.5 * cost && changing.high > 1.0 + 1.2 * cost, "{changing:?}");
    // Who does the same throughout has settled.
    let steady = of(&Program::steady("steady", 0, table(0.7), 1e6).unwrap());
    assert!(!steady.flagged && steady.low >= 0.99 * steady.slowdown, "{steady:?}");
    // Alone there is nothing to settle.
    let target = Program::new("alone", phases(), windows(1e5)).unwrap();
    let alone = CoRun::new(cache, &[&target], Random, settings).unwrap().slowdown(&[]);
    assert!(!alone.flagged && alone.high < 1.001, "{alone:?}");
}

/// Programs without windows repeat one curve for ever: their slowdown is that of the settled state, however short the pass.
#[test]
fn a_steady_program_is_as_slow_in_a_short_pass_as_in_a_long_one() {
    let table = |share: f64| uniform(0.15, 0.3, share * CACHE as f64, CACHE);
    for (curve, other) in [(table(0.8), table(0.8)), (table(0.9), stream(0.08, 0.3, CACHE))] {
        let of = |work: f64| {
            let target = Program::steady("target", 0, curve.clone(), work).unwrap();
            let other = Program::steady("other", 0, other.clone(), work).unwrap();
            slowdown(&[&target, &other], Method::Phase, &[0.3])
        };
        let settled = of(1e9);
        assert!(settled > 1.05, "nothing to predict: {settled}");
        for work in [1.0, 1e4, 1e6] {
            agree(of(work), settled, 5e-3, "a short pass and a long one");
        }
    }
}

#[test]
fn what_the_cache_holds_at_the_start_matters_to_short_passes_only() {
    // A table of a quarter of the cache beside a stream: loading it takes a fifth of the short pass.
    let table = uniform(0.2, 0.3, 0.25 * CACHE as f64, CACHE);
    let streaming = Program::steady("stream", 0, stream(0.02, 0.3, CACHE), 3e7).unwrap();
    let of = |work: f64| {
        let target = Program::steady("target", 0, table.clone(), work).unwrap();
        let cache = SharedCache::new(CACHE).unwrap();
        let programs = [&target, &streaming];
        CoRun::new(cache, &programs, EvictionAge::followed(), Settings::default()).unwrap().slowdown(&[])
    };
    let alone = table.cpi(CACHE as f64);
    let loading = 0.25 * CACHE as f64 / 64.0 * 120.0;
    let (short, long) = (of(5.0 * loading / alone), of(500.0 * loading / alone));
    assert!(
        short.first_pass > 1.15 * short.slowdown && long.first_pass < 1.04 * long.slowdown,
        "{short:?} {long:?}"
    );
    // Once loaded, the table stays: that is no second state.
    for warm in [short, long] {
        assert!(
            !warm.flagged && warm.high <= 1.0301 * warm.slowdown && warm.low <= warm.slowdown,
            "{warm:?}"
        );
    }
    assert!((short.slowdown / long.slowdown - 1.0).abs() < 0.01, "{short:?} {long:?}");
}

#[test]
fn only_runs_that_meet_a_cliff_are_flagged() {
    // For half of its pass the other is a stream that pushes the walk over a cliff, then it hardly touches the cache.
    let walk = scan(0.3, 0.3, 0.6 * CACHE as f64, CACHE);
    let time = walk.cpi(CACHE as f64);
    let target = Program::steady("walk", 0, walk, 1e6 / time).unwrap();
    let phases = [(0, stream(0.15, 0.35, CACHE)), (1, uniform(0.001, 0.3, 0.01 * CACHE as f64, CACHE))];
    let windows =
        [0, 1].map(|phase| Window::of_phase(1e9 / phases[phase as usize].1.cpi(CACHE as f64), phase));
    let other = Program::new("other", phases, windows).unwrap();
    let cache = SharedCache::new(CACHE).unwrap();
    let run = CoRun::new(cache, &[&target, &other], EvictionAge::followed(), Settings::default()).unwrap();
    let offsets = Offsets::random(40, 1);
    let found = variability(&run, &offsets, NonZeroUsize::new(2).unwrap()).unwrap();
    let share = other.windows().next().unwrap().0 / other.work();
    let meets: Vec<bool> = (0..40).map(|number| offsets.of_run(number, 2)[1] < share).collect();
    assert!(meets.contains(&true) && meets.contains(&false), "{meets:?}");
    let flagged: Vec<bool> = found.ranges.iter().map(|range| range.flagged).collect();
    assert_eq!(flagged, meets);
}
