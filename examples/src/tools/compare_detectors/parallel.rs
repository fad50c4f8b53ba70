//! Parallel programs (Sembrant, Black-Schaffer, Hagersten, *Phase Behavior in Serial and Parallel Applications*, IISWC
//! 2012, section II.5): the phases of each thread, found by one clusterer, against the number of threads.
//!
//! Two embedded programs share out the same work among 1 to 48 threads, each on a core of its own of the reference chip,
//! with one shared cache. Data-parallel: every thread does all steps on its part of the data, so that steps get shorter
//! the more threads there are. Pipeline-parallel: every thread does one step on all of the data, or a part of it if
//! threads are more than steps. Left out: waiting for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use phase_detect::metrics::{
    per_phase_error, per_phase_variation, phases_for_coverage, whole_program_error, whole_program_variation,
};
use phase_detect::online::{Histories, PrivateHistories, SharedHistories};
use phase_detect::{
    Clusterer, CodeVector, LeaderFollower, LeaderFollowerConfig, PhaseId, RunLengthMarkov, Signature,
};
use reuse_sampler::replay::Event;

use super::experiments::mean;
use crate::cli::Failure;
use crate::machines::chip::{Chip, ChipSettings, CoreSettings, Driven, Reference};
use crate::report::{Cell, Table};
use crate::workloads::{EventStream, Kernel, Segment, Workload};

/// How often the steps are gone through.
const ROUNDS: usize = 12;
/// Windows of these programs are shorter than usual by this factor: many threads share work of a few seconds.
const SHORTER: u64 = 5;

/// How work is shared out.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Every thread does all steps on its part of the data.
    Data,
    /// Every thread does its step on all of the data.
    Pipeline,
}

impl Style {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data-parallel",
            Self::Pipeline => "pipeline-parallel",
        }
    }

    /// Numbers of threads: as many as leave a thread about a window in each round, or twice the steps.
    const fn threads(self) -> &'static [usize] {
        match self {
            Self::Data => &[1, 2, 4, 8, 16, 32, 48],
            Self::Pipeline => &[1, 2, 4, 8],
        }
    }

    /// What each of `threads` threads does.
    fn programs(self, threads: usize, seed: u64) -> Vec<Workload> {
        let share = |thread: usize| -> Vec<usize> {
            match self {
                Self::Data => (0..STEPS).collect(),
                Self::Pipeline if threads >= STEPS => vec![thread % STEPS],
                Self::Pipeline => (thread..STEPS).step_by(threads).collect(),
            }
        };
        // Into how many parts a step's data are divided.
        let parts = match self {
            Self::Data => threads,
            Self::Pipeline => (threads / STEPS).max(1),
        };
        (0..threads)
            .map(|thread| {
                let segments = (0..ROUNDS).flat_map(|_| share(thread)).map(|step| Segment {
                    kernel: step_kernel(step, parts),
                    region: (thread * STEPS + step) as u16,
                    repeat: 1,
                });
                Workload::new(segments.collect(), seed.wrapping_add(thread as u64))
            })
            .collect()
    }
}

/// Steps of both programs.
const STEPS: usize = 4;

/// A step on one of `parts` parts of its data.
fn step_kernel(step: usize, parts: usize) -> Kernel {
    match step {
        0 => Kernel::Stream { length: (32 << 10) / parts, passes: 1 },
        1 => Kernel::Quicksort { keys: (24 << 10) / parts },
        2 => Kernel::HashJoin { build: (16 << 10) / parts, probe: (48 << 10) / parts },
        _ => Kernel::PageRank { vertices: (12 << 10) / parts, degree: 8, iterations: 2 },
    }
}

/// One window of one thread.
pub struct Seen {
    /// The thread.
    pub thread: u64,
    /// Its code.
    pub signature: Signature,
    /// Cycles per instruction, or what is compared in their place.
    pub cost: f64,
}

/// An empty table of programs with threads, of whose windows `cost` is known.
pub fn table(name: &'static str, title: String, cost: &str) -> Table {
    Table::new(
        name,
        title,
        &format!(
            "One clusterer for all threads, a history for each. For 80 and 90 %: phases that hold so many windows. CoV of \
             {cost}: within the program, each thread, each phase, each phase of each thread. Off: mean relative error of \
             taking the program's mean {cost}, or the phase's, for each window. Run: windows in a row of one phase of a \
             thread. Predicted: with private and with shared histories, and by the last value. As Paper II, figures II.2 \
             to II.9."
        ),
        &[],
    )
}

/// The tables, and whether they are whole.
pub fn run(window: u64, seed: u64, interrupted: &AtomicBool) -> Result<(Vec<Table>, bool), Failure> {
    let window = (window / SHORTER).max(1);
    let mut tables = Vec::new();
    for style in [Style::Data, Style::Pipeline] {
        let title = format!("A {} program, windows of {window} instructions", style.name());
        let mut table = table("threads", title, "CPI");
        for &threads in style.threads() {
            let Some(seen) = observe(style.programs(threads, seed), window, seed, interrupted)? else {
                return Ok((tables, false));
            };
            table.push(row(threads, &seen)?);
        }
        tables.push(table);
    }
    Ok((tables, true))
}

