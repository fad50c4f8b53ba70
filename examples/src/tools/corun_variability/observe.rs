//! A running program, measured alone as it runs: every access of it is handed out, and each window is measured while the
//! next one is gathered. Nothing is kept but what is measured.
//!
//! Each process has windows of its own, which are measured in the order in which they end: as if all took turns on one core,
//! each for a window.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

use cachesharing::CacheCurve;
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::Side;
use reuse_sampler::{Access, LineSize, ReuseProfile, ThreadId};

use super::Ground;
use super::args::RecordArgs;
use super::bench::Bench;
use super::reuse::Reuse;
use super::solo::{SoloWindow, timed};
use crate::cli::{Failure, Watch};
use crate::guided::CodeCounts;
use crate::machines::chip::Reference;
use crate::report::{ProcessRow, count};
use crate::target::{Outcome, observing};
use crate::traces::Traced;

/// Windows of a program, with their reuse and the block in which most of their instructions are executed.
pub(super) struct Observed {
    pub windows: Vec<SoloWindow>,
    pub profiles: Vec<ReuseProfile>,
    pub code: Vec<Option<u64>>,
    pub outcome: Outcome,
    pub processes: Vec<ProcessRow>,
    pub notes: Vec<String>,
    pub program: Traced,
}

/// Runs the program of `args` to its end, or until an interrupt.
pub(super) fn every_access(
    ground: &Ground,
    args: &RecordArgs,
    watch: &Watch<'_>,
) -> Result<Observed, Failure> {
    let instructions = args.instructions;
    let options = observing(args.backend, args.children, args.cpu, args.json);
    let traced = Traced::spawn(&args.program, Side::Data, &options)?;
    let threads = args.threads.unwrap_or_else(crate::parallel::available);
    let mut measure = Measure {
        bench: Bench::new(ground, ground.sizes(), threads)?,
        reuse: Reuse::default(),
        line_size: ground.settings.line_size(),
        seen: Default::default(),
    };
    let (line_size, mut windows) = (measure.line_size, 0);
    // A window is measured while the next one is gathered.
    let (driven, measured) = thread::scope(|scope| {
        let (hand_over, handed_over) = mpsc::sync_channel::<WindowSoFar>(0);
        let (give_back, given_back) = mpsc::channel();
        let measuring = scope.spawn(move || {
            let measured: Result<(), Failure> = handed_over.iter().try_for_each(|mut window| {
                measure.window(&window)?;
                window.clear();
                // Its memory is for the window after the next; there may be none.
                let _ = give_back.send(window);
                Ok(())
            });
            measured.map(|()| measure.seen)
        });
        // Whether the program is to run on. Instructions without a memory access go with the next window.
        let mut end = |window: &mut WindowSoFar| {
            if !window.references.is_empty() || window.is_last {
                windows += usize::from(!window.references.is_empty());
                let next = window.followed_by(given_back.try_recv().unwrap_or_default());
                if hand_over.send(std::mem::replace(window, next)).is_err() {
                    return false;
                }
                watch.show_with(|| format!("{windows} windows of {} instructions", count(instructions)));
            }
            !watch.is_interrupted()
        };
        let mut processes = Processes::new();
        let driven = traced.clone().drive(|event| {
            match event {
                Event::Block { address, instructions: more } => {
                    let window = &mut processes.current;
                    if window.instructions >= instructions && !end(window) {
                        return ControlFlow::Break(());
                    }
                    window.block(address, more);
                }
                Event::Access(access) => processes.current.access(&access, line_size),
                Event::Thread(thread) => processes.go_on(thread, traced.process_of(thread)),
                Event::Exit(thread) => {
                    if let Some(mut window) = processes.end(thread, traced.process_of(thread)) {
                        if !end(&mut window) {
                            return ControlFlow::Break(());
                        }
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        for mut window in processes.into_windows() {
            end(&mut window);
        }
        drop(hand_over);
        (driven, measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    driven?;
    let (windows, profiles, code) = measured?;
    Ok(Observed {
        windows,
        profiles,
        code,
        outcome: traced.outcome(),
        processes: traced.processes(),
        notes: traced.notes(),
        program: traced,
    })
}

/// Of each window: what was measured, its reuse, and the block in which most instructions were executed.
type Seen = (Vec<SoloWindow>, Vec<ReuseProfile>, Vec<Option<u64>>);

/// What windows are measured with.
struct Measure {
    bench: Bench,
    reuse: Reuse,
    line_size: LineSize,
    seen: Seen,
}

impl Measure {
    fn window(&mut self, window: &WindowSoFar) -> Result<(), Failure> {
        let (references, accesses) = (&window.references, window.references.len());
        if accesses > 0 {
            let measured = self.bench.window(references.iter().copied(), accesses as u64)?;
            let mix = accesses as f64 / measured.work;
            let curve = CacheCurve::new(measured.points, mix, self.line_size.bytes())?;
            let lines = references.iter().map(|reference| reference.line);
            self.seen.0.push((measured.work, timed(curve, measured.reuse_times)?));
            self.seen.1.push(self.reuse.window(window.process, self.line_size, lines));
            self.seen.2.push(window.hottest());
        }
        if window.is_last {
            self.reuse.forget(window.process);
        }
        Ok(())
    }
}

/// The windows that the processes of a tree are in.
struct Processes {
    current: WindowSoFar,
    others: BTreeMap<usize, WindowSoFar>,
    threads: HashMap<ThreadId, usize>, // that have not ended
}

impl Processes {
    /// The first one, with its first thread.
    fn new() -> Self {
        let threads = HashMap::from([(ThreadId(0), 0)]);
        Self { current: WindowSoFar::default(), others: BTreeMap::new(), threads }
    }

    /// A thread of this process goes on.
    fn go_on(&mut self, thread: ThreadId, process: usize) {
        self.threads.insert(thread, process);
        if process != self.current.process {
            let new = || WindowSoFar { process, ..WindowSoFar::default() };
            let next = self.others.remove(&process).unwrap_or_else(new);
            let before = std::mem::replace(&mut self.current, next);
            self.others.insert(before.process, before);
        }
    }

    /// A thread of this process has ended. If it was the last one, what the process has left.
    fn end(&mut self, thread: ThreadId, process: usize) -> Option<WindowSoFar> {
        self.threads.remove(&thread);
        if self.threads.values().any(|&other| other == process) {
            return None;
        }
        let mut last = if process == self.current.process {
            let next = WindowSoFar { process, ..WindowSoFar::default() };
            std::mem::replace(&mut self.current, next)
        } else {
            self.others.remove(&process)?
        };
        last.is_last = true;
        Some(last)
    }

    /// What is left of those that have not ended.
    fn into_windows(self) -> impl Iterator<Item = WindowSoFar> {
        let Self { current, mut others, .. } = self;
        others.insert(current.process, current);
        others.into_values()
    }
}

/// A window while it lasts.
#[derive(Default)]
struct WindowSoFar {
    process: usize,
    references: Vec<Reference>,
    before: f64, // instructions since the last access
    instructions: u64,
    code: CodeCounts, // instructions by block
    is_last: bool,    // of its process
}

impl WindowSoFar {
    fn block(&mut self, address: u64, instructions: u32) {
        self.instructions += u64::from(instructions);
        self.before += f64::from(instructions);
        *self.code.entry(address).or_default() += u64::from(instructions);
    }

    fn access(&mut self, access: &Access, line_size: LineSize) {
        let (first, last) = line_size.span(access);
        for line in first..=last {
            let instructions = std::mem::take(&mut self.before);
            self.references.push(Reference { line, kind: access.kind, instructions, dependent: false });
        }
    }

    /// The next window of the same process, in the memory of an empty one.
    fn followed_by(&self, empty: Self) -> Self {
        Self { process: self.process, before: self.before, ..empty }
    }

    fn clear(&mut self) {
        self.references.clear();
        self.code.clear();
        (self.instructions, self.is_last) = (0, false);
    }

    fn hottest(&self) -> Option<u64> {
        self.code
            .iter()
            .max_by_key(|&(address, instructions)| (instructions, address))
            .map(|(&address, _)| address)
    }
}
