//! Co-runs over time against a brute-force clock, and the methods against each other.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_range_loop)] // programs are numbered alike in several lists

mod common;

use std::collections::HashSet;
use std::num::NonZeroUsize;

use cachesharing::{
    BandwidthDistribution, CacheCurve, CoRun, Error, EvictionAge, Method, Offsets, Program, ReuseTimes,
    SetReuse, SharedCache, Sharing, SharingModel, Solution, Start, Trajectory, Units, Until, Window,
    culprits, variability,
};
use cachesharing::{Probes, Settings, TimeUnit};
use common::{Draws, curve, uniform};
use quickcheck::quickcheck;

const CACHE: u64 = 1 << 17;

/// A model simple enough to do by hand: every program is slowed down by the sum of the others' speeds alone.
struct Crowding;

impl SharingModel for Crowding {
    fn solve(&self, cache: &SharedCache, curves: &[&CacheCurve], _: Start, solution: &mut Solution) {
        *solution = Solution::default();
        for (i, curve) in curves.iter().enumerate() {
            let mut allocation = cachesharing::Allocation::default();
            allocation.bytes = cache.bytes() / curves.len() as f64;
            allocation.time = crowded(curves, i) / curve.mix();
            solution.allocations.push(allocation);
        }
    }
}

fn crowded(curves: &[&CacheCurve], i: usize) -> f64 {
    let whole = CACHE as f64;
    let others = curves.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, c)| 1.0 / c.cpi(whole));
    curves[i].cpi(whole) * (1.0 + others.sum::<f64>())
}

/// A program of `windows` windows in phases drawn in runs, with phase curves that differ in speed.
fn program(name: &str, seed: u64, windows: usize, phases: u64) -> Program<u64> {
    let mut draws = Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let curves: Vec<(u64, CacheCurve)> = (0..phases)
        .map(|phase| {
            let (reach, mix) = (0.02 + 0.2 * draws.unit(), 0.2 + 0.3 * draws.unit());
            (phase, uniform(reach, mix, (0.3 + 2.0 * draws.unit()) * CACHE as f64, CACHE))
        })
        .collect();
    let mut phase = 0;
    let list: Vec<Window<u64>> = (0..windows)
        .map(|_| {
            if draws.below(4) == 0 {
                phase = draws.below(phases);
            }
            Window::of_phase(1000.0 + draws.below(1000) as f64, phase)
        })
        .collect();
    Program::new(name, curves, list).unwrap()
}

fn run<'a, M: SharingModel>(programs: &[&'a Program<u64>], model: M, method: Method) -> CoRun<'a, u64, M> {
    let settings = Settings { method, probes: Probes::One, extrapolate: false };
    CoRun::new(SharedCache::new(CACHE).unwrap(), programs, model, settings).unwrap()
}

/// Runs the target to its end in equal small ticks, every program at the speed the present windows allow.
fn by_ticks(programs: &[&Program<u64>], offsets: &[f64], ticks: f64) -> f64 {
    let windows: Vec<Vec<_>> = programs.iter().map(|p| p.windows().collect()).collect();
    let totals: Vec<f64> = programs.iter().map(|p| p.work()).collect();
    let mut done: Vec<f64> = totals.iter().zip(offsets).map(|(t, o)| t * o).collect();
    let tick = programs[0].time_alone(CACHE as f64) / ticks;
    let mut time = 0.0;
    while done[0] < totals[0] {
        let present: Vec<&CacheCurve> = (0..programs.len())
            .map(|i| {
                let mut at = done[i] % totals[i];
                windows[i]
                    .iter()
                    .find(|w| {
                        at -= w.0;
                        at < 0.0
                    })
                    .map_or(windows[i][0].2, |w| w.2)
            })
            .collect();
        for i in 0..programs.len() {
            done[i] += tick / crowded(&present, i);
        }
        time += tick;
    }
    time
}

