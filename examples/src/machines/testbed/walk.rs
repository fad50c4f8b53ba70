//! What runs on the simulated chip: the target, and pirate threads that walk their part of the stolen lines.

use reuse_sampler::AccessKind;

use crate::machines::chip::{Program, Reference};

/// A program on one of the chip's cores.
#[derive(Clone, Debug)]
pub enum Side<P, R = Walk> {
    /// The program under test.
    Target(P),
    /// What takes cache from it: a thread of the pirate, or its rival.
    Rival(R),
}

/// A linear walk over lines, again and again. Never ends; without lines it must not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    first: u64,
    stride: u64,
    lines: u64,
    next: u64, // < max(lines, 1)
    instructions: f64,
}

impl Walk {
    /// A walk without lines that executes so many instructions per line.
    pub const fn new(instructions: f64) -> Self {
        Self { first: 0, stride: 1, lines: 0, next: 0, instructions }
    }

    /// Walks `lines` lines, every `stride`-th from `first` on, from now on.
    pub const fn assign(&mut self, first: u64, stride: u64, lines: u64) {
        self.first = first;
        self.stride = stride;
        self.lines = lines;
        self.next = 0;
    }

    /// Number of lines.
    pub const fn lines(&self) -> u64 {
        self.lines
    }
}

impl Program for Walk {
    #[inline]
    fn next_reference(&mut self) -> Option<Reference> {
        let line = self.first + self.stride * self.next;
        self.next = if self.next + 1 >= self.lines { 0 } else { self.next + 1 };
        let (kind, instructions) = (AccessKind::Load, self.instructions);
        Some(Reference { line, kind, instructions, dependent: false })
    }

    fn restart(&mut self) {
        self.next = 0;
    }
}

impl<P: Program, R: Program> Program for Side<P, R> {
    #[inline]
    fn next_reference(&mut self) -> Option<Reference> {
        match self {
            Self::Target(program) => program.next_reference(),
            Self::Rival(rival) => rival.next_reference(),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Target(program) => program.restart(),
            Self::Rival(rival) => rival.restart(),
        }
    }
}
