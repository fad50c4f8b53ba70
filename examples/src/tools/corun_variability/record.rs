//! Recording: a program measured alone, once, for all predictions that follow.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use cachesharing::file::ProgramFile;
use cachesharing::{Program, Window};
use phase_detect::GuideConfig;
use phase_detect::cluster::{DEFAULT_THRESHOLD, SAMPLED_THRESHOLD};
use phase_detect::metrics::distinct_code;
use reuse_sampler::file::{PhaseProfile, ProfiledPhase, ProfiledWindow};
use reuse_sampler::{LineSize, ReusePlan, ReuseProfile, SampleGap};
use serde_json::json;

use super::args::RecordArgs;
use super::ground::Ground;
use super::profiles::{Profile, modelled_program, name_of, open};
use super::solo::Phases;
use super::stored::{Machine, Stored};
use super::{embedded, observe, reuse, solo};
use crate::cli::{Failure, Watch};
use crate::guided::GuidedOptions;
use crate::machines::host::processor_as;
use crate::machines::testbed::programs::Recorded;
use crate::output::OutputFile;
use crate::profiles;
use crate::report::{ProcessRow, count, guided_profile, letters, plural, process_table, rank, sum_windows};
use crate::target::{SAMPLED_GAP, Target, command_name, observing};
use crate::tools::phase_guided_cache;

/// Share of the accesses of a profiled window that are followed, but for hardware counters.
const SAMPLE_RATE: f64 = 0.01;

/// A run of a program, measured alone.
struct Run {
    program: Program<u64>,
    reuse: HashMap<u64, ReuseProfile>, // by phase
    code: HashMap<u64, Code>,          // by phase
    processor: Option<String>,         // that it ran on, where it ran
    machine: Machine,
    remarks: Vec<String>,
    incomplete: bool,
}

/// Code of a phase, by name.
#[derive(Clone, Default)]
struct Code {
    hottest: Option<String>,
    distinct: Option<String>,
}

impl Code {
    fn of(phase: &ProfiledPhase) -> Self {
        Self { hottest: phase.hottest_code.clone(), distinct: phase.distinct_code.clone() }
    }
}

/// Names the code of phases, given as the weight of each block.
fn named(
    phases: &[(u64, Vec<(u64, f64)>)],
    mut locate: impl FnMut(u64) -> Option<String>,
) -> HashMap<u64, Code> {
    let distinct = distinct_code(phases, 1);
    let code = |(phase, blocks): &(u64, Vec<(u64, f64)>)| {
        let hottest =
            blocks.iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|&(block, _)| block);
        let apart = distinct.get(phase).and_then(|codes| codes.first()).map(|code| code.block);
        let (hottest, distinct) = (hottest.and_then(&mut locate), apart.and_then(&mut locate));
        (*phase, Code { hottest, distinct })
    };
    phases.iter().map(code).collect()
}

