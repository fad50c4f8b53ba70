//! A running program, measured alone as it runs: every access of it is handed out, and each window is measured while the
//! next one is gathered. Nothing is kept but what is measured.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

use cachesharing::CacheCurve;
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::Side;
use reuse_sampler::{Children, LineSize, ReuseProfile};

use super::Ground;
use super::bench::Bench;
use super::reuse::Reuse;
use super::solo::{SoloWindow, timed};
use crate::cli::{Failure, Watch};
use crate::guided::CodeCounts;
use crate::machines::chip::Reference;
use crate::report::count;
use crate::target::{Backend, Outcome};
use crate::traces::{Merged, Traced};

/// Windows of a program, with their reuse and the block in which most of their instructions are executed.
pub(super) struct Observed {
    pub windows: Vec<SoloWindow>,
    pub profiles: Vec<ReuseProfile>,
    pub code: Vec<Option<u64>>,
    pub outcome: Outcome,
    pub notes: Vec<String>,
    pub program: Traced,
}

/// Runs `command` to its end, or until an interrupt, in windows of `instructions`.
pub(super) fn every_access(
    ground: &Ground,
    command: &[OsString],
    instructions: u64,
    backend: Backend,
    output_to_stderr: bool,
    threads: NonZeroUsize,
    watch: &Watch<'_>,
) -> Result<Observed, Failure> {
    let traced = Traced::spawn(command, Side::Data, backend, Children::Ignore, output_to_stderr)?;
    let mut measure = Measure {
        bench: Bench::new(ground, ground.sizes(), threads)?,
        reuse: Reuse::default(),
        line_size: ground.settings.line_size(),
        seen: Default::default(),
    };
    let (line_size, mut windows) = (measure.line_size, 0);
    let mut window = WindowSoFar::default();
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
            if !window.references.is_empty() {
                let next = given_back.try_recv().unwrap_or_default();
                if hand_over.send(std::mem::replace(window, next)).is_err() {
                    return false;
                }
                windows += 1;
                watch.show_with(|| format!("{windows} windows of {} instructions", count(instructions)));
            }
            !watch.is_interrupted()
        };
        let mut before = 0.0; // instructions since the last access
        let driven = Merged(traced.clone()).drive(|event| {
            match event {
                Event::Block { address, instructions: more } => {
                    if window.instructions >= instructions && !end(&mut window) {
                        return ControlFlow::Break(());
                    }
                    window.instructions += u64::from(more);
                    before += f64::from(more);
                    *window.code.entry(address).or_default() += u64::from(more);
                }
                Event::Access(access) => {
                    let (first, last) = line_size.span(&access);
                    for line in first..=last {
                        let reference =
                            Reference { line, kind: access.kind, instructions: before, dependent: false };
                        window.references.push(reference);
                        before = 0.0;
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        end(&mut window);
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
        let measured = self.bench.window(references.iter().copied(), accesses as u64)?;
        let mix = accesses as f64 / measured.work;
        let curve = CacheCurve::new(measured.points, mix, self.line_size.bytes())?;
        let lines = references.iter().map(|reference| reference.line);
        self.seen.0.push((measured.work, timed(curve, measured.reuse_times)?));
        self.seen.1.push(self.reuse.window(self.line_size, lines));
        self.seen.2.push(window.hottest());
        Ok(())
    }
}

/// A window while it lasts.
#[derive(Default)]
struct WindowSoFar {
    references: Vec<Reference>,
    instructions: u64,
    code: CodeCounts, // instructions by block
}

impl WindowSoFar {
    fn clear(&mut self) {
        self.references.clear();
        self.code.clear();
        self.instructions = 0;
    }

    fn hottest(&self) -> Option<u64> {
        self.code
            .iter()
            .max_by_key(|&(address, instructions)| (instructions, address))
            .map(|(&address, _)| address)
    }
}
