//! Why the kernel refuses something, and what to change.
//!
//! The same error number can have several causes. What tells them apart:
//!
//! | refusal | cause | known by |
//! |---|---|---|
//! | any call: `EPERM`, `EACCES`, `ENOSYS` | a seccomp filter | an impossible call is refused alike |
//! | open: `EACCES` | `perf_event_paranoid` above 2 (Debian, Android; Ubuntu above 3) | its value, no privilege |
//! | open: `EACCES` of another thread alone | its program's file is unreadable or privileged | the own thread's opens |
//! | open: `EACCES`, `EPERM` | a security module | neither of the above |
//! | open: `ENOENT`, `ENODEV`, `EOPNOTSUPP` | no such counter, or none that interrupts | |
//! | open: `EINVAL`, `E2BIG` | a kernel before 5.13, or too few counters for a group | its version |
//! | open: `EBUSY`, and a group that is never counted | others hold the counters | |
//! | open: `ENOSPC` | all debug registers are taken | |
//! | open: `EMFILE`, `ENFILE` | file descriptors of the process, of the system | |
//! | map: `EPERM` | `perf_event_mlock_kb` and `ulimit -l`, both of a user and not of a process | |
//! | open, map: `ENOMEM` | memory of the kernel or of a control group | |
//! | ptrace: `EPERM`, `EACCES` | see [`Circumstances::control`] | `/proc/PID/status`, `ptrace_scope` |

use std::io;

/// What decides what a refusal means.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // independent facts, each with its name
pub(super) struct Circumstances {
    /// Version of Linux.
    pub linux: Option<(u32, u32)>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i32>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i32>,
    /// Whether this thread is under a seccomp filter.
    pub filtered: bool,
    /// Whether `perf_event_open` is refused whatever it is asked for.
    pub no_events: bool,
    /// Whether `ptrace` is refused whatever it is asked for.
    pub no_ptrace: bool,
    /// Another system call that a filter refuses whatever it is asked for, as far as that was tried.
    pub forbidden: Option<&'static str>,
    /// Whether `paranoid` does not matter (`CAP_PERFMON` or `CAP_SYS_ADMIN` on the host).
    pub may_observe: bool,
    /// Whether any process may be controlled (`CAP_SYS_PTRACE` on the host).
    pub may_control: bool,
    /// Whether others of this user may not look at this process.
    pub hidden: bool,
    /// The user's number.
    pub user: u32,
    /// File descriptors that this process may have.
    pub files: u64,
    /// KiB that it may lock.
    pub locked: u64,
    /// KiB of rings that a user may have for each processor beside that.
    pub rings: u64,
}

/// A process that cannot be controlled.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject {
    /// Whether it has ended and is not reaped yet.
    pub ended: bool,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// Who controls it: number and name.
    pub tracer: Option<(i32, String)>,
    /// Its user's number.
    pub user: u32,
    /// Whether others of its user may not look at it.
    pub hidden: bool,
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

const FORBIDDEN: &str =
    "a security module forbids ptrace (SELinux: setsebool deny_ptrace 0; AppArmor: see its log)";

/// Whether the machine lacks what was asked for.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENOENT | ENODEV | EOPNOTSUPP))
}

/// Whether a group was refused because there is not enough for all of it.
pub(super) fn is_too_much(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EINVAL | EBUSY)) || error.kind() == io::ErrorKind::ResourceBusy
}

impl Circumstances {
    /// What is missing, and how to get it, where an event cannot be opened of another thread or (`own`) even of the
    /// own one.
    pub fn event(&self, error: &io::Error, own: bool) -> String {
        let Some(number) = error.raw_os_error() else { return error.to_string() };
        match number {
            EPERM | EACCES | ENOSYS if self.no_events => self.unreachable(
                "perf_event_open",
                Some("--cap-add PERFMON"),
                "this kernel has no events (built without them, or emulated by a sandbox): run on Linux itself",
            ),
            EPERM | EACCES | ENOSYS if self.forbidden.is_some() => self.exhausted(error),
            EPERM | EACCES if !own => "permission to observe this program, though others may be observed: its file \
                is not readable, or it has privileges of its own (setuid, capabilities): make the file readable \
                (chmod +r), or run as root"
                .to_owned(),
            EACCES if !self.may_observe && self.paranoid.is_some_and(|level| level > 2) => format!(
                "kernel.perf_event_paranoid is {}, with which this kernel lets only the privileged open events: set it \
                 to 2 or lower (as root, of the host in a container: sysctl -w kernel.perf_event_paranoid=2), or grant \
                 CAP_PERFMON there",
                self.paranoid.unwrap_or_default()
            ),
            EPERM | EACCES => "a security module (SELinux, AppArmor) forbids this program to open events, as \
                neither kernel.perf_event_paranoid nor a seccomp filter does: see its log and allow perf_event, or \
                run as another user"
                .to_owned(),
            ENOENT | ENODEV | EOPNOTSUPP => "hardware counters that can interrupt, which this machine does not have \
                (virtual machines mostly do not)"
                .to_owned(),
            EINVAL | E2BIG => match self.linux {
                Some((major, minor)) if (major, minor) < (5, 13) => format!(
                    "events that stop a thread, which Linux has from version 5.13 on: this is {major}.{minor}"
                ),
                _ => "counters for all of the group: the processor has too few of them, or the kernel does not take \
                    one of its events"
                    .to_owned(),
            },
            EBUSY => "counters that nobody else holds: end other profilers, set kernel.nmi_watchdog to 0".to_owned(),
            _ => self.exhausted(error),
        }
    }

