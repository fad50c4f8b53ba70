//! Where things lie in the region that the observer shares with the program.
//!
//! The region is one file in memory. The observer maps all of it writable; the program maps its code executable and
//! read-only, so that no page is writable and executable in one process. Each thread's block is found through GS;
//! its first part is private to the process, so that a forked child has its own copy. The blocks of all threads but the
//! first are at the end of the file, and below the rest in the program's memory.

/// Entry points and code that is the same for all blocks.
pub const RUNTIME: u64 = 0;
/// Words for the process as a whole.
pub const HUB: u64 = 0x1_0000;
/// The program counter that each exit of translated code stands for, by number.
pub const EXIT_PCS: u64 = 0x2_0000;
/// Exits there can be before the cache is emptied.
pub const EXITS: u64 = 1 << 20;
/// Kinds of code.
pub const KINDS: u64 = 3;
/// Second-level lookup, one table a kind of code.
pub const HASHES: u64 = 0x90_0000;
/// Binary logarithm of its entries.
pub const HASH_BITS: u32 = 19;
/// Bytes of one table; probing may run past its end.
pub const HASH_SIZE: u64 = (1 << HASH_BITS) * 16 + 0x1000;
/// Entries looked at before giving up.
pub const PROBES: u64 = 8;
/// The first thread's block.
const FIRST: u64 = 0x300_0000;
/// Bytes of a thread's block.
pub const THREAD_SIZE: u64 = 0x100_0000;
/// Translated code: blocks from its start, rarely executed stubs from [`COLD`].
pub const CACHE: u64 = 0x400_0000;
/// Rarely executed parts of translated code.
pub const COLD: u64 = 0xC00_0000;
/// Bytes of the region without the blocks of further threads.
pub const SIZE: u64 = 0x1000_0000;
/// Threads there can be at once.
pub const THREADS: usize = 128;
/// Bytes of the blocks of further threads.
pub const MORE: u64 = (THREADS as u64 - 1) * THREAD_SIZE;
/// Bytes of the file.
pub const FILE: u64 = SIZE + MORE;

/// Where the block of a thread is in the file.
pub const fn block(thread: usize) -> u64 {
    match thread as u64 {
        0 => FIRST,
        more => SIZE + (more - 1) * THREAD_SIZE,
    }
}

/// Where the block of a thread is in a program that has the region at `base`.
pub const fn address(base: u64, thread: usize) -> u64 {
    match thread {
        0 => base + FIRST,
        _ => base - MORE - SIZE + block(thread),
    }
}

/// In the hub: counts requests. Sleeper: the observer. The first page of the hub is one and the same in all processes of
/// a tree.
pub const DOORBELL: u64 = 0;
/// In the hub: the observer's process.
pub const OBSERVER: u64 = 8;
/// In the hub: what the kernel marks when the observer dies.
pub const ALIVE: u64 = 16;
/// In the hub: what is the same in the whole tree.
pub const COMMON: u64 = 0x1000;
/// In the hub: whether a thread has given the kernel the program's own signal actions.
pub const RESTORED: u64 = 0x1000;

/// In the thread's block, from GS: the part private to the process.
pub mod private {
    /// Whether the process runs natively.
    pub const NATIVE: u32 = 0x100;
    /// Where it goes on.
    pub const PC: u32 = 0x108;
    /// Its flags.
    pub const FLAGS: u32 = 0x110;
    /// Registers of a child.
    pub const REGISTERS: u32 = 0x80;
    /// Its mask of signals.
    pub const MASK: u32 = 0x118;
    /// Whether the thread is a process that shares memory until it executes or ends: the kernel's signal actions are its
    /// own.
    pub const APART: u32 = 0x120;
    /// Where a child finds the file of its own region, if it is to be observed.
    pub const CHILD_PATH: u32 = 0x140;
    /// Where it finds the file with the page that is common to the tree.
    pub const COMMON_PATH: u32 = 0x180;
    /// What the program asked of each signal, 32 bytes each, as the kernel takes it.
    pub const ACTIONS: u32 = 0x400;
    /// Bytes.
    pub const SIZE: u64 = 0x1_0000;
}

