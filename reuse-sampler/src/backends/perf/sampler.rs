//! The sampler as its user has it: a handle to the thread that controls the target.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::causes::Circumstances;
use super::events;
use super::group::NEVER;
use super::linux::{self, Heard, Line, Linux, Program, TargetFate, patiently};
use super::probe::{Capabilities, probe};
use super::session::{Origin, Session, Settings};
use super::{Answer, Command, Interrupter, PerfOptions, PerfSampler, State};
use crate::backends::processes::Images;
use crate::{Children, CodeLocation, ProcessRecord, SamplerError, TargetExit, Window};

/// How often a waiting tracer looks up.
const TICK: Duration = Duration::from_millis(50);

/// What the tracer is to take control of.
enum Target {
    Program(Program),
    Process(i32),
}

/// The processes, as far as windows were returned.
#[derive(Debug, Default)]
struct Seen {
    records: Vec<ProcessRecord>,
    images: Images,
    numbers: Vec<usize>, // of images, by those of programs
}

impl Seen {
    /// Takes note of what is new, and marks the code of a window.
    fn take(&mut self, session: &mut Session<Linux>, window: Option<&mut Window>) {
        for file in &session.tree.programs[self.numbers.len()..] {
            self.numbers.push(self.images.number(file));
        }
        for (process, fate) in std::mem::take(&mut session.kernel.ended) {
            session.tree.exited(process, exit_of(fate));
        }
        for number in std::mem::take(&mut session.tree.changed) {
            let record = session.tree.get(number).account.record();
            match self.records.get_mut(number) {
                Some(known) => *known = record,
                None => self.records.push(record), // the lowest number first
            }
        }
        let Some(window) = window else { return };
        let Origin { process, program, current } = session.origin;
        let Some(&image) = self.numbers.get(program) else { return };
        if let Some(locator) = self.images.get(image).filter(|_| current) {
            locator.see(process, 0, &window.code, "");
        }
        Images::mark_window(image, window);
    }
}

fn exit_of(fate: TargetFate) -> Option<TargetExit> {
    match fate {
        TargetFate::Exited(code) => Some(TargetExit::Code(code)),
        TargetFate::Killed(signal) => Some(TargetExit::Signal(signal)),
        TargetFate::Stopped(_) => None,
    }
}

/// The running observation behind a [`PerfSampler`](super::PerfSampler).
#[derive(Debug)]
pub(super) struct Run {
    orders: Arc<Line<Command>>,
    answers: Arc<Line<Answer>>,
    tracer: Option<JoinHandle<()>>,
    seen: Arc<Mutex<Seen>>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.window.fmt(f)
    }
}

impl Run {
    pub fn spawn(
        name: &OsStr,
        arguments: Vec<OsString>,
        options: &PerfOptions,
    ) -> Result<PerfSampler, SamplerError> {
        let program = Program {
            name: name.to_owned(),
            arguments,
            environment: options.environment.clone(),
            directory: options.directory.clone(),
            output_to_stderr: options.output_to_stderr,
            randomized_addresses: options.randomized_addresses,
            follows: options.children == Children::Follow,
        };
        Self::start(Target::Program(program), options)
    }

    pub fn attach(process: u32, options: &PerfOptions) -> Result<PerfSampler, SamplerError> {
        let refused = |problem: &str| SamplerError::Target {
            program: format!("process {process}"),
            problem: problem.to_owned(),
        };
        if process == std::process::id() {
            return Err(refused("it is this process: observe it from another one"));
        }
        let number = i32::try_from(process).ok().filter(|&number| number > 1);
        let number = number.ok_or_else(|| refused("give the number of a running process"))?;
        Self::start(Target::Process(number), options)
    }

