//! The emulator's plugin interface, as far as it is used, and the few functions of the C library.
//!
//! Only functions that every version from 1 on has are linked; others are looked up at run time.

use std::ffi::{c_char, c_int, c_void};

pub type PluginId = u64;
pub type MemInfo = u32;

/// Opaque: a block being translated.
#[repr(C)]
pub struct TranslationBlock(c_void);
/// Opaque: an instruction of it.
#[repr(C)]
pub struct Instruction(c_void);

/// What the emulator passes at installation; the fields after these are not needed.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_current: c_int,
    pub system_emulation: bool,
}

pub type SimpleCallback = extern "C" fn(PluginId);
pub type UserCallback = extern "C" fn(PluginId, *mut c_void);
pub type TranslateCallback = extern "C" fn(PluginId, *mut TranslationBlock);
pub type BlockCallback = extern "C" fn(u32, *mut c_void);
pub type MemoryCallback = extern "C" fn(u32, MemInfo, u64, *mut c_void);
pub type SyscallCallback = extern "C" fn(PluginId, u32, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type SyscallReturnCallback = extern "C" fn(PluginId, u32, i64, i64);

/// The callback neither reads nor writes the program's registers.
pub const NO_REGISTERS: c_int = 0;
/// Loads and stores. Asking for one of them goes wrong in version 7: a callback for loads gets the stores, one
/// for stores gets both.
pub const ACCESSES: c_int = 3;

unsafe extern "C" {
    pub fn qemu_plugin_reset(id: PluginId, callback: SimpleCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: TranslateCallback);
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: SyscallCallback);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: PluginId, callback: SyscallReturnCallback);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: UserCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslationBlock,
        callback: BlockCallback,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: BlockCallback,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: MemoryCallback,
        registers: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const TranslationBlock) -> usize;
    pub fn qemu_plugin_tb_vaddr(block: *const TranslationBlock) -> u64;
    pub fn qemu_plugin_tb_get_insn(block: *const TranslationBlock, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *const c_void;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    /// Of this type before version 3 only.
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const c_void;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> u32;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;

    pub fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn pthread_atfork(
        before: extern "C" fn(),
        parent: extern "C" fn(),
        child: extern "C" fn(),
    ) -> c_int;
    pub fn execve(
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int;
    pub fn getpid() -> c_int;
    pub fn geteuid() -> u32;
    pub fn getegid() -> u32;
    pub fn access(path: *const c_char, mode: c_int) -> c_int;
    pub fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    pub fn sigfillset(set: *mut SignalSet) -> c_int;
    pub fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
}

/// Room for the C library's `sigset_t`, which is 128 bytes in all of them.
#[repr(C, align(8))]
pub struct SignalSet(pub [u8; 128]);

pub const SIG_SETMASK: c_int = 2;
