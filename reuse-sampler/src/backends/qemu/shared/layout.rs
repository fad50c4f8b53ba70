//! The shared mapping: settings, plans for waiting threads, and the ring of messages.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::engine::gaps::Rate;
use crate::engine::tracker::Mode;

use super::futex;

/// Changes whenever the layout or a message does; both sides are built from one source, so that a mismatch
/// means a damaged build.
pub const MAGIC: u64 = 0x7265_7573_6501_0004;

/// Bytes of the ring, a power of two.
pub const RING: usize = 1 << 21;
/// Where the ring begins in the mapping.
pub const RING_AT: usize = 1 << 17;
/// Bytes of the whole mapping.
pub const SIZE: usize = RING_AT + RING;
/// Threads that can wait for a plan at one moment.
pub const SLOTS: usize = 1024;
/// Longest path of a child's program that is kept for a warning.
pub const PATH: usize = 256;

/// What the plugin tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Told {
    /// Windows with samples.
    Windows = 0,
    /// Every block and every access.
    Accesses = 1,
    /// Every block, and once the instructions in it.
    Fetches = 2,
}

impl Told {
    /// What `number as u32` was made from.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Accesses,
            2 => Self::Fetches,
            _ => Self::Windows,
        }
    }
}

/// The start of the mapping. It begins as zeroes.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`], written last by the sampler.
    pub magic: AtomicU64,
    /// Instructions in a window.
    pub window: AtomicU64,
    /// Binary logarithm of the line size.
    pub line_shift: AtomicU32,
    /// 1 if the emulator leaves pointers to callbacks behind (before version 8): see the plugin's `stale`.
    pub leaves_stale: AtomicU32,
    /// What the plugin is to tell: a [`Told`].
    pub told: AtomicU32,
    /// 1 once the initial plan is there. Sleepers: threads at their first block.
    pub started: AtomicU32,
    /// Where the program's address 0 is in the emulator's address space.
    pub guest_base: AtomicU64,
    /// Seed of the sample choice.
    pub seed: AtomicU64,
    /// Plan of new threads.
    pub initial: PlanCell,
    /// 1 once observation is to end. Sleeper: the plugin's own thread.
    pub stop: AtomicU32,
    /// Number of the sampler's process, at whose death the emulator and all it has started end.
    pub observer: AtomicU32,
    /// 1 once the emulator and all it has started are to be killed: forked children that see it end themselves.
    pub ending: AtomicU32,
    /// 1 once an instruction was translated whose bytes the emulator could not read.
    pub unread: AtomicU32,
    /// Address of the last instruction of the block translated last, its bytes and their number.
    pub last: [AtomicU64; 4],
    /// Children that were forked.
    pub forks: AtomicU32,
    /// Children that replaced themselves by another program.
    pub execs: AtomicU32,
    /// 0: `exec_path` is free, 1: being written, 2: written.
    pub exec_path_state: AtomicU32,
    /// Program of the first of those children, up to a NUL.
    pub exec_path: [AtomicU64; PATH / 8],
    /// Bytes ever written to the ring.
    pub written: AtomicU64,
    /// Bytes ever read from the ring.
    pub read: AtomicU64,
    /// Counts writes. Sleeper: the sampler.
    pub filled: AtomicU32,
    /// Counts reads. Sleepers: threads with a message that does not fit.
    pub drained: AtomicU32,
    /// Plans for waiting threads.
    pub slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Header>() <= RING_AT);

/// Where a thread whose window was reported waits for the plan of its next one.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// 0 while waiting, then [`PLAN`](Self::PLAN) or [`RELEASE`](Self::RELEASE). Sleeper: the thread.
    pub state: AtomicU32,
    /// Whether a thread holds the slot.
    pub held: AtomicU32,
    /// The plan.
    pub plan: PlanCell,
}

impl Slot {
    /// The plan is there.
    pub const PLAN: u32 = 1;
    /// Nobody will send a plan any more.
    pub const RELEASE: u32 = 2;
}

/// A [`Mode`] in shared memory. Whoever reads it was told through another word that it is complete.
#[repr(C)]
#[derive(Debug)]
pub struct PlanCell([AtomicU64; 4]);

impl PlanCell {
    /// Writes the mode.
    pub fn store(&self, mode: Mode) {
        let words = match mode {
            Mode::Off => [0, 0, 0, 0],
            Mode::Watch => [1, 0, 0, 0],
            Mode::Every => [2, 0, 0, 0],
            Mode::Sample(Rate::Sparse { mean }) => [3, mean.to_bits(), 0, 0],
            Mode::Sample(Rate::Hierarchical { burst, hibernation, samples }) => {
                [4, burst, hibernation, samples]
            }
        };
        for (cell, word) in self.0.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Reads the mode.
    #[must_use]
    pub fn load(&self) -> Mode {
        let [kind, a, b, c] = [0, 1, 2, 3].map(|i: usize| self.0[i].load(Ordering::Relaxed));
        match kind {
            1 => Mode::Watch,
            2 => Mode::Every,
            3 => Mode::Sample(Rate::Sparse { mean: f64::from_bits(a) }),
            4 => Mode::Sample(Rate::Hierarchical { burst: a, hibernation: b, samples: c }),
            _ => Mode::Off,
        }
    }
}

impl Header {
    /// Lets the first thread begin, under `initial`, as will every new one.
    pub fn start(&self, initial: Mode) {
        self.initial.store(initial);
        futex::set(&self.started, 1);
    }

    /// Answers the thread that waits at `slot`.
    pub fn answer(&self, slot: usize, mode: Mode) {
        if let Some(slot) = self.slots.get(slot) {
            slot.plan.store(mode);
            futex::set(&slot.state, Slot::PLAN);
        }
    }

    /// Keeps `path` for a warning if it is the first one. Called by children of the target, which share the
    /// mapping but nothing else.
    pub fn note_exec(&self, path: &[u8]) {
        self.execs.fetch_add(1, Ordering::Relaxed);
        if self.exec_path_state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            for (cell, bytes) in self.exec_path.iter().zip(path[..path.len().min(PATH - 1)].chunks(8)) {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
            }
            self.exec_path_state.store(2, Ordering::Release);
        }
    }

    /// Keeps the last instruction of a block that was translated.
    pub fn note_last(&self, pc: u64, bytes: &[u8]) {
        let mut words = [0_u8; 16];
        let length = bytes.len().min(16);
        words[..length].copy_from_slice(&bytes[..length]);
        let bytes = u128::from_le_bytes(words);
        for (cell, word) in self.last.iter().zip([pc, bytes as u64, (bytes >> 64) as u64, length as u64]) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// What [`note_last`](Self::note_last) kept.
    #[must_use]
    pub fn last(&self) -> (u64, Vec<u8>) {
        let [pc, low, high, length] = [0, 1, 2, 3].map(|cell: usize| self.last[cell].load(Ordering::Relaxed));
        let bytes = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
        (pc, bytes[..(length as usize).min(16)].to_vec())
    }

    /// Program of the first child that replaced itself, if there was one.
    #[must_use]
    pub fn first_exec(&self) -> Option<String> {
        (self.exec_path_state.load(Ordering::Acquire) == 2).then(|| {
            let bytes: Vec<u8> =
                self.exec_path.iter().flat_map(|cell| cell.load(Ordering::Relaxed).to_le_bytes()).collect();
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        })
    }
}
