//! `ptrace`: the calls that are needed, and the kinds of results of `waitpid`.

use std::io;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use nix::libc;

use crate::perf::kernel::{Registers, Stop, Tid};

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEVFORKDONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;
const NT_PRSTATUS: usize = 1;
const TRAP_TRACE: i32 = 2;
const TRAP_PERF: i32 = 6;

fn call(request: libc::c_uint, thread: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the callers pass numbers, or addresses of values that live during the call and have the size that
    // the request writes.
    let answer = unsafe {
        libc::ptrace(request as _, thread, address as *mut libc::c_void, data as *mut libc::c_void)
    };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the call never reaches the kernel, which says of a thread that nobody controls that it is not there (`ESRCH`).
pub(super) fn is_forbidden() -> bool {
    call(libc::PTRACE_CONT, own_number(), 0, 0).is_err_and(|error| error.raw_os_error() != Some(libc::ESRCH))
}

/// Takes a thread under control without stopping it.
pub(super) fn seize(thread: Tid) -> io::Result<()> {
    call(libc::PTRACE_SEIZE, thread, 0, OPTIONS as usize)
}

/// The same with a child that is about to run a program; the kernel ends it should this process die.
pub(super) fn seize_child(process: Tid) -> io::Result<()> {
    call(libc::PTRACE_SEIZE, process, 0, (libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL) as usize)
}

/// Has a child that runs its program by now report all that others do.
pub(super) fn watch_child(process: Tid) -> io::Result<()> {
    call(libc::PTRACE_SETOPTIONS, process, 0, (OPTIONS | libc::PTRACE_O_EXITKILL) as usize)
}

/// Whether the two calls that wait are answered by the kernel, which knows that this process is no child of its own; or which
/// is not.
pub(in crate::backends::perf) fn can_wait() -> Result<(), (&'static str, io::Error)> {
    let own = std::process::id() as i32;
    let check = |call, answer: i32| {
        let error = io::Error::last_os_error();
        let known = answer < 0 && error.raw_os_error() == Some(libc::ECHILD);
        if known { Ok(()) } else { Err((call, error)) }
    };
    // SAFETY: passes numbers.
    check("wait4", unsafe { libc::waitpid(own, null_mut(), libc::WNOHANG | libc::__WALL) })?;
    let flags = libc::WEXITED | libc::WNOHANG;
    // SAFETY: passes numbers; nothing is written where nothing has ended.
    check("waitid", unsafe { libc::waitid(libc::P_PID, own as libc::id_t, null_mut(), flags) })
}

/// Waits until a child that is under control stands still (true) or is gone, which is left for others to learn.
pub(super) fn stands_still(process: Tid) -> bool {
    loop {
        let mut information = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: writes into a value that lives during the call.
        let answer =
            unsafe { libc::waitid(libc::P_PID, process as libc::id_t, information.as_mut_ptr(), flags) };
        if answer == 0 {
            // SAFETY: zeroes are a valid value, and the call has written one.
            let code = unsafe { information.assume_init() }.si_code;
            return code == libc::CLD_TRAPPED || code == libc::CLD_STOPPED;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

pub(super) fn interrupt(thread: Tid) -> io::Result<()> {
    call(libc::PTRACE_INTERRUPT, thread, 0, 0)
}

pub(super) fn run(thread: Tid, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_CONT, thread, 0, signal as usize)
}

pub(super) fn step(thread: Tid, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_SINGLESTEP, thread, 0, signal as usize)
}

pub(super) fn listen(thread: Tid) -> io::Result<()> {
    call(libc::PTRACE_LISTEN, thread, 0, 0)
}

pub(super) fn detach(thread: Tid, signal: i32) -> io::Result<()> {
    call(libc::PTRACE_DETACH, thread, 0, signal as usize)
}

/// Integer registers in the kernel's order.
pub(super) fn registers(thread: Tid) -> io::Result<Registers> {
    let mut words = [0_u64; 40];
    let mut part = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    call(libc::PTRACE_GETREGSET, thread, NT_PRSTATUS, (&raw mut part) as usize)?;
    let words = words[..part.iov_len / 8].to_vec();
    // rip is word 16 of user_regs_struct; pc is word 32 of user_pt_regs.
    let pc = words.get(if cfg!(target_arch = "x86_64") { 16 } else { 32 }).copied().unwrap_or(0);
    Ok(Registers { pc, words })
}

/// The word of a thread's memory at `address`.
pub(super) fn word(thread: Tid, address: u64) -> io::Result<u64> {
    let mut word = 0_u64;
    // SAFETY: the system call itself, unlike the C library's function, writes the word to where its last argument points: a
    // value that lives during the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_PEEKDATA as i32),
            libc::c_long::from(thread),
            address,
            &raw mut word,
        )
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(word) }
}

/// Signals that a thread blocks, as a mask.
pub(super) fn blocked(thread: Tid) -> io::Result<u64> {
    let mut mask = 0_u64;
    call(libc::PTRACE_GETSIGMASK, thread, 8, (&raw mut mask) as usize)?;
    Ok(mask)
}

