//! System calls that end threads, end or replace the process, or make a new one.

use std::ffi::{CString, c_int, c_long, c_void};
use std::sync::atomic::Ordering;

use crate::api::{PluginId, access, getpid};
use crate::boundary::End;
use crate::shared::layout::PATH;
use crate::shared::message::Message;
use crate::shared::tree;
use crate::thread::status;
use crate::{channel, code, ending, halt, instrumentation, settings, threads, trace};

/// Numbers of the calls in question.
struct Table {
    exit: i64,
    exit_group: i64,
    execve: i64,
    execveat: i64,
    forks: [i64; 4], // clone, clone3, fork, vfork
}

const X86_64: Table =
    Table { exit: 60, exit_group: 231, execve: 59, execveat: 322, forks: [56, 435, 57, 58] };
/// The table of newer architectures has no fork and no vfork.
const AARCH64: Table =
    Table { exit: 93, exit_group: 94, execve: 221, execveat: 281, forks: [220, 435, 220, 435] };

fn table() -> &'static Table {
    if code::is_aarch64() { &AARCH64 } else { &X86_64 }
}

/// A thread of the program begins a system call.
#[allow(clippy::too_many_arguments)]
pub extern "C" fn before(
    _: PluginId,
    vcpu: u32,
    number: i64,
    first: u64,
    second: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let table = table();
    if !settings::is_owner() {
        end_if_asked();
        if number == table.execve || number == table.execveat {
            let path = if number == table.execve { first } else { second };
            note_exec(path);
        }
        return;
    }
    let thread = threads::thread_of(vcpu);
    if let Some(thread) = thread {
        // SAFETY: an atomic of the calling thread's own state.
        unsafe { &(*thread).status }.store(status::OUTSIDE, Ordering::SeqCst);
    }
    if number == table.exit || number == table.exit_group {
        trace::hand_over(vcpu, true);
    }
    if number == table.exit {
        ending::exit_thread(vcpu);
    } else if number == table.exit_group {
        instrumentation::exiting();
        ending::report_all(thread, End::Exit);
        ending::finish();
    } else if number == table.execve || number == table.execveat {
        let path = read_path(if number == table.execve { first } else { second });
        // The usual way to find a program is to try a list of places: most of these calls fail.
        if number == table.execveat || is_executable(&path) {
            trace::hand_over(vcpu, false);
            die_with_observer(true);
            ending::report_all(thread, End::Exit);
            channel::send(&Message::Replaced(String::from_utf8_lossy(&path).into_owned()));
        }
    }
}

/// A system call has come back.
pub extern "C" fn after(id: PluginId, vcpu: u32, number: i64, result: i64) {
    let table = table();
    if !settings::is_owner() {
        if result == 0 && table.forks.contains(&number) {
            become_child(id);
        }
        return;
    }
    let Some(thread) = threads::thread_of(vcpu) else { return };
    if number == table.execve || number == table.execveat {
        die_with_observer(false);
        ending::continue_observing();
    }
    // SAFETY: the calling thread's own state.
    halt::resume(unsafe { &*thread });
}

/// Whether the process, which is about to run another program without the emulator, dies with the sampler. The sampler's
/// thread that started the emulator lives as long as the emulator, so the thread that the kernel watches is the right one.
/// What the program has asked for itself stays.
fn die_with_observer(dies: bool) {
    const PR_SET_PDEATHSIG: c_int = 1;
    const PR_GET_PDEATHSIG: c_int = 2;
    const SIGKILL: c_int = 9;
    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
    }
    let (before, after) = if dies { (0, SIGKILL) } else { (SIGKILL, 0) };
    let mut now: c_int = -1;
    // SAFETY: passes numbers, and the address of one that lives during the call.
    unsafe {
        if prctl(PR_GET_PDEATHSIG, &raw mut now) == 0 && now == before {
            prctl(PR_SET_PDEATHSIG, after as usize);
        }
    }
}

/// Ends this forked child if the sampler has died or wants the program's processes gone.
fn end_if_asked() {
    if settings::header().is_some_and(|header| header.ending.load(Ordering::SeqCst) != 0) {
        tree::kill_own();
    }
}

/// This process was just forked: it runs on without being observed, at the emulator's own speed.
fn become_child(id: PluginId) {
    end_if_asked();
    if let Some(header) = settings::header() {
        header.forks.fetch_add(1, Ordering::Relaxed);
    }
    instrumentation::drop_translations(id);
}

fn note_exec(path: u64) {
    let path = read_path(path);
    if is_executable(&path) {
        if let Some(header) = settings::header() {
            header.note_exec(&path);
        }
    }
}

fn is_executable(path: &[u8]) -> bool {
    const EXECUTE: c_int = 1;
    // SAFETY: a string that ends where it should.
    CString::new(path).is_ok_and(|path| unsafe { access(path.as_ptr(), EXECUTE) } == 0)
}

/// The string at an address of the program, up to a limit. Asks the kernel, which refuses an address that is
/// not mapped.
fn read_path(address: u64) -> Vec<u8> {
    #[cfg(target_arch = "x86_64")]
    const PROCESS_VM_READV: c_long = 310;
    #[cfg(not(target_arch = "x86_64"))]
    const PROCESS_VM_READV: c_long = 270;

    #[repr(C)]
    struct Part {
        base: *mut c_void,
        length: usize,
    }
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }

    let base = settings::header().map_or(0, |header| header.guest_base.load(Ordering::Relaxed));
    let mut path = vec![0_u8; PATH];
    let mut length = 0;
    // Byte ranges that do not cross a page, because the next page may not be there.
    while length < PATH {
        let from = address.wrapping_add(base).wrapping_add(length as u64);
        let count = (PATH - length).min(4096 - from as usize % 4096);
        let local = Part { base: path[length..].as_mut_ptr().cast(), length: count };
        let remote = Part { base: from as *mut c_void, length: count };
        // SAFETY: the local part lies in `path`; the kernel checks the remote one.
        let read = unsafe {
            syscall(PROCESS_VM_READV, c_long::from(getpid()), &local, 1_usize, &remote, 1_usize, 0)
        };
        if read <= 0 {
            break;
        }
        length += read as usize;
        if path[..length].contains(&0) {
            break;
        }
    }
    let end = path[..length].iter().position(|&byte| byte == 0).unwrap_or(length);
    path.truncate(end);
    path
}
