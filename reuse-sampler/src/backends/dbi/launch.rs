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
    let is_there = std::path::Path::new(program).exists();
    let program = program.to_string_lossy().into_owned();
    let problem = match error.kind() {
        std::io::ErrorKind::NotFound if is_there => {
            "the interpreter that it names, or its loader, is missing".to_owned()
        }
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

/// Maps the region into the stopped program, which has its file open as `descriptor` or opens it. Returns where. If that
/// fails, the program is left as it was.
pub(super) fn map(
    pid: Pid,
    descriptor: Option<i32>,
    region: &Region,
    runtime: &Runtime,
) -> Result<u64, SamplerError> {
    let failed = io("map", "the shared memory into the program");
    let registers = ptrace::getregs(pid).map_err(&failed)?;
    if registers.cs != 0x33 {
        return Err(SamplerError::Target {
            program: std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().display().to_string(),
            problem: "it is a 32-bit program; only x86-64 programs can be observed".into(),
        });
    }
    let at = registers.rip as ptrace::AddressType;
    let word = ptrace::read(pid, at).map_err(&failed)?;
    ptrace::write(pid, at, (word & !0xFFFF) | 0x050F).map_err(&failed)?; // syscall
    let mut calls = Calls { pid, registers, undo: Vec::new() };
    let mapped = calls.map(descriptor, region);
    let mut first = libc::user_regs_struct { orig_rax: u64::MAX, ..registers };
    if let Ok(base) = mapped {
        region.write(layout::RUNTIME, runtime.code);
        set_up(region, base, 0);
        region.set(layout::block(0) + u64::from(shared::PC), registers.rip);
        first.gs_base = ptrace::getregs(pid).map_err(&failed)?.gs_base;
        first.rip = base + layout::RUNTIME + runtime.start;
    } else {
        while let Some((number, arguments)) = calls.undo.pop() {
            let _ = calls.make(number, arguments);
        }
    }
    ptrace::write(pid, at, word).map_err(&failed)?;
    ptrace::setregs(pid, first).map_err(&failed)?;
    mapped
}

/// System calls of a stopped program, which stands at a `syscall` instruction.
struct Calls {
    pid: Pid,
    registers: libc::user_regs_struct,
    /// Those that take back what was done, the last one first.
    undo: Vec<(libc::c_long, [u64; 6])>,
}

impl Calls {
    fn make(&self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, SamplerError> {
        let failed = io("map", "the shared memory into the program");
        let pid = self.pid;
        let mut changed = self.registers;
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
    }

    fn open(&mut self, region: &Region) -> Result<u64, SamplerError> {
        let place = (self.registers.rsp - 256) & !7; // nothing has been executed that uses it
        if !Memory::new(self.pid).write(place, region.path().as_bytes()) {
            return Err(io("write", "the name of shared memory")(Errno::EFAULT));
        }
        let file = self.make(libc::SYS_open, [place, (libc::O_RDWR | libc::O_CLOEXEC) as u64, 0, 0, 0, 0])?;
        self.undo.push((libc::SYS_close, [file, 0, 0, 0, 0, 0]));
        Ok(file)
    }

    fn close(&mut self, file: u64) -> Result<(), SamplerError> {
        self.undo.retain(|(number, arguments)| (*number, arguments[0]) != (libc::SYS_close, file));
        self.make(libc::SYS_close, [file, 0, 0, 0, 0, 0]).map(drop)
    }

    fn map(&mut self, descriptor: Option<i32>, region: &Region) -> Result<u64, SamplerError> {
        let file = match descriptor {
            Some(descriptor) => descriptor as u64,
            None => self.open(region)?,
        };
        let base = room(self.pid, self.registers.rip)?;
        let more = base - layout::MORE;
        let fixed = (libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
        let (read, write, execute) =
            (libc::PROT_READ as u64, libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
        let (mine, ours) = (libc::MAP_PRIVATE as u64 | fixed, libc::MAP_SHARED as u64 | fixed);
        let reserve =
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE)
                as u64;
        let found = self.make(libc::SYS_mmap, [more, layout::FILE, 0, reserve, u64::MAX, 0])?;
        self.undo.push((libc::SYS_munmap, [found, layout::FILE, 0, 0, 0, 0]));
        if found != more {
            return Err(io("map", "the shared memory into the program")(Errno::EEXIST));
        }
        let thread = layout::block(0);
        let rest = thread + private::SIZE;
        self.make(libc::SYS_mmap, [more, layout::MORE, read | write, ours, file, layout::SIZE])?;
        for (start, end, protection, flags) in [
            (layout::RUNTIME, layout::HUB, read | execute, ours),
            (layout::HUB, layout::EXIT_PCS, read | write, ours),
            (layout::EXIT_PCS, thread, read, ours),
            (thread, rest, read | write, mine),
            (rest, thread + layout::THREAD_SIZE, read | write, ours),
            (layout::CACHE, layout::SIZE, read | execute, ours),
        ] {
            self.make(libc::SYS_mmap, [base + start, end - start, protection, flags, file, start])?;
        }
        self.close(file)?;
        if let Some(first) = region.first() {
            let file = self.open(first)?;
            let place = [base + layout::HUB, layout::COMMON, read | write, ours, file, layout::HUB];
            self.make(libc::SYS_mmap, place)?;
            self.close(file)?;
            // We may look at its memory, whosever child it becomes. Most kernels do not care.
            let observer = u64::from(std::process::id());
            let _ = self.make(libc::SYS_prctl, [PR_SET_PTRACER, observer, 0, 0, 0, 0]);
        }
        self.make(libc::SYS_arch_prctl, [ARCH_SET_GS, layout::address(base, 0), 0, 0, 0, 0])?;
        Ok(base)
    }
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