/// A thread on its core.
struct Thread {
    events: EventStream,
    code: CodeVector,
    instructions: u64, // in the current window
    pending: f64,      // instructions since the last access
    began: f64,        // cycle at which the window began
}

/// Runs all threads to their ends, the one furthest behind first; `None` if interrupted.
fn observe(
    programs: Vec<Workload>,
    window: u64,
    seed: u64,
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Seen>>, Failure> {
    let settings = ChipSettings::paper()?;
    let cores = programs.iter().map(|_| CoreSettings::new(Driven)).collect();
    let mut chip = Chip::new(&settings, cores)?;
    let mut threads: BTreeMap<usize, Thread> = BTreeMap::new();
    for (number, program) in programs.into_iter().enumerate() {
        let thread = Thread {
            events: program.events()?,
            code: CodeVector::new(phase_detect::signature::DEFAULT_ENTRIES, seed)?,
            instructions: 0,
            pending: 0.0,
            began: 0.0,
        };
        threads.insert(number, thread);
    }
    let mut seen = Vec::new();
    let furthest_behind = |threads: &BTreeMap<usize, Thread>, chip: &Chip<Driven>| {
        threads.keys().copied().min_by(|&a, &b| chip.time(a).total_cmp(&chip.time(b)))
    };
    while let Some(number) = furthest_behind(&threads, &chip) {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(thread) = threads.get_mut(&number) else { break };
        if !thread.turn(number, window, &mut chip, &mut seen) {
            threads.remove(&number);
        }
    }
    Ok(Some(seen))
}

/// Accesses in a turn of a thread: threads are this far apart in time, which is far less than a window.
const TURN: usize = 64;

impl Thread {
    /// Makes some accesses; false once it has ended.
    fn turn(&mut self, core: usize, window: u64, chip: &mut Chip<Driven>, seen: &mut Vec<Seen>) -> bool {
        let mut accesses = 0;
        while accesses < TURN {
            match self.events.next() {
                None => return false,
                Some(Event::Block { address, instructions }) => {
                    if self.instructions >= window {
                        self.end_window(core, chip, seen);
                    }
                    self.code.add(address, f64::from(instructions));
                    self.instructions += u64::from(instructions);
                    self.pending += f64::from(instructions);
                }
                Some(Event::Access(access)) => {
                    accesses += 1;
                    let instructions = std::mem::take(&mut self.pending);
                    let line = access.address >> 6;
                    chip.reference(
                        core,
                        Reference { line, kind: access.kind, instructions, dependent: false },
                    );
                }
                Some(_) => {}
            }
        }
        true
    }

    fn end_window(&mut self, core: usize, chip: &Chip<Driven>, seen: &mut Vec<Seen>) {
        let now = chip.time(core) + self.pending;
        let cpi = (now - self.began) / self.instructions as f64;
        self.began = now;
        self.instructions = 0;
        // There is a block in every window.
        if let Ok(signature) = self.code.finish() {
            seen.push(Seen { thread: core as u64, signature, cost: cpi });
        }
    }
}

/// Everything about the windows of a program with `threads` threads.
pub fn row(threads: usize, seen: &[Seen]) -> Result<[(&'static str, Cell); 15], phase_detect::Error> {
    let config = LeaderFollowerConfig {
        threshold: phase_detect::cluster::DEFAULT_THRESHOLD,
        ..LeaderFollowerConfig::default()
    };
    let mut clusterer = LeaderFollower::new(config)?;
    let mut labels: Vec<PhaseId> = Vec::new();
    for window in seen {
        labels.push(clusterer.classify(&window.signature)?.phase);
    }
    let costs: Vec<f64> = seen.iter().map(|window| window.cost).collect();
    let of_thread: Vec<u64> = seen.iter().map(|window| window.thread).collect();
    let both: Vec<(u64, PhaseId)> = of_thread.iter().copied().zip(labels.iter().copied()).collect();
    let private = accuracy(PrivateHistories::new(RunLengthMarkov::default()), &both);
    let shared = accuracy(SharedHistories::default(), &both);
    let (stayed, runs) = stays(&both);
    Ok([
        ("threads", Cell::from(threads)),
        ("windows", Cell::from(seen.len())),
        ("phases", Cell::from(labels.iter().max().map_or(0, |most| most.index() + 1))),
        ("for 80 %", Cell::from(phases_for_coverage(&labels, 0.8)?)),
        ("for 90 %", Cell::from(phases_for_coverage(&labels, 0.9)?)),
        ("CoV program", Cell::Share(whole_program_variation(&costs)?)),
        ("threads' CoV", Cell::Share(per_phase_variation(&of_thread, &costs)?)),
        ("phases' CoV", Cell::Share(per_phase_variation(&labels, &costs)?)),
        ("both", Cell::Share(per_phase_variation(&both, &costs)?)),
        ("off by program", Cell::Share(whole_program_error(&costs)?)),
        ("off by phase", Cell::Share(per_phase_error(&labels, &costs)?)),
        ("run", Cell::Number(runs)),
        ("private", private.into()),
        ("shared", shared.into()),
        ("last value", stayed.into()),
    ])
}

/// Share of windows whose phase was predicted, over all threads.
fn accuracy(mut histories: impl Histories<u64>, windows: &[(u64, PhaseId)]) -> Option<f64> {
    let mut right = Vec::new();
    for &(thread, phase) in windows {
        if let Some(predicted) = histories.predict(thread) {
            right.push(f64::from(u8::from(predicted.phase == phase)));
        }
        histories.observe(thread, phase);
    }
    (!right.is_empty()).then(|| mean(right.into_iter()))
}

/// Share of windows whose phase is that of the thread's window before, and windows in a row on average.
fn stays(windows: &[(u64, PhaseId)]) -> (Option<f64>, f64) {
    let mut last: BTreeMap<u64, PhaseId> = BTreeMap::new();
    let (mut same, mut runs) = (0_usize, 0_usize);
    for &(thread, phase) in windows {
        if last.insert(thread, phase) == Some(phase) {
            same += 1;
        } else {
            runs += 1;
        }
    }
    let followed = windows.len() - last.len().min(windows.len());
    ((followed > 0).then(|| same as f64 / followed as f64), windows.len() as f64 / runs.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(length: usize, region: u16) -> Workload {
        let step = |kernel| Segment { kernel, region, repeat: 1 };
        let stream = Kernel::Stream { length, passes: 2 };
        let gather = Kernel::Gather { length: 64, picks: 4 * length };
        Workload::new(vec![step(stream), step(gather), step(stream)], 3)
    }

    fn instructions(program: &Workload) -> u64 {
        let mut instructions = 0;
        program.run(&mut |event| {
            if let Event::Block { instructions: n, .. } = event {
                instructions += u64::from(n);
            }
        });
        instructions
    }

    /// Two threads of one program on lines of their own, in a cache that holds both: each is what it is alone.
    #[test]
    fn threads_that_share_nothing_are_as_if_alone() {
        let go = AtomicBool::new(false);
        let alone = observe(vec![program(4000, 0)], 10_000, 1, &go).unwrap().unwrap();
        let together = observe(vec![program(4000, 0), program(4000, 1)], 10_000, 1, &go).unwrap().unwrap();
        let whole = instructions(&program(4000, 0)) / 10_000;
        // windows end with a block, so that they are a little longer than 10,000 instructions
        assert!((whole - 1..=whole).contains(&(alone.len() as u64)), "{} of {whole}", alone.len());
        assert_eq!(together.len(), 2 * alone.len());
        for thread in 0..2 {
            let own: Vec<&Seen> = together.iter().filter(|seen| seen.thread == thread).collect();
            assert!(own.iter().zip(&alone).all(|(a, b)| a.signature == b.signature));
            for (a, b) in own.iter().zip(&alone) {
                assert!((a.cost - b.cost).abs() < 1e-9, "{} {}", a.cost, b.cost);
            }
        }
        assert!(observe(vec![program(4000, 0)], 10_000, 1, &AtomicBool::new(true)).unwrap().is_none());
    }

    #[test]
    fn windows_in_a_row_are_counted_by_thread() {
        let phases = |text: &str| -> Vec<(u64, PhaseId)> {
            // thread 0 and thread 1 in turn
            (0_u64..).zip(text.bytes()).map(|(at, b)| (at % 2, PhaseId::new(u32::from(b - b'a')))).collect()
        };
        // thread 0: a a a b; thread 1: c c d c
        let windows = phases("acacadbc");
        let (same, runs) = stays(&windows);
        assert_eq!((same, runs), (Some(3.0 / 6.0), 8.0 / 5.0));
        let last = accuracy(PrivateHistories::new(phase_detect::LastValue::new()), &windows);
        assert_eq!(last, same);
    }

    /// However many threads, the work is the same but for what does not divide.
    #[test]
    fn work_is_shared_out() {
        let total = |style: Style, threads| -> u64 {
            style.programs(threads, 1).iter().map(instructions).sum::<u64>()
        };
        for style in [Style::Data, Style::Pipeline] {
            let one = total(style, 1) as f64;
            for threads in [2, 4] {
                let ratio = total(style, threads) as f64 / one;
                // sorting parts takes fewer comparisons than sorting all
                assert!((0.85..1.1).contains(&ratio), "{style:?}, {threads} threads: {ratio}");
            }
        }
    }
}
