//! A program, what it is predicted to cost, what it really costs where that is known, and what to do about it.

use std::collections::HashMap;

use phase_detect::PhaseId;
use phase_detect::metrics::CodeTotals;
use powersleuth::analysis::{
    Analysis, Cost, Goal, Hysteresis, Level, Limits, Outcome, ParetoPoint, Phase, Plan, Quantity, Schedule,
};
use powersleuth::calibration::{MachineModel, Route};
use powersleuth::{Error, Hertz};

use super::judge::{self, Errors, Regret};
use super::recorded::Counted;
use crate::report::{ProcessRow, letters, percent};

/// Points of a Pareto front that are reported: so far apart in time.
const FRONT_TOLERANCE: f64 = 0.002;

/// A program at every frequency.
#[derive(Debug)]
pub struct Study {
    /// What ran.
    pub program: String,
    /// Where the numbers come from, in a sentence or two.
    pub basis: String,
    /// What was observed: `simulated core`, `counters` (this machine's) or `reuse` (modelled).
    pub source: &'static str,
    /// Whether cycles and events were modelled and not counted.
    pub modelled: bool,
    /// Instructions in an interval.
    pub interval: u64,
    /// The clock during the one profiling run.
    pub profiled_at: Hertz,
    /// What everything is predicted to cost.
    pub predicted: Analysis<PhaseId>,
    /// What it really costs, if a reference knows.
    pub truth: Option<Analysis<PhaseId>>,
    /// Error of predicted slowdowns that the bound allows for; `None` where it was not measured.
    pub margin: Option<f64>,
    /// The phases, the one that takes longest at the highest frequency first.
    pub views: Vec<PhaseView>,
    /// What predicted it.
    pub models: Used,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// The processes of the program, where they are distinguished.
    pub processes: Vec<ProcessRow>,
    /// The run was stopped before its end.
    pub incomplete: bool,
    /// What was counted, if it was.
    pub counted: Option<Counted<PhaseId>>,
}

/// The models of a study, and how good they are known to be.
#[derive(Clone, Debug)]
pub struct Used {
    /// Name of the performance model.
    pub performance: &'static str,
    /// The machine that the power model was fitted on.
    pub power: String,
    /// Errors measured on kernels left out of the calibration, for each frequency; empty where none were.
    pub errors: Vec<Route>,
}

impl Used {
    /// Those of `machine` for a profile taken at `from`.
    pub fn of(machine: &MachineModel, from: Hertz, frequencies: &[Hertz]) -> Self {
        Self {
            performance: machine.time_at(from).map_or("stall-based", |fit| fit.model.name()),
            power: machine.power.machine().to_owned(),
            errors: frequencies.iter().filter_map(|&to| machine.route(from, to).copied()).collect(),
        }
    }

    /// In a line or two.
    pub fn in_words(&self) -> String {
        let models = format!("time by the {} model, power by that of {:?}", self.performance, self.power);
        let Some(lowest) = self.errors.first() else { return models };
        format!(
            "{models}; on kernels left out of the calibration time at {:.2} GHz was off by {} on average and power by {}; \
             95 % of what a new program does lies within {} and {}",
            lowest.to.ghz(),
            percent(lowest.time.mean),
            percent(lowest.power.mean),
            percent(lowest.time.interval),
            percent(lowest.power.interval),
        )
    }
}

/// A phase as people see it.
#[derive(Clone, Debug)]
pub struct PhaseView {
    /// The phase.
    pub phase: PhaseId,
    /// `A` for the one that takes longest; of a stored run, its name in the file.
    pub name: String,
    /// Its hottest code, with the share of its instructions.
    pub code: Option<(String, f64)>,
}

/// Where a phase executes: instructions by code address.
pub type CodeOf = HashMap<PhaseId, CodeTotals<u64>>;

impl Study {
    /// Where the numbers come from, and what is true where that is known.
    pub fn basis(&self) -> String {
        if self.truth.is_none() {
            return self.basis.clone();
        }
        let predicted = self.basis.trim_end_matches('.');
        format!("{predicted}; the core really ran at them too, to tell what is true.")
    }

