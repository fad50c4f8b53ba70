//! Targets: the paper's two micro-benchmarks, and the embedded workloads as recordings.

use std::sync::Arc;

use reuse_sampler::replay::Event;
use reuse_sampler::{AccessKind, LineSize};

use crate::machines::chip::{ChipError, Player, Program, Recorder, Recording, Reference};
use crate::machines::random;
use crate::workloads::Workload;

/// The paper's micro-benchmarks (figure 5): an array of lines, read at random or in order. Never ends.
#[derive(Clone, Debug)]
pub struct Micro {
    lines: u64, // >= 1
    next: u64,
    random: Option<u64>, // state of the generator
    instructions: f64,
}

impl Micro {
    /// Reads `lines` lines (at least 1) in order, over and over, every fourth instruction.
    pub const fn sequential(lines: u64) -> Self {
        Self { lines: if lines == 0 { 1 } else { lines }, next: 0, random: None, instructions: 4.0 }
    }

    /// The same with a read only every so many instructions.
    pub const fn every(self, instructions: f64) -> Self {
        Self { instructions, ..self }
    }

    /// Reads them at random.
    pub const fn random(lines: u64, seed: u64) -> Self {
        Self { random: Some(seed), ..Self::sequential(lines) }
    }
}

impl Program for Micro {
    fn next_reference(&mut self) -> Option<Reference> {
        let line = if let Some(state) = &mut self.random {
            random::next(state) % self.lines
        } else {
            let line = self.next;
            self.next = (self.next + 1) % self.lines;
            line
        };
        let (kind, instructions) = (AccessKind::Load, self.instructions);
        Some(Reference { line, kind, instructions, dependent: false })
    }

    fn restart(&mut self) {
        self.next = 0;
    }
}

/// A recorded program.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What it is called.
    pub name: String,
    /// Its references.
    pub recording: Arc<Recording>,
    /// References per instruction.
    pub mix: f64,
}

impl Recorded {
    /// A recording of which `mix` accesses are made per instruction.
    ///
    /// # Errors
    /// [`ChipError::Timing`] unless `mix` is finite and above 0.
    pub fn new(name: String, recording: Recording, mix: f64) -> Result<Self, ChipError> {
        let recording = Arc::new(recording);
        Player::new(Arc::clone(&recording), mix)?;
        Ok(Self { name, recording, mix })
    }

    /// Records an embedded workload, with its own mix.
    ///
    /// # Errors
    /// [`ChipError::NoAccesses`] if it makes no access.
    pub fn workload(name: &str, workload: &Workload, line_size: LineSize) -> Result<Self, ChipError> {
        let mut instructions = 0_u64;
        let mut recorder = Recorder::new(line_size);
        workload.run(&mut |event| match event {
            Event::Access(access) => recorder.access(&access),
            Event::Block { instructions: more, .. } => instructions += u64::from(more),
            _ => {}
        });
        let recording = recorder.finish()?;
        let mix = recording.references() as f64 / instructions.max(1) as f64;
        Self::new(name.to_owned(), recording, mix)
    }

    /// A player at the beginning.
    ///
    /// # Errors
    /// None: the mix was checked.
    pub fn player(&self) -> Result<Player, ChipError> {
        Player::new(Arc::clone(&self.recording), self.mix)
    }

    /// Instructions in a pass.
    pub fn instructions(&self) -> f64 {
        self.recording.references() as f64 / self.mix
    }
}
