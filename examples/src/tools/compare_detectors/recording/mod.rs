//! One run of a program, kept so that every detector can be tried on the same windows.
//!
//! Per window: how often each block was executed (from which any number of samples can be drawn afterwards), what the
//! reference caches and the reference chip made of it, and the ready signatures of memory.

mod memory;
mod truth;

use std::collections::HashMap;

use memory::{Builders, Seen};
pub use memory::{GRID_MODULI, GRID_SIZES, MemorySignatures, grid_name};
use reuse_sampler::replay::Event;
use reuse_sampler::{Access, AccessKind};
use truth::{Events, Machine, TwoLevels};

use crate::cli::Failure;
use crate::traces::Windows;
use crate::workloads::Sink;

/// Short windows in one window: experiments on the length of windows put them together differently.
pub const PARTS: usize = 8;

/// Names of the counted events, in the order of [`Window::counters`].
pub const COUNTERS: [&str; 17] = [
    "instructions",
    "loads",
    "stores",
    "branches",
    "backward branches",
    "changed branch targets",
    "short blocks",
    "long blocks",
    "accesses in sequence",
    "accesses far from the last",
    "cycles",
    "stall cycles",
    "L1 misses",
    "L2 accesses",
    "L2 misses",
    "prefetches",
    "TLB misses",
];
/// The first of them that depend on the machine.
const MACHINE: usize = 10;

/// Instructions from which on a block is long, and up to which it is short.
const LONG: u32 = 7;
const SHORT: u32 = 4;

/// A basic block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub address: u64,
    pub instructions: u32,
    /// Whether it was followed by different blocks, or by itself: it ends in a branch that decides something.
    pub conditional: bool,
}

impl Block {
    /// Address of the branch at its end. Instructions are taken to be four bytes long.
    pub fn branch(&self) -> u64 {
        self.address + 4 * u64::from(self.instructions.max(1) - 1)
    }
}

/// What one window did, or several together.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub instructions: u64,
    pub accesses: u64,
    /// Misses of the wavelet paper's second level.
    pub l2_misses: u64,
    /// Blocks by number, ascending, and how often each was executed.
    pub executions: Vec<(u32, u64)>,
    /// [`COUNTERS`] on the reference chip, and on its other configuration.
    pub counters: [[f64; COUNTERS.len()]; 2],
}

impl Window {
    /// Cycles per instruction on the reference chip.
    pub fn cpi(&self) -> f64 {
        self.counters[0][MACHINE] / (self.instructions as f64).max(1.0)
    }

    /// Misses of the second level per access.
    pub fn miss_ratio(&self) -> f64 {
        self.l2_misses as f64 / (self.accesses as f64).max(1.0)
    }

