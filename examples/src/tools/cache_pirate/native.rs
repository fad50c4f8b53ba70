//! A real program on the machine at hand.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cache_pirate::native::{
    Ended, FileCounter, IoBytes, NativeParams, NativeTestbed, Pages, Placement, Progress, Suspension, confine,
};
use cache_pirate::resctrl::{Confined, ResctrlFiles};
use cache_pirate::{
    CacheCurve, CurvePoint, Distrust, Evidence, Interval, Measurements, PirateError, PirateParams,
    SharedCache, Testbed, Trust, measure, measure_fixed,
};

use super::args::{Args, Mechanism, Work};
use super::input::Input;
use super::watched::Watched;
use super::{Measured, confined_remarks, mechanism, nothing, show_progress};
use crate::cli::{Failure, Watch};
use crate::machines::host::processor;
use crate::target::{Outcome, command_name};

/// Processor time in an interval where that is the work, in nanoseconds.
const CPU_TIME_INTERVAL: f64 = 100e6;
/// Share of a whole run's intervals that must be trusted for its size to be.
const TRUSTED_SHARE: f64 = 0.9;
/// By how much what a run reads and writes may differ from the first run, of that.
const SAME_WORK: f64 = 0.1;

/// Measures the program or process that the command line names.
pub fn native(args: &Args, stop: &Arc<AtomicBool>, watch: &Watch<'_>) -> Result<Measured, Failure> {
    let subject = match (args.machine.pid, args.program.split_first()) {
        (Some(pid), _) => Subject::Process(pid),
        (None, Some((program, arguments))) => Subject::Program(program, arguments),
        (None, None) => return Err(Failure::usage("no program to run")),
    };
    let source = match subject {
        Subject::Process(pid) => format!("process {pid}"),
        Subject::Program(..) => command_name(&args.program),
    };
    let work = args.machine.progress.clone();
    let counted = work.as_ref().unwrap_or(&Work::Instructions);
    match divided_or_not(args, subject, stop, counted, Streams::Own) {
        Ok(testbed) => one_run(args, source, testbed, &work.unwrap_or(Work::Instructions), watch),
        // Without counters or a progress file, only the time of a whole run can be measured.
        Err(PirateError::System { operation: "count", .. })
            if work.is_none() && matches!(subject, Subject::Program(..)) =>
        {
            run_per_size(args, subject, source, stop, watch)
        }
        Err(error) => Err(Failure::run(error)),
    }
}

/// Where the program's output and errors go.
#[derive(Clone, Copy)]
enum Streams {
    Own,
    /// It was there before.
    Nowhere,
}

/// What is measured.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Process(i32),
    Program(&'a OsStr, &'a [OsString]),
}

/// A program of this machine, beside a pirate or confined to its ways.
trait Native: Testbed<Error = PirateError> {
    fn machine(&mut self) -> &mut NativeTestbed;

    /// Sizes that can be measured, where that is not any.
    fn sizes(&self) -> Option<Vec<u64>> {
        None
    }

    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Native for NativeTestbed {
    fn machine(&mut self) -> &mut NativeTestbed {
        self
    }
}

impl<F: ResctrlFiles> Native for Confined<NativeTestbed, F> {
    fn machine(&mut self) -> &mut NativeTestbed {
        self.inner_mut()
    }

    fn sizes(&self) -> Option<Vec<u64>> {
        Some(self.partition().sizes().collect())
    }

