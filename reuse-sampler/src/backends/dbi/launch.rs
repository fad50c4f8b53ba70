//! Starts the program: the kernel loads it as it always does, and before its first instruction the shared region is
//! mapped into it.
//!
//! The kernel's own loader leaves the stack, `/proc/self/exe`, the auxiliary vector and the break exactly as in a
//! native run. The process is traced (`ptrace`) from its `execve` until the region is mapped, some ten system calls
//! later, and never again.

#![allow(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::DbiOptions;
use super::layout::{self, private, shared};
use super::memory::Memory;
use super::region::Region;
use super::runtime::Runtime;
use super::threads::set_up;
use crate::SamplerError;

/// A program that waits at its first instruction.
#[derive(Debug)]
pub(super) struct Launched {
    pub child: Child,
    /// Where the region is in the program.
    pub base: u64,
}

fn io(operation: &'static str, object: &str) -> impl Fn(Errno) -> SamplerError {
    let object = object.to_owned();
    move |errno| SamplerError::Io { operation, object: object.clone(), source: errno.into() }
}

/// Starts `program` with the region mapped.
pub(super) fn launch(
    program: &OsStr,
    arguments: &[OsString],
    options: &DbiOptions,
    region: &Region,
    runtime: &Runtime,
) -> Result<Launched, SamplerError> {
    let mut command = Command::new(program);
    command.args(arguments).envs(options.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &options.directory {
        command.current_dir(directory);
    }
    if options.output_to_stderr {
        let copied = std::io::stderr().as_fd().try_clone_to_owned();
        command.stdout(copied.map(Stdio::from).map_err(|source| SamplerError::Io {
            operation: "duplicate",
            object: "standard error".to_owned(),
            source,
        })?);
    }
    let descriptor = region.file().as_raw_fd();
    let randomized = options.randomized_addresses;
    let before_exec = move || {
        // SAFETY: clears the flag of a descriptor that is open, as the parent keeps it.
        if unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } == -1 {
            return Err(std::io::Error::last_os_error());
        }
        if !randomized {
            // Where this is forbidden the run is only less repeatable.
            let _ = personality::get().and_then(|old| personality::set(old | Persona::ADDR_NO_RANDOMIZE));
        }
        ptrace::traceme().map_err(std::io::Error::from)
    };
    // SAFETY: the closure makes system calls only, which may be made between fork and exec.
    unsafe { command.pre_exec(before_exec) };
    let child = command.spawn().map_err(|error| refuse_to_run(program, &error))?;
    let mut guard = Guard(Some(child));
    let pid = guard.pid();
    match waitpid(pid, Some(WaitPidFlag::__WALL)).map_err(io("wait for", "the program"))? {
        WaitStatus::Stopped(..) => {}
        other => {
            return Err(SamplerError::Target {
                program: program.to_string_lossy().into_owned(),
                problem: format!("it ended before its first instruction ({other:?})"),
            });
        }
    }
    // Should we die before it has begun, it does not begin.
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL).map_err(io("trace", "the program"))?;
    let base = map(pid, Some(descriptor), region, runtime)?;
    ptrace::detach(pid, None).map_err(io("detach from", "the program"))?;
    let child = guard.0.take().ok_or_else(|| io("run", "the program")(Errno::ESRCH))?;
    Ok(Launched { child, base })
}

fn refuse_to_run(program: &OsStr, error: &std::io::Error) -> SamplerError {
    let program = program.to_string_lossy().into_owned();
    let problem = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such program".to_owned(),
        std::io::ErrorKind::PermissionDenied => {
            "permission denied (it must be executable, and ptrace allowed)".to_owned()
        }
        _ => error.to_string(),
    };
    SamplerError::Target { program, problem }
}

const ARCH_SET_GS: u64 = 0x1001;
const PR_SET_PTRACER: u64 = 0x5961_6d61;

/// Kills the child if starting it fails half way.
struct Guard(Option<Child>);

