//! The state of one replayed thread.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::engine::tracker::{Mode, Tracker};
use crate::{Access, LineSize, ThreadId, Window, WindowIndex};

use super::sampler::WindowLength;
use super::window_from;

/// One multiplication: block addresses need no protection against collisions.
#[derive(Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Counts of one thread, from one window boundary to the next.
pub(super) struct ThreadState {
    id: ThreadId,
    tracker: Tracker,
    mode: Mode,
    index: WindowIndex,
    instructions: u64, // in this window
    accesses: u64,     // in this window
    progress: u64,     // since the thread began, in the unit of the window length
    boundary: u64,     // progress at which the window is complete
    code: HashMap<u64, u64, BuildHasherDefault<AddressHasher>>,
}

impl ThreadState {
    pub(super) fn new(id: ThreadId, seed: u64, length: WindowLength) -> Self {
        Self {
            id,
            tracker: Tracker::new(seed, u64::from(id.0)),
            mode: Mode::Off,
            index: WindowIndex(0),
            instructions: 0,
            accesses: 0,
            progress: 0,
            boundary: length.get(),
            code: HashMap::default(),
        }
    }

    pub(super) fn begin(&mut self, index: WindowIndex, mode: Mode) {
        self.index = index;
        self.mode = mode;
        self.tracker.begin_window(index.0, mode);
    }

    /// Whether the window is complete: the next block or access belongs to the following one.
    #[inline]
    pub(super) const fn complete(&self) -> bool {
        self.progress >= self.boundary
    }

    #[inline]
    pub(super) fn block(&mut self, address: u64, instructions: u32, length: WindowLength) {
        let instructions = u64::from(instructions);
        *self.code.entry(address).or_default() += instructions;
        self.instructions += instructions;
        if let WindowLength::Instructions(_) = length {
            self.progress += instructions;
        }
    }

    #[inline]
    pub(super) fn access(&mut self, access: &Access, line_size: LineSize, length: WindowLength) {
        let (first, last) = line_size.span(access);
        let store = access.kind == crate::AccessKind::Store;
        let lines = last - first + 1;
        self.accesses += lines;
        if let WindowLength::Accesses(_) = length {
            self.progress += lines;
        }
        if self.mode != Mode::Off {
            self.tracker.access(first, access.pc, store);
            for line in first + 1..=last {
                self.tracker.access(line, access.pc, store);
            }
        }
    }

    /// Ends the window: at its boundary, with the thread, or because observation stops.
    pub(super) fn end(&mut self, how: End, length: WindowLength, line_size: LineSize) -> Window {
        let report = match how {
            End::Boundary => self.tracker.end_window(),
            End::Thread => self.tracker.end_thread(),
            End::Interrupted => self.tracker.interrupt(),
        };
        let mut window = window_from(report, self.index, self.id, line_size, true);
        // A replayed access is counted even where it is not shown to the tracker.
        window.accesses = crate::AccessCount::Measured(std::mem::take(&mut self.accesses));
        window.instructions = std::mem::take(&mut self.instructions);
        window.code = self.code.drain().collect();
        window.code.sort_unstable();
        self.boundary = (self.progress / length.get()).saturating_add(1).saturating_mul(length.get());
        window
    }

    /// Whether anything happened since the last boundary, or is still to be reported.
    pub(super) const fn is_idle(&self) -> bool {
        self.instructions == 0 && self.accesses == 0
    }
}

/// How a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Boundary,
    Thread,
    Interrupted,
}
