//! What runs on a core: a stream of references, recorded or made up as it goes.

use std::sync::Arc;

use reuse_sampler::AccessKind;

use super::{ChipError, Recording};

/// One reference of a program to one line, with the instructions that lead up to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// The line, without owner.
    pub line: u64,
    /// Load or store.
    pub kind: AccessKind,
    /// Instructions executed from the last reference to this one, this one's included: 1 / mix on average.
    /// Not negative.
    pub instructions: f64,
    /// Whether the address comes from the load before, so that the two cannot overlap. Only the out-of-order
    /// core looks at it.
    pub dependent: bool,
}

/// A program as a core sees it.
///
/// A program that never ends (a pirate, a random walk) answers `Some` for ever; what it does may be changed
/// between two calls through [`Chip::program_mut`](super::Chip::program_mut).
pub trait Program {
    /// The next reference, or `None` where the program has ended.
    fn next_reference(&mut self) -> Option<Reference>;

    /// Starts over, from the beginning.
    fn restart(&mut self);
}

/// Plays nothing: of a core that is handed its references one by one.
#[derive(Clone, Copy, Debug)]
pub struct Driven;

impl Program for Driven {
    fn next_reference(&mut self) -> Option<Reference> {
        None
    }

    fn restart(&mut self) {}
}

/// Plays a recording, at a constant number of instructions per reference.
#[derive(Clone, Debug)]
pub struct Player {
    recording: Arc<Recording>,
    position: usize, // <= number of references
    instructions: f64,
}

impl Player {
    /// Plays `recording` with `mix` references per instruction.
    ///
    /// # Errors
    /// [`ChipError::Timing`] unless `mix` is finite and greater than 0.
    pub fn new(recording: Arc<Recording>, mix: f64) -> Result<Self, ChipError> {
        if !(mix.is_finite() && mix > 0.0 && (1.0 / mix).is_finite()) {
            let remedy = "a finite number of accesses per instruction above 0";
            return Err(ChipError::Timing { what: "mix", value: mix, remedy });
        }
        Ok(Self { recording, position: 0, instructions: 1.0 / mix })
    }

    /// The same, but the first pass begins at reference number `offset` (modulo the length).
    pub fn starting_at(mut self, offset: u64) -> Self {
        self.position = (offset % self.recording.references()) as usize;
        self
    }
}

impl Program for Player {
    #[inline]
    fn next_reference(&mut self) -> Option<Reference> {
        let (line, kind) = self.recording.get(self.position)?;
        self.position += 1;
        Some(Reference { line, kind, instructions: self.instructions, dependent: false })
    }

    fn restart(&mut self) {
        self.position = 0;
    }
}
