//! The code in `runtime.s`, and where its entry points are.

#![allow(unsafe_code)]

use super::layout::{self, private, shared};

core::arch::global_asm!(
    include_str!("runtime.s"),
    REGISTERS = const shared::REGISTERS,
    FLAGS = const shared::FLAGS,
    PC = const shared::PC,
    EXIT = const shared::EXIT,
    STATE = const shared::STATE,
    COMMAND = const shared::COMMAND,
    REASON = const shared::REASON,
    RESUME = const shared::RESUME,
    LEFT = const shared::LEFT,
    ASKED = const shared::ASKED,
    CALL = const shared::CALL,
    FAULTED = const layout::reason::FAULTED,
    EFAULT = const nix::libc::EFAULT,
    SLOT_G = const shared::SLOT_G,
    SLOT_H = const shared::SLOT_H,
    FEW = const FEW,
    RETRY = const RETRY,
    SLOT_A = const shared::SLOT_A,
    SLOT_B = const shared::SLOT_B,
    SLOT_C = const shared::SLOT_C,
    SLOT_E = const shared::SLOT_E,
    AFTER_CALL = const shared::AFTER_CALL,
    HUB = const shared::HUB,
    RAW = const shared::RAW,
    RAW_RESULT = const shared::RAW_RESULT,
    SIGNAL_STATE = const shared::SIGNAL_STATE,
    SIGNAL_COMMAND = const shared::SIGNAL_COMMAND,
    SIGNAL = const shared::SIGNAL,
    SIGNAL_INFO = const shared::SIGNAL_INFO,
    SIGNAL_CONTEXT = const shared::SIGNAL_CONTEXT,
    SIGNAL_STACK = const shared::SIGNAL_STACK,
    PENDING = const shared::PENDING,
    SELF = const shared::SELF,
    EXIT_PCS = const shared::EXIT_PCS,
    HASH = const shared::HASH,
    LOOKUP = const shared::LOOKUP,
    MASKED = const shared::MASKED,
    MASK = const shared::MASK,
    ASIDE = const shared::ASIDE,
    FRAME = const shared::FRAME,
    NEW = const shared::NEW,
    ASK_FIRST = const shared::ASK_FIRST,
    ASK_WHERE = const shared::ASK_WHERE,
    GUARDED = const shared::GUARDED,
    GUARDED_END = const shared::GUARDED_END,
    CALLS = const shared::CALLS,
    NATIVE = const private::NATIVE,
    PRIVATE_PC = const private::PC,
    PRIVATE_FLAGS = const private::FLAGS,
    PRIVATE_REGISTERS = const private::REGISTERS,
    ACTIONS = const private::ACTIONS,
    PRIVATE_MASK = const private::MASK,
    PRIVATE_SIZE = const private::SIZE,
    APART = const private::APART,
    CHILD_PATH = const private::CHILD_PATH,
    COMMON_PATH = const private::COMMON_PATH,
    TID = const shared::TID,
    OBSERVER = const layout::OBSERVER,
    COMMON = const layout::COMMON,
    RESTORED = const layout::RESTORED,
    ALIVE = const layout::ALIVE,
    DEAD = const crate::backends::alive::DEAD,
    RUNTIME_AT = const layout::RUNTIME,
    HUB_AT = const layout::HUB,
    EXIT_PCS_AT = const layout::EXIT_PCS,
    FIRST = const layout::block(0),
    THREAD_SIZE = const layout::THREAD_SIZE,
    CACHE = const layout::CACHE,
    SIZE = const layout::SIZE,
    MORE = const layout::MORE,
    AT_MORE = const -(layout::MORE as i64),
    HASH_SHIFT = const HASH_SHIFT,
    HASH_MASK = const (1_u32 << layout::HASH_BITS) - 1,
    PROBES = const layout::PROBES,
    VERIFIED = const VERIFIED,
);

/// Bits of the product that the second-level lookup drops.
const HASH_SHIFT: u32 = 12;

/// The entry of the second-level lookup where the search for `pc` begins.
pub(super) const fn hash(pc: u64) -> u64 {
    (pc.wrapping_mul(0x5bd1_e995) >> HASH_SHIFT) & ((1 << layout::HASH_BITS) - 1)
}

/// Bytes from a block's indirect entry to where its scratch registers are restored.
pub(super) const VERIFIED: u32 = 21;

/// Instructions left of which no share is evened out.
const FEW: u32 = 4096;
/// What a share has at least where they are evened out. More than what takes from it, which else would try for ever.
pub(super) const LEAST: u32 = FEW / shared::SHARES.len() as u32;
/// Bytes of the entry for one share.
pub(super) const SHARE: u64 = 16;
/// Bytes of the code that tries again, before the code that leaves.
pub(super) const RETRY: u64 = 14;

unsafe extern "C" {
    #[link_name = "reuse_sampler_dbi_runtime"]
    static RUNTIME: [u32; 19];
}

/// The code, and its entry points as offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runtime {
    pub code: &'static [u8],
    pub start: u64,
    pub exit: u64,
    pub probe: u64,
    pub call: u64,
    pub call_checked: u64,
    pub call_made: u64,
    pub call_kernel: u64,
    pub signal: u64,
    pub restorer: u64,
    pub returned: u64,
    pub command_kernel: u64,
    pub fork_kernel: u64,
    pub call_asked: u64,
    pub command: u64,
    pub fork: u64,
    pub aborted: u64,
    pub after: u64,
    pub share: u64,
}

impl Runtime {
    /// The code of this library.
    pub(super) fn new() -> Self {
        // SAFETY: the assembler put a table of 19 numbers there, in read-only memory.
        let table = unsafe { &RUNTIME };
        // SAFETY: the first number is the length of the code, which begins with the table.
        let code = unsafe { core::slice::from_raw_parts(table.as_ptr().cast::<u8>(), table[0] as usize) };
        let at = |index: usize| u64::from(table[index]);
        Self {
            code,
            start: at(1),
            exit: at(2),
            probe: at(3),
            call: at(4),
            call_checked: at(5),
            call_made: at(6),
            call_kernel: at(7),
            signal: at(8),
            restorer: at(9),
            returned: at(10),
            command_kernel: at(11),
            fork_kernel: at(12),
            call_asked: at(13),
            command: at(14),
            fork: at(15),
            aborted: at(16),
            after: at(17),
            share: at(18),
        }
    }
}
