//! Cost of a whole analysis: 10,000 intervals at nine frequencies, six events, schedule included.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use powersleuth::analysis::{Analysis, Cost, Goal, Objective, Profile, Transition};
use powersleuth::multiplex::{CounterGroups, Filling, PerPhase, Record, Rotation};
use powersleuth::performance::{Counts, StallBased};
use powersleuth::power::{OperatingPoint, OperatingPoints, PowerModel, nehalem};
use powersleuth::{Cycles, Hertz, Joules, Seconds, Volts, Watts};

const INTERVALS: usize = 10_000;

fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// Twelve phases in instances of ten intervals on average.
fn phases() -> Vec<u32> {
    let mut state = 1;
    let mut phase = 0;
    (0..INTERVALS)
        .map(|_| {
            if draw(&mut state) < 0.1 {
                phase = (draw(&mut state) * 12.0) as u32;
            }
            phase
        })
        .collect()
}

fn model() -> PowerModel {
    let points = nehalem::BUS_MULTIPLIERS.map(|multiplier| OperatingPoint {
        frequency: Hertz(f64::from(multiplier) * 400e6 / 3.0),
        voltage: Volts(0.9 + 0.03 * f64::from(multiplier - 12)),
        static_power: Watts(8.0 + 0.5 * f64::from(multiplier - 12)),
    });
    let points = OperatingPoints::new(points).unwrap();
    PowerModel::new("Nehalem", points, nehalem::effective_capacitance().unwrap())
}

fn profile(model: &PowerModel) -> Profile<u32> {
    let mut state = 2;
    let highest = model.points().frequencies().last().unwrap();
    let mut profile = Profile::new(highest, model.capacitance().events().iter().cloned()).unwrap();
    for phase in phases() {
        let stalls = f64::from(phase) / 16.0 * 1e8;
        let cycles = 1e8 + stalls * (1.0 + 0.1 * draw(&mut state));
        let counts = Counts::new(1e8, Cycles(cycles), Cycles(stalls), stalls / 100.0).unwrap();
        let events = [1.2e8, 1e5, 1e6, stalls * 1.1, 1e7, 1e5].map(|e| e * (0.9 + 0.2 * draw(&mut state)));
        profile.push(phase, counts, &events).unwrap();
    }
    profile
}

fn analysis(criterion: &mut Criterion) {
    let model = model();
    let profile = profile(&model);
    let performance = StallBased::new(Seconds::from_ns(60.0)).unwrap();
    let frequencies: Vec<Hertz> = model.points().frequencies().collect();
    let predict = || Analysis::predict(&profile, &performance, &model, &frequencies).unwrap();
    let free = Goal::least(Objective::Edp).within(0.1).unwrap();
    let transition: Transition = Cost { time: Seconds(10e-6), energy: Joules(1e-4) };
    let goal = free.with_transition(transition).unwrap();

    criterion.bench_function("predict 10000 x 9", |b| b.iter(|| black_box(predict())));
    criterion.bench_function("whole analysis: predict, schedule, follow, outcome", |b| {
        b.iter(|| {
            let analysis = predict();
            let schedule = analysis.schedule(&goal);
            let plan = analysis.follow(&schedule);
            black_box(analysis.outcome(&plan, transition).unwrap())
        });
    });
    let predicted = predict();
    criterion
        .bench_function("schedule without transitions", |b| b.iter(|| black_box(predicted.schedule(&free))));
    criterion
        .bench_function("schedule with transitions", |b| b.iter(|| black_box(predicted.schedule(&goal))));
    criterion.bench_function("best plan, EDP", |b| b.iter(|| black_box(predicted.best_plan(&goal))));
    criterion
        .bench_function("Pareto front, 1 %", |b| b.iter(|| black_box(predicted.pareto_front(0.01).unwrap())));
}

fn multiplex(criterion: &mut Criterion) {
    let groups = CounterGroups::round_robin(9, 4).unwrap();
    let mut rotation = PerPhase::new(groups.as_slice().len());
    let mut record = Record::new(9);
    let mut state = 3;
    for phase in phases() {
        let group = rotation.next_group(Some(phase));
        rotation.counted(phase, group);
        let counted = groups.as_slice()[group].iter().map(|&event| (event, f64::from(phase)));
        record.push(phase, 1e8, 1e8 * (1.0 + draw(&mut state)), counted).unwrap();
    }
    criterion.bench_function("interpolate 10000 x 9", |b| {
        b.iter(|| black_box(record.clone().interpolate(Filling::Alike).unwrap()));
    });
}

criterion_group!(benches, analysis, multiplex);
criterion_main!(benches);
