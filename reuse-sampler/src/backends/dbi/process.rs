//! A process of the tree: watched until it ends, and never left behind as a zombie of ours.

#![allow(unsafe_code)]

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::region::{self, Region};
use crate::{SamplerError, TargetExit};

/// Between looks at a process where the kernel cannot say when it ends.
const NAP: Duration = Duration::from_millis(10);

/// A running process.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    child: Option<Child>,   // ours; the program's children are its own
    ended: Arc<AtomicBool>, // dead, but not reaped by us
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a thread that notices the child's death and rings the bell then.
    pub(super) fn watch(child: Child, region: &Arc<Region>) -> Result<Self, SamplerError> {
        let pid = Pid::from_raw(child.id() as i32);
        let wait = move || {
            let dead = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT; // the number stays ours until it is reaped
            // A process that is being traced is also reported where it has stopped.
            while let Ok(
                WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) | WaitStatus::PtraceSyscall(..),
            )
            | Err(Errno::EINTR) = waitid(Id::Pid(pid), dead)
            {
                thread::sleep(Duration::from_millis(1));
            }
        };
        Self::new(pid, Some(child), region, wait)
    }

    /// The same for a process that is not our child.
    pub(super) fn watch_other(pid: i32, region: &Arc<Region>) -> Result<Self, SamplerError> {
        let handle = handle_of(pid);
        let wait = move || {
            while match &handle {
                Some(handle) => !has_ended(handle),
                None => lives(pid),
            } {
                if handle.is_none() {
                    thread::sleep(NAP);
                }
            }
        };
        Self::new(Pid::from_raw(pid), None, region, wait)
    }

    fn new(
        pid: Pid,
        child: Option<Child>,
        region: &Arc<Region>,
        wait: impl FnOnce() + Send + 'static,
    ) -> Result<Self, SamplerError> {
        let process = Self { pid, child, ended: Arc::new(AtomicBool::new(false)), status: None };
        let (region, ended) = (Arc::clone(region), Arc::clone(&process.ended));
        let watch = move || {
            wait();
            ended.store(true, Ordering::SeqCst);
            region.bell().fetch_add(1, Ordering::SeqCst);
            region::wake(region.bell());
        };
        thread::Builder::new().name("dbi-watch".into()).spawn(watch).map_err(|source| SamplerError::Io {
            operation: "start",
            object: "a thread".into(),
            source,
        })?;
        Ok(process)
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits for the child's end.
    pub(super) fn reap(&mut self) -> Result<(), SamplerError> {
        if let (Some(child), None) = (&mut self.child, self.status) {
            let status = child.wait().map_err(|source| SamplerError::Io {
                operation: "wait for",
                object: "the program".into(),
                source,
            })?;
            self.status = Some(status);
        }
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) {
        let is_there = if self.child.is_some() { self.status.is_none() } else { !self.has_ended() };
        if is_there {
            let _ = kill(self.pid, signal);
        }
    }

    /// Leaves it alone.
    pub(super) fn forget(mut self) {
        self.child = None;
        self.ended.store(true, Ordering::SeqCst);
    }

    /// How the child ended, if it was reaped.
    pub(super) fn status(&self) -> Option<TargetExit> {
        self.status.map(exit_of)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.reap();
    }
}

pub(super) fn exit_of(status: ExitStatus) -> TargetExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => TargetExit::Code(code),
        (None, signal) => TargetExit::Signal(signal.unwrap_or(0)),
    }
}

/// Whether the process or thread exists and has not ended.
pub(super) fn lives(tid: i32) -> bool {
    let line = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    let state = line.rfind(')').and_then(|at| line[at + 1..].trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// A descriptor that becomes readable when the process ends.
pub(super) fn handle_of(pid: i32) -> Option<OwnedFd> {
    // SAFETY: passes numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: the kernel has just opened it for us.
    i32::try_from(descriptor).ok().filter(|fd| *fd >= 0).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits for some time whether the process ends.
fn has_ended(handle: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which outlives the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
    ready == 1
}