/// Records a program, and says what was recorded.
pub(super) fn record(
    args: &RecordArgs,
    watch: &Watch<'_>,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<u8, Failure> {
    let mut ground = args.measured.ground(&args.chip, 1, args.seed)?;
    let machine = Machine::simulated(&ground, &args.chip);
    // Found before the run, not after.
    let file = OutputFile::prepare(&args.output)?;
    let mut runs = Vec::new();
    for path in &args.merged {
        runs.push((path.display().to_string(), stored(path, &ground, &machine)?));
    }
    let (mut status, mut processes) = (0, Vec::new());
    let line_size = args.chip.line_size();
    if !args.traces.is_empty() {
        for recorded in args.traces.load(1, line_size)? {
            runs.push((recorded.name.clone(), played(args, &mut ground, &machine, &recorded, watch)?));
        }
    } else if let Some(name) = &args.embedded {
        let bytes = ground.settings.shared.geometry.bytes();
        let recorded = embedded::program(name, bytes, line_size, args.seed)?;
        runs.push((name.clone(), played(args, &mut ground, &machine, &recorded, watch)?));
    } else if let Some(path) = &args.measured_curves {
        runs.push((path.display().to_string(), measured(path)?));
    } else if !args.program.is_empty() {
        let run;
        (run, status, processes) = if args.sampled {
            sampled(args, &ground, &machine, watch)?
        } else {
            observed(args, &ground, &machine, watch)?
        };
        runs.push((command_name(&args.program), run));
    }
    watch.clear();
    let mut run = together(&ground, runs, args.name.as_deref())?;
    if args.phases_only {
        run.program = by_phase_only(&run.program)?;
    }
    let stored = profiles::encode(&profile(&run)?, profiles::is_parquet(&args.output))?;
    file.write(&stored)?;
    let (name, windows, phases) =
        (run.program.name(), run.program.window_count(), run.program.phases().len());
    let said = if args.json {
        let mut object = json!({
            "program": name,
            "windows": windows,
            "phases": phases,
            "work": run.program.work(),
            "machine": run.machine,
            "remarks": run.remarks,
            "incomplete": run.incomplete,
        });
        if !processes.is_empty() {
            object["processes"] = json!(processes);
        }
        writeln!(out, "{object}")
    } else {
        let work = count(run.program.work() as u64);
        let unit = &run.program.units().work;
        let lines = run.remarks.iter().fold(String::new(), |lines, remark| lines + "note: " + remark + "\n");
        let path = args.output.display();
        let (windows, phases) = (plural(windows, "window", "windows"), plural(phases, "phase", "phases"));
        let processes = process_table(&processes);
        write!(messages, "{name}: {windows} in {phases}, {work} {unit}s, in {path}\n{lines}{processes}")
    };
    crate::cli::unless_closed(said)?;
    Ok(status)
}

/// A profile recorded before.
fn stored(path: &Path, ground: &Ground, machine: &Machine) -> Result<Run, Failure> {
    let failed = |failure: Failure| Failure::Run(format!("{}: {failure}", path.display()));
    let profile = match open(path)? {
        Profile::Phases(profile) => profile,
        Profile::Curves(_) => {
            return Err(Failure::Usage(format!(
                "{}: curves without a profile; give them to --measured-curves",
                path.display()
            )));
        }
    };
    let Some(stored) = Stored::read(&profile).map_err(failed)? else {
        let mut remarks = Vec::new();
        let program = modelled_program(&profile, ground, &mut remarks).map_err(failed)?;
        let number = |place: usize| place as u64;
        let phases = profile.phases.iter().enumerate();
        let reuse = phases.clone().map(|(place, phase)| (number(place), phase.profile.clone())).collect();
        let code = phases.map(|(place, phase)| (number(place), Code::of(phase))).collect();
        let (machine, incomplete) = (machine.clone(), profile.incomplete);
        let processor = profile.machine.clone();
        return Ok(Run { program, reuse, code, processor, machine, remarks, incomplete });
    };
    let program = stored.curves.into_program(&profile.program, false).map_err(|e| failed(Failure::run(e)))?;
    // Numbers in files written before phases had letters here.
    let number = |phase: &ProfiledPhase| phase.phase.parse().ok().or_else(|| rank(&phase.phase));
    let reuse = profile.phases.iter().filter_map(|phase| Some((number(phase)?, phase.profile.clone())));
    let code = profile.phases.iter().filter_map(|phase| Some((number(phase)?, Code::of(phase))));
    Ok(Run {
        program,
        reuse: reuse.collect(),
        code: code.collect(),
        processor: profile.machine.clone(),
        machine: stored.machine,
        remarks: stored.remarks,
        incomplete: profile.incomplete,
    })
}

/// A trace or an embedded program.
fn played(
    args: &RecordArgs,
    ground: &mut Ground,
    machine: &Machine,
    recorded: &Recorded,
    watch: &Watch<'_>,
) -> Result<Run, Failure> {
    watch.show(format!("measuring {} alone", recorded.name));
    ground.window = args.measured.window.unwrap_or_else(|| Ground::window(recorded.recording.references()));
    let threads = args.threads.unwrap_or_else(crate::parallel::available);
    let program = solo::profile(ground, recorded, args.measured.curves, threads)?;
    let reuse = by_phase(&program, reuse::profiles(ground, recorded))?;
    let (machine, remarks) = (machine.clone(), Vec::new());
    let (code, processor) = (HashMap::new(), None);
    Ok(Run { program, reuse, code, processor, machine, remarks, incomplete: false })
}