pub(super) fn block(thread: Tid, mask: u64) -> io::Result<()> {
    call(libc::PTRACE_SETSIGMASK, thread, 8, (&raw const mask) as usize)
}

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backends::perf) enum Change {
    /// It has exited with this status.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// It stands still. `Interrupted` also means a thread's first stop.
    Stopped(Stop),
}

/// The next change of any thread that the calling thread controls (waiting for it if `wait`), `None` if there is
/// none yet.
pub(super) fn next_change(wait: bool) -> io::Result<Option<(Tid, Change)>> {
    let flags = libc::__WALL | libc::__WNOTHREAD | if wait { 0 } else { libc::WNOHANG };
    let mut status = 0;
    // SAFETY: writes one integer.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    if thread < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((thread > 0).then(|| (thread, change(thread, status))))
}

fn change(thread: Tid, status: i32) -> Change {
    if libc::WIFEXITED(status) {
        return Change::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Change::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    Change::Stopped(match status >> 16 {
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK => Stop::Clone,
        libc::PTRACE_EVENT_VFORK => Stop::Vfork,
        libc::PTRACE_EVENT_VFORK_DONE => Stop::Interrupted,
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_EXIT => Stop::Exit,
        libc::PTRACE_EVENT_STOP => match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Stop::Group,
            _ => Stop::Interrupted,
        },
        _ if signal == libc::SIGTRAP => match trap_code(thread) {
            Some(TRAP_PERF) => Stop::Event,
            Some(TRAP_TRACE) => Stop::Step,
            _ => Stop::Signal(signal),
        },
        _ => Stop::Signal(signal),
    })
}

/// Why a `SIGTRAP` was sent.
fn trap_code(thread: Tid) -> Option<i32> {
    let mut information = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    call(libc::PTRACE_GETSIGINFO, thread, 0, information.as_mut_ptr() as usize).ok()?;
    // SAFETY: zeroes are a valid value, and the call has written one.
    Some(unsafe { information.assume_init() }.si_code)
}

/// Whether the `SIGTRAP` a thread stands at may be that of a step: the kernel's own, and not a breakpoint instruction's.
pub(super) fn is_step(thread: Tid) -> bool {
    const SI_USER: i32 = 0; // from nobody
    const TRAP_BRKPT: i32 = 1;
    const TRAP_HWBKPT: i32 = 4;
    matches!(trap_code(thread), Some(SI_USER | TRAP_BRKPT | TRAP_TRACE | TRAP_HWBKPT))
}

/// The number of what a thread that stands at [`Stop::Clone`] or [`Stop::Vfork`] has made.
pub(super) fn made(thread: Tid) -> Option<Tid> {
    let mut number: libc::c_ulong = 0;
    call(libc::PTRACE_GETEVENTMSG, thread, 0, (&raw mut number) as usize).ok()?;
    Tid::try_from(number).ok().filter(|&number| number > 0)
}

/// The same as [`wait_for`], `None` if the thread runs on for so long.
pub(super) fn wait_within(thread: Tid, limit: Duration) -> io::Result<Option<Change>> {
    let deadline = Instant::now() + limit;
    loop {
        let mut status = 0;
        // SAFETY: writes one integer.
        let answer = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if answer == thread {
            return Ok(Some(change(thread, status)));
        }
        let error = io::Error::last_os_error();
        if answer < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for a thread that the calling thread controls to stand still or end.
pub(super) fn wait_for(thread: Tid) -> io::Result<Change> {
    loop {
        let mut status = 0;
        // SAFETY: writes one integer.
        let answer = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        if answer == thread {
            return Ok(change(thread, status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Sends a signal to a process; whether it was there.
pub(super) fn signal(process: i32, signal: i32) -> bool {
    // SAFETY: passes numbers.
    unsafe { libc::kill(process, signal) == 0 }
}

/// A handler that does nothing, so that the signal only interrupts calls.
pub(super) extern "C" fn nothing(_: libc::c_int) {}

/// The signal that wakes a waiting tracer: the last real-time one that nobody handles.
pub(in crate::backends::perf) fn wake_signal() -> Option<i32> {
    static CHOSEN: std::sync::OnceLock<Option<i32>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
            // SAFETY: zeroes are a valid value of a plain structure.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: reads the present action into a value that lives during the call.
            let free = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0
                && action.sa_sigaction == libc::SIG_DFL;
            if !free {
                continue;
            }
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = 0; // not SA_RESTART: interrupting is what it is for
            // SAFETY: sets an action whose handler touches nothing.
            if unsafe { libc::sigaction(signal, &raw const action, null_mut()) } == 0 {
                return Some(signal);
            }
        }
        None
    })
}

/// Number of the calling thread.
pub(in crate::backends::perf) fn own_number() -> Tid {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_gettid) as Tid }
}

/// Wakes a thread of this process, or of one that guards a program for it.
pub(in crate::backends::perf) fn wake(thread: Tid, signal: i32) {
    // SAFETY: passes numbers; the signal has a handler.
    unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
}