#[test]
fn time_advances_as_a_clock_of_small_ticks_does() {
    let (a, b, c) = (program("a", 1, 12, 3), program("b", 2, 7, 2), program("c", 3, 5, 4));
    for (programs, offsets) in [(vec![&a, &b], vec![0.0, 0.3]), (vec![&b, &a, &c], vec![0.0, 0.85, 0.4])] {
        for method in [Method::Window, Method::DynamicWindow, Method::Phase] {
            let outcome = run(&programs, Crowding, method).run(&offsets, Until::TargetEnds, |_| {});
            let truth = by_ticks(&programs, &offsets, 40_000.0);
            // Each change of window comes up to a tick late: some 60 of 40,000.
            assert!((outcome.time / truth - 1.0).abs() < 2e-3, "{method:?}: {} {truth}", outcome.time);
            assert!((outcome.work[0] / programs[0].work() - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn interferers_start_over_until_the_target_ends() {
    let (long, short) = (program("long", 4, 60, 3), program("short", 5, 2, 2));
    let outcome = run(&[&long, &short], Crowding, Method::Window).run(&[0.0, 0.5], Until::TargetEnds, |_| {});
    assert!(outcome.work[1] > 3.0 * short.work());
    // And the target stops at its end, whatever is left of the others.
    let outcome = run(&[&short, &long], Crowding, Method::Window).run(&[0.0, 0.5], Until::TargetEnds, |_| {});
    assert!(outcome.work[1] < long.work());
    assert!((outcome.work[0] / short.work() - 1.0).abs() < 1e-9);
}

#[test]
fn a_run_of_given_time_lasts_that_long_and_restarts_everyone() {
    let (a, b) = (program("a", 6, 5, 2), program("b", 7, 9, 3));
    let time = 7.3 * a.time_alone(CACHE as f64);
    let outcome = run(&[&a, &b], EvictionAge::default(), Method::Phase).run(&[], Until::Time(time), |_| {});
    assert!((outcome.time / time - 1.0).abs() < 1e-12);
    assert!(outcome.work[0] > 2.0 * a.work());
}

#[test]
fn a_program_alone_is_not_slowed_down() {
    let a = program("a", 8, 40, 5);
    for method in [Method::Window, Method::DynamicWindow, Method::Phase, Method::Oblivious] {
        let outcome = run(&[&a], EvictionAge::default(), method).run(&[], Until::TargetEnds, |_| {});
        // The model's shares add up to the cache to 1e-7.
        assert!((outcome.slowdown() - 1.0).abs() < 1e-5, "{method:?}");
    }
}

#[test]
fn methods_agree_where_phases_are_all_there_is() {
    // Windows of one phase are alike, so that merging and remembering change nothing.
    let (a, b) = (program("a", 9, 50, 4), program("b", 10, 70, 3));
    let slowdown = |method| {
        run(&[&a, &b], EvictionAge::default(), method).run(&[0.0, 0.6], Until::TargetEnds, |_| {}).slowdown()
    };
    let window = slowdown(Method::Window);
    assert!((slowdown(Method::DynamicWindow) / window - 1.0).abs() < 1e-6);
    assert!((slowdown(Method::Phase) / window - 1.0).abs() < 1e-6);
    assert!((slowdown(Method::Oblivious) / window - 1.0).abs() > 1e-4);
}

#[test]
fn windows_with_curves_of_their_own_are_averaged_by_instance_and_by_phase() {
    // Two instances of one phase that differ: the window and the dynamic method see it, the phase method their
    // mean.
    let at = |reach: f64| uniform(reach, 0.3, 1.5 * CACHE as f64, CACHE);
    let windows = [(0.05, 1), (0.06, 1), (0.1, 2), (0.2, 1), (0.21, 1)]
        .map(|(reach, phase)| Window::measured(1000.0, phase, at(reach)));
    let a = Program::new("a", [], windows).unwrap();
    let whole = CACHE as f64;
    let mean = (at(0.05).cpi(whole) + at(0.06).cpi(whole) + at(0.2).cpi(whole) + at(0.21).cpi(whole)) / 4.0;
    assert!((a.phases()[0].1.cpi(whole) / mean - 1.0).abs() < 1e-9);
    for (method, steps) in [(Method::Window, 5), (Method::DynamicWindow, 3), (Method::Phase, 3)] {
        let co_run = run(&[&a], EvictionAge::default(), method);
        assert!((co_run.time_alone(0).unwrap() / a.time_alone(whole) - 1.0).abs() < 1e-9);
        assert_eq!(co_run.run(&[], Until::TargetEnds, |_| {}).steps, steps);
    }
}

#[test]
fn the_model_is_asked_once_for_each_set_of_phases_that_meet() {
    let (a, b) = (program("a", 11, 60, 4), program("b", 12, 80, 5));
    let offsets = Offsets::random(20, 3);
    let mut met = HashSet::new();
    let windows = run(&[&a, &b], EvictionAge::default(), Method::Window);
    let mut steps = 0;
    for number in 0..20 {
        windows.run(&offsets.of_run(number, 2), Until::TargetEnds, |step| {
            met.insert(step.phases.to_vec());
            steps += 1;
        });
    }
    let one = NonZeroUsize::MIN;
    assert_eq!(variability(&windows, &offsets, one).unwrap().invocations, steps);
    let phases = run(&[&a, &b], EvictionAge::default(), Method::Phase);
    assert_eq!(variability(&phases, &offsets, one).unwrap().invocations, met.len() as u64);
    let matrix = phases.co_phases();
    assert_eq!(matrix.len(), met.len());
    // Each entry is what the model says of those phases.
    for entry in &matrix {
        let curve =
            |p: &Program<u64>, phase: u64| p.phases().iter().find(|x| x.0 == phase).unwrap().1.clone();
        let (x, y) = (curve(&a, entry.phases[0]), curve(&b, entry.phases[1]));
        let mut sharing = Sharing::default();
        let cache = SharedCache::new(CACHE).unwrap();
        cachesharing::share(&EvictionAge::default(), &cache, &[&x, &y], Probes::One, &mut sharing).unwrap();
        assert_eq!(entry.sharing.shares(), sharing.shares());
    }
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let programs = [program("a", 13, 90, 6), program("b", 14, 30, 4), program("c", 15, 50, 5)];
    let programs: Vec<&Program<u64>> = programs.iter().collect();
    for method in [Method::Window, Method::DynamicWindow, Method::Phase, Method::Oblivious] {
        let all: Vec<_> = [1, 2, 3, 7, 200]
            .map(|threads| {
                let run = run(&programs, EvictionAge::default(), method);
                variability(&run, &Offsets::random(25, 9), NonZeroUsize::new(threads).unwrap()).unwrap()
            })
            .into();
        assert!(all.windows(2).all(|w| w[0] == w[1]), "{method:?}");
    }
}

#[test]
fn very_many_sets_of_phases_are_remembered_too() {
    // 60^12 sets are more than can be numbered.
    let programs: Vec<Program<u64>> = (0..12).map(|i| program("p", 20 + i, 60, 60)).collect();
    for count in [4, 12] {
        let list: Vec<&Program<u64>> = programs.iter().take(count).collect();
        let phase = run(&list, Crowding, Method::Phase);
        let window = run(&list, Crowding, Method::Window);
        let offsets = [0.0, 0.2, 0.4, 0.6, 0.8, 0.1, 0.3, 0.5, 0.7, 0.9, 0.15, 0.35];
        let a = phase.run(&offsets, Until::TargetEnds, |_| {});
        let b = window.run(&offsets, Until::TargetEnds, |_| {});
        assert!((a.time / b.time - 1.0).abs() < 1e-9);
        assert_eq!(phase.co_phases().len(), phase.co_phases_solved());
        assert!(phase.co_phases_solved() > 0, "{count}");
    }
}

#[test]
fn trajectories_conserve_time_and_work() {
    let (a, b) = (program("a", 16, 30, 4), program("b", 17, 20, 3));
    let run = run(&[&a, &b], EvictionAge::default(), Method::Phase);
    let outcome = run.run(&[0.0, 0.25], Until::TargetEnds, |_| {});
    let trajectory = Trajectory::record(&run, &[0.0, 0.25], Until::TargetEnds);
    assert!((trajectory.time() / outcome.time - 1.0).abs() < 1e-12);
    for program in 0..2 {
        let over_time = trajectory.over_time(program, outcome.time / 17.5).unwrap();
        assert_eq!(over_time.len(), 18);
        let over_work = trajectory.over_work(program, outcome.work[program] / 9.5).unwrap();
        assert_eq!(over_work.len(), 10);
        for bins in [&over_time, &over_work] {
            let sum = |f: fn(&cachesharing::TrajectoryBin) -> f64| bins.iter().map(f).sum::<f64>();
            assert!((sum(|b| b.time) / outcome.time - 1.0).abs() < 1e-9);
            assert!((sum(|b| b.work) / outcome.work[program] - 1.0).abs() < 1e-9);
        }
        let phases: f64 = trajectory.phases(program).map(|(_, time, _)| time).sum();
        assert!((phases / outcome.time - 1.0).abs() < 1e-12);
    }
    // At every moment the cache is full.
    let bins: Vec<_> = (0..2).map(|p| trajectory.over_time(p, outcome.time / 17.5).unwrap()).collect();
    for (x, y) in bins[0].iter().zip(&bins[1]) {
        assert!(((x.bytes + y.bytes) / CACHE as f64 - 1.0).abs() < 1e-5);
    }
    // And the demand is the same whichever way it is added up.
    let demand: f64 = bins.iter().flatten().map(|b| b.bandwidth * b.time).sum::<f64>() / outcome.time;
    let distribution = BandwidthDistribution::of_run(&run, &[0.0, 0.25], Until::TargetEnds);
    assert!((distribution.mean() / demand - 1.0).abs() < 1e-9);
}

#[test]
fn culprits_add_up_to_the_mean_slowdown() {
    let (a, b) = (program("a", 18, 40, 3), program("b", 19, 50, 4));
    let run = run(&[&a, &b], EvictionAge::default(), Method::Phase);
    let offsets = Offsets::random(15, 4);
    let found = culprits(&run, &offsets).unwrap();
    let mean = variability(&run, &offsets, NonZeroUsize::MIN).unwrap().distribution.mean();
    assert!((found.iter().map(|c| c.cost).sum::<f64>() - (mean - 1.0)).abs() < 1e-9);
    assert!((found.iter().map(|c| c.time_share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(found.windows(2).all(|w| w[0].cost >= w[1].cost));
    // The slowdown of a meeting is that of the co-phase matrix.
    for culprit in &found {
        let set = [culprit.phase, culprit.beside[0]];
        let entry = run.co_phases().into_iter().find(|e| e.phases == set).unwrap();
        let alone = a.phases().iter().find(|p| p.0 == culprit.phase).unwrap().1.cpi(CACHE as f64);
        assert!((culprit.slowdown - entry.sharing.shares()[0].cpi / alone).abs() < 1e-9);
    }
}

#[test]
fn what_cannot_be_predicted_is_refused() {
    let a = program("a", 20, 3, 2);
    let cache = SharedCache::new(CACHE).unwrap();
    let new = |programs: &[&Program<u64>], settings| {
        CoRun::new(cache, programs, EvictionAge::default(), settings).map(|_| ()).unwrap_err()
    };
    assert!(matches!(new(&[], Settings::default()), Error::Count { count: 0, .. }));
    let ns = a.clone().with_units(Units { time: TimeUnit::Nanosecond, work: "instruction".into() });
    assert!(matches!(new(&[&a, &ns], Settings::default()), Error::MixedUnits { .. }));
    let small = curve(0.1, 0.3, [CACHE / 4, CACHE / 2], |_| 0.05);
    let short = Program::steady("short", 0, small, 100.0).unwrap();
    assert!(
        matches!(new(&[&a, &short], Settings::default()), Error::NotMeasured { program, .. } if program == "short")
    );
    let timed = |way: u64| {
        let times = ReuseTimes::new(way, vec![1.0], [SetReuse { distance: 2, accesses: 9.0, count: 1.0 }]);
        let whole = curve(0.1, 0.3, [CACHE], |_| 0.05).with_reuse_times(times.unwrap()).unwrap();
        Program::steady("timed", 0, whole, 100.0).unwrap()
    };
    let of_sets = |program: &Program<u64>| {
        let cache = cache.with_ways(16).unwrap();
        CoRun::new(cache, &[&a, program], EvictionAge::default(), Settings::default()).map(|_| ())
    };
    assert_eq!(of_sets(&timed(CACHE / 16)), Ok(()));
    assert!(matches!(of_sets(&timed(CACHE / 8)), Err(Error::OtherSets { program, counted, cache, .. })
        if program == "timed" && counted == CACHE / 8 && cache == CACHE / 16));
    // Where any line may lie anywhere nothing is asked of sets.
    assert!(CoRun::new(cache, &[&timed(CACHE / 8)], EvictionAge::default(), Settings::default()).is_ok());
    let allowed = Settings { extrapolate: true, ..Settings::default() };
    assert!(CoRun::new(cache, &[&a, &short], EvictionAge::default(), allowed).is_ok());
    assert!(matches!(Program::<u64>::new("none", [], []), Err(Error::NoWindows { .. })));
    let bare = Program::new("bare", [], [Window::of_phase(1.0, 7)]);
    assert!(matches!(bare, Err(Error::NoCurve { window: 0, .. })));
    let one = uniform(0.1, 0.3, CACHE as f64, CACHE);
    let twice = Program::new("twice", [(1, one.clone()), (1, one)], [Window::of_phase(1.0, 1)]);
    assert!(matches!(twice, Err(Error::PhaseTwice { index: 1, .. })));
    let run = run(&[&a], EvictionAge::default(), Method::Phase);
    assert!(matches!(variability(&run, &Offsets::random(0, 1), NonZeroUsize::MIN), Err(Error::Count { .. })));
    assert!(matches!(run.time_alone(1), Err(Error::Index { index: 1, count: 1, .. })));
}

quickcheck! {
    fn every_offset_makes_a_whole_run(seed: u64, offsets: Vec<f64>) -> bool {
        let (a, b) = (program("a", seed, 9, 3), program("b", seed ^ 0x4D, 7, 2));
        let run = run(&[&a, &b], EvictionAge::default(), Method::Phase);
        let outcome = run.run(&offsets, Until::TargetEnds, |_| {});
        let first = offsets.first().copied().filter(|o| o.is_finite()).map_or(0.0, |o| o.rem_euclid(1.0));
        outcome.time > 0.0
            && (outcome.work[0] - (1.0 - first) * a.work()).abs() < 1e-6 * a.work()
            && outcome.slowdown() > 0.0
    }
}
