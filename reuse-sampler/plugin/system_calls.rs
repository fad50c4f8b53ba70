//! System calls that end threads, end or replace the process, make a new one or wait for one.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use crate::api::PluginId;
use crate::boundary::End;
use crate::execute::{Execution, is_executable};
use crate::shared::layout::PATH;
use crate::shared::message::Message;
use crate::thread::{Thread, status};
use crate::{channel, code, ending, fork, guest, halt, instrumentation, settings, threads, trace};

/// Numbers of the calls in question.
struct Table {
    exit: i64,
    exit_group: i64,
    execve: i64,
    execveat: i64,
    wait4: i64,
    waitid: i64,
    forks: [i64; 4], // clone, clone3, fork, vfork
}

const X86_64: Table =
    Table { exit: 60, exit_group: 231, execve: 59, execveat: 322, wait4: 61, waitid: 247, forks: [56, 435, 57, 58] };
/// The table of newer architectures has no fork and no vfork.
const AARCH64: Table =
    Table { exit: 93, exit_group: 94, execve: 221, execveat: 281, wait4: 260, waitid: 95, forks: [220, 435, 220, 435] };

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
    third: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let table = table();
    let replaces = number == table.execve || number == table.execveat;
    let path = || guest::string(if number == table.execve { first } else { second }, PATH).unwrap_or_default();
    if !settings::is_owner() {
        fork::end_if_asked();
        if replaces {
            note_exec(&path());
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
        if !halt::is_silent() {
            channel::send(&Message::Exits(first as u8));
        }
        ending::report_all(thread, End::Exit);
        ending::finish();
    } else if replaces {
        let path = path();
        // The usual way to find a program is to try a list of places: most of these calls fail.
        if number == table.execveat || is_executable(&path) {
            trace::hand_over(vcpu, false);
            let followed = number == table.execve && fork::follows() && !halt::is_silent();
            let execution = if followed { Execution::new(&path, second, third) } else { None };
            ending::report_all(thread, End::Exit);
            if let Some(execution) = execution {
                let (path, command) = (execution.path.clone(), execution.command.clone());
                channel::send(&Message::Executes { path, command });
                execution.start();
            }
            die_with_observer(true);
            channel::send(&Message::Replaced(String::from_utf8_lossy(&path).into_owned()));
        }
    } else if table.forks.contains(&number) {
        trace::hand_over(vcpu, false); // before what the other will access
    } else if number == table.wait4 {
        note_wait(thread, second);
    } else if number == table.waitid {
        note_wait(thread, third);
    }
}

fn note_wait(thread: Option<*mut Thread>, address: u64) {
    if let Some(thread) = thread {
        // SAFETY: the calling thread's own state.
        unsafe { (*thread).waits = address };
    }
}

/// Informs the sampler of a child that a system call waited for: only its parent gets to know what signal ended it.
fn note_reaped(address: u64, is_wait4: bool, result: i64) {
    let reaped = if address == 0 {
        None
    } else if is_wait4 {
        guest::number::<4>(address).filter(|_| result > 0).map(|status| (result as u32, status as u32))
    } else {
        // Offsets in the kernel's siginfo_t: si_code, si_pid, si_status.
        let [code, process, status] = [8, 16, 24].map(|at| guest::number::<4>(address + at).unwrap_or(0) as u32);
        let status = match code {
            1 => (status & 0xFF) << 8,
            2 | 3 => status & 0x7F,
            _ => return, // stopped or continued
        };
        (result == 0 && process > 0).then_some((process, status))
    };
    const STOPPED: u32 = 0x7F;
    if let Some((process, status)) = reaped.filter(|(_, status)| status & 0x7F != STOPPED && *status != 0xFFFF) {
        channel::send(&Message::Reaped { process, status });
    }
}

/// A system call has come back.
pub extern "C" fn after(id: PluginId, vcpu: u32, number: i64, result: i64) {
    let table = table();
    if !settings::is_owner() {
        if result == 0 && table.forks.contains(&number) {
            fork::become_child(id);
        }
        return;
    }
    let Some(thread) = threads::thread_of(vcpu) else { return };
    if number == table.execve || number == table.execveat {
        die_with_observer(false);
        ending::continue_observing();
    }
    if (number == table.wait4 || number == table.waitid) && !halt::is_silent() {
        // SAFETY: the calling thread's own state.
        note_reaped(unsafe { (*thread).waits }, number == table.wait4, result);
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

fn note_exec(path: &[u8]) {
    if is_executable(path) {
        if let Some(header) = settings::header() {
            header.note_exec(path);
        }
    }
}
