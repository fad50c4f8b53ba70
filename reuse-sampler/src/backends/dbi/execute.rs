//! The program replaces itself by another one, which is observed too.
//!
//! It is traced from the system call on, as it was at its start, until the region is mapped into the new program. What
//! its threads had counted and recorded is in the region still.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::cache::CodeCache;
use super::children::bytes_of;
use super::guard::Guards;
use super::launch::map;
use super::layout::{self, command, private, shared};
use super::memory::Memory;
use super::observer::{Event, Gone, Observer};
use super::process::Process;
use super::region::{self, Region};
use super::runtime::Runtime;
use super::threads::Thread;
use crate::SamplerError;

/// Between looks at a process that may be at its new program.
const NAP: Duration = Duration::from_micros(200);

impl Observer {
    /// The current thread executes the program at `path`, as the program names it.
    pub(super) fn execute(&mut self, path: String) -> Result<Option<Event>, Gone> {
        let tid = Pid::from_raw(self.own().tid);
        let pid = if self.is_apart() { tid } else { self.process.pid() };
        let file = if path.starts_with('/') {
            PathBuf::from(&path)
        } else {
            PathBuf::from(format!("/proc/{tid}/cwd/{path}"))
        };
        // Unless it fails, or is observed.
        self.unobserved.push(format!("{path}, which ran unobserved"));
        // A traced process gets no rights from what it executes.
        if gives_rights(&file) || ptrace::seize(tid, Options::PTRACE_O_TRACEEXEC).is_err() {
            return self.perform(command::CALL);
        }
        self.perform(command::CALL)?;
        loop {
            // Who executes takes over the number of the process.
            for traced in [tid, pid] {
                match stop_of(traced) {
                    Some(WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC)) => {
                        return Ok(Some(Event::Executed { path }));
                    }
                    Some(WaitStatus::Stopped(_, signal)) => {
                        let _ = ptrace::cont(traced, signal);
                    }
                    Some(_) => {
                        let _ = ptrace::cont(traced, None);
                    }
                    None => {}
                }
            }
            self.serve_signals();
            if self.get_half(shared::STATE) == 1 {
                // It failed.
                if ptrace::interrupt(tid).is_ok() && waitpid(tid, Some(WaitPidFlag::__WALL)).is_ok() {
                    let _ = ptrace::detach(tid, None);
                }
                return Ok(None);
            }
            if self.has_ended() {
                return Err(Gone);
            }
            let bell = self.region.bell();
            region::sleep(bell, bell.load(Ordering::SeqCst), NAP);
        }
    }

    /// The new program is about to begin: as the first one was.
    pub(super) fn start_anew(&mut self) -> Result<(), SamplerError> {
        let pid = self.process.pid();
        for thread in 0..self.threads.len() {
            for offset in (shared::REGISTERS..shared::SCRATCH).step_by(8) {
                self.region.set(layout::block(thread) + u64::from(offset), 0);
            }
        }
        // Of a forked child the file has what its parent asked of signals.
        let actions = bytes_of(&[[0; 4]; 65]);
        self.region.write(layout::block(0) + u64::from(private::ACTIONS), &actions);
        self.current = 0;
        self.base = enter(pid, &self.region, &self.runtime)?;
        self.cache.clear();
        let purpose = self.cache.purpose;
        self.cache = CodeCache::new(Arc::clone(&self.region), self.base, &self.runtime);
        self.cache.purpose = purpose;
        self.memory = Memory::new(pid);
        self.guards = Guards::default();
        self.threads = vec![Some(Thread::new(pid.as_raw()))];
        self.actions = [[0; 4]; 65];
        self.prepare();
        Ok(())
    }

    /// The same for the current thread, which was a process of its own and shares memory no longer.
    pub(super) fn start_apart(&mut self) -> Result<Self, SamplerError> {
        let pid = Pid::from_raw(self.own().tid);
        let made = Region::beside(&self.region).map(Arc::new);
        let made = made.and_then(|region| Ok((Process::watch_other(pid.as_raw(), &region)?, region)));
        let (process, region) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = ptrace::detach(pid, None);
                return Err(error);
            }
        };
        match enter(pid, &region, &self.runtime) {
            Ok(base) => Ok(self.beside(region, base, process)),
            Err(error) => {
                process.forget(); // dropped, the process would be killed
                Err(error)
            }
        }
    }
}

/// Maps the region into a process that is about to begin a program, and traces it no longer.
fn enter(pid: Pid, region: &Region, runtime: &Runtime) -> Result<u64, SamplerError> {
    let _ = ptrace::setoptions(pid, Options::PTRACE_O_EXITKILL);
    let base = settle(pid).and_then(|()| map(pid, None, region, runtime));
    let _ = ptrace::detach(pid, None);
    base
}

/// How the traced process has stopped, if it has.
fn stop_of(traced: Pid) -> Option<WaitStatus> {
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
    waitid(Id::Pid(traced), flags).ok().filter(|status| *status != WaitStatus::StillAlive)
}

/// From within the system call to the first instruction, where registers can be set.
fn settle(pid: Pid) -> Result<(), SamplerError> {
    let failed = |errno: nix::errno::Errno| SamplerError::Io {
        operation: "trace",
        object: "the program".into(),
        source: errno.into(),
    };
    let registers = ptrace::getregs(pid).map_err(failed)?;
    ptrace::step(pid, None).map_err(failed)?;
    waitpid(pid, Some(WaitPidFlag::__WALL)).map_err(failed)?;
    // Should an instruction have been executed, it has changed registers only.
    ptrace::setregs(pid, registers).map_err(failed)
}

/// Whether who executes the file has more rights than before.
fn gives_rights(file: &Path) -> bool {
    const SET_ID: u32 = 0o6000;
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    let attribute = c"security.capability".as_ptr();
    // SAFETY: both are strings that end with 0, and nothing is written to a buffer of no length.
    let capable = unsafe { libc::getxattr(name.as_ptr(), attribute, std::ptr::null_mut(), 0) } > 0;
    capable || fs::metadata(file).is_ok_and(|data| data.mode() & SET_ID != 0)
}