/// A program, every access of it: with its status and its processes.
fn observed(
    args: &RecordArgs,
    ground: &Ground,
    machine: &Machine,
    watch: &Watch<'_>,
) -> Result<(Run, u8, Vec<ProcessRow>), Failure> {
    args.backend.traces("record without --sampled")?;
    let seen = observe::every_access(ground, args, watch)?;
    let interrupted = watch.is_interrupted();
    let incomplete = interrupted || seen.program.ended_early();
    let (status, remark) = phase_guided_cache::ending(incomplete, &seen.outcome, interrupted);
    let name = command_name(&args.program);
    if seen.windows.is_empty() {
        return Err(Failure::Run(format!(
            "{name} made no memory access that was observed: nothing to record"
        )));
    }
    let mut remarks = seen.notes;
    remarks.extend(remark);
    remarks.push(
        "measured from empty caches: first touches count as misses; threads and processes, if any, as taking turns on \
         one core"
            .to_owned(),
    );
    let program = solo::phased(ground, &name, seen.windows)?;
    // The hottest block of each window, with the windows' work.
    let mut hottest: BTreeMap<u64, BTreeMap<u64, f64>> = BTreeMap::new();
    for ((work, phase, _), code) in program.windows().zip(&seen.code) {
        if let Some(code) = code {
            *hottest.entry(program.phases()[phase].0).or_default().entry(*code).or_default() += work;
        }
    }
    let hottest: Vec<_> =
        hottest.into_iter().map(|(phase, blocks)| (phase, blocks.into_iter().collect())).collect();
    let code = named(&hottest, |block| seen.program.locate(block));
    let reuse = by_phase(&program, seen.profiles)?;
    let (machine, processor) = (machine.clone(), Some(processor_as(args.cpu)));
    Ok((Run { program, reuse, code, processor, machine, remarks, incomplete }, status, seen.processes))
}

/// A program observed sparsely, its curves modelled.
fn sampled(
    args: &RecordArgs,
    ground: &Ground,
    machine: &Machine,
    watch: &Watch<'_>,
) -> Result<(Run, u8, Vec<ProcessRow>), Failure> {
    if let Some(flag) = args.chip.beyond_in_order() {
        return Err(Failure::Usage(format!(
            "--sampled with {flag}: samples say nothing of it; leave --sampled out, or the flag"
        )));
    }
    let counters = args.backend.samples(args.cpu);
    let mut options = observing(args.backend, args.children, args.cpu, args.json);
    options.window = args.instructions;
    options.line_size = args.chip.line_size();
    options.seed = args.seed;
    let target = Target::program(&args.program, &options).and_then(Target::in_accesses);
    let mut target = target?;
    let rate = args.sample_rate.unwrap_or(if counters { SAMPLED_GAP.recip() } else { SAMPLE_RATE });
    let gap = SampleGap::mean(rate.recip()).map_err(Failure::usage)?;
    let guided = GuidedOptions {
        reuse: if rate >= 1.0 { ReusePlan::Every } else { ReusePlan::Sparse(gap) },
        threshold: if counters { SAMPLED_THRESHOLD } else { DEFAULT_THRESHOLD },
        guide: GuideConfig { seed: args.seed, ..GuideConfig::default() },
        line_size: args.chip.line_size(),
        ..GuidedOptions::default()
    };
    let run = phase_guided_cache::observe(&mut target, guided, watch.flag())?;
    let (status, remark) =
        phase_guided_cache::ending(run.incomplete, &target.outcome(), watch.is_interrupted());
    let mut remarks = target.notes();
    remarks.extend(remark);
    remarks.push("curves are modelled from samples, for a cache without sets".to_owned());
    let name = target.name().to_owned();
    let label = |phase: phase_detect::PhaseId| letters(phase.index());
    let profile = guided_profile(&run, &name, label, |address| target.locate(address));
    let program = modelled_program(&profile, ground, &mut remarks)?;
    let places = || (0_u64..).zip(&profile.phases);
    let reuse = places().map(|(place, phase)| (place, phase.profile.clone())).collect();
    let code = places().map(|(place, phase)| (place, Code::of(phase))).collect();
    let (machine, processor, incomplete) = (machine.clone(), target.machine(), run.incomplete);
    Ok((Run { program, reuse, code, processor, machine, remarks, incomplete }, status, target.processes()))
}

