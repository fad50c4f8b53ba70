//! What follows from a run that was counted: every frequency of this machine.

use phase_detect::PhaseId;
use powersleuth::analysis::{Analysis, Cost};
use powersleuth::calibration::{MachineModel, TimeModel};
use powersleuth::linux::{
    Files, common_frequencies, machine_name, policies, policies_of_this_process, voltages,
};
use powersleuth::multiplex::{Complete, Filling, Roles, Source};
use powersleuth::performance::Event;
use powersleuth::power::{OperatingPoint, OperatingPoints, PowerModel, nehalem};
use powersleuth::{Error, Hertz, Seconds};

use super::IntervalSource;
use super::choose::{Choice, MISSES, QUANTITIES, RESOURCE_STALLS, STALLS, Supply};
use super::observe::Observed;
use crate::machines::ooo::nehalem_points;
use crate::report::{percent, quantity};
use crate::tools::power_frequency::recorded::Counted;
use crate::tools::power_frequency::study::{Study, Used};

/// What is known of the machine besides its counters.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Models fitted to it.
    pub power: Option<MachineModel>,
    /// Latency of its memory.
    pub latency: Seconds,
    /// Frequencies that are asked about; its own where none are.
    pub frequencies: Vec<Hertz>,
}

/// How the run was set up.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The program, as a person would write it.
    pub program: &'a str,
    /// Instructions in an interval.
    pub window: u64,
    /// Counters that the events shared.
    pub counters: usize,
    /// The run was stopped before its end.
    pub incomplete: bool,
}

/// The clock during most of the intervals.
fn median(clocks: &[f64]) -> Option<Hertz> {
    let mut clocks = clocks.to_vec();
    clocks.sort_by(f64::total_cmp);
    clocks.get(clocks.len() / 2).map(|&hertz| Hertz(hertz))
}

/// Everything that `observed` says about the frequencies of the machine below `files`.
///
/// # Errors
/// [`Error`] if nothing was counted, the power model belongs to another machine or reads what is not counted, or a
/// frequency lies beyond its points.
pub fn study(
    observed: &Observed,
    choice: &Choice,
    machine: &Machine,
    files: &impl Files,
    run: Run<'_>,
    source: &mut impl IntervalSource,
) -> Result<Study, Error> {
    let mut notes = choice.notes.clone();
    let clock = median(&observed.clocks).ok_or(Error::Empty { what: "intervals" })?;
    let frequencies = frequencies(machine, files, clock, &mut notes);
    let fitted = machine.power.as_ref();
    let here = match fitted {
        Some(model) => {
            let here = name_of_cores(files)?;
            model.power.check_machine(&here)?;
            here
        }
        None => name_of_cores(files).unwrap_or_else(|_| "unknown".to_owned()),
    };
    let mut power = match fitted {
        Some(model) => model.power.clone(),
        None => example(files, &frequencies, &mut notes)?,
    };
    let silent = silent(observed, choice);
    let complete = observed.record.clone().interpolate(Filling::default())?;
    let profile = complete.profile(clock, &roles(&power, choice)?)?;
    let fit = fitted.and_then(|model| model.time_at(clock));
    let (time, margin) = match fit {
        Some(fit) => (fit.model, Some(fit.margin)),
        None if choice.exact_stalls => (TimeModel::ExactStalls, None),
        None => (TimeModel::StallBased { memory_latency: machine.latency }, None),
    };
    let mut predicted = Analysis::predict(&profile, &time, &power, &frequencies)?;
    if let (Some(model), Some(temperature)) = (fitted, observed.temperature) {
        if let Some(thermal) = model.thermal {
            let excess = thermal.excess(temperature, near(&predicted, clock).0.power());
            notes.push(format!("the room is {:+.1} kelvin from that of the calibration", excess.0));
            power = model.warmer(excess)?;
            predicted = Analysis::predict(&profile, &time, &power, &frequencies)?;
        }
    }

    if margin.is_none() {
        notes.push(
            "the bound on slowdown allows for no error: the performance model was not calibrated on this machine"
                .to_owned(),
        );
    }
    notes.extend(silent);
    notes.push(turns(observed, &complete));
    notes.push(drawn(observed, &predicted, clock));
    let by = if fitted.is_some() {
        "Power by the model that was fitted to this machine."
    } else {
        "Power by coefficients of another processor (Nehalem, the paper's table V.1), an example and not this machine's: \
         fit your own with --calibrate and give it with --power-model."
    };
    let latency = match time {
        TimeModel::StallBased { memory_latency } => {
            format!(", with a memory latency of {}", quantity(memory_latency.0, "s"))
        }
        _ => String::new(),
    };
    let basis = format!(
        "Counted by this machine's own counters at {:.2} GHz: {} of {} events, at most {} at a time, in the turn of the \
         predicted phase. Time at other frequencies by the {} model{latency}. {by}",
        clock.ghz(),
        choice.counted(),
        QUANTITIES.len(),
        run.counters,
        time.name(),
    );
    let models = match fitted {
        Some(model) if fit.is_some() => Used::of(model, clock, &frequencies),
        _ => Used { performance: time.name(), power: power.machine().to_owned(), errors: Vec::new() },
    };
    Ok(Study {
        program: run.program.to_owned(),
        basis,
        source: "counters",
        modelled: false,
        interval: run.window,
        profiled_at: clock,
        margin,
        models,
        views: Study::views(&predicted, &observed.code, |address| source.locate(address))?,
        predicted,
        truth: None,
        notes,
        processes: Vec::new(),
        incomplete: run.incomplete,
        counted: Some(Counted { machine: here, profile, time, power }),
    })
}

