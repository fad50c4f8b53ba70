//! The references of a program as recorded, shared between all who play it.
//!
//! A reference is a line number and a bit for load or store: 4 bytes while all lines lie within 2^31 of each
//! other (128 GiB with 64-byte lines), 8 bytes from the first one that does not.

use reuse_sampler::{Access, AccessKind, LineSize};

use super::ChipError;

/// Half of the lines that 4 bytes can number: how far they may lie on either side of the first one.
const REACH: u64 = 1 << 30;

/// A recorded program: at least one reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    line_size: LineSize,
    references: Packed,
}

/// References with the store bit lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Packed {
    Near { base: u64, offsets: Vec<u32> },
    Far(Vec<u64>),
}

impl Packed {
    fn len(&self) -> u64 {
        (match self {
            Self::Near { offsets, .. } => offsets.len(),
            Self::Far(packed) => packed.len(),
        }) as u64
    }
}

impl Recording {
    /// Records all of `accesses`; one that straddles lines is one reference per line.
    ///
    /// # Errors
    /// [`ChipError::NoAccesses`] if there are none.
    pub fn new(accesses: impl IntoIterator<Item = Access>, line_size: LineSize) -> Result<Self, ChipError> {
        let mut recorder = Recorder::new(line_size);
        for access in accesses {
            recorder.access(&access);
        }
        recorder.finish()
    }

    /// Records loads of `lines`.
    ///
    /// # Errors
    /// [`ChipError::NoAccesses`] if there are none.
    pub fn of_lines(lines: impl IntoIterator<Item = u64>, line_size: LineSize) -> Result<Self, ChipError> {
        let mut recorder = Recorder::new(line_size);
        for line in lines {
            recorder.reference(line, AccessKind::Load);
        }
        recorder.finish()
    }

    /// Line size it was recorded with.
    pub const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// Number of references, at least 1.
    pub fn references(&self) -> u64 {
        self.references.len()
    }

    /// Line and kind of reference number `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(u64, AccessKind)> {
        match &self.references {
            Packed::Near { base, offsets } => {
                offsets.get(index).map(|&p| (base.wrapping_add(u64::from(p >> 1)), kind(u64::from(p))))
            }
            Packed::Far(packed) => packed.get(index).map(|&p| (p >> 1, kind(p))),
        }
    }

    /// The references in order: line and kind.
    pub fn iter(&self) -> impl Iterator<Item = (u64, AccessKind)> + '_ {
        (0..self.references() as usize).map_while(|index| self.get(index))
    }

    /// The lines of the references from number `from` up to `to`, in order; clipped to the recording.
    pub fn lines(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
        (from as usize..to.min(self.references()) as usize).map_while(|index| Some(self.get(index)?.0))
    }
}

const fn kind(packed: u64) -> AccessKind {
    if packed & 1 == 1 { AccessKind::Store } else { AccessKind::Load }
}

/// A recording in the making.
#[derive(Clone, Debug)]
pub struct Recorder {
    line_size: LineSize,
    references: Packed,
}

impl Recorder {
    /// Nothing recorded yet.
    pub const fn new(line_size: LineSize) -> Self {
        Self { line_size, references: Packed::Near { base: 0, offsets: Vec::new() } }
    }

    /// Records an access: one reference for each line that it touches.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        let (first, last) = self.line_size.span(access);
        for line in first..=last {
            self.reference(line, access.kind);
        }
    }

    /// Records a reference. The top bit of a line number, which only lines of 1 byte have, may get lost.
    #[inline]
    pub fn reference(&mut self, line: u64, kind: AccessKind) {
        let store = u64::from(kind == AccessKind::Store);
        match &mut self.references {
            Packed::Near { base, offsets } => {
                if offsets.is_empty() {
                    *base = line.wrapping_sub(REACH);
                }
                let offset = line.wrapping_sub(*base);
                if offset < 2 * REACH {
                    offsets.push((offset << 1 | store) as u32);
                    return;
                }
                let far =
                    offsets.iter().map(|&p| base.wrapping_add(u64::from(p >> 1)) << 1 | u64::from(p & 1));
                self.references = Packed::Far(far.chain([line << 1 | store]).collect());
            }
            Packed::Far(packed) => packed.push(line << 1 | store),
        }
    }

    /// Number of references so far.
    pub fn references(&self) -> u64 {
        self.references.len()
    }

    /// The recording.
    ///
    /// # Errors
    /// [`ChipError::NoAccesses`] if nothing was recorded.
    pub fn finish(self) -> Result<Recording, ChipError> {
        if self.references() == 0 {
            return Err(ChipError::NoAccesses);
        }
        Ok(Recording { line_size: self.line_size, references: self.references })
    }
}
