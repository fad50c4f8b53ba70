//! Observers that the kernel refuses something, for one cause each, and what they report of it.
//!
//! Each is this test program, started anew: what it does to itself cannot be undone.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{env, io, ptr};

use nix::libc;
use reuse_sampler::Sampler;
use reuse_sampler::perf::PerfSampler;

use crate::targets::TARGET;
use crate::{options, sparse};

/// A file that an observer finds in place of the kernel's own.
pub const STAND_IN: &str = "REUSE_SAMPLER_TEST_STAND_IN";
/// Whom an observer attaches to.
pub const PROCESS: &str = "REUSE_SAMPLER_TEST_PROCESS";
/// Set where the observer attaches to what it has started.
pub const OWN: &str = "REUSE_SAMPLER_TEST_OWN";
/// Which program an observer starts, instead of one that sleeps.
pub const PROGRAM: &str = "REUSE_SAMPLER_TEST_PROGRAM";

/// Set where the best backend is asked for.
#[cfg(feature = "dbi")]
pub const AUTO: &str = "REUSE_SAMPLER_TEST_AUTO";
/// Where it is started.
pub const FOLDER: &str = "REUSE_SAMPLER_TEST_FOLDER";

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const NOBODY: u32 = 65534;

fn done(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on the system call ends in `action` in this thread and those it starts, by a seccomp filter as containers have
/// them; not if its fifth argument is `except`.
fn forbid_except(call: libc::c_long, action: u32, except: u32) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let mut filter = [
        step(load, 0, 0, 0), // the number of the call
        step(equal, 0, 3, call as u32),
        step(load, 0, 0, 16 + 4 * 8),
        step(equal, 1, 0, except),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, action),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    no_new_privileges()?;
    // SAFETY: the kernel copies the filter, which lives during the call.
    done(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as usize, &raw const program) })
}

/// System calls that a filter may forbid.
const CALLS: [(&str, libc::c_long); 16] = [
    ("ptrace", libc::SYS_ptrace),
    ("events", libc::SYS_perf_event_open),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("execve", libc::SYS_execve),
    ("ioctl", libc::SYS_ioctl),
    ("kill", libc::SYS_kill),
    ("personality", libc::SYS_personality),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pipe2", libc::SYS_pipe2),
    ("prlimit", libc::SYS_prlimit64),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("setitimer", libc::SYS_setitimer),
    ("tgkill", libc::SYS_tgkill),
    ("wait4", libc::SYS_wait4),
    ("waitid", libc::SYS_waitid),
];

/// Forbids a call by its name and what becomes of it, as in `waitid ENOSYS`.
fn forbid(call_and_action: &str) -> io::Result<()> {
    let errno = |number: i32| libc::SECCOMP_RET_ERRNO | number as u32;
    let (name, action) = call_and_action.split_once(' ').unwrap_or_default();
    let action = match action {
        "EPERM" => errno(libc::EPERM),
        "EACCES" => errno(libc::EACCES),
        "ENOSYS" => errno(libc::ENOSYS),
        "kills" => libc::SECCOMP_RET_KILL_PROCESS,
        _ => panic!("no cause {call_and_action:?}"),
    };
    let call = CALLS.iter().find(|(call, _)| *call == name);
    forbid_except(call.unwrap_or_else(|| panic!("no call {name:?}")).1, action, 0x5A5A_5A5A)
}

fn no_new_privileges() -> io::Result<()> {
    // SAFETY: passes numbers.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_usize, 0_usize, 0_usize, 0_usize) })
}

/// Becomes a user who may do nothing special. Others of that user may look at it, as if it had been started so.
fn become_nobody() -> io::Result<()> {
    keep_privileges_hidden()?;
    // SAFETY: passes numbers.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1_usize, 0_usize, 0_usize, 0_usize) })
}

/// The same, but as a program with capabilities of its own file is: nobody may look at it.
fn keep_privileges_hidden() -> io::Result<()> {
    // SAFETY: passes numbers.
    unsafe {
        done(libc::setgroups(0, ptr::null()))?;
        done(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
        done(libc::setresuid(NOBODY, NOBODY, NOBODY))
    }
}

fn limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: reads a value that lives during the call.
    done(unsafe { libc::setrlimit(resource, &raw const limit) })
}

fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // SAFETY: passes a number; this process has one thread.
    done(unsafe { libc::unshare(namespaces) })
}

/// Puts a folder or file in another one's place, for this process alone.
fn replace(what: &Path, by: &Path) -> io::Result<()> {
    let text =
        |path: &Path| std::ffi::CString::new(path.to_str().unwrap_or_default()).map_err(io::Error::other);
    unshare(libc::CLONE_NEWNS)?;
    let (what, by) = (text(what)?, text(by)?);
    // SAFETY: the texts live during the calls.
    unsafe {
        let own = libc::MS_REC | libc::MS_PRIVATE;
        done(libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), own, ptr::null()))?;
        done(libc::mount(by.as_ptr(), what.as_ptr(), ptr::null(), libc::MS_BIND, ptr::null()))
    }
}

fn paranoid_as_given() -> io::Result<()> {
    replace(Path::new(PARANOID), Path::new(&env::var_os(STAND_IN).unwrap_or_default()))
}

/// Goes on as another process in a namespace of its own, where the numbers of processes are others than /proc's.
fn in_another_process() -> io::Result<()> {
    unshare(libc::CLONE_NEWPID)?;
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child > 0 {
        let mut status = 0;
        // SAFETY: writes one integer; then ends without running what the child will.
        unsafe {
            libc::waitpid(child, &raw mut status, 0);
            libc::_exit(libc::WEXITSTATUS(status));
        }
    }
    if child < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Holds all debug registers of all processors.
fn hold_registers() -> io::Result<()> {
    let mut attributes = [0_u64; 16];
    // A breakpoint; read and write, of 8 bytes at 8.
    (attributes[0], attributes[6], attributes[7], attributes[8]) = (5 | 128 << 32, 3 << 32, 8, 8);
    let processors = std::thread::available_parallelism()?.get() as i32;
    for processor in 0..processors {
        let mut held = 0;
        // SAFETY: reads attributes that live during the call.
        while unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), -1, processor, -1, 0) }
            >= 0
        {
            held += 1;
        }
        if held == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Maps all the memory for records that this user may have.
fn hold_rings() -> io::Result<()> {
    // A clock of this thread's processor time, without the kernel's part, with a period: that is, with records.
    let mut attributes = [0_u64; 16];
    (attributes[0], attributes[1], attributes[2], attributes[5]) = (1 | 128 << 32, 1, 1 << 40, 1 << 5);
    loop {
        // SAFETY: reads attributes that live during the call.
        let event = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        let (protection, bytes) = (libc::PROT_READ | libc::PROT_WRITE, 17 * 4096);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let ring =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, event as i32, 0) };
        if ring == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EPERM) { Ok(()) } else { Err(error) };
        }
    }
}

fn restrict(cause: &str) -> io::Result<()> {
    match cause {
        "nothing" => Ok(()),
        // What the kernel itself refuses, it refuses after it has looked at the flags.
        "kernel's events EACCES" => {
            let action = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
            forbid_except(libc::SYS_perf_event_open, action, u32::MAX)
        }
        "paranoid" => paranoid_as_given(),
        "no new privileges" => no_new_privileges(),
        "nobody" => become_nobody(),
        "hidden" => keep_privileges_hidden(),
        "memlock" => limit(libc::RLIMIT_MEMLOCK, 64 << 10),
        "files" => limit(libc::RLIMIT_NOFILE, 100),
        "all files" => {
            limit(libc::RLIMIT_NOFILE, 20)?;
            while let Ok(file) = File::open("/dev/null") {
                std::mem::forget(file);
            }
            Ok(())
        }
        "some files" => limit(libc::RLIMIT_NOFILE, 6),
        "processes" => limit(libc::RLIMIT_NPROC, 1),
        "user namespace" => unshare(libc::CLONE_NEWUSER),
        "process namespace" => in_another_process(),
        "no proc" => replace(Path::new("/proc"), Path::new("/dev")),
        "registers" => hold_registers(),
        "rings" => hold_rings(),
        "settings" => {
            replace(Path::new("/proc/sys/kernel"), Path::new(&env::var_os(STAND_IN).unwrap_or_default()))
        }
        other => forbid(other),
    }
}

