//! The state of one emulated thread.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Instant;

use crate::engine::tracker::{Mode, Tracker};
use crate::operand::Pieces;

/// Counts of one thread. Its own thread changes it; another one reads it only while this one is halted,
/// except for the two atomics.
#[repr(C, align(128))]
pub struct Thread {
    // What every block and every access touches comes first.
    /// Instructions executed since the thread began.
    pub progress: u64,
    /// Progress at which something is to be done before the next block is counted; 0 for "at once".
    pub limit: AtomicU64,
    /// Instructions executed in this window, by block number. Grown when a larger number turns up.
    pub counts: *mut u64,
    /// Length of `counts`.
    pub capacity: usize,
    /// Whether accesses are shown to the tracker.
    pub active: bool,
    /// Binary logarithm of the line size.
    pub line_shift: u32,
    pub tracker: Tracker,
    /// The operand accessed last by an instruction whose operands come in pieces.
    pub pieces: Pieces,
    /// Accesses of this window beyond the first of each operand: to further lines, and stores of read-modify-writes.
    pub further: u64,
    // The rest is used at boundaries.
    pub number: u32,
    pub phase: Phase,
    pub window: Option<Window>,
    /// Progress at which the window is complete.
    pub boundary: u64,
    /// Whether this thread counts among those that need accesses to be reported.
    pub needs: bool,
    /// Samples open at the last boundary.
    pub open: u64,
    /// A [`status`].
    pub status: AtomicU32,
    /// Address of what a system call in progress writes about a child that has ended; 0 if it writes nothing.
    pub waits: u64,
}

/// A window in progress.
pub struct Window {
    pub index: u64,
    pub mode: Mode,
    /// Progress at its first block.
    pub began: u64,
    /// Progress at the first block whose accesses are seen, if any.
    pub seen_from: Option<u64>,
    pub since: Instant,
}

/// What the next block means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is the first one of the thread.
    Fresh,
    /// It belongs to the window, whose plan wants accesses that are not seen yet.
    Opening,
    /// It belongs to the window.
    Running,
    /// It is the first one after the window, whose last accesses had to be waited for.
    Closing,
    /// It is of no interest.
    Silent,
}

/// What a thread does, as far as others that want to halt it must know.
pub mod status {
    /// It may execute blocks.
    pub const RUNNING: u32 = 0;
    /// It is in a system call or not begun, and asks before it executes a block.
    pub const OUTSIDE: u32 = 1;
    /// It waits for its plan or for the end of a halt.
    pub const WAITING: u32 = 2;
}

impl Thread {
    /// Thread `number`, of which accesses and strides are chosen by the seed, strides with this mean gap.
    pub fn new(number: u32, (seed, strides): (u64, u64), line_shift: u32, window: u64) -> Self {
        Self {
            progress: 0,
            limit: AtomicU64::new(0),
            counts: std::ptr::NonNull::dangling().as_ptr(),
            capacity: 0,
            active: false,
            line_shift,
            tracker: Tracker::new(seed, u64::from(number)).with_strides(strides, seed, u64::from(number)),
            pieces: Pieces::default(),
            further: 0,
            number,
            phase: Phase::Fresh,
            window: None,
            boundary: window,
            needs: false,
            open: 0,
            status: AtomicU32::new(status::RUNNING),
            waits: 0,
        }
    }

    /// Makes room for block number `number`.
    pub fn grow(&mut self, number: usize) {
        let before = self.take_counts();
        // Zeroed by the system, page by page as they are used: a thread that runs little code has little.
        let mut counts = vec![0; (number + 1).next_power_of_two().max(1 << 14)];
        counts[..before.len()].copy_from_slice(&before);
        let counts = Box::leak(counts.into_boxed_slice());
        (self.counts, self.capacity) = (counts.as_mut_ptr(), counts.len());
    }

    /// The counts as a slice.
    pub fn counts(&mut self) -> &mut [u64] {
        // SAFETY: pointer and length come from a leaked slice (or are dangling and 0), which this state owns.
        unsafe { std::slice::from_raw_parts_mut(self.counts, self.capacity) }
    }

    fn take_counts(&mut self) -> Box<[u64]> {
        let counts: *mut [u64] = self.counts();
        self.capacity = 0;
        // SAFETY: `grow` leaked exactly this slice; an empty boxed slice may be made from a dangling pointer.
        unsafe { Box::from_raw(counts) }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.take_counts());
    }
}