    fn remarks(&self) -> Vec<String> {
        confined_remarks(self)
    }
}

/// The mechanism that the command line asks for, and why not the one that it would prefer.
fn divided_or_not(
    args: &Args,
    subject: Subject<'_>,
    stop: &Arc<AtomicBool>,
    work: &Work,
    streams: Streams,
) -> Result<(Box<dyn Native>, Option<String>), PirateError> {
    let pirate = || testbed(args, subject, stop, work, streams);
    let root = Path::new("/");
    let refusal = match args.mechanism {
        Mechanism::Pirate => None,
        Mechanism::Cat => return Ok((Box::new(confine(pirate()?, root)?), None)),
        Mechanism::Auto if root.join("sys/fs/resctrl/schemata").exists() => match confine(pirate()?, root) {
            Ok(confined) => return Ok((Box::new(confined), None)),
            Err(error) => Some(error.to_string()),
        },
        Mechanism::Auto => Some("resctrl is not mounted".to_owned()),
    };
    let note = refusal.map(|why| format!("measured by a pirate, since the cache cannot be divided: {why}"));
    Ok((Box::new(pirate()?), note))
}

/// The program started, or the process taken over, and suspended.
fn testbed(
    args: &Args,
    subject: Subject<'_>,
    stop: &Arc<AtomicBool>,
    work: &Work,
    streams: Streams,
) -> Result<NativeTestbed, PirateError> {
    let machine = &args.machine;
    // Bytes are counted from outside once there is a process.
    let progress = match work {
        Work::Instructions => Progress::Instructions,
        Work::File(path) => Progress::Counter(Box::new(FileCounter::open(path)?)),
        Work::CpuTime | Work::Io => Progress::TaskClock,
    };
    let params = NativeParams {
        target_cpu: machine.cpu,
        pirate_cpus: (!machine.pirate_cpus.is_empty()).then(|| machine.pirate_cpus.clone()),
        cache_bytes: args.cache,
        placement: machine.time_sliced.map_or(Placement::Beside, |milliseconds| Placement::TimeSliced {
            period: Duration::from_secs_f64(milliseconds / 1e3),
        }),
        suspension: machine.freezer.clone().map_or(Suspension::Signals, |root| Suspension::Freezer { root }),
        progress,
        shared_round_trip: (machine.shared_below > 0.0).then_some(machine.shared_below),
        stop: Some(Arc::clone(stop)),
        ..NativeParams::default()
    };
    let mut testbed = match subject {
        Subject::Process(pid) => NativeTestbed::attach(pid, params)?,
        Subject::Program(program, arguments) => {
            let mut command = Command::new(program);
            command.args(arguments);
            match streams {
                Streams::Own if args.common.claims_stdout() => {
                    command.stdout(std::io::stderr());
                }
                Streams::Own => {}
                Streams::Nowhere => {
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                }
            }
            NativeTestbed::spawn(command, params)?
        }
    };
    if *work == Work::Io {
        let pid = testbed.pid();
        testbed.set_progress(Progress::Counter(Box::new(IoBytes::of(pid))))?;
    }
    Ok(testbed)
}

/// All sizes in one run, by counters or the program's own progress.
fn one_run(
    args: &Args,
    source: String,
    (mut testbed, note): (Box<dyn Native>, Option<String>),
    work: &Work,
    watch: &Watch<'_>,
) -> Result<Measured, Failure> {
    let cache = testbed.cache();
    let mut params = args.params();
    params.sizes = params.sizes.or_else(|| testbed.sizes());
    if *work == Work::CpuTime {
        params.interval = params.interval.or(Some(CPU_TIME_INTERVAL));
    }
    let plan = params.check(cache).map_err(Failure::usage)?;
    let mut watched = Watched { inner: &mut *testbed, watch, piece: f64::INFINITY, runs: 0 };
    let run = measure(&mut watched, &plan)?;
    let notes = notes(&mut *testbed, note, work);
    if !run.ended && args.machine.pid.is_none() {
        // The measurement has had enough; the program has not.
        testbed.machine().wait()?;
    }
    let ended = outcome(testbed.machine().ended());
    let curve = run.curve().map_err(|error| nothing(watch, &error, &ended))?;
    let (work, time) = match work {
        Work::Instructions => ("instruction", "cycle"),
        Work::CpuTime => ("nanosecond", "nanosecond"),
        Work::Io => ("byte", "nanosecond"),
        Work::File(_) => ("progress", "nanosecond"),
    };
    let (mechanism, machine) = (mechanism(&*testbed), Some(processor()));
    Ok(Measured { source, machine, curve, run: Some(run), mechanism, work, time, notes, ended })
}

fn outcome(ended: Option<Ended>) -> Outcome {
    ended.map_or(Outcome::Unknown, |ended| ended.status.into())
}

/// The program once per size, from beginning to end: its CPI is the processor time of the run.
fn run_per_size(
    args: &Args,
    subject: Subject<'_>,
    source: String,
    stop: &Arc<AtomicBool>,
    watch: &Watch<'_>,
) -> Result<Measured, Failure> {
    let mut points = Vec::new();
    let mut notes =
        vec!["no hardware counters: the program ran once per size, CPI is the time of a run".to_owned()];
    let mut cache = None;
    let mut sizes: Option<Vec<u64>> = None;
    let mut number = 0;
    let mut used;
    let mut first: Option<Ended> = None;
    let input = Input::of_this_process();
    loop {
        let streams = if first.is_none() { Streams::Own } else { Streams::Nowhere };
        let (mut testbed, note) = divided_or_not(args, subject, stop, &Work::CpuTime, streams)?;
        used = mechanism(&*testbed);
        let here = *cache.get_or_insert(testbed.cache());
        let params = PirateParams {
            interval: Some(args.interval.unwrap_or(CPU_TIME_INTERVAL)),
            target_warm_up: Some(0.0),
            cycles: None,
            ..args.params()
        };
        let sizes_here = params.sizes.clone().or_else(|| testbed.sizes());
        let plan = PirateParams { sizes: sizes_here, ..params }.check(here).map_err(Failure::usage)?;
        let sizes = sizes.get_or_insert_with(|| {
            notes.extend(self::notes(&mut *testbed, note, &Work::Instructions));
            plan.sizes().collect()
        });
        let Some(&bytes) = sizes.get(number) else { break };
        number += 1;
        show_progress(watch, number as u64);
        let run = measure_fixed(&mut &mut *testbed, &plan, bytes)?;
        if watch.is_interrupted() {
            break;
        }
        testbed.machine().wait()?;
        let mut point = whole_run(here, bytes, &run);
        if let Some(ended) = testbed.machine().ended() {
            if !does_the_same(*first.get_or_insert(ended), ended) {
                point.trust = Trust::Untrusted(Distrust::OtherWork);
            }
        }
        points.push(point);
        input.rewind().map_err(Failure::run)?;
        if number == sizes.len() {
            break;
        }
    }
    points.sort_by_key(|point| point.bytes);
    let cache = cache.ok_or_else(|| Failure::run("nothing was measured"))?;
    let ended = outcome(first);
    let curve = CacheCurve::from_points(cache, points).map_err(|error| nothing(watch, &error, &ended))?;
    let (machine, work, time) = (Some(processor()), "run", "nanosecond");
    Ok(Measured { source, machine, curve, run: None, mechanism: used, work, time, notes, ended })
}

/// Whether the run that ended so did what the first one did.
fn does_the_same(first: Ended, ended: Ended) -> bool {
    let alike = |(one, other): (u64, u64)| one.abs_diff(other) as f64 <= SAME_WORK * one as f64;
    ended.status == first.status && first.bytes.zip(ended.bytes).is_none_or(alike)
}

/// The point of a whole run at one size.
fn whole_run(cache: SharedCache, bytes: u64, run: &Measurements) -> CurvePoint {
    let complete: Vec<&Interval> = run
        .intervals
        .iter()
        .filter(|interval| {
            !matches!(interval.trust, Trust::Untrusted(Distrust::Truncated { .. } | Distrust::Empty))
        })
        .collect();
    let trusted = complete.iter().filter(|interval| interval.trust.is_trusted()).count();
    let trust = if complete.is_empty() {
        run.intervals.last().map_or(Trust::Untrusted(Distrust::Empty), |interval| interval.trust)
    } else if trusted as f64 >= TRUSTED_SHARE * complete.len() as f64 {
        Trust::Trusted
    } else {
        complete.iter().map(|i| i.trust).find(|t| !t.is_trusted()).unwrap_or(Trust::Trusted)
    };
    let fetch_ratio = run.total.pirate.fetch_ratio();
    let stolen = cache.bytes.saturating_sub(bytes);
    CurvePoint {
        bytes,
        effective_bytes: cache_pirate::trust::effective_size(cache, stolen, fetch_ratio),
        cpi: run.total.target.time.max(1.0),
        cpi_error: None,
        miss_ratio_error: None,
        fetch_ratio_error: None,
        bandwidth_error: None,
        mix: None,
        miss_ratio: None,
        fetch_ratio: None,
        hit_rate: None,
        bandwidth: run.total.target.traffic.map(|bytes| bytes / run.total.target.time.max(1.0)),
        spared: None,
        pirate_fetch_ratio: fetch_ratio,
        intervals: complete.len() as u64,
        trust,
    }
}

/// What the user should know about this machine.
fn notes(native: &mut dyn Native, note: Option<String>, work: &Work) -> Vec<String> {
    let is_confined = native.evidence() == Evidence::Confined;
    let mut notes: Vec<String> = note.into_iter().collect();
    notes.extend(native.remarks());
    let testbed = &*native.machine();
    let (cpu, pirate) = testbed.processors();
    let pages = match testbed.pages() {
        Pages::Huge => "huge pages",
        Pages::Transparent => "transparent huge pages",
        Pages::Small => "small pages",
        _ => "other pages",
    };
    notes.push(format!("program on processor {cpu}, pirate on {pirate:?} in {pages}"));
    if let Some(time) = testbed.round_trip() {
        notes.push(format!("a line goes to the pirate's core and back in {time:.0} ns"));
    }
    if let Some(events) = testbed.fetches_counted_by() {
        notes.push(format!("fetches are counted by {events}"));
    }
    if !is_confined && testbed.evidence() == Evidence::Timed {
        notes.push("the pirate's fetches are inferred from its time per line".to_owned());
    }
    if *work == Work::CpuTime {
        notes.push("work is processor time: CPI is 1 by definition".to_owned());
    }
    notes.extend(testbed.warnings().iter().map(ToString::to_string));
    notes
}