/// Name of the machine and, where this process may run on some of its cores only and others differ from them in
/// frequency, of these cores: a model of one kind of core is none of another.
///
/// # Errors
/// [`Error`] for files that cannot be read.
pub fn name_of_cores(files: &impl Files) -> Result<String, Error> {
    let machine = machine_name(files)?;
    let (all, allowed) = match (policies(files), policies_of_this_process(files)) {
        (Ok(all), Ok(allowed)) => (all, allowed),
        (Err(Error::Missing { .. }), _) | (_, Err(Error::Missing { .. })) => return Ok(machine),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    if all.iter().all(|policy| allowed.iter().any(|other| other.range == policy.range)) {
        return Ok(machine);
    }
    let mut highest: Vec<f64> = allowed.iter().map(|policy| policy.range.1.ghz()).collect();
    highest.sort_by(f64::total_cmp);
    highest.dedup();
    let highest: Vec<String> = highest.iter().map(f64::to_string).collect();
    Ok(format!("{machine}, its cores of up to {} GHz", highest.join(" and ")))
}

/// Those asked about, or those that the program's cores have, or nine below its clock.
fn frequencies(machine: &Machine, files: &impl Files, clock: Hertz, notes: &mut Vec<String>) -> Vec<Hertz> {
    const STEPS: u32 = 8;
    if !machine.frequencies.is_empty() {
        return machine.frequencies.clone();
    }
    let why = match policies_of_this_process(files) {
        Ok(policies) => {
            // A program that moves between kinds of cores has no one clock.
            if policies.iter().any(|other| other.range != policies[0].range) {
                notes.push(
                    "the program's cores differ in frequency: those that all have are shown; run it on cores of one kind, by \
                     taskset -c"
                        .to_owned(),
                );
            }
            match common_frequencies(&policies, STEPS) {
                common if common.is_empty() => "the program's cores have no frequency in common".to_owned(),
                common => return common,
            }
        }
        Err(error) => error.to_string(),
    };
    notes.push(format!("{why}; frequencies shown: 60 to 100 % of the clock of this run"));
    // As they would be written.
    let hertz = |k: u32| (0.6 + 0.4 * f64::from(k) / f64::from(STEPS)) * clock.0;
    (0..=STEPS).map(|k| Hertz((hertz(k) / 1e6).round() * 1e6)).collect()
}

/// The paper's coefficients, with the reference core's voltages and static powers stretched over `frequencies`
/// except where the system shows voltages.
fn example(files: &impl Files, frequencies: &[Hertz], notes: &mut Vec<String>) -> Result<PowerModel, Error> {
    let bundled = nehalem_points()?;
    let ends = |of: &[Hertz]| -> Result<(f64, f64), Error> {
        let at = |hertz: Option<&Hertz>| hertz.map(|f| f.0).ok_or(Error::Empty { what: "frequencies" });
        Ok((at(of.first())?, at(of.last())?))
    };
    let known: Vec<Hertz> = bundled.frequencies().collect();
    let ((low, high), (from, to)) = (ends(&known)?, ends(frequencies)?);
    let core = policies_of_this_process(files).map_or(0, |policies| policies[0].number);
    let known = match voltages(files, core) {
        Ok(known) => known,
        Err(Error::Missing { .. }) => Vec::new(),
        Err(error) => {
            notes.push(format!("no voltages: {error}"));
            Vec::new()
        }
    };
    let mut here = 0;
    let mut points = Vec::new();
    for &frequency in frequencies {
        let place = if to > from { (frequency.0 - from) / (to - from) } else { 1.0 };
        let alike = bundled.at(Hertz((low + (high - low) * place).clamp(low, high)))?;
        let voltage = known.iter().find(|(f, _)| (f.0 - frequency.0).abs() < 1e3).map(|&(_, volts)| volts);
        here += usize::from(voltage.is_some());
        points.push(OperatingPoint { frequency, voltage: voltage.unwrap_or(alike.voltage), ..alike });
    }
    notes.push(if here == points.len() {
        "voltages are this machine's, static power is an example's".to_owned()
    } else {
        "voltages and static power are an example's, stretched over these frequencies".to_owned()
    });
    Ok(PowerModel::new("an example", OperatingPoints::new(points)?, nehalem::effective_capacitance()?))
}

/// What of the quantities the models read.
fn roles(power: &PowerModel, choice: &Choice) -> Result<Roles, Error> {
    let source = |event: &Event| {
        let paper = nehalem::COEFFICIENTS.iter().position(|(name, ..)| *name == event.name);
        let own = || QUANTITIES.iter().position(|name| *name == event.name);
        if event.name == "instructions" {
            return Ok((event.clone(), Source::Instructions));
        }
        match paper.or_else(own) {
            Some(number) => Ok((event.clone(), Source::Event(number))),
            None => Err(Error::NotCounted { interval: 0, what: "an event of the power model" }),
        }
    };
    Ok(Roles {
        stall_cycles: STALLS,
        llc_misses: MISSES,
        leading_misses: None,
        resource_stalls: matches!(choice.supplies[RESOURCE_STALLS], Supply::Counted(_))
            .then_some(RESOURCE_STALLS),
        power: power.capacitance().events().iter().map(source).collect::<Result<_, _>>()?,
    })
}

/// Events that read 0 in every interval: mostly counters that are only there in name.
fn silent(observed: &Observed, choice: &Choice) -> Vec<String> {
    let record = &observed.record;
    let mut notes = Vec::new();
    for (number, supply) in choice.supplies.iter().enumerate() {
        let Supply::Counted(code) = *supply else { continue };
        let counts: Vec<f64> =
            (0..record.len()).filter_map(|interval| record.count(interval, number)).collect();
        if counts.is_empty() || counts.iter().any(|&count| count > 0.0) {
            continue;
        }
        let meaning = match number {
            STALLS => "; times are predicted as if nothing waited for memory",
            MISSES => "; times are predicted as if nothing went to memory",
            _ => "",
        };
        notes.push(format!(
            "{} ({:?}) read 0 in all {} intervals that counted it, which a counter that is only there in name does \
             too{meaning}",
            QUANTITIES[number],
            choice.codes[code],
            counts.len()
        ));
    }
    notes
}

fn turns(observed: &Observed, complete: &Complete<PhaseId>) -> String {
    use powersleuth::multiplex::Step;
    let all = observed.record.len() * QUANTITIES.len();
    let share = |step| percent(complete.count(step) as f64 / all as f64);
    let [predicted, right] = observed.predicted;
    format!(
        "of the counts {} were counted in their interval, {} in the same instance of the phase, {} in another, {} only in \
         other phases; the next phase was predicted rightly {right} times of {predicted}",
        share(Step::Interval),
        share(Step::Instance),
        share(Step::Phase),
        share(Step::Program)
    )
}

/// What the program costs at the frequency nearest to `clock`.
fn near(predicted: &Analysis<PhaseId>, clock: Hertz) -> (Cost, Hertz) {
    let apart = |f: Hertz| (f.0 - clock.0).abs();
    let costs = predicted.program_costs().iter().copied().zip(predicted.frequencies().iter().copied());
    costs.min_by(|a, b| apart(a.1).total_cmp(&apart(b.1))).unwrap_or((Cost::default(), clock))
}

/// Measured power beside predicted power.
fn drawn(observed: &Observed, predicted: &Analysis<PhaseId>, clock: Hertz) -> String {
    match &observed.drawn {
        None => "no energy was measured: this machine shows no energy counter (powercap)".to_owned(),
        Some(Err(error)) => format!("no energy was measured: {error}"),
        Some(Ok((joules, time))) => {
            let (cost, frequency) = near(predicted, clock);
            let against = format!(
                "; the model says {} for one core at {:.2} GHz",
                quantity(cost.power().0, "W"),
                frequency.ghz()
            );
            format!(
                "all packages together drew {} on average (measured, RAPL){against}",
                quantity(joules.0 / time.as_secs_f64(), "W")
            )
        }
    }
}