    /// The phases of `predicted` in order, named, with the code in which they spend most instructions.
    ///
    /// # Errors
    /// None: the highest level exists.
    pub fn views(
        predicted: &Analysis<PhaseId>,
        code: &CodeOf,
        mut locate: impl FnMut(u64) -> Option<String>,
    ) -> Result<Vec<PhaseView>, Error> {
        let ranked = predicted.rank(Quantity::Time, predicted.fastest())?;
        let view = |(rank, phase): (usize, &Phase<PhaseId>)| {
            let hottest = code
                .get(&phase.phase)
                .and_then(CodeTotals::hottest)
                .map(|(address, share)| (locate(address).unwrap_or_else(|| format!("{address:#x}")), share));
            PhaseView { phase: phase.phase, name: letters(rank), code: hottest }
        };
        Ok(ranked.into_iter().enumerate().map(view).collect())
    }

    /// Position of a phase among the views.
    pub fn rank(&self, phase: PhaseId) -> Option<usize> {
        self.views.iter().position(|view| view.phase == phase)
    }

    /// What an analysis knows of a phase.
    pub fn phase(analysis: &Analysis<PhaseId>, phase: PhaseId) -> Option<&Phase<PhaseId>> {
        analysis.phases().iter().find(|p| p.phase == phase)
    }

    /// Errors of time and of power at `level`, phase instance by phase instance, where the truth is known.
    ///
    /// # Errors
    /// None: both analyses have the same frequencies.
    pub fn errors(&self, level: Level) -> Result<Option<[Errors; 2]>, Error> {
        let Some(truth) = &self.truth else { return Ok(None) };
        let frequency = self.predicted.frequencies()[level.0];
        let of = |quantity: fn(Cost) -> f64| judge::errors(&self.predicted, truth, frequency, quantity);
        Ok(Some([of(|cost| cost.time.0)?, of(|cost| cost.power().0)?]))
    }
}

/// What is recommended, and what comes of it.
#[derive(Debug)]
pub struct Advice {
    /// What was asked for.
    pub goal: Goal,
    /// A frequency for each phase.
    pub schedule: Schedule<PhaseId>,
    /// A frequency for each instance: the schedule, or what a reluctance to change leaves of it.
    pub plan: Plan,
    /// What that is predicted to cost.
    pub predicted: Outcome<PhaseId>,
    /// What the highest frequency throughout is predicted to cost.
    pub fastest: Outcome<PhaseId>,
    /// What both really cost, where that is known.
    pub really: Option<[Outcome<PhaseId>; 2]>,
    /// The schedule against an exhaustive search of the truth.
    pub regret: Option<Regret>,
    /// The least that any frequency for each *instance* costs.
    pub best: Outcome<PhaseId>,
    /// Schedules that no other beats in both time and energy.
    pub front: Vec<ParetoPoint<PhaseId>>,
}

impl Advice {
    /// For `goal`, within `limits` of the whole program if there are any; a change of frequency must pay as
    /// `hysteresis` says.
    ///
    /// # Errors
    /// [`Error::Infeasible`] if nothing keeps to the limits; else none for a study whose truth has the same phases and
    /// frequencies as its prediction.
    pub fn give(
        study: &Study,
        goal: Goal,
        limits: Option<&Limits>,
        hysteresis: Option<Hysteresis>,
    ) -> Result<Self, Error> {
        let predicted = &study.predicted;
        let goal = goal.with_margin(study.margin.unwrap_or(0.0))?;
        let schedule = match limits {
            Some(limits) => predicted.schedule_within(&goal, limits)?,
            None => predicted.schedule(&goal),
        };
        let plan = match hysteresis {
            Some(hysteresis) => predicted.follow_reluctantly(&schedule, &goal, hysteresis),
            None => predicted.follow(&schedule),
        };
        let fastest = predicted.uniform(predicted.fastest());
        let outcomes = |analysis: &Analysis<PhaseId>| {
            let of = |plan: &Plan| analysis.outcome(plan, goal.transition());
            Ok::<_, Error>([of(&plan)?, of(&fastest)?])
        };
        let [followed, full_speed] = outcomes(predicted)?;
        let really = study.truth.as_ref().map(outcomes).transpose()?;
        Ok(Self {
            regret: study.truth.as_ref().map(|truth| judge::regret(truth, &schedule, &goal)),
            best: predicted.outcome(&predicted.best_plan(&goal), goal.transition())?,
            front: predicted.pareto_front(FRONT_TOLERANCE)?,
            predicted: followed,
            fastest: full_speed,
            goal,
            schedule,
            plan,
            really,
        })
    }
}