    fn start(target: Target, options: &PerfOptions) -> Result<PerfSampler, SamplerError> {
        options.check()?;
        let unsupported = |missing: String| SamplerError::Unsupported { backend: "perf", missing };
        if let Some(why) = linux::blind() {
            return Err(unsupported(why.to_owned()));
        }
        let capabilities = probe();
        let (abilities, mut lost) = capabilities
            .abilities(options.time_if_no_counters, options.early, options.keep_code)
            .map_err(|why| match &capabilities.advice {
                advice if advice.contains(&why) => unsupported(why),
                advice => unsupported(format!("{why}; {}", advice.join("; "))),
            })?;
        lost.extend(
            capabilities.no_registers.iter().map(|why| format!("no reuse is sampled for want of {why}")),
        );
        if !abilities.selects() && !capabilities.decodes {
            return Err(unsupported("no access can be chosen: build with the feature decode-x86".into()));
        }
        let settings =
            settings(options, &capabilities, abilities.windows == super::kernel::Source::TASK_CLOCK)?;
        let line = |error| unsupported(Circumstances::behind(&error).exhausted(&error));
        let started = Arc::new(Line::new().map_err(line)?);
        let orders = Arc::new(Line::new().map_err(line)?);
        let answers = Arc::new(Line::new().map_err(line)?);
        let (report, heard, answer) = (Arc::clone(&started), Arc::clone(&orders), Arc::clone(&answers));
        let interrupter = Interrupter::new();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (flag, shared, tracer_number) =
            (Arc::clone(&interrupter.flag), Arc::clone(&seen), Arc::clone(&interrupter.thread));
        // Its handler must be there before a guard is, which has its own from then on.
        let _ = linux::wake_signal();
        let observer = std::process::id();
        // Whoever cannot wait can neither reap nor guard what it has begun.
        linux::can_wait().map_err(|(_, error)| not_taken(&target, &error))?;
        let attaches = matches!(target, Target::Process(_));
        let follows = options.children == Children::Follow;
        let here = Circumstances::here();
        let guarded = attaches && here.may_guard();
        let work = move |no_guard: Option<io::Error>| {
            if attaches && (!guarded || no_guard.is_some()) {
                let here = no_guard.as_ref().map_or(here, Circumstances::behind);
                lost.push(here.unguarded(no_guard.as_ref()));
            }
            tracer_number.store(linux::own_number(), Ordering::SeqCst);
            let taken = match &target {
                Target::Program(program) => linux::start(program),
                Target::Process(process) => Linux::attach(*process, observer, follows),
            };
            let kernel = match taken {
                Ok(kernel) => kernel,
                Err(error) => return report.say(Err(not_taken(&target, &error)), || {}),
            };
            let process = kernel.process();
            let mut session = Session::new(kernel, settings, abilities, flag);
            session.warnings = lost;
            let clocks = session.clocks();
            report.say(Ok((process, clocks)), || session.kernel.leave_if_alone());
            serve(session, &heard, &answer, &shared);
        };
        let tracer = thread::Builder::new()
            .name("perf-trace".into())
            .spawn(move || if guarded { linux::guarded(work) } else { work(None) })
            .map_err(|error| unsupported(Circumstances::behind(&error).exhausted(&error)))?;
        match receive(&started, &tracer, || {}) {
            Some(Ok((process, clocks))) => Ok(PerfSampler {
                run: Self { orders, answers, tracer: Some(tracer), seen },
                process: process.unsigned_abs(),
                clocks,
                interrupter,
                state: State::default(),
                profiled: Vec::new(),
            }),
            Some(Err(error)) => {
                let _ = tracer.join(); // so that nothing that it has open outlives the refusal
                Err(error)
            }
            None => Err(unsupported("the tracing thread has ended".into())),
        }
    }

    pub fn ask(&mut self, command: Command, interrupter: &Interrupter) -> Result<Answer, SamplerError> {
        let gone =
            || SamplerError::Protocol { backend: "perf", problem: "the tracing thread has ended".into() };
        self.orders.say(command, || {});
        let wake = linux::wake_signal();
        let tracer = self.tracer.as_ref().ok_or_else(gone)?;
        // The tracer may be waiting for a thread that cannot stop by itself.
        let waiting = || {
            if let Some(signal) = wake {
                linux::wake(interrupter.thread.load(Ordering::SeqCst), signal);
            }
        };
        receive(&self.answers, tracer, waiting).ok_or_else(gone)
    }

    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).images.locate(address)
    }

    pub fn processes(&self) -> Vec<ProcessRecord> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).records.clone()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.orders.end(); // the tracer's last order: it lets the target go, or ends it
        if let Some(tracer) = self.tracer.take() {
            let _ = tracer.join();
        }
    }
}

