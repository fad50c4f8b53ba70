//! Plans and schedules under limits against exhaustive searches.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Draw, analysis};
use powersleuth::analysis::{Analysis, Cost, Goal, Level, Limits, Objective, Plan};
use powersleuth::{Error, Joules, Seconds, Watts};

const OBJECTIVES: [Objective; 3] = [Objective::Energy, Objective::Edp, Objective::Ed2p];

/// What one case is made of.
struct Case {
    analysis: Analysis<u8>,
    goal: Goal,
    limits: Limits,
    deadline: f64,
    budget: f64,
    cap: f64,
    margin: f64,
    slowdown: f64,
}

/// Limits that bind in some way, and now and then in a way that nothing keeps.
fn case(seed: u64) -> Case {
    let mut draw = Draw(seed * 77 + 5);
    let phases: Vec<u8> = (0..3 + draw.below(4)).map(|_| draw.below(3) as u8).collect();
    let levels = 2 + draw.below(2) as usize;
    let analysis = analysis(&phases, levels, seed);
    let [slow, fast] = [0, levels - 1].map(|level| analysis.program_costs()[level]);
    let between = |a: f64, b: f64, share: f64| a + (b - a) * (share * 1.2 - 0.1);
    let mut sometimes = |value: f64| if draw.uniform() < 0.6 { value } else { f64::INFINITY };
    let (u, v, w) = {
        let mut other = Draw(seed * 31 + 1);
        (other.uniform(), other.uniform(), other.uniform())
    };
    let deadline = sometimes(between(fast.time.0, slow.time.0, u));
    let energies = analysis.program_costs().iter().map(|cost| cost.energy.0);
    let (least, most) = energies.fold((f64::INFINITY, 0.0_f64), |(a, b), e| (a.min(e), b.max(e)));
    let budget = sometimes(between(least, most, v));
    let cap = sometimes(between(slow.power().0, fast.power().0 * 1.3, w));
    let slowdown = sometimes(0.4);
    let margin = if draw.uniform() < 0.5 { 0.0 } else { 0.05 };
    let dwell = if draw.uniform() < 0.5 { 0.0 } else { 2.5 * draw.uniform() };
    let time = 0.02 * draw.uniform();
    let change = Cost { time: Seconds(time), energy: Joules(0.02 * draw.uniform()) };
    let change = if draw.uniform() < 0.5 { Cost::default() } else { change };
    let mut goal = Goal::least(OBJECTIVES[draw.below(3) as usize]);
    goal = goal.with_margin(margin).unwrap().with_transition(change).unwrap();
    if slowdown.is_finite() {
        goal = goal.within(slowdown).unwrap();
    }
    let mut limits = Limits::default().with_dwell(Seconds(dwell)).unwrap();
    if deadline.is_finite() {
        limits = limits.by(Seconds(deadline)).unwrap();
    }
    if budget.is_finite() {
        limits = limits.with_energy(Joules(budget)).unwrap();
    }
    if cap.is_finite() {
        limits = limits.below(Watts(cap)).unwrap();
    }
    Case { analysis, goal, limits, deadline, budget, cap, margin, slowdown }
}

impl Case {
    /// The objective of a plan that keeps to everything, written down from the definitions alone.
    fn value(&self, levels: &[usize]) -> Option<f64> {
        let (analysis, fastest) = (&self.analysis, self.analysis.fastest().0);
        let (mut cost, mut guarded, mut since, mut before) = (Cost::default(), 0.0, f64::INFINITY, None);
        for (i, &level) in levels.iter().enumerate() {
            let row = analysis.instance_costs(i);
            if before.is_some_and(|b| b != level) {
                if since < self.limits.dwell().0 {
                    return None;
                }
                since = 0.0;
                cost += self.goal.transition();
                guarded += self.goal.transition().time.0;
            }
            cost += row[level];
            guarded += self.guarded(row, level) * row[fastest].time.0;
            since += row[level].time.0;
            before = Some(level);
            let phase = &analysis.instances()[i].phase;
            let whole = &analysis.phases().iter().find(|p| p.phase == *phase).unwrap().costs;
            let slower = self.guarded(whole, level) - 1.0;
            if row[level].power().0 > self.cap || (level != fastest && slower > self.slowdown) {
                return None;
            }
        }
        let kept = guarded <= self.deadline * (1.0 + 1e-12) && cost.energy.0 <= self.budget * (1.0 + 1e-12);
        kept.then(|| self.goal.objective().of(cost))
    }

    /// Time over that at the highest frequency, if more of it scales with the clock than predicted, at most all.
    fn guarded(&self, row: &[Cost], level: usize) -> f64 {
        let frequencies = self.analysis.frequencies();
        let slower = frequencies[row.len() - 1] / frequencies[level];
        let predicted = row[level].time.0 / row[row.len() - 1].time.0;
        (predicted + self.margin * (slower - 1.0)).min(slower).max(predicted)
    }

