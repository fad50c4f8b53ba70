//! Saved models, analyses and schedules: no panic, and what is accepted gives times and energies that make sense.

#![no_main]

use libfuzzer_sys::fuzz_target;
use powersleuth::analysis::{Analysis, Cost, Goal, Objective, Outcome, Plan, Schedule};
use powersleuth::calibration::MachineModel;
use powersleuth::performance::{
    Counts, MissBased, OverlappingStalls, PerformanceModel, QuadraticStalls, StallBased,
};
use powersleuth::power::{CrossValidation, EffectiveCapacitance, Fit, OperatingPoints, PowerModel};
use powersleuth::{Cycles, Hertz};

#[path = "../../../reuse-sampler/fuzz/saved.rs"]
mod saved;
use saved::read;

fn power(model: &PowerModel) {
    let counts = vec![1e5; model.capacitance().events().len()];
    for at in model.points().frequencies() {
        let watts = model.power(at, &counts, Cycles(1e6)).expect("one of its points").0;
        assert!(watts >= 0.0, "{watts} W");
    }
}

fn time(model: &impl PerformanceModel) {
    let counts = Counts::new(1e6, Cycles(1e6), Cycles(1e5), 1e3).expect("counts");
    if model.missing(&counts).is_none() {
        let cycles = model.cycles_at(&counts, Hertz(2e9), Hertz(1e9)).0;
        assert!(cycles >= 0.0, "{cycles} cycles");
    }
}

fn cost(cost: &Cost) {
    assert!(cost.time.0 >= 0.0 && cost.energy.0 >= 0.0, "{cost:?}");
}

fuzz_target!(|input: &[u8]| {
    read::<PowerModel>(input).iter().for_each(power);
    read::<MachineModel>(input).iter().for_each(|model| {
        power(&model.power);
        model.time.iter().for_each(|fit| time(&fit.model));
        let _ = (model.time_at(Hertz(1e9)), model.route(Hertz(1e9), Hertz(2e9)));
    });
    if let Some(analysis) = read::<Analysis<u32>>(input) {
        analysis.program_costs().iter().for_each(cost);
        for objective in [Objective::Energy, Objective::Edp, Objective::Ed2p] {
            let goal = Goal::least(objective).within(0.1).expect("a bound");
            let schedule = analysis.schedule(&goal);
            for phase in analysis.phases() {
                assert!(schedule.frequency(&phase.phase).is_some());
            }
            let outcome =
                analysis.outcome(&analysis.follow(&schedule), goal.transition()).expect("its own plan");
            cost(&outcome.total);
        }
        if analysis.phases().len() <= 8 {
            let _ = analysis.pareto_front(0.01);
        }
        let _ = read::<Plan>(input).map(|plan| analysis.outcome(&plan, Cost::default()));
    }
    read::<Schedule<u32>>(input).iter().for_each(|schedule| {
        for (phase, level) in schedule.choices() {
            assert_eq!(schedule.level(phase), Some(*level));
            assert!(schedule.frequency(phase) <= schedule.fastest());
        }
    });
    read::<StallBased>(input).iter().for_each(time);
    read::<MissBased>(input).iter().for_each(time);
    read::<OverlappingStalls>(input).iter().for_each(time);
    read::<QuadraticStalls>(input).iter().for_each(time);
    read::<OperatingPoints>(input).iter().for_each(|points| {
        assert!(points.frequencies().all(|at| points.at(at).is_ok()));
    });
    read::<Fit>(input).iter().for_each(|fit| {
        let _ = fit.warning();
    });
    let _ =
        (read::<EffectiveCapacitance>(input), read::<CrossValidation>(input), read::<Outcome<u32>>(input));
});