impl Guard {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.as_ref().map_or(0, Child::id) as i32)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Maps the region into the stopped program, which has its file open as `descriptor` or opens it. Returns where.
pub(super) fn map(
    pid: Pid,
    descriptor: Option<i32>,
    region: &Region,
    runtime: &Runtime,
) -> Result<u64, SamplerError> {
    let failed = io("map", "the shared memory into the program");
    let registers = ptrace::getregs(pid).map_err(&failed)?;
    let entry = registers.rip;
    if registers.cs != 0x33 {
        return Err(SamplerError::Target {
            program: String::new(),
            problem: "it is a 32-bit program; only x86-64 programs can be observed".into(),
        });
    }
    let at = entry as ptrace::AddressType;
    let word = ptrace::read(pid, at).map_err(&failed)?;
    ptrace::write(pid, at, (word & !0xFFFF) | 0x050F).map_err(&failed)?; // syscall
    let call = |number: libc::c_long, arguments: [u64; 6]| -> Result<u64, SamplerError> {
        let mut changed = registers;
        changed.rax = number as u64;
        changed.orig_rax = u64::MAX;
        [changed.rdi, changed.rsi, changed.rdx, changed.r10, changed.r8, changed.r9] = arguments;
        ptrace::setregs(pid, changed).map_err(&failed)?;
        ptrace::step(pid, None).map_err(&failed)?;
        waitpid(pid, Some(WaitPidFlag::__WALL)).map_err(&failed)?;
        let result = ptrace::getregs(pid).map_err(&failed)?.rax;
        if result > u64::MAX - 4096 {
            return Err(failed(Errno::from_raw((result as i64).wrapping_neg() as i32)));
        }
        Ok(result)
    };
    let open = |region: &Region| -> Result<u64, SamplerError> {
        let place = (registers.rsp - 256) & !7; // nothing has been executed that uses it
        if !Memory::new(pid).write(place, region.path().as_bytes()) {
            return Err(failed(Errno::EFAULT));
        }
        call(libc::SYS_open, [place, (libc::O_RDWR | libc::O_CLOEXEC) as u64, 0, 0, 0, 0])
    };
    let file = descriptor.map_or_else(|| open(region), |descriptor| Ok(descriptor as u64))?;
    let base = room(pid, entry)?;
    let more = base - layout::MORE;
    let fixed = (libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
    let (read, write, execute) = (libc::PROT_READ as u64, libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
    let (mine, ours) = (libc::MAP_PRIVATE as u64 | fixed, libc::MAP_SHARED as u64 | fixed);
    let reserve =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE) as u64;
    if call(libc::SYS_mmap, [more, layout::FILE, 0, reserve, u64::MAX, 0])? != more {
        return Err(failed(Errno::EEXIST));
    }
    let thread = layout::block(0);
    let rest = thread + private::SIZE;
    call(libc::SYS_mmap, [more, layout::MORE, read | write, ours, file, layout::SIZE])?;
    for (start, end, protection, flags) in [
        (layout::RUNTIME, layout::HUB, read | execute, ours),
        (layout::HUB, layout::EXIT_PCS, read | write, ours),
        (layout::EXIT_PCS, thread, read, ours),
        (thread, rest, read | write, mine),
        (rest, thread + layout::THREAD_SIZE, read | write, ours),
        (layout::CACHE, layout::SIZE, read | execute, ours),
    ] {
        call(libc::SYS_mmap, [base + start, end - start, protection, flags, file, start])?;
    }
    call(libc::SYS_close, [file, 0, 0, 0, 0, 0])?;
    if let Some(first) = region.first() {
        let file = open(first)?;
        let place = [base + layout::HUB, layout::COMMON, read | write, ours, file, layout::HUB];
        call(libc::SYS_mmap, place)?;
        call(libc::SYS_close, [file, 0, 0, 0, 0, 0])?;
        // We may look at its memory, whosever child it becomes. Most kernels do not care.
        let _ = call(libc::SYS_prctl, [PR_SET_PTRACER, u64::from(std::process::id()), 0, 0, 0, 0]);
    }
    call(libc::SYS_arch_prctl, [ARCH_SET_GS, layout::address(base, 0), 0, 0, 0, 0])?;
    ptrace::write(pid, at, word).map_err(&failed)?;

    region.write(layout::RUNTIME, runtime.code);
    set_up(region, base, 0);
    region.set(thread + u64::from(shared::PC), entry);
    let mut first = ptrace::getregs(pid).map_err(&failed)?;
    let gs = first.gs_base;
    first = registers;
    first.gs_base = gs;
    first.rip = base + layout::RUNTIME + runtime.start;
    first.orig_rax = u64::MAX;
    ptrace::setregs(pid, first).map_err(&failed)?;
    Ok(base)
}

/// Room for what the program maps itself.
const GAP: u64 = 1 << 30;

/// A base for the region in a free range below what is mapped around the entry, near enough for libraries to be reached
/// by 32-bit distances.
fn room(pid: Pid, entry: u64) -> Result<u64, SamplerError> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|source| SamplerError::Io {
        operation: "read",
        object: "the mappings of the program".into(),
        source,
    })?;
    let mut used: Vec<(u64, u64)> = maps
        .lines()
        .filter_map(|line| {
            let (start, rest) = line.split_once('-')?;
            let end = rest.split(' ').next()?;
            Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
        })
        .collect();
    used.sort_unstable();
    let mut base = entry.saturating_sub(GAP + layout::SIZE).max(1 << 32) & !((1 << 21) - 1);
    let meets = |base: u64| {
        used.iter().find(move |(start, end)| *start < base + layout::SIZE && *end > base - layout::MORE)
    };
    while let Some(&(_, end)) = meets(base) {
        base = (end + layout::MORE + (1 << 21)) & !((1 << 21) - 1);
    }
    Ok(base)
}