/// What the tracer sends; `None` once it has ended. A guard that is killed leaves its end of the channel open.
fn receive<T>(from: &Line<T>, tracer: &JoinHandle<()>, waiting: impl Fn()) -> Option<T> {
    loop {
        let has_ended = tracer.is_finished();
        match from.hear(TICK) {
            Heard::Value(value) => return Some(value),
            Heard::Nothing if !has_ended => waiting(),
            Heard::Nothing | Heard::Over => return None,
        }
    }
}

/// The tracer's life.
fn serve(mut session: Session<Linux>, orders: &Line<Command>, answers: &Line<Answer>, seen: &Mutex<Seen>) {
    loop {
        let order = match orders.hear(TICK) {
            Heard::Value(order) => order,
            Heard::Nothing => {
                session.kernel.leave_if_alone();
                if session.over {
                    session.kernel.release(); // what could not be freed before
                }
                continue;
            }
            Heard::Over => return,
        };
        let mut window = match order {
            Command::Next(mode) => session.next_window(mode),
            Command::Stop => session.stop().map(|()| None),
        };
        if session.over {
            session.kernel.release();
        }
        let returned = window.as_mut().ok().and_then(Option::as_mut);
        patiently(seen, || session.kernel.leave_if_alone()).take(&mut session, returned);
        let exit = session.kernel.status.and_then(exit_of);
        let state = State {
            exit,
            warnings: session.warnings.clone(),
            losses: session.losses,
            profile_losses: session.profile_losses,
            started: session.started,
            stops: session.stops,
        };
        let profiled = std::mem::take(&mut session.profiled);
        answers.say(Answer { window, profiled, state }, || session.kernel.leave_if_alone());
    }
}

fn settings(options: &PerfOptions, found: &Capabilities, timed: bool) -> Result<Settings, SamplerError> {
    let mut counters = Vec::new();
    for group in &options.counters {
        let mut events = Vec::new();
        for name in group {
            let event = events::by_name(name, found.processor).ok_or_else(|| SamplerError::Unsupported {
                backend: "perf",
                missing: format!("an event called {name:?}: give one of the table, or rNNNN for a raw code"),
            })?;
            events.push((name.clone(), event.source(0)));
        }
        if !events.is_empty() {
            counters.push(events);
        }
    }
    Ok(Settings {
        window: if timed { options.window_time.as_nanos() as u64 } else { options.window },
        line_size: options.line_size,
        seed: options.seed,
        code_samples: options.code_samples,
        coverage: options.coverage,
        reclaim_random: options.reclaim_random,
        densest: options.densest,
        skid: options.skid.min(NEVER),
        profile_every: options.profile_every.filter(|_| !timed),
        counters,
    })
}

fn not_taken(target: &Target, error: &io::Error) -> SamplerError {
    let (program, directory) = match target {
        Target::Program(program) => {
            (program.name.to_string_lossy().into_owned(), program.directory.as_deref())
        }
        Target::Process(process) => (format!("process {process}"), None),
    };
    if let (Target::Program(_), Some(why)) = (target, error.get_ref()) {
        return SamplerError::Unsupported { backend: "perf", missing: why.to_string() };
    }
    let here = Circumstances::behind(error);
    if here.forbidden.is_some() {
        return SamplerError::Unsupported { backend: "perf", missing: here.exhausted(error) };
    }
    let problem = match error.kind() {
        io::ErrorKind::NotFound => match directory.filter(|directory| !directory.is_dir()) {
            Some(directory) => format!("there is no folder {} to run it in", directory.display()),
            None => "there is no such program or process, or not the interpreter that it names".to_owned(),
        },
        io::ErrorKind::PermissionDenied => format!(
            "{error}: it is not executable (chmod +x), or lies in a file system that forbids that (noexec)"
        ),
        _ => here.exhausted(error),
    };
    SamplerError::Target { program, problem }
}

impl Interrupter {
    fn new() -> Self {
        Self { flag: Arc::new(AtomicBool::new(false)), thread: Arc::new(AtomicI32::new(0)) }
    }
}