/// Curves of `cache_pirate`.
fn measured(path: &Path) -> Result<Run, Failure> {
    let failed = |problem: String| Failure::Run(format!("{}: {problem}", path.display()));
    let Profile::Curves(file) = open(path)? else {
        return Err(Failure::Usage(format!("{}: a profile; give it to --merge", path.display())));
    };
    let Stored { curves: file, machine, mut remarks } = Stored::measured(*file);
    let records = || {
        let windows = file.windows.iter().map(|window| &window.points);
        file.phases.iter().map(|phase| &phase.points).chain(windows).chain([&file.points]).flatten()
    };
    let (all, untrusted) = (records().count(), records().filter(|point| !point.trusted).count());
    if untrusted > 0 {
        remarks.push(format!(
            "{untrusted} of {all} points are left out: the measurement does not vouch for them"
        ));
    }
    if file.windows.is_empty() {
        remarks.push("no windows were measured: the program is taken to do the same throughout".to_owned());
    }
    let program = file.into_program(&name_of(path), false).map_err(|error| failed(error.to_string()))?;
    let (reuse, code, processor) = (HashMap::new(), HashMap::new(), None);
    Ok(Run { program, reuse, code, processor, machine, remarks, incomplete: false })
}

/// The same program, each of whose windows does what its phase does.
fn by_phase_only(program: &Program<u64>) -> Result<Program<u64>, Failure> {
    let windows = program.windows().map(|(work, phase, _)| Window::of_phase(work, program.phases()[phase].0));
    let (phases, units) = (program.phases().to_vec(), program.units().clone());
    let lean = Program::new(program.name(), phases, windows)?;
    Ok(lean.with_units(units).with_uncertainty(program.uncertainty())?)
}

/// The reuse of each phase's windows together.
fn by_phase(
    program: &Program<u64>,
    windows: Vec<ReuseProfile>,
) -> Result<HashMap<u64, ReuseProfile>, Failure> {
    let mut phases: HashMap<u64, ReuseProfile> = HashMap::new();
    for ((_, phase, _), profile) in program.windows().zip(windows) {
        let phase = program.phases()[phase].0;
        match phases.get_mut(&phase) {
            Some(sum) => sum.merge(&profile)?,
            None => {
                phases.insert(phase, profile);
            }
        }
    }
    Ok(phases)
}

/// The runs of one program as one: their sequence, with phases by what they do.
fn together(ground: &Ground, runs: Vec<(String, Run)>, name: Option<&str>) -> Result<Run, Failure> {
    let mut runs = runs.into_iter();
    let Some((first, mut sum)) = runs.next() else {
        return Err(Failure::usage(
            "nothing to record: give a program, --trace, --embedded, --measured-curves or --merge",
        ));
    };
    for (place, run) in runs {
        if run.machine != sum.machine || run.program.units() != sum.program.units() {
            return Err(Failure::Usage(format!(
                "{first} and {place} were measured on different machines, or count different work: record both on one"
            )));
        }
        sum = appended(ground, sum, run)?;
    }
    let name = name.unwrap_or_else(|| sum.program.name());
    sum.program = sum.program.clone().named(name);
    Ok(sum)
}

