//! Signatures of code, from the executions of every block: all of them, or so many random samples.
//!
//! What ScarPhase samples with hardware counters (instruction pointers, branches, conditional branches) is drawn here
//! with the probabilities the counts give, so that one run serves every number of samples.

use phase_detect::signature::{self, BlockTable, BranchVector, Branches, MappedCodeVector};
use phase_detect::{CodeVector, Error, Signature};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::recording::{Block, Recording, Window};

/// A vector of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// Every block, weighted by instructions.
    Bbv,
    /// Sampled instruction pointers.
    Eipv,
    /// Sampled instruction pointers mapped to their blocks.
    Mbbv,
    /// Sampled branches.
    Brv,
    /// Sampled conditional branches.
    Cbrv,
}

impl CodeKind {
    /// Those that are sampled.
    pub const SAMPLED: [Self; 4] = [Self::Eipv, Self::Mbbv, Self::Brv, Self::Cbrv];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Bbv => "BBV",
            Self::Eipv => "EIPV",
            Self::Mbbv => "MBBV",
            Self::Brv => "BRV",
            Self::Cbrv => "CBRV",
        }
    }

    /// Entries of the vector: sampled ones are as short as ScarPhase's, full ones longer.
    const fn entries(self) -> usize {
        match self {
            Self::Bbv => signature::DEFAULT_ENTRIES,
            _ => signature::SAMPLED_ENTRIES,
        }
    }

    /// How often the event that is sampled happens in an execution of `block`.
    fn weight(self, block: &Block) -> u64 {
        match self {
            Self::Bbv | Self::Eipv | Self::Mbbv => u64::from(block.instructions),
            Self::Brv => 1,
            Self::Cbrv => u64::from(block.conditional),
        }
    }
}

/// Builds vectors of one kind from a recording.
pub struct CodeSource<'a> {
    kind: CodeKind,
    blocks: &'a [Block],
    builder: Builder,
    random: StdRng,
    // cumulative number of events of the window, and their block
    events: Vec<(u64, u32)>,
}

enum Builder {
    Code(CodeVector),
    Mapped(Box<MappedCodeVector>),
    Branches(BranchVector),
}

impl<'a> CodeSource<'a> {
    pub fn new(kind: CodeKind, recording: &'a Recording, seed: u64) -> Result<Self, Error> {
        Self::with_entries(kind, recording, kind.entries(), seed)
    }

    /// With vectors of another length.
    pub fn with_entries(
        kind: CodeKind,
        recording: &'a Recording,
        entries: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let blocks = &recording.blocks;
        let builder = match kind {
            CodeKind::Bbv | CodeKind::Eipv => Builder::Code(CodeVector::new(entries, seed)?),
            CodeKind::Mbbv => {
                let table = BlockTable::new(extents(blocks))?;
                Builder::Mapped(Box::new(MappedCodeVector::new(table, entries, seed)?))
            }
            CodeKind::Brv => Builder::Branches(BranchVector::new(Branches::All, entries, seed)?),
            CodeKind::Cbrv => Builder::Branches(BranchVector::new(Branches::Conditional, entries, seed)?),
        };
        Ok(Self { kind, blocks, builder, random: StdRng::seed_from_u64(seed), events: Vec::new() })
    }

    /// The vector of a window: of all executions for a BBV, else of so many samples. `None` where the event that is
    /// sampled did not happen.
    pub fn signature(&mut self, window: &Window, samples: u64) -> Option<Signature> {
        self.events.clear();
        let mut total = 0;
        for &(number, count) in &window.executions {
            total += count * self.kind.weight(&self.blocks[number as usize]);
            self.events.push((total, number));
        }
        if total == 0 {
            return None;
        }
        if self.kind == CodeKind::Bbv {
            self.add_all(window);
        } else {
            for _ in 0..samples {
                let event = self.random.random_range(0..total);
                let at = self.events.partition_point(|&(until, _)| until <= event);
                self.add(self.events[at].1);
            }
        }
        match &mut self.builder {
            Builder::Code(code) => code.finish(),
            Builder::Mapped(code) => code.finish(),
            Builder::Branches(code) => code.finish(),
        }
        .ok()
    }

    /// A sample in a block.
    fn add(&mut self, number: u32) {
        let block = self.blocks[number as usize];
        let instruction = |random: &mut StdRng| {
            block.address + 4 * u64::from(random.random_range(0..block.instructions.max(1)))
        };
        match &mut self.builder {
            Builder::Code(code) => code.add(instruction(&mut self.random), 1.0),
            Builder::Mapped(code) => code.add(instruction(&mut self.random)),
            Builder::Branches(code) => code.add(block.branch(), block.conditional),
        }
    }

    /// Every execution of every block.
    fn add_all(&mut self, window: &Window) {
        if let Builder::Code(code) = &mut self.builder {
            for &(number, count) in &window.executions {
                let block = self.blocks[number as usize];
                code.add(block.address, count as f64 * f64::from(block.instructions));
            }
        }
    }
}

/// Where blocks begin and end; one that would reach into the next ends there, and of several at one address the first
/// counts.
fn extents(blocks: &[Block]) -> Vec<(u64, u64)> {
    let mut blocks: Vec<(u64, u64)> =
        blocks.iter().map(|block| (block.address, 4 * u64::from(block.instructions.max(1)))).collect();
    blocks.sort_unstable();
    for at in 1..blocks.len() {
        let next = blocks[at].0;
        let (start, bytes) = &mut blocks[at - 1];
        *bytes = (*bytes).min(next - *start).max(1);
    }
    blocks
}
