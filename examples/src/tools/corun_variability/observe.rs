//! A running program, measured alone as it runs: every access of it is handed out, and each window is played on a
//! chip for each size of the shared cache before the next one begins. Nothing is kept but what is measured.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::thread;

use cachesharing::CacheCurve;
use reuse_sampler::ReuseProfile;
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::Side;

use super::Ground;
use super::returns::ReuseWatch;
use super::reuse::Reuse;
use super::solo::{SoloWindow, point};
use crate::cli::{Failure, Watch};
use crate::machines::chip::{Chip, CoreSettings, Counters, Driven, Reference};
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
    let traced = Traced::spawn(command, Side::Data, backend, output_to_stderr)?;
    let mut bench = Bench::new(ground, threads)?;
    let mut window = WindowSoFar::default();
    let mut seen: (Vec<SoloWindow>, Vec<ReuseProfile>, Vec<Option<u64>>) = Default::default();
    let line_size = ground.settings.line_size();
    let mut end = |window: &mut WindowSoFar, bench: &mut Bench| -> Result<(), Failure> {
        // Instructions without a memory access go with the next window.
        if !window.references.is_empty() {
            let (measured, profile) = bench.window(&window.references)?;
            seen.0.push(measured);
            seen.1.push(profile);
            seen.2.push(window.hottest());
            window.references.clear();
            window.instructions = 0;
            window.code.clear();
            let windows = seen.0.len();
            watch.show_with(|| format!("{windows} windows of {} instructions", count(instructions)));
        }
        Ok(())
    };
    let mut before = 0.0; // instructions since the last access
    let broken = Merged(traced.clone()).drive(|event| {
        match event {
            Event::Block { address, instructions: more } => {
                if window.instructions >= instructions {
                    if let Err(failure) = end(&mut window, &mut bench) {
                        return ControlFlow::Break(Some(failure));
                    }
                    if watch.is_interrupted() {
                        return ControlFlow::Break(None);
                    }
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
    if let Some(Some(failure)) = broken? {
        return Err(failure);
    }
    end(&mut window, &mut bench)?;
    let (windows, profiles, code) = seen;
    Ok(Observed {
        windows,
        profiles,
        code,
        outcome: traced.outcome(),
        notes: traced.notes(),
        program: traced,
    })
}

/// A window while it lasts.
#[derive(Default)]
struct WindowSoFar {
    references: Vec<Reference>,
    instructions: u64,
    code: BTreeMap<u64, u64>, // instructions by block
}

impl WindowSoFar {
    fn hottest(&self) -> Option<u64> {
        self.code.iter().max_by_key(|&(_, &instructions)| instructions).map(|(&address, _)| address)
    }
}

/// A chip for each size, and what is counted beside them.
struct Bench {
    line_bytes: u32,
    chips: Vec<(u64, Chip<Driven>)>, // bytes of the shared cache
    threads: usize,
    times: Option<ReuseWatch>,
    reuse: Reuse,
}

impl Bench {
    fn new(ground: &Ground, threads: NonZeroUsize) -> Result<Self, Failure> {
        let geometry = ground.settings.shared.geometry;
        let chip = |bytes: u64| {
            let mut settings = ground.settings.clone();
            let ways = bytes * geometry.ways() / geometry.bytes();
            settings.shared.geometry = geometry.with_ways(ways)?;
            let core = CoreSettings { timing: ground.timing, ..CoreSettings::new(Driven) };
            Ok((bytes, Chip::new(&settings, vec![core])?))
        };
        let chips = ground.sizes().into_iter().map(chip).collect::<Result<_, Failure>>()?;
        let times = ground.reuse_times.then(|| ReuseWatch::new(ground)).transpose()?;
        let line_bytes = ground.settings.line_size().bytes();
        Ok(Self { line_bytes, chips, threads: threads.get(), times, reuse: Reuse::default() })
    }

    /// Plays a window of at least one reference.
    fn window(&mut self, references: &[Reference]) -> Result<(SoloWindow, ReuseProfile), Failure> {
        let each = self.chips.len().div_ceil(self.threads).max(1);
        let counted: Vec<Vec<(u64, Counters)>> = thread::scope(|scope| {
            let play = |chips: &mut [(u64, Chip<Driven>)]| {
                let one = |(bytes, chip): &mut (u64, Chip<Driven>)| {
                    let before = chip.counters(0);
                    for &reference in references {
                        chip.reference(0, reference);
                    }
                    (*bytes, chip.counters(0) - before)
                };
                chips.iter_mut().map(one).collect()
            };
            let parts: Vec<_> =
                self.chips.chunks_mut(each).map(|chips| scope.spawn(move || play(chips))).collect();
            let joined = parts.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        // Those up to the last reference, on every chip alike.
        let work = counted.iter().flatten().next().map_or(0.0, |(_, counters)| counters.instructions);
        let mix = references.len() as f64 / work;
        let points = counted.iter().flatten().map(|(bytes, counters)| point(*bytes, counters)).collect();
        let mut curve = CacheCurve::new(points, mix, self.line_bytes)?;
        let lines = || references.iter().map(|reference| reference.line);
        if let Some(times) = &mut self.times {
            let times = times.window(lines(), references.len())?;
            curve = curve.with_reuse_times(times)?;
        }
        let line_size = reuse_sampler::LineSize::new(self.line_bytes)?;
        Ok(((work, curve), self.reuse.window(line_size, lines())))
    }
}