/// `run` after `sum`.
fn appended(ground: &Ground, sum: Run, run: Run) -> Result<Run, Failure> {
    let mut phases = Phases::new(ground)?;
    let (mut windows, mut own) = (Vec::new(), Vec::new());
    let mut work: BTreeMap<(usize, u64), BTreeMap<u64, f64>> = BTreeMap::new(); // old phase: of new ones
    for (number, part) in [&sum, &run].into_iter().enumerate() {
        for (done, phase, curve) in part.program.windows() {
            let (old, of_phase) = &part.program.phases()[phase];
            let new = phases.of(curve)?;
            *work.entry((number, *old)).or_default().entry(new).or_default() += done;
            windows.push(Window::measured(done, new, curve.clone()));
            own.push(!std::ptr::eq(of_phase, curve));
        }
    }
    let (name, units) = (sum.program.name().to_owned(), sum.program.units().clone());
    let all = Program::new(&*name, [], windows.clone())?;
    // Windows that had their phase's curve have the new one's.
    for (window, own) in windows.iter_mut().zip(own) {
        if !own {
            window.curve = None;
        }
    }
    let curves = all.phases().to_vec();
    let uncertainty = sum.program.uncertainty().max(run.program.uncertainty());
    let program = Program::new(name, curves, windows)?.with_units(units).with_uncertainty(uncertainty)?;
    let (mut reuse, mut code): (HashMap<u64, ReuseProfile>, HashMap<u64, Code>) = Default::default();
    for ((number, old), news) in work {
        let Some((&new, _)) = news.iter().max_by(|a, b| a.1.total_cmp(b.1)) else { continue };
        let part = if number == 0 { &sum } else { &run };
        if let Some(profile) = part.reuse.get(&old) {
            match reuse.get_mut(&new) {
                Some(sum) => sum.merge(profile)?,
                None => {
                    reuse.insert(new, profile.clone());
                }
            }
        }
        if let Some(name) = part.code.get(&old) {
            code.entry(new).or_insert_with(|| name.clone());
        }
    }
    let mut remarks = sum.remarks;
    remarks.extend(run.remarks.into_iter().filter(|remark| !remarks.contains(remark)).collect::<Vec<_>>());
    let incomplete = sum.incomplete || run.incomplete;
    let processor = sum.processor.filter(|processor| run.processor.as_ref() == Some(processor));
    Ok(Run { program, reuse, code, processor, machine: sum.machine, remarks, incomplete })
}

/// The file of a run.
fn profile(run: &Run) -> Result<PhaseProfile, Failure> {
    let program = &run.program;
    let line_bytes = program.phases().first().map_or(64, |(_, curve)| curve.line_size());
    let line_size = LineSize::new(line_bytes)?;
    let mut profile = PhaseProfile::new(program.name(), line_size);
    (profile.machine, profile.incomplete) = (run.processor.clone(), run.incomplete);
    // Work of another kind has its unit in the section of the curves.
    let counted = program.units().work == "instruction";
    for (phase, curve) in program.phases() {
        let reuse = run.reuse.get(phase).cloned().unwrap_or_else(|| ReuseProfile::new(line_size));
        let mut stored = ProfiledPhase::new(letters(*phase as usize), reuse);
        stored.accesses_per_instruction = counted.then(|| curve.mix());
        let code = run.code.get(phase).cloned().unwrap_or_default();
        (stored.hottest_code, stored.distinct_code) = (code.hottest, code.distinct);
        profile.phases.push(stored);
    }
    profile.windows = program
        .windows()
        .zip(0..)
        .map(|((work, phase, curve), window)| ProfiledWindow {
            window,
            thread: 0,
            instructions: if counted { work.round() as u64 } else { 0 },
            accesses: counted.then(|| (work * curve.mix()).round() as u64),
            phase: letters(program.phases()[phase].0 as usize),
        })
        .collect();
    sum_windows(&mut profile);
    for phase in profile.phases.iter_mut().filter(|phase| !phase.profile.is_empty()) {
        phase.profiled = phase.windows;
    }
    let mut curves = ProgramFile::from_program(program)?;
    curves.cache_bytes = run.machine.cache_bytes();
    let (machine, remarks) = (run.machine.clone(), run.remarks.clone());
    Stored { curves, machine, remarks }.write(&mut profile)?;
    Ok(profile)
}
