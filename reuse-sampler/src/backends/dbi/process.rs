//! The program as a child process: waited for, ended, and never left behind as a zombie.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::layout;
use super::region::{self, Region};
use crate::{SamplerError, TargetExit};

/// A running child.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    ended: Arc<AtomicBool>, // dead, but not reaped
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a thread that notices the child's death and rings the doorbell then.
    pub(super) fn watch(child: Child, region: &Arc<Region>) -> Result<Self, SamplerError> {
        let process = Self { child, ended: Arc::new(AtomicBool::new(false)), status: None };
        let (pid, region, ended) = (process.pid(), Arc::clone(region), Arc::clone(&process.ended));
        let watch = move || {
            let dead = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT; // the number stays ours until it is reaped
            // A process that is being traced is also reported where it has stopped.
            while let Ok(
                WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) | WaitStatus::PtraceSyscall(..),
            )
            | Err(nix::errno::Errno::EINTR) = waitid(Id::Pid(pid), dead)
            {
                thread::sleep(Duration::from_millis(1));
            }
            ended.store(true, Ordering::SeqCst);
            let bell = region.half(layout::HUB + layout::DOORBELL);
            bell.fetch_add(1, Ordering::SeqCst);
            region::wake(bell);
        };
        thread::Builder::new().name("dbi-watch".into()).spawn(watch).map_err(|source| SamplerError::Io {
            operation: "start",
            object: "a thread".into(),
            source,
        })?;
        Ok(process)
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits for the child's end.
    pub(super) fn reap(&mut self) -> Result<(), SamplerError> {
        if self.status.is_none() {
            let status = self.child.wait().map_err(|source| SamplerError::Io {
                operation: "wait for",
                object: "the program".into(),
                source,
            })?;
            self.status = Some(status);
        }
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill(self.pid(), signal);
        }
    }

    /// How the child ended, if it was reaped.
    pub(super) fn status(&self) -> Option<TargetExit> {
        self.status.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => TargetExit::Code(code),
            (None, signal) => TargetExit::Signal(signal.unwrap_or(0)),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