/// In the thread's block, from GS: the part shared with the observer.
pub mod shared {
    pub const REGISTERS: u32 = 0x1_0000; // 16, in the order of their numbers
    pub const FLAGS: u32 = 0x1_0080;
    pub const PC: u32 = 0x1_0088;
    pub const EXIT: u32 = 0x1_0090;
    pub const STATE: u32 = 0x1_0098;
    pub const COMMAND: u32 = 0x1_009C;
    pub const REASON: u32 = 0x1_00A0;
    pub const RESUME: u32 = 0x1_00A8;
    pub const BUFFER: u32 = 0x1_00B8; // where the next access goes
    pub const BUFFER_END: u32 = 0x1_00C0;
    pub const SLOT_A: u32 = 0x1_00C8;
    pub const SLOT_B: u32 = 0x1_00D0;
    pub const SLOT_C: u32 = 0x1_00D8;
    pub const SLOT_D: u32 = 0x1_00E0;
    pub const SLOT_E: u32 = 0x1_00E8;
    pub const AFTER_CALL: u32 = 0x1_00F0; // where translated code goes on after a system call
    pub const HUB: u32 = 0x1_0100; // address of the hub
    pub const FS_BASE: u32 = 0x1_0108;
    pub const RAW: u32 = 0x1_0110; // number and six arguments of a call that the observer asks for
    pub const RAW_RESULT: u32 = 0x1_0148;
    pub const SIGNAL_STATE: u32 = 0x1_0158;
    pub const SIGNAL_COMMAND: u32 = 0x1_015C;
    pub const SIGNAL: u32 = 0x1_0160;
    pub const SIGNAL_INFO: u32 = 0x1_0168;
    pub const SIGNAL_CONTEXT: u32 = 0x1_0170;
    pub const SIGNAL_STACK: u32 = 0x1_0178;
    pub const PENDING: u32 = 0x1_0180; // a signal waits to be delivered
    pub const SELF: u32 = 0x1_0188; // address of the block, as in GS
    pub const EXIT_PCS: u32 = 0x1_0190; // address
    pub const HASH: u32 = 0x1_0198; // address of the table of the mode in use
    pub const LOOKUP: u32 = 0x1_01A0; // address of the first-level table of the mode in use
    pub const MASKED: u32 = 0x1_01A8; // all signals are blocked, the program's mask is in the next word
    pub const MASK: u32 = 0x1_01B0;
    pub const ASIDE: u32 = 0x1_01C0; // signals put aside and not queued again, a bit each
    pub const TID: u32 = 0x1_01C8; // of a new thread
    pub const NEW: u32 = 0x1_01B8; // address of the block of the thread that is being created
    pub const SCRATCH: u32 = 0x1_0300; // for arguments of the observer's calls
    /// What the thread makes of a signal's frame: 23 words of its context, the mask in it, the restorer; then its own 16
    /// registers, flags, mask and place.
    pub const FRAME: u32 = 0x1_0400;
    pub const ASK_FIRST: u32 = 0x1_0200; // a bit a system call: 1 if the observer decides
    pub const CALLS: u32 = 512;
    pub const ASK_WHERE: u32 = 0x1_02C0; // the same of calls that read into a buffer: if that is near protected pages
    pub const GUARDED: u32 = 0x1_0268; // from where to where there may be protected pages
    pub const GUARDED_END: u32 = 0x1_0270;
    pub const SLOT_F: u32 = 0x1_0240;
    pub const SLOT_G: u32 = 0x1_0248;
    pub const SLOT_H: u32 = 0x1_0250;
    pub const CALL: u32 = 0x1_0260; // number of the system call that is made
    pub const ASKED: u32 = 0x1_0258; // the thread is to ask at its next block
    /// Instructions left in the window: the sum of eight shares. Each chain, block or run takes its instructions off one of
    /// them. If there were one, each would wait for the one before it to have written it, half a dozen cycles.
    pub const SHARES: [u32; 8] = {
        let at = LEFT;
        [at, at + 8, at + 16, at + 24, at + 32, at + 40, at + 48, at + 56]
    };
    pub const LEFT: u32 = 0x1_0280;

    /// Where a return or an indirect jump looks first: by the low 16 bits of the address, one table a kind.
    pub const LOOKUPS: u32 = 0x2_0000;
    pub const LOOKUP_SIZE: u32 = 0x8_0000;
    /// Counters, of half a word each.
    pub const COUNTS: u32 = 0x1A_0000;
    pub const COUNTERS: u32 = 1 << 20;
    /// Two buffers for accesses.
    pub const BUFFERS: u32 = 0x60_0000;
    pub const BUFFER_SIZE: u32 = 0x8_0000;
    /// Room that a run of blocks never exceeds.
    pub const BUFFER_RESERVE: u32 = 0x2000;
}

const _: () = assert!(FIRST + THREAD_SIZE <= CACHE);
const _: () = assert!(shared::LOOKUPS + KINDS as u32 * shared::LOOKUP_SIZE <= shared::COUNTS);
const _: () = assert!(shared::COUNTS + 4 * shared::COUNTERS <= shared::BUFFERS);
const _: () = assert!((shared::BUFFERS + 2 * shared::BUFFER_SIZE) as u64 <= THREAD_SIZE);
const _: () = assert!(HASHES + KINDS * HASH_SIZE <= FIRST && EXIT_PCS + 8 * EXITS <= HASHES);

/// Why a thread asks, other than after a call of the observer's (9).
pub mod reason {
    pub const EXIT: u32 = 0; // of translated code
    pub const CALLED: u32 = 5; // the system call that was asked for has returned
    pub const RETURNED: u32 = 6; // from a signal handler
    pub const DELIVERED: u32 = 10; // a signal's frame is on the program's stack
    pub const ABORTED: u32 = 11; // a signal came before the system call that was asked for
    pub const BEGAN: u32 = 12; // a new thread, all signals blocked
    pub const NONE: u32 = 14; // it was told what to do and has not done it
    pub const FAULTED: u32 = 15; // after a system call that was refused an address
    pub const AFTER: u32 = 13; // after a system call that it was in when the cache was emptied
}

/// What a thread is to do.
pub mod command {
    pub const RESUME: u32 = 1;
    pub const CALL: u32 = 2; // execute the system call in the program's registers
    pub const NATIVE: u32 = 3;
    pub const RAW: u32 = 4;
    pub const FORK: u32 = 5; // as CALL; a child maps a region of its own and asks there, or runs natively
    pub const CLONE: u32 = 6; // as CALL; a new thread asks
}
