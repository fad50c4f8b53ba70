//! What runs on a core: a stream of references, recorded or made up as it goes.

use std::sync::Arc;

use reuse_sampler::{Access, AccessKind, LineSize};

use super::ChipError;

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

impl<P: Program + ?Sized> Program for Box<P> {
    #[inline]
    fn next_reference(&mut self) -> Option<Reference> {
        (**self).next_reference()
    }

    fn restart(&mut self) {
        (**self).restart();
    }
}

/// The references of a program as recorded: 8 bytes each, shared between all who play it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    line_size: LineSize,
    packed: Vec<u64>, // line << 1 | store; never empty
}

impl Recording {
    /// Records all of `accesses`; one that straddles lines is one reference per line.
    ///
    /// The top bit of a line number is dropped, which only lines of 1 byte have.
    ///
    /// # Errors
    /// [`ChipError::NoAccesses`] if there are none.
    pub fn new(accesses: impl IntoIterator<Item = Access>, line_size: LineSize) -> Result<Self, ChipError> {
        let mut packed = Vec::new();
        for access in accesses {
            let (first, last) = line_size.span(&access);
            packed.extend((first..=last).map(|line| pack(line, access.kind)));
        }
        Self::from_packed(packed, line_size)
    }

    /// Records loads of `lines`.
    ///
    /// # Errors
    /// [`ChipError::NoAccesses`] if there are none.
    pub fn of_lines(lines: impl IntoIterator<Item = u64>, line_size: LineSize) -> Result<Self, ChipError> {
        let packed = lines.into_iter().map(|line| pack(line, AccessKind::Load)).collect();
        Self::from_packed(packed, line_size)
    }

    fn from_packed(packed: Vec<u64>, line_size: LineSize) -> Result<Self, ChipError> {
        if packed.is_empty() { Err(ChipError::NoAccesses) } else { Ok(Self { line_size, packed }) }
    }

    /// Line size it was recorded with.
    #[must_use]
    pub const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// Number of references, at least 1.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.packed.len() as u64
    }

    /// The references in order: line and kind.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, AccessKind)> + '_ {
        self.packed.iter().map(|&p| unpack(p))
    }

    /// The lines of the references from number `from` up to `to`, in order; clipped to the recording.
    pub fn lines(&self, from: u64, to: u64) -> impl ExactSizeIterator<Item = u64> + '_ {
        let end = to.min(self.references()) as usize;
        self.packed[(from as usize).min(end)..end].iter().map(|&p| p >> 1)
    }
}

const fn pack(line: u64, kind: AccessKind) -> u64 {
    line << 1 | matches!(kind, AccessKind::Store) as u64
}

const fn unpack(packed: u64) -> (u64, AccessKind) {
    (packed >> 1, if packed & 1 == 1 { AccessKind::Store } else { AccessKind::Load })
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
    #[must_use]
    pub fn starting_at(mut self, offset: u64) -> Self {
        self.position = (offset % self.recording.references()) as usize;
        self
    }

    /// Number of the next reference in the recording.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position as u64
    }

    /// What is played.
    #[must_use]
    pub const fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }
}

impl Program for Player {
    #[inline]
    fn next_reference(&mut self) -> Option<Reference> {
        let &packed = self.recording.packed.get(self.position)?;
        self.position += 1;
        let (line, kind) = unpack(packed);
        Some(Reference { line, kind, instructions: self.instructions, dependent: false })
    }

    fn restart(&mut self) {
        self.position = 0;
    }
}