    /// The same, where something is used up that any call may need.
    pub fn exhausted(&self, error: &io::Error) -> String {
        match error.raw_os_error() {
            Some(EPERM | EACCES | ENOSYS) if self.forbidden.is_some() => {
                self.unreachable(self.forbidden.unwrap_or_default(), None, "")
            }
            Some(EMFILE) => format!(
                "file descriptors: this process may have {}, and each thread of the program takes about ten: raise \
                 the limit (ulimit -n)",
                self.files
            ),
            Some(ENFILE) => "file descriptors: the system has no more: raise fs.file-max".to_owned(),
            Some(ENOMEM) => {
                "memory: the kernel, or the control group (the container's limit), has no more".to_owned()
            }
            Some(EAGAIN) => "threads: this user or control group may have no more: raise ulimit -u, or the \
                container's limit (--pids-limit)"
                .to_owned(),
            _ => error.to_string(),
        }
    }

    /// The same where no watchpoint can be set.
    pub fn watchpoint(&self, error: &io::Error) -> String {
        match error.raw_os_error() {
            Some(ENOSPC) => "debug registers: end debuggers and profilers that hold all of them".to_owned(),
            _ if is_missing(error) => {
                "debug registers, which this machine or its kernel does not have: use another one".to_owned()
            }
            _ => self.event(error, true),
        }
    }

    /// The same, where memory for the records of an event cannot be mapped: of the `rings`th thread.
    pub fn mapping(&self, error: &io::Error, kib: usize, rings: usize) -> io::Error {
        let why = match error.raw_os_error() {
            Some(EPERM) => format!(
                "memory for the records of events (threads: {rings}, {kib} KiB each): a user may have {} KiB for each \
                 processor (kernel.perf_event_mlock_kb), and a process {} KiB beyond that (ulimit -l): raise either, \
                 or grant CAP_IPC_LOCK on the host",
                self.rings, self.locked
            ),
            _ => format!("memory for the records of events (threads: {rings}, {kib} KiB each): {error}"),
        };
        io::Error::new(io::ErrorKind::PermissionDenied, why)
    }

    /// Why a process cannot be controlled by `ptrace`, and what to change: one that was just started (`own`), or
    /// another.
    pub fn control(&self, error: &io::Error, subject: &Subject, own: bool) -> String {
        let scope = self.ptrace_scope.unwrap_or(0);
        let why = match error.raw_os_error() {
            Some(EPERM | EACCES | ENOSYS) if self.no_ptrace => self.unreachable(
                "ptrace",
                Some("--cap-add SYS_PTRACE"),
                "this kernel has no ptrace (emulated by a sandbox?): run on Linux itself",
            ),
            Some(EPERM | EACCES) => match &subject.tracer {
                _ if subject.ended => "it has ended, and only waits for its parent".to_owned(),
                _ if subject.kernel => "it is a thread of the kernel, not a program".to_owned(),
                Some((tracer, name)) if own => format!(
                    "process {tracer} ({name}) controls it already, as it controls whatever this process starts: run \
                     outside of it, or have it not follow children"
                ),
                Some((tracer, name)) => {
                    format!("process {tracer} ({name}) controls it already: end that, or detach it there")
                }
                None if scope >= 3 => format!(
                    "kernel.yama.ptrace_scope is {scope}, which forbids ptrace to everybody until the next boot: have \
                     the system set it to 1 then (/etc/sysctl.d)"
                ),
                None if self.may_control => FORBIDDEN.to_owned(),
                None if scope == 2 => {
                    "kernel.yama.ptrace_scope is 2, which leaves ptrace to root: run as root, or set it to 1".to_owned()
                }
                None if own && self.hidden => "this process has privileges that its user has not (capabilities of its \
                    file, another user), so that what it starts cannot be looked at: add cap_sys_ptrace to them \
                    (setcap), or run as root"
                    .to_owned(),
                None if subject.user != self.user => {
                    format!("it is user {}'s, and this is user {}: run as that user or root", subject.user, self.user)
                }
                None if subject.hidden => {
                    "it has privileges of its own (setuid, capabilities), or forbids to look at it: run as root"
                        .to_owned()
                }
                None if scope == 1 && !own => "kernel.yama.ptrace_scope is 1, which allows only what this process \
                    started: start the program from here, run as root, or set it to 0"
                    .to_owned(),
                None if own => FORBIDDEN.to_owned(),
                None => format!("it has capabilities that this process has not (run as root), or {FORBIDDEN}"),
            },
            _ => error.to_string(),
        };
        format!("the program cannot be controlled: {why}")
    }

