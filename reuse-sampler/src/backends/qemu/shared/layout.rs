//! The shared mapping: a header for the tree of processes, and a region for each of them, with the plans that its threads
//! wait for and its ring of messages.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::engine::gaps::Rate;
use crate::engine::tracker::Mode;

use super::futex;

/// Changes whenever the layout or a message does; both sides are built from one source, so that a mismatch
/// means a damaged build.
pub const MAGIC: u64 = 0x7265_7573_6501_0008;

/// Bytes of the ring, a power of two.
pub const RING: usize = 1 << 21;
/// Where the ring begins in a region.
pub const RING_AT: usize = 1 << 16;
/// Processes that can be observed at one moment. What no process uses takes no memory.
pub const REGIONS: usize = 256;
/// Bytes of a region.
pub const REGION_SIZE: usize = RING_AT + RING;
/// Where the first region begins in the mapping.
const REGIONS_AT: usize = 1 << 16;
/// Bytes of the whole mapping.
pub const SIZE: usize = REGIONS_AT + REGIONS * REGION_SIZE;

/// Where region `index`, below [`REGIONS`], begins in the mapping.
#[must_use]
pub const fn region_at(index: usize) -> usize {
    REGIONS_AT + index * REGION_SIZE
}

/// Threads that can wait for a plan at one moment.
pub const SLOTS: usize = 1024;
/// Longest path of a child's program that is kept for a warning.
pub const PATH: usize = 256;

/// What the plugin reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reported {
    /// Windows with samples.
    Windows = 0,
    /// Every block and every access.
    Accesses = 1,
    /// Every block, and once the instructions in it.
    Fetches = 2,
}

impl Reported {
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

/// What the kernel sets in a word whose owner has died.
pub const DEAD: u32 = 0x4000_0000;

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
    /// What the plugin is to report: a [`Reported`].
    pub reported: AtomicU32,
    /// Words of a stretch of a trace, at most, once there are several threads.
    pub stretch: AtomicU32,
    /// 1 if processes that the program forks are observed too.
    pub follows: AtomicU32,
    /// 1 once the initial plan is there. Sleepers: threads at their first block.
    pub started: AtomicU32,
    /// Seed of the sample choice.
    pub seed: AtomicU64,
    /// Mean gap between strides sampled; 0 for none.
    pub strides: AtomicU64,
    /// Plan of new threads.
    pub initial: PlanCell,
    /// Counts requests: 1 once observation is to end, 2 once the processes are to be killed. Sleepers: the plugins' own
    /// threads.
    pub stop: AtomicU32,
    /// Owned by a thread of the sampler's: with the bit [`DEAD`] the sampler is dead, and the emulator and all it has
    /// started end.
    pub alive: AtomicU32,
    /// The sampler's user and group: others may not open its files.
    pub user: AtomicU32,
    pub group: AtomicU32,
    /// 1 once the emulator and all it has started are to be killed: forked children that see it end themselves.
    pub ending: AtomicU32,
    /// 1 once an instruction was translated whose bytes the emulator could not read.
    pub unread: AtomicU32,
    /// Executions, where accesses were seen, of instructions whose accesses the emulator does not report.
    pub unseen: AtomicU64,
    /// Threads that have begun, which is the number of the next one.
    pub threads: AtomicU32,
    /// Windows that have begun, which is the number of the next one.
    pub windows: AtomicU64,
    /// Children that were forked and run unobserved.
    pub forks: AtomicU32,
    /// Of them, those that replaced themselves by another program.
    pub execs: AtomicU32,
    /// 0: `exec_path` is free, 1: being written, 2: written.
    pub exec_path_state: AtomicU32,
    /// Program of the first of those children, up to a NUL.
    pub exec_path: [AtomicU64; PATH / 8],
    /// Counts writes to all rings. Sleeper: the sampler.
    pub filled: AtomicU32,
    /// Regions ever claimed.
    pub claims: AtomicU32,
    /// Who has which region; the first one is the program's.
    pub claimed: [Claim; REGIONS],
}

const _: () = assert!(size_of::<Header>() <= REGIONS_AT);

/// Who has a region.
#[repr(C)]
#[derive(Debug)]
pub struct Claim {
    /// [`FREE`](Self::FREE), [`TAKEN`](Self::TAKEN) or [`READY`](Self::READY).
    pub state: AtomicU32,
    /// Number of the process.
    pub process: AtomicU32,
    /// Number of the process that forked it.
    pub parent: AtomicU32,
    /// How many regions were claimed before.
    pub order: AtomicU32,
}

impl Claim {
    /// Nobody has it; the region is zero.
    pub const FREE: u32 = 0;
    /// Somebody has it, but the other fields are not written yet.
    pub const TAKEN: u32 = 1;
    /// The other fields are there.
    pub const READY: u32 = 2;
}

/// The start of a region. It begins as zeroes.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    /// Where the program's address 0 is in the emulator's address space.
    pub guest_base: AtomicU64,
    /// Address of the last instruction of the block translated last, its bytes and their number.
    pub last: [AtomicU64; 4],
    /// Bytes ever written to the ring.
    pub written: AtomicU64,
    /// Bytes ever read from the ring.
    pub read: AtomicU64,
    /// Counts reads. Sleepers: threads with a message that does not fit.
    pub drained: AtomicU32,
    /// Plans for waiting threads.
    pub slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Region>() <= RING_AT);

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

/// A [`Mode`] in shared memory. Whoever reads it knows through another word that it is complete.
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

    /// Claims a region for `process`, which `parent` has forked; none if all are taken.
    pub fn claim(&self, process: u32, parent: u32) -> Option<usize> {
        let is_free = |claim: &Claim| {
            let taken =
                claim.state.compare_exchange(Claim::FREE, Claim::TAKEN, Ordering::SeqCst, Ordering::Relaxed);
            taken.is_ok()
        };
        let index = self.claimed.iter().position(is_free)?;
        let claim = &self.claimed[index];
        claim.process.store(process, Ordering::Relaxed);
        claim.parent.store(parent, Ordering::Relaxed);
        claim.order.store(self.claims.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        claim.state.store(Claim::READY, Ordering::SeqCst);
        self.filled.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.filled);
        Some(index)
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

impl Region {
    /// Answers the thread that waits at `slot`.
    pub fn answer(&self, slot: usize, mode: Mode) {
        if let Some(slot) = self.slots.get(slot) {
            slot.plan.store(mode);
            futex::set(&slot.state, Slot::PLAN);
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
}