    /// The least value of all ways to give `digits` things a level, spread over the instances by `spread`.
    fn least(&self, digits: usize, spread: impl Fn(&[usize]) -> Vec<usize>) -> Option<f64> {
        let width = self.analysis.frequencies().len();
        let values = (0..width.pow(digits as u32)).filter_map(|way| {
            let chosen: Vec<usize> = (0..digits).map(|d| way / width.pow(d as u32) % width).collect();
            self.value(&spread(&chosen))
        });
        values.min_by(f64::total_cmp)
    }
}

fn numbers(plan: &Plan) -> Vec<usize> {
    plan.levels().iter().map(|&Level(level)| level).collect()
}

/// Whether found and least agree; counts those that some plan keeps.
fn agree(case: &Case, found: Result<Vec<usize>, Error>, least: Option<f64>, what: &str) -> bool {
    match (found, least) {
        (Ok(levels), Some(least)) => {
            let value = case.value(&levels).unwrap_or_else(|| panic!("{what}: {levels:?} breaks a limit"));
            assert!((value / least - 1.0).abs() < 1e-9, "{what}: {value} {least}");
            true
        }
        (Err(Error::Infeasible { limit, .. }), None) => {
            assert!(limit.is_finite() && limit > 0.0, "{what}: a limit that is none cannot be kept");
            false
        }
        (found, least) => panic!("{what}: {found:?} {least:?}"),
    }
}

#[test]
fn plans_are_those_of_an_exhaustive_search() {
    let mut kept = 0;
    for seed in 0..200 {
        let case = case(seed);
        let least = case.least(case.analysis.instances().len(), |levels| levels.to_vec());
        let found = case.analysis.plan_within(&case.goal, &case.limits).map(|plan| numbers(&plan));
        kept += usize::from(agree(&case, found, least, &format!("seed {seed}")));
    }
    // Both kinds of case are among them.
    assert!((60..=190).contains(&kept), "{kept}");
}

#[test]
fn schedules_are_those_of_an_exhaustive_search() {
    let mut kept = 0;
    for seed in 0..200 {
        let case = case(seed);
        let (analysis, phases) = (&case.analysis, case.analysis.phases());
        let spread = |levels: &[usize]| -> Vec<usize> {
            let of = |phase: &u8| levels[phases.iter().position(|p| p.phase == *phase).unwrap()];
            analysis.instances().iter().map(|instance| of(&instance.phase)).collect()
        };
        let least = case.least(phases.len(), spread);
        let found = analysis.schedule_within(&case.goal, &case.limits);
        let found = found.map(|schedule| numbers(&analysis.follow(&schedule)));
        kept += usize::from(agree(&case, found, least, &format!("seed {seed}")));
    }
    assert!((60..=190).contains(&kept), "{kept}");
}

#[test]
fn what_cannot_be_kept_names_the_least_that_can() {
    let analysis = analysis(&[0, 1, 0, 2], 3, 9);
    let fastest = analysis.program_costs()[2].time.0;
    let goal = Goal::least(Objective::Energy);
    let limits = Limits::default().by(Seconds(fastest * 0.9)).unwrap();
    for error in [
        analysis.plan_within(&goal, &limits).unwrap_err(),
        analysis.schedule_within(&goal, &limits).unwrap_err(),
    ] {
        let Error::Infeasible { what: "a deadline", least, .. } = error else { panic!("{error}") };
        assert!((least / fastest - 1.0).abs() < 1e-9, "{least} {fastest}");
    }
    // Also of power, where the bound of a phase leaves out the levels that take least.
    for seed in 0..100 {
        let analysis = self::analysis(&[0, 1, 0, 2], 4, seed);
        let goal = Goal::least(Objective::Energy).within(0.1 + seed as f64 / 200.0).unwrap();
        for by_phase in [false, true] {
            let cap = |watts: f64| {
                let limits = Limits::default().below(Watts(watts)).unwrap();
                let plan = analysis.plan_within(&goal, &limits).err();
                if by_phase { analysis.schedule_within(&goal, &limits).err() } else { plan }
            };
            let Some(Error::Infeasible { what: "a power cap", least, .. }) = cap(1e-3) else {
                panic!("{seed}")
            };
            assert!(cap(least * (1.0 - 1e-9)).is_some(), "{seed}: less than {least} W can be kept");
            assert!(cap(least).is_none(), "{seed}: {least} W cannot be kept");
        }
    }
    // At exactly that deadline there is one.
    let limits = Limits::default().by(Seconds(fastest)).unwrap();
    let plan = analysis.plan_within(&goal, &limits).unwrap();
    assert_eq!(numbers(&plan), [2, 2, 2, 2]);
    let cold = Limits::default().below(Watts(1e-3)).unwrap();
    assert!(matches!(analysis.plan_within(&goal, &cold), Err(Error::Infeasible { what: "a power cap", .. })));
    assert!(matches!(Limits::default().by(Seconds(0.0)), Err(Error::OutOfRange { .. })));
    assert!(matches!(Limits::default().with_dwell(Seconds(-1.0)), Err(Error::OutOfRange { .. })));
}
