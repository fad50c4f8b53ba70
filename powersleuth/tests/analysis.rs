//! Sums, predictions, schedules and fronts against brute force.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Draw, analysis, costs};
use powersleuth::analysis::{
    Analysis, Cost, Goal, Hysteresis, Level, Objective, Plan, Profile, Quantity, Schedule, Transition,
};
use powersleuth::performance::{Counts, Event, InOrderCore, PerformanceModel, Scaling, StallBased};
use powersleuth::power::{EffectiveCapacitance, OperatingPoint, OperatingPoints, PowerModel};
use powersleuth::{Cycles, Error, Farads, Hertz, Joules, Seconds, Volts, Watts};
use quickcheck::quickcheck;

const OBJECTIVES: [Objective; 3] = [Objective::Energy, Objective::Edp, Objective::Ed2p];

fn model() -> PowerModel {
    let point = |ghz: f64, volts: f64, watts: f64| OperatingPoint {
        frequency: Hertz::from_ghz(ghz),
        voltage: Volts(volts),
        static_power: Watts(watts),
    };
    let weights = [
        (Event::fixed("uops"), Farads::from_nf(0.5)),
        (Event::stalls("stalls", Scaling::ResourceStalls), Farads::from_nf(-1.0)),
    ];
    let capacitance = EffectiveCapacitance::new(weights, Farads::from_nf(2.0)).unwrap();
    PowerModel::new(
        "test",
        OperatingPoints::new([point(1.0, 1.0, 5.0), point(2.0, 1.5, 9.0)]).unwrap(),
        capacitance,
    )
}

#[test]
fn counts_given_by_name_are_those_given_in_order() {
    let model = model();
    let empty = || Profile::new(Hertz::from_ghz(2.0), model.capacitance().events().to_vec()).unwrap();
    let counts = Counts::new(900.0, Cycles(1000.0), Cycles(400.0), 5.0).unwrap();
    let (mut named, mut ordered) = (empty(), empty());
    named.push_named('a', counts, &[("stalls", 500.0), ("uops", 1200.0)]).unwrap();
    ordered.push('a', counts, &[1200.0, 500.0]).unwrap();
    assert!(named.iter().eq(ordered.iter()));

    let refused = |given: &[(&str, f64)]| empty().push_named('a', counts, given).unwrap_err().to_string();
    assert_eq!(
        refused(&[("uops", 1.0), ("stals", 1.0)]),
        "no event of the power model is \"stals\"; its events are uops, stalls"
    );
    assert_eq!(
        refused(&[("uops", 1.0)]),
        "no count of event \"stalls\" is given; the power model weighs it: give 0 if it does not occur"
    );
    assert_eq!(refused(&[("uops", 1.0), ("uops", 2.0)]), "event uops is listed twice; list it once");
    assert!(matches!(
        empty().push_named('a', counts, &[("uops", -1.0), ("stalls", 0.0)]),
        Err(Error::OutOfRange { .. })
    ));
}

#[test]
fn a_core_that_waits_for_every_miss() {
    // 100 instructions of 2 cycles, and 3 misses of 50 ns at 2 GHz: 200 + 300 cycles.
    let core = InOrderCore {
        frequency: Hertz::from_ghz(2.0),
        cycles_per_instruction: 2.0,
        memory_latency: Seconds::from_ns(50.0),
    };
    let counts = core.counts(100.0, 3.0).unwrap();
    let close = |value: f64, wanted: f64| (value - wanted).abs() < 1e-9;
    assert!(close(counts.cycles().0, 500.0) && close(counts.stall_cycles().0, 300.0));
    assert_eq!((counts.instructions(), counts.llc_misses()), (100.0, 3.0));
    // At half the frequency the misses take half the cycles.
    let half = StallBased::exact_stalls().cycles_at(&counts, core.frequency, Hertz::from_ghz(1.0));
    assert!(close(half.0, 350.0));
    for broken in [
        InOrderCore { frequency: Hertz(0.0), ..core },
        InOrderCore { cycles_per_instruction: f64::NAN, ..core },
        InOrderCore { memory_latency: Seconds(-1.0), ..core },
    ] {
        assert!(matches!(broken.counts(100.0, 3.0), Err(Error::OutOfRange { .. })), "{broken:?}");
    }
    for (instructions, misses) in [(0.0, 3.0), (100.0, -3.0), (100.0, f64::INFINITY)] {
        assert!(matches!(core.counts(instructions, misses), Err(Error::OutOfRange { .. })));
    }
}

