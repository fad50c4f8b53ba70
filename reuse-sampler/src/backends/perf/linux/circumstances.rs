//! What decides what a refusal means, read and tried.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit};

use super::trace;
use crate::perf::causes::{Circumstances, Subject};

impl Circumstances {
    /// Those of the calling thread.
    pub fn here() -> Self {
        const SYS_PTRACE: u32 = 19;
        const SYS_ADMIN: u32 = 21;
        const PERFMON: u32 = 38;
        let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut version = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let status = Status::read("thread-self");
        // In a user namespace of one's own all capabilities are there, and mean nothing on the host.
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let host = users.split_whitespace().eq(["0", "0", "4294967295"]);
        let capabilities = status.field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let has = |bit: u32| host && capabilities.is_some_and(|mask| mask >> bit & 1 != 0);
        // SAFETY: pass and return numbers.
        let (user, dumpable) = unsafe { (libc::geteuid(), libc::prctl(libc::PR_GET_DUMPABLE)) };
        Self {
            linux: version.next().zip(version.next()).and_then(|(a, b)| a.ok().zip(b.ok())),
            paranoid: number("/proc/sys/kernel/perf_event_paranoid").map(|level: i64| level as i32),
            ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope").map(|scope| scope as i32),
            filtered: status.field("Seccomp:").is_some_and(|mode| mode == "2"),
            no_events: no_events(),
            no_ptrace: trace::is_forbidden(),
            forbidden: None,
            may_observe: has(SYS_ADMIN) || has(PERFMON),
            may_control: has(SYS_PTRACE),
            hidden: dumpable != 1,
            user,
            files: limit(Resource::RLIMIT_NOFILE),
            locked: limit(Resource::RLIMIT_MEMLOCK) >> 10,
            rings: number("/proc/sys/kernel/perf_event_mlock_kb").map_or(0, |kib| kib as u64),
        }
    }

    /// Those of the calling thread, where a call was refused. Only then are others tried: a filter may kill whoever makes them.
    pub fn behind(error: &io::Error) -> Self {
        let mut here = Self::here();
        if here.filtered && matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS)) {
            here.forbidden = forbidden_call();
        }
        here
    }
}

impl Subject {
    /// What is known of a process.
    pub fn of(process: i32) -> Self {
        let status = Status::read(process);
        let tracer =
            status.field("TracerPid:").and_then(|tracer| tracer.parse().ok()).filter(|&tracer| tracer > 0);
        let name = |tracer| fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
        let ended = status.field("State:").is_some_and(|state| state == "Z" || state == "X");
        let user = status.field("Uid:").and_then(|user| user.parse().ok()).unwrap_or(0);
        let owner = fs::metadata(format!("/proc/{process}")).map_or(user, |folder| folder.uid());
        Self {
            ended,
            kernel: !ended && status.field("State:").is_some() && status.field("VmSize:").is_none(),
            tracer: tracer.map(|tracer| (tracer, name(tracer).trim().to_owned())),
            user,
            hidden: owner != user,
        }
    }
}

/// Text of `/proc/PROCESS/status`; empty where there is none.
pub(super) struct Status(String);

impl Status {
    pub(super) fn read(process: impl std::fmt::Display) -> Self {
        Self(fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default())
    }

    /// First word of a line.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
    }
}

/// Whether `perf_event_open` never reaches the kernel: flags that no version knows are `EINVAL` there before anything
/// else.
fn no_events() -> bool {
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: the kernel does not get to look at the attributes.
    let answer = unsafe { libc::syscall(libc::SYS_perf_event_open, nothing, 0, -1, -1, libc::c_ulong::MAX) };
    answer < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
}

/// A system call that never reaches the kernel, which refuses arguments like these with an error of its own.
fn forbidden_call() -> Option<&'static str> {
    let (none, wrong) = (0_i64, -1_i64);
    let nowhere = c"".as_ptr() as i64;
    let calls = [
        ("ioctl", libc::SYS_ioctl, [wrong, none, none], libc::EBADF),
        ("pipe2", libc::SYS_pipe2, [none, wrong, none], libc::EINVAL),
        // Handlers without the memory that they are in.
        ("clone", libc::SYS_clone, [i64::from(libc::CLONE_SIGHAND), none, none], libc::EINVAL),
        ("clone3", libc::SYS_clone3, [none, none, none], libc::EINVAL),
        ("execve", libc::SYS_execve, [nowhere, none, none], libc::ENOENT),
    ];
    let refused = |call, [a, b, c]: [i64; 3], errno| {
        // SAFETY: no argument is one that the kernel takes: it reads an empty text and writes nothing.
        let answer = unsafe { libc::syscall(call, a, b, c, none, none) };
        let error = io::Error::last_os_error().raw_os_error();
        // Without `clone3` the C library takes `clone`.
        answer < 0 && error != Some(errno) && !(call == libc::SYS_clone3 && error == Some(libc::ENOSYS))
    };
    let waits = trace::can_wait().err().map(|(call, _)| call);
    waits.or_else(|| {
        calls
            .into_iter()
            .find(|&(_, call, arguments, errno)| refused(call, arguments, errno))
            .map(|call| call.0)
    })
}

/// A limit of this process.
fn limit(resource: Resource) -> u64 {
    getrlimit(resource).map_or(0, |(now, _)| now)
}