/// Tries to observe a program where `causes` are in the way, set up in their order, and reports what came of it.
pub fn observe_despite(causes: &str) {
    if let Err(error) = causes.split(", ").try_for_each(restrict) {
        return eprintln!("CANNOT BE MADE: {error}");
    }
    let begun = Instant::now();
    #[cfg(feature = "dbi")]
    if env::var_os(AUTO).is_some() {
        return observe_by_the_best();
    }
    let observe = || {
        let mut options = options();
        let mut own = env::var_os(OWN).and_then(|_| Command::new("sleep").arg("0.2").spawn().ok());
        let process = own.as_ref().map_or_else(|| env::var(PROCESS), |child| Ok(child.id().to_string()));
        let mut sampler = match (process, env::var(PROGRAM)) {
            (Ok(process), _) => PerfSampler::attach(process.parse().unwrap_or(0), &options)?,
            (_, Ok(program)) => {
                options = options.env(TARGET, "many threads");
                PerfSampler::spawn(program, [""; 0], &options)?
            }
            _ => {
                options.directory = env::var_os(FOLDER).map(Into::into);
                PerfSampler::spawn("sleep", ["0.01"], &options)?
            }
        };
        let mut windows = 0;
        while windows < 500 && sampler.next_window(&sparse(1e6))?.is_some() {
            windows += 1;
        }
        for warning in sampler.warnings() {
            eprintln!("warning: {warning}");
        }
        // Reaped already where its tracer is a thread of this process.
        let _ = own.as_mut().map(std::process::Child::wait);
        Ok::<_, reuse_sampler::SamplerError>(windows)
    };
    match observe() {
        Ok(windows) => eprintln!("it works: {windows} windows"),
        Err(error) => eprintln!("{error}"),
    }
    eprintln!("after {} ms", begun.elapsed().as_millis());
    // SAFETY: asks whether there is a child; its status is not written.
    let children = unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) };
    eprintln!("{}", if children == -1 { "no child left" } else { "a child is left" });
}

/// Attaches to a process, and samples it densely until it is killed.
pub fn observe_for_ever() {
    let process = env::var(PROCESS).unwrap().parse().unwrap();
    let mut sampler = PerfSampler::attach(process, &options()).unwrap();
    while sampler.next_window(&sparse(1e5)).unwrap().is_some() {}
}

/// The same with the best backend there is.
#[cfg(feature = "dbi")]
fn observe_by_the_best() {
    match reuse_sampler::auto::spawn("true", [""; 0], &reuse_sampler::auto::AutoOptions::default()) {
        Ok(mut sampler) => {
            while let Ok(Some(_)) = sampler.next_window(&sparse(1e6)) {}
            eprintln!("{}: {:?} {}", sampler.backend(), sampler.exit_status(), sampler.warnings().join("\n"));
        }
        Err(error) => eprintln!("{error}"),
    }
    // The emulator of instructions leaves its program to nobody.
    eprintln!("no child left");
}

/// Runs this program as `name` under a tracer that follows its children, as `strace -f` does.
pub fn follow(name: &str) -> io::Result<()> {
    let mut command = Command::new(env::current_exe()?);
    command.env(TARGET, name);
    let traced = || {
        // SAFETY: passes numbers.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: only makes a system call; the program stops when it is about to begin.
    unsafe { command.pre_exec(traced) };
    let children = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
    let options = children | libc::PTRACE_O_EXITKILL;
    let child = command.spawn()?.id() as i32;
    let call = |request: libc::c_uint, thread: i32, data: usize| {
        // SAFETY: passes numbers.
        unsafe { libc::ptrace(request, thread, ptr::null_mut::<libc::c_void>(), data) }
    };
    loop {
        let mut status = 0;
        // SAFETY: writes one integer.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        if thread < 0 || thread == child && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            return Ok(());
        }
        if libc::WIFSTOPPED(status) {
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) as usize } else { 0 };
            call(libc::PTRACE_SETOPTIONS, thread, options as usize);
            let signal = if signal == libc::SIGTRAP as usize { 0 } else { signal };
            call(libc::PTRACE_CONT, thread, signal);
        }
    }
}