#[test]
fn a_prediction_worked_out_by_hand() {
    // At 2 GHz: 1000 cycles, of which min(400 stalls, 5 misses * 60 ns * 2 GHz = 600) = 400 wait for memory.
    // At 1 GHz (k = 2): 1000 - 400 + 200 = 800 cycles, 800 ns; resource stalls 500 - 400 + 200 = 300.
    // C = 2 + 0.5 * 1200 / 800 - 300 / 800 = 2.375 nF; P = 5 + 1 GHz * 2.375 nF * 1 V^2 = 7.375 W; E = 5.9 uJ.
    // At 2 GHz: 500 ns; C = 2 + 0.6 - 0.5 = 2.1 nF; P = 9 + 2 * 2.1 * 2.25 = 18.45 W; E = 9.225 uJ.
    let model = model();
    let mut profile =
        Profile::new(Hertz::from_ghz(2.0), model.capacitance().events().iter().cloned()).unwrap();
    profile
        .push('a', Counts::new(900.0, Cycles(1000.0), Cycles(400.0), 5.0).unwrap(), &[1200.0, 500.0])
        .unwrap();
    let performance = StallBased::new(Seconds::from_ns(60.0)).unwrap();
    let frequencies = [Hertz::from_ghz(1.0), Hertz::from_ghz(2.0)];
    let analysis = Analysis::predict(&profile, &performance, &model, &frequencies).unwrap();
    let [slow, fast] = analysis.interval_costs(0) else { panic!("two levels") };
    assert!((slow.time.0 - 800e-9).abs() < 1e-18 && (slow.power().0 - 7.375).abs() < 1e-9);
    assert!((slow.energy.0 - 5.9e-6).abs() < 1e-15);
    assert!((fast.time.0 - 500e-9).abs() < 1e-18 && (fast.power().0 - 18.45).abs() < 1e-9);
    assert_eq!(analysis.level(Hertz::from_ghz(2.0)).unwrap(), Level(1));
    assert!(matches!(analysis.level(Hertz::from_ghz(3.0)), Err(Error::UnknownFrequency { .. })));

    let refused = |model: &PowerModel, frequencies: &[Hertz]| {
        Analysis::predict(&profile, &performance, model, frequencies).unwrap_err()
    };
    assert!(matches!(refused(&model, &[Hertz::from_ghz(3.0)]), Error::BeyondPoints { .. }));
    assert!(matches!(refused(&model, &[]), Error::Empty { .. }));
    assert!(matches!(refused(&model, &[frequencies[1], frequencies[0]]), Error::OutOfRange { .. }));
    let other = EffectiveCapacitance::new([(Event::fixed("uops"), Farads(0.0))], Farads(1e-9)).unwrap();
    let other = PowerModel::new("test", model.points().clone(), other);
    assert!(matches!(refused(&other, &frequencies), Error::Length { .. }));
    let missing = powersleuth::performance::MissBased::new(Seconds::from_ns(60.0)).unwrap();
    let error = Analysis::predict(&profile, &missing, &model, &frequencies).unwrap_err();
    assert!(matches!(error, Error::NotCounted { interval: 0, what: "leading misses" }));
}

quickcheck! {
    /// Instances, phases and the program are sums of intervals, and rankings are in order.
    fn everything_adds_up(phases: Vec<u8>, seed: u64) -> bool {
        let phases: Vec<u8> = std::iter::once(0).chain(phases.into_iter().map(|p| p % 5)).collect();
        let analysis = analysis(&phases, 3, seed);
        let close = |a: Cost, b: Cost| {
            (a.time.0 - b.time.0).abs() < 1e-9 * b.time.0 && (a.energy.0 - b.energy.0).abs() < 1e-9 * b.energy.0
        };
        (0..3).all(|level| {
            let of = |i: usize| analysis.interval_costs(i)[level];
            let by_phase = analysis.phases().iter().all(|phase| {
                let members: Vec<usize> = (0..phases.len()).filter(|&i| phases[i] == phase.phase).collect();
                members.len() == phase.intervals
                    && close(phase.costs[level], members.iter().map(|&i| of(i)).sum())
            });
            let by_instance = analysis.instances().iter().enumerate().all(|(n, instance)| {
                instance.intervals.clone().all(|i| phases[i] == instance.phase)
                    && close(analysis.instance_costs(n)[level], instance.intervals.clone().map(of).sum())
            });
            let ranked = analysis.rank(Quantity::Energy, Level(level)).unwrap();
            by_phase
                && by_instance
                && close(analysis.program_costs()[level], (0..phases.len()).map(of).sum())
                && ranked.len() == analysis.phases().len()
                && ranked.windows(2).all(|w| w[0].costs[level].energy >= w[1].costs[level].energy)
        }) && analysis.instances().windows(2).all(|w| w[0].phase != w[1].phase)
    }
}