    /// Whether another process of this one's may control programs. It is nobody's forebear, whom alone `ptrace_scope` may let.
    pub fn may_guard(&self) -> bool {
        self.may_control || self.ptrace_scope.unwrap_or(0) == 0
    }

    /// What an attached program is in danger of where no guard controls it: since none may, or because of an error.
    pub fn unguarded(&self, error: Option<&io::Error>) -> String {
        let why = match error {
            None => format!(
                "kernel.yama.ptrace_scope is {}, which keeps any process that outlives this one from controlling it: set \
                 that to 0, run as root, or grant CAP_SYS_PTRACE",
                self.ptrace_scope.unwrap_or(1)
            ),
            Some(error) => {
                format!("no process that outlives this one can be started: {}", self.exhausted(error))
            }
        };
        format!("should this process be killed, SIGTRAP may kill the attached program: {why}")
    }

    fn unreachable(&self, call: &str, container: Option<&str>, otherwise: &str) -> String {
        if !self.filtered {
            return otherwise.to_owned();
        }
        let container = container.map_or_else(String::new, |option| format!("{option} or "));
        format!(
            "{call} is forbidden by a seccomp filter, as containers and sandboxes set: start the container with \
             {container}--security-opt seccomp=unconfined (systemd: SystemCallFilter={call}), or run outside of it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    /// What this machine's own kernel cannot be made to refuse; `tests/perf/causes.rs` has the rest.
    #[test]
    fn refusals_to_open_name_their_cause() {
        let here = Circumstances { linux: Some((6, 1)), paranoid: Some(2), ..Circumstances::default() };
        let old = Circumstances { linux: Some((4, 18)), ..here.clone() };
        let emulated = Circumstances { no_events: true, ..here.clone() };
        let without_ioctl = Circumstances { filtered: true, forbidden: Some("ioctl"), ..here.clone() };
        let allowed = Circumstances { paranoid: Some(4), may_observe: true, ..here.clone() };
        for (number, here, own, says) in [
            (EINVAL, &old, true, "from version 5.13 on: this is 4.18"),
            (EINVAL, &here, false, "counters for all of the group"),
            (E2BIG, &old, true, "5.13"),
            (ENOSYS, &emulated, true, "this kernel has no events"),
            (EACCES, &here, true, "security module"),
            (EACCES, &allowed, true, "security module"),
            (EPERM, &here, true, "security module"),
            (EPERM, &without_ioctl, true, "ioctl is forbidden by a seccomp filter"),
            (ENOSYS, &without_ioctl, false, "ioctl is forbidden by a seccomp filter"),
            (EACCES, &allowed, false, "chmod +r"),
            (ENOENT, &here, true, "virtual machines"),
            (ENODEV, &here, true, "virtual machines"),
            (EOPNOTSUPP, &here, true, "virtual machines"),
            (EBUSY, &here, true, "nmi_watchdog"),
            (ENFILE, &here, true, "fs.file-max"),
            (ENOMEM, &here, true, "control group"),
            (5, &here, true, "os error 5"),
        ] {
            let text = here.event(&refusal(number), own);
            assert!(text.contains(says), "{number}: {text}");
        }
        assert!(here.watchpoint(&refusal(ENOENT)).contains("this machine or its kernel does not have"));
        assert!(here.mapping(&refusal(ENOMEM), 68, 3).to_string().contains("os error 12"));
    }

    #[test]
    fn refusals_of_control_name_their_cause() {
        let at = |scope| Circumstances { ptrace_scope: Some(scope), user: 1000, ..Circumstances::default() };
        let root = |scope| Circumstances { may_control: true, user: 0, ..at(scope) };
        let same = Subject { user: 1000, ..Subject::default() };
        let roots = Subject::default();
        let hidden = Subject { hidden: true, ..same.clone() };
        let held = Subject { tracer: Some((7, "gdb".into())), ..same.clone() };
        for (here, subject, own, says) in [
            (at(3), &same, true, "ptrace_scope is 3, which forbids ptrace to everybody until the next boot"),
            (root(3), &same, false, "until the next boot"),
            (at(2), &same, true, "ptrace_scope is 2, which leaves ptrace to root"),
            (at(1), &same, false, "ptrace_scope is 1, which allows only what this process started"),
            (at(1), &roots, false, "it is user 0's"),
            (at(1), &hidden, false, "setuid"),
            (at(3), &held, false, "process 7 (gdb) controls it already: end that"),
            (root(0), &roots, false, "deny_ptrace"),
            (at(1), &same, true, "deny_ptrace"),
            (at(0), &same, false, "capabilities that this process has not"),
        ] {
            let text = here.control(&refusal(EPERM), subject, own);
            assert!(text.contains(says), "{here:?} {subject:?}: {text}");
        }
        assert!([at(0), root(1), root(3)].iter().all(Circumstances::may_guard) && !at(1).may_guard());
        assert!(at(1).unguarded(None).contains("ptrace_scope is 1"));
        assert!(at(0).unguarded(Some(&refusal(EAGAIN))).contains("can be started: threads: this user"));
        let emulated = Circumstances { no_ptrace: true, ..at(0) };
        assert!(emulated.control(&refusal(ENOSYS), &same, true).contains("this kernel has no ptrace"));
    }
}