    /// Several windows as one.
    pub fn merged(parts: &[Self]) -> Self {
        let mut whole = Self::default();
        let mut executions: HashMap<u32, u64> = HashMap::new();
        for part in parts {
            whole.instructions += part.instructions;
            whole.accesses += part.accesses;
            whole.l2_misses += part.l2_misses;
            for &(block, count) in &part.executions {
                *executions.entry(block).or_default() += count;
            }
            for (sums, counts) in whole.counters.iter_mut().zip(&part.counters) {
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        whole.executions = executions.into_iter().collect();
        whole.executions.sort_unstable();
        whole
    }
}

/// A whole run.
pub struct Recording {
    pub name: String,
    /// Whether it is an embedded workload.
    pub embedded: bool,
    pub blocks: Vec<Block>,
    /// Windows, each in [`PARTS`] parts of about equal length.
    pub parts: Vec<Window>,
    /// Instructions in a window.
    pub window: u64,
    pub memory: Vec<MemorySignatures>,
    pub incomplete: bool,
}

impl Recording {
    /// The windows.
    pub fn windows(&self) -> Vec<Window> {
        self.windows_of(PARTS)
    }

    /// Windows of `parts` parts each; what is left at the end is no window.
    pub fn windows_of(&self, parts: usize) -> Vec<Window> {
        self.parts.chunks_exact(parts).map(Window::merged).collect()
    }

    /// Instructions in a window of `parts` parts.
    pub fn length_of(&self, parts: usize) -> u64 {
        self.window * parts as u64 / PARTS as u64
    }
}

/// Takes the events of a run.
pub struct Recorder {
    recording: Recording,
    part: u64, // instructions in a part, at least 1
    current: Window,
    numbers: HashMap<u64, u32>,
    counts: Vec<u64>, // of the current part, per block
    touched: Vec<u32>,
    successors: Vec<Option<u32>>,
    last_block: Option<u32>,
    last_address: u64,
    clock: u64, // instructions since the start of the window
    caches: TwoLevels,
    machines: [Machine; 2],
    before: [Events; 2],
    builders: Builders,
}

/// How a run is recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordingOptions {
    pub window: u64,
    pub stride_entries: usize,
    pub seed: u64,
    pub embedded: bool,
    /// Wavelets of many sizes instead of the usual signatures.
    pub grid: bool,
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new(name: &str, options: RecordingOptions) -> Result<Self, Failure> {
        let RecordingOptions { window, stride_entries, seed, embedded, grid } = options;
        Ok(Self {
            recording: Recording {
                name: name.to_owned(),
                embedded,
                blocks: Vec::new(),
                parts: Vec::new(),
                window,
                memory: Vec::new(),
                incomplete: false,
            },
            part: (window / PARTS as u64).max(1),
            current: Window::default(),
            numbers: HashMap::new(),
            counts: Vec::new(),
            touched: Vec::new(),
            successors: Vec::new(),
            last_block: None,
            last_address: 0,
            clock: 0,
            caches: TwoLevels::new()?,
            machines: [Machine::new(false)?, Machine::new(true)?],
            before: Default::default(),
            builders: Builders::new(window, stride_entries, seed, grid).map_err(Failure::usage)?,
        })
    }

    fn block(&mut self, address: u64, instructions: u32) {
        if self.current.instructions >= self.part {
            self.end_part();
        }
        let number = *self.numbers.entry(address).or_insert_with(|| {
            self.recording.blocks.push(Block { address, instructions, conditional: false });
            self.counts.push(0);
            self.successors.push(None);
            self.recording.blocks.len() as u32 - 1
        });
        let at = number as usize;
        if self.counts[at] == 0 {
            self.touched.push(number);
        }
        self.counts[at] += 1;
        self.current.instructions += u64::from(instructions);
        self.clock += u64::from(instructions);
        let counters = &mut self.current.counters[0];
        counters[3] += 1.0;
        counters[6] += f64::from(u8::from(instructions <= SHORT));
        counters[7] += f64::from(u8::from(instructions >= LONG));
        if let Some(last) = self.last_block.replace(number) {
            let from = &mut self.recording.blocks[last as usize];
            counters[4] += f64::from(u8::from(address <= from.address));
            let before = self.successors[last as usize].replace(number);
            let changed = before.is_some_and(|before| before != number);
            from.conditional |= changed || last == number;
            counters[5] += f64::from(u8::from(changed));
        }
        for machine in &mut self.machines {
            machine.instructions(instructions);
        }
    }

    fn access(&mut self, access: &Access) {
        self.current.accesses += 1;
        let (_, misses) = self.caches.access(access);
        self.current.l2_misses += misses;
        let counters = &mut self.current.counters[0];
        counters[if access.kind == AccessKind::Load { 1 } else { 2 }] += 1.0;
        let distance = access.address.abs_diff(std::mem::replace(&mut self.last_address, access.address));
        if distance <= 64 {
            counters[8] += 1.0;
        } else if distance >= 4096 {
            counters[9] += 1.0;
        }
        for machine in &mut self.machines {
            machine.access(access.address, access.kind);
        }
        let time = self.clock.saturating_sub(1).min(self.recording.window.saturating_sub(1));
        self.builders.access(Seen { pc: access.pc, address: access.address, time, missed: misses > 0 });
    }

    fn end_part(&mut self) {
        let mut part = std::mem::take(&mut self.current);
        self.touched.sort_unstable();
        part.executions =
            self.touched.drain(..).map(|b| (b, std::mem::take(&mut self.counts[b as usize]))).collect();
        part.counters[0][0] = part.instructions as f64;
        part.counters[1] = part.counters[0];
        for ((machine, before), counters) in
            self.machines.iter().zip(&mut self.before).zip(&mut part.counters)
        {
            let now = machine.events();
            let was = std::mem::replace(before, now);
            let since = now.iter().zip(was).map(|(now, was)| now - was);
            counters[MACHINE..].iter_mut().zip(since).for_each(|(counter, count)| *counter = count);
        }
        self.recording.parts.push(part);
        if self.recording.parts.len() % PARTS == 0 {
            self.builders.finish();
            self.clock = 0;
        }
    }

    /// Ends the run. A window that was begun and not finished is left out.
    pub fn finish(mut self, incomplete: bool) -> Result<Recording, Failure> {
        if self.current.instructions >= self.part {
            self.end_part();
        }
        let whole = self.windows();
        if whole < 2 && incomplete {
            return Err(Failure::Run("interrupted before there were windows to compare".to_owned()));
        }
        if whole < 2 {
            return Err(Failure::Run(format!(
                "{} makes {whole} windows of {} instructions: give shorter windows with --window",
                self.recording.name, self.recording.window
            )));
        }
        self.recording.parts.truncate(whole * PARTS);
        self.recording.memory = self.builders.into_signatures();
        self.recording.incomplete = incomplete;
        Ok(self.recording)
    }
}

impl Windows for Recorder {
    fn windows(&self) -> usize {
        self.recording.parts.len() / PARTS
    }
}

impl Sink for Recorder {
    fn event(&mut self, event: Event) {
        match event {
            Event::Block { address, instructions } => self.block(address, instructions),
            Event::Access(access) => self.access(&access),
            // Threads take turns on one core.
            _ => {}
        }
    }
}