/// All ways to give each of `parts` one of `levels` levels.
fn all_assignments(parts: usize, levels: usize) -> impl Iterator<Item = Vec<Level>> {
    (0..levels.pow(parts as u32))
        .map(move |code| (0..parts).map(|part| Level(code / levels.pow(part as u32) % levels)).collect())
}

/// Phases at whose levels the bound is kept.
fn keeps_bound(analysis: &Analysis<u8>, phase: u8, level: Level, bound: f64) -> bool {
    let phase = analysis.phases().iter().find(|p| p.phase == phase).unwrap();
    let fastest = phase.costs.last().unwrap().time;
    phase.costs[level.0].time <= fastest * (1.0 + bound + 1e-12)
}

fn sequence(draw: &mut Draw, phases: u64, length: usize) -> Vec<u8> {
    (0..length).map(|_| draw.below(phases) as u8).collect()
}

#[test]
fn without_transitions_each_phase_gets_its_own_optimum() {
    let mut draw = Draw(1);
    for seed in 0..50 {
        let phases = sequence(&mut draw, 6, 40);
        let analysis = analysis(&phases, 5, seed);
        for objective in OBJECTIVES {
            let goal = Goal::least(objective).within(0.3).unwrap();
            for &(phase, chosen) in analysis.schedule(&goal).choices() {
                let costs = &analysis.phases().iter().find(|p| p.phase == phase).unwrap().costs;
                assert!(keeps_bound(&analysis, phase, chosen, 0.3));
                for level in (0..5).map(Level).filter(|&l| keeps_bound(&analysis, phase, l, 0.3)) {
                    assert!(objective.of(costs[chosen.0]) <= objective.of(costs[level.0]), "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn schedules_are_those_of_exhaustive_search() {
    let mut draw = Draw(2);
    for seed in 0..200 {
        let phases = sequence(&mut draw, 5, 60);
        let analysis = analysis(&phases, 4, seed);
        let transition =
            Transition { time: Seconds(draw.uniform() * 0.05), energy: Joules(draw.uniform() * 0.3) };
        let (bound, margin) = (0.5 * draw.uniform(), 0.1 * draw.uniform());
        let objective = OBJECTIVES[seed as usize % 3];
        let goal = Goal::least(objective).within(bound).and_then(|goal| goal.with_margin(margin)).unwrap();
        // Each phase's own optimum, without transitions, weighs its part.
        let free = analysis.schedule(&goal);
        let weights: Vec<f64> = analysis
            .phases()
            .iter()
            .zip(free.choices())
            .map(|(phase, (_, level))| phase.costs[level.0].energy.0 / objective.of(phase.costs[level.0]))
            .collect();
        let goal = goal.with_transition(transition).unwrap();
        let fastest = analysis.frequencies()[3];
        // Infinite where a bound is broken.
        let value = |levels: &[Level]| -> f64 {
            let at = |phase: u8| levels[analysis.phases().iter().position(|p| p.phase == phase).unwrap()];
            let plan = Plan::new(analysis.instances().iter().map(|i| at(i.phase)).collect());
            let outcome = analysis.outcome(&plan, transition).unwrap();
            let parts = outcome.phases.iter().zip(levels).zip(&weights).map(|((phase, level), weight)| {
                // More may scale with the clock than predicted, at most all.
                let slower = fastest / analysis.frequencies()[level.0] - 1.0;
                let costs = &analysis.phases().iter().find(|p| p.phase == phase.phase).unwrap().costs;
                let own = costs[level.0].time / costs[3].time - 1.0;
                let error = (margin * slower).min((slower - own).max(0.0));
                let kept = phase.slowdown + error <= bound + 1e-12;
                if kept { weight * objective.of(phase.cost) } else { f64::INFINITY }
            });
            parts.sum()
        };
        let least =
            all_assignments(analysis.phases().len(), 4).map(|l| value(&l)).fold(f64::INFINITY, f64::min);
        let schedule = analysis.schedule(&goal);
        let levels: Vec<Level> = schedule.choices().iter().map(|choice| choice.1).collect();
        assert!(least.is_finite() && value(&levels) <= least * (1.0 + 1e-9), "seed {seed}");
    }
}

#[test]
fn descents_on_large_cases_keep_every_bound() {
    let mut draw = Draw(9);
    for seed in 0..20 {
        let phases = sequence(&mut draw, 12, 200);
        let analysis = analysis(&phases, 9, seed);
        let transition = Transition { time: Seconds(0.05), energy: Joules(0.1) };
        let goal = Goal::least(Objective::Energy).within(0.2).unwrap().with_transition(transition).unwrap();
        let outcome = analysis.outcome(&analysis.follow(&analysis.schedule(&goal)), transition).unwrap();
        assert_eq!(outcome.violations(0.2).count(), 0, "seed {seed}");
        let uniform = analysis.outcome(&analysis.uniform(analysis.fastest()), transition).unwrap();
        assert!(outcome.total.energy < uniform.total.energy);
    }
}

#[test]
fn a_margin_absorbs_the_error_of_predicted_times() {
    // Predicted to wait for memory half of its time, while it really does for 40 %: 10 % more scales than predicted.
    let frequencies = [2.0, 2.5, 3.0].map(Hertz::from_ghz);
    let made = |memory: f64| {
        let row = frequencies.map(|f| costs(memory + (1.0 - memory) * 3.0 / f.ghz(), f.ghz().powi(2)));
        Analysis::from_costs(&frequencies, [("only".to_owned(), 1.0, row)]).unwrap()
    };
    let (predicted, truth) = (made(0.5), made(0.4));
    let broken = |margin: f64| {
        let goal = Goal::least(Objective::Energy).within(0.25).unwrap().with_margin(margin).unwrap();
        let schedule = predicted.schedule(&goal);
        let plan = truth.follow(&schedule);
        let broken = truth.outcome(&plan, Transition::default()).unwrap().violations(0.25).count();
        (schedule.frequency(&"only".to_owned()).unwrap(), broken)
    };
    assert_eq!(broken(0.0), (frequencies[0], 1));
    assert_eq!(broken(0.1), (frequencies[1], 0));
    assert!(Goal::least(Objective::Energy).with_margin(-0.1).is_err());
}

#[test]
fn the_best_plan_is_that_of_exhaustive_search() {
    let mut draw = Draw(3);
    for seed in 0..40 {
        let phases = sequence(&mut draw, 3, 10);
        let analysis = analysis(&phases, 3, seed);
        let instances = analysis.instances().len();
        let transition =
            Transition { time: Seconds(draw.uniform() * 0.2), energy: Joules(draw.uniform() * 0.4) };
        for objective in OBJECTIVES {
            for bound in [f64::INFINITY, 0.4] {
                let mut goal = Goal::least(objective).with_transition(transition).unwrap();
                if bound.is_finite() {
                    goal = goal.within(bound).unwrap();
                }
                let value = |plan: &Plan| objective.of(analysis.outcome(plan, transition).unwrap().total);
                let allowed = |levels: &Vec<Level>| {
                    let each = analysis.instances().iter().zip(levels);
                    each.into_iter().all(|(i, &level)| keeps_bound(&analysis, i.phase, level, bound))
                };
                let plans = all_assignments(instances, 3).filter(allowed).map(Plan::new);
                let least = plans.map(|plan| value(&plan)).fold(f64::INFINITY, f64::min);
                let found = analysis.best_plan(&goal);
                assert!(allowed(&found.levels().to_vec()));
                assert!(value(&found) <= least * (1.0 + 1e-9), "seed {seed} {objective:?} {bound}");
            }
        }
    }
}

#[test]
fn the_front_is_that_of_exhaustive_search() {
    let mut draw = Draw(4);
    for seed in 0..20 {
        let phases = sequence(&mut draw, 5, 30);
        let analysis = analysis(&phases, 4, seed);
        let cost = |levels: &[Level]| -> Cost {
            analysis.phases().iter().zip(levels).map(|(phase, level)| phase.costs[level.0]).sum()
        };
        let all: Vec<Cost> = all_assignments(analysis.phases().len(), 4).map(|l| cost(&l)).collect();
        for tolerance in [1e-9, 0.01] {
            let front = analysis.pareto_front(tolerance).unwrap();
            for point in &front {
                let levels: Vec<Level> = point.schedule.choices().iter().map(|c| c.1).collect();
                assert!((cost(&levels).time.0 - point.cost.time.0).abs() < 1e-12);
                // Nothing beats it in both: adding phases in another order may differ by rounding only.
                let beaten = |c: &&Cost| {
                    c.time.0 < point.cost.time.0 * (1.0 - tolerance - 1e-9)
                        && c.energy.0 < point.cost.energy.0 * (1.0 - 1e-9)
                };
                assert!(tolerance > 1e-6 || all.iter().find(beaten).is_none(), "seed {seed}");
            }
            for candidate in &all {
                let covered = front.iter().any(|point| {
                    point.cost.energy.0 <= candidate.energy.0 * (1.0 + 1e-12)
                        && point.cost.time.0 <= candidate.time.0 * (1.0 + tolerance + 1e-12)
                });
                assert!(covered, "seed {seed} {tolerance}");
            }
            let fastest = all.iter().map(|c| c.time.0).fold(f64::INFINITY, f64::min);
            assert!((front[0].cost.time.0 - fastest).abs() < 1e-12);
        }
        assert!(analysis.pareto_front(0.01).unwrap().len() <= analysis.pareto_front(1e-9).unwrap().len());
    }
    assert!(analysis(&[0], 2, 0).pareto_front(0.0).is_err());
}

#[test]
fn outcomes_count_transitions_and_report_violations() {
    // Two phases in turn, one second and two joules an interval at the fast level; the slow one takes 3 s and 1 J.
    let interval = |phase: u8| (phase, 1.0, [(3.0, 1.0), (1.0, 2.0)].map(|(t, e)| costs(t, e)));
    let frequencies = [Hertz::from_ghz(1.0), Hertz::from_ghz(2.0)];
    let analysis = Analysis::from_costs(&frequencies, [0, 0, 1, 0].map(interval)).unwrap();
    let transition = costs(0.5, 0.25);
    let plan = Plan::new(vec![Level(1), Level(0), Level(1)]);
    let outcome = analysis.outcome(&plan, transition).unwrap();
    assert_eq!(outcome.transitions, 2);
    // 2 + 3 + 1 seconds and 4 + 1 + 2 joules, and two transitions.
    assert_eq!(outcome.total, costs(7.0, 7.5));
    assert_eq!(outcome.phases[0].cost, costs(3.5, 6.25));
    assert_eq!(outcome.phases[1].slowdown, 2.5);
    let violated: Vec<u8> = outcome.violations(0.2).map(|v| v.phase).collect();
    assert_eq!(violated, [1]);
    assert_eq!(outcome.violations(0.1).count(), 2);
    let timeline = analysis.timeline(&plan).unwrap();
    assert_eq!(timeline.iter().map(|(level, _)| level.0).collect::<Vec<_>>(), [1, 1, 0, 1]);
    assert_eq!(timeline.iter().map(|(_, cost)| *cost).sum::<Cost>(), costs(6.0, 7.0));
    for level in [Level(0), Level(1)] {
        let outcome = analysis.outcome(&analysis.uniform(level), transition).unwrap();
        assert_eq!((outcome.total, outcome.transitions), (analysis.program_costs()[level.0], 0));
    }
    assert!(matches!(analysis.outcome(&Plan::new(vec![]), transition), Err(Error::Length { .. })));
    let beyond = Plan::new(vec![Level(2); 3]);
    assert!(matches!(analysis.outcome(&beyond, transition), Err(Error::NoSuch { .. })));
    assert!(analysis.rank(Quantity::Time, Level(2)).is_err());
}

#[test]
fn reluctance_saves_transitions_that_do_not_pay() {
    // Phase 1 saves a tenth of its energy at the slow level: worth a transition of less, not of more.
    let interval = |phase: u8| {
        let slow = if phase == 0 { 5.0 } else { 1.8 };
        (phase, 1.0, [(1.1, slow), (1.0, 2.0)].map(|(t, e)| costs(t, e)))
    };
    let frequencies = [Hertz::from_ghz(1.0), Hertz::from_ghz(2.0)];
    let analysis = Analysis::from_costs(&frequencies, [0, 1, 0, 1].map(interval)).unwrap();
    let planned = |bound: f64, joules: f64, gain: f64| -> Vec<usize> {
        let goal = Goal::least(Objective::Energy).within(bound).unwrap();
        let schedule = analysis.schedule(&goal);
        let goal = goal.with_transition(costs(0.0, joules)).unwrap();
        let plan = analysis.follow_reluctantly(&schedule, &goal, Hysteresis::new(gain).unwrap());
        plan.levels().iter().map(|level| level.0).collect()
    };
    assert_eq!(planned(1.0, 0.0, 0.0), [1, 0, 1, 0]);
    assert_eq!(planned(1.0, 0.1, 0.0), [1, 0, 1, 0]);
    assert_eq!(planned(1.0, 0.3, 0.0), [1, 1, 1, 1]);
    assert_eq!(planned(1.0, 0.0, 0.05), [1, 0, 1, 0]);
    assert_eq!(planned(1.0, 0.0, 0.15), [1, 1, 1, 1]);
    assert!(Hysteresis::new(-0.1).is_err());
    // Staying at the slow level would break the bound of a phase that needs the fast one: it changes, cost what may.
    let need = |phase: u8| {
        let slow = if phase == 0 { (9.0, 1.9) } else { (1.05, 1.0) };
        (phase, 1.0, [slow, (1.0, 2.0)].map(|(t, e)| costs(t, e)))
    };
    let analysis = Analysis::from_costs(&frequencies, [1, 0].map(need)).unwrap();
    let goal = Goal::least(Objective::Energy).within(0.1).unwrap();
    let schedule = analysis.schedule(&goal);
    let goal = goal.with_transition(costs(0.0, 100.0)).unwrap();
    let plan = analysis.follow_reluctantly(&schedule, &goal, Hysteresis::new(9.0).unwrap());
    assert_eq!(plan.levels(), [Level(0), Level(1)]);
}

quickcheck! {
    /// With free transitions, no reluctance ever costs energy against the schedule.
    fn reluctance_is_never_worse_where_transitions_are_free(phases: Vec<u8>, seed: u64) -> bool {
        let phases: Vec<u8> = std::iter::once(0).chain(phases.into_iter().map(|p| p % 4)).collect();
        let analysis = analysis(&phases, 4, seed);
        let goal = Goal::least(Objective::Energy);
        let schedule = analysis.schedule(&goal);
        let energy = |plan: &Plan| analysis.outcome(plan, Transition::default()).unwrap().total.energy.0;
        let reluctant = analysis.follow_reluctantly(&schedule, &goal, Hysteresis::default());
        energy(&reluctant) <= energy(&analysis.follow(&schedule)) * (1.0 + 1e-12)
    }
}

#[test]
fn a_schedule_of_one_run_serves_another_with_phases_it_does_not_know() {
    let known = analysis(&[0, 1], 3, 1);
    let schedule: Schedule<u8> = known.schedule(&Goal::least(Objective::Energy));
    let other = analysis(&[7, 1, 0], 3, 2);
    let plan = other.follow(&schedule);
    assert_eq!(plan.levels()[0], other.fastest());
    assert_eq!(plan.levels()[1], schedule.level(&1).unwrap());
    let by_phase: Vec<_> = schedule.frequencies().collect();
    let one_by_one = schedule.choices().iter().map(|(phase, _)| (phase, schedule.frequency(phase).unwrap()));
    assert_eq!(by_phase, one_by_one.collect::<Vec<_>>());
    assert_eq!(schedule.level(&7), None);
}

#[test]
fn each_bad_table_and_goal_is_refused() {
    let frequencies = [Hertz::from_ghz(1.0), Hertz::from_ghz(2.0)];
    let refused = |frequencies: &[Hertz], instructions: f64, row: &[Cost]| {
        Analysis::from_costs(frequencies, [(0_u8, instructions, row)]).unwrap_err()
    };
    let row = [costs(2.0, 1.0), costs(1.0, 2.0)];
    assert!(matches!(refused(&[], 1.0, &row), Error::Empty { .. }));
    assert!(matches!(refused(&[frequencies[0]; 2], 1.0, &row), Error::OutOfRange { .. }));
    assert!(matches!(refused(&frequencies, 1.0, &row[..1]), Error::Length { .. }));
    assert!(matches!(refused(&frequencies, 0.0, &row), Error::OutOfRange { .. }));
    assert!(matches!(refused(&frequencies, 1.0, &[row[0], costs(0.0, 1.0)]), Error::OutOfRange { .. }));
    assert!(matches!(refused(&frequencies, 1.0, &[row[0], costs(1.0, -1.0)]), Error::OutOfRange { .. }));
    let none: [(u8, f64, Vec<Cost>); 0] = [];
    assert!(matches!(Analysis::from_costs(&frequencies, none), Err(Error::Empty { .. })));
    let goal = Goal::least(Objective::Edp);
    assert!(goal.within(-0.1).is_err() && goal.within(f64::NAN).is_err());
    assert!(goal.with_transition(costs(-1.0, 0.0)).is_err());
    assert!(goal.with_transition(costs(0.0, f64::INFINITY)).is_err());
}
