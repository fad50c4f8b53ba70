//! The program under test: started or attached to, pinned, suspended and set free again.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::CpuSet;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::affinity;
use super::guardian::{Duty, Guardian};
use super::params::{Ended, Suspension};
use super::progress::{IoBytes, ProgressCounter};
use super::suspend::Freezer;
use super::threads::threads_of;
use crate::error::PirateError;

/// How long a target may take to stand still.
const PATIENCE: Duration = Duration::from_secs(2);

/// A process under our control. Dropping it lets one that was attached to run on, with its processors back, and
/// ends one that was started.
#[derive(Debug)]
pub(super) struct Target {
    pid: i32,
    began: u64, // in the kernel's ticks: distinguishes it from another process with its number
    child: Option<Child>,
    clock: Option<ClockId>,
    cpu_time: f64, // nanoseconds, when last read
    pinned: Option<Pinned>,
    freezer: Option<Freezer>,
    ended: bool,
    moved: IoBytes,
    end: Option<Ended>,
    guardian: Option<Guardian>,
}

/// Where the threads of an attached process ran before they were pinned.
#[derive(Clone, Debug)]
pub(super) struct Pinned {
    /// `/proc/PID/task`.
    pub folder: CString,
    whole: CpuSet, // of the first thread, and of those that began later
    threads: Vec<(i32, CpuSet)>,
}

impl Pinned {
    /// The processors of a thread.
    pub(super) fn of(&self, thread: i32) -> &CpuSet {
        self.threads.iter().find(|(known, _)| *known == thread).map_or(&self.whole, |(_, set)| set)
    }
}

impl Target {
    /// Starts a program on `cpu`, in a process group of its own, and suspends it at once.
    pub(super) fn spawn(
        mut command: Command,
        cpu: usize,
        suspension: &Suspension,
    ) -> Result<Self, PirateError> {
        // The child inherits the affinity that this thread has when it forks.
        let before = affinity::get(0)?;
        affinity::pin_here(cpu)?;
        let spawned = command.process_group(0).spawn();
        affinity::set(0, &before)?;
        let child = spawned.map_err(|source| {
            let program = command.get_program().to_string_lossy();
            PirateError::system("start", program, source, "check its name and permissions")
        })?;
        let pid = child.id() as i32;
        Self::take(pid, Some(child), None, suspension)
    }

    /// Takes over a running process, pins all its threads to `cpu` and suspends it.
    pub(super) fn attach(pid: i32, cpu: usize, suspension: &Suspension) -> Result<Self, PirateError> {
        if pid <= 1 || pid == std::process::id() as i32 || stat(pid).is_none() {
            let remedy = "give the number of a running process other than this one";
            let object = format!("process {pid}");
            return Err(PirateError::system("attach to", object, io::ErrorKind::NotFound, remedy));
        }
        let whole = affinity::get(pid)?;
        let mut threads = Vec::new();
        let here = affinity::one(cpu)?;
        for thread in threads_of(pid) {
            if let Ok(set) = affinity::get(thread) {
                threads.push((thread, set));
            }
            // A thread may end meanwhile; the process itself must be there and ours.
            let pinned = affinity::set(thread, &here);
            if thread == pid {
                pinned?;
            }
        }
        let folder = CString::new(format!("/proc/{pid}/task")).unwrap_or_default();
        Self::take(pid, None, Some(Pinned { folder, whole, threads }), suspension)
    }

    fn take(
        pid: i32,
        child: Option<Child>,
        pinned: Option<Pinned>,
        suspension: &Suspension,
    ) -> Result<Self, PirateError> {
        let began = stat(pid).map_or(0, |stat| stat.began);
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok();
        let (freezer, guardian, ended, moved, end) = (None, None, false, IoBytes::of(pid), None);
        let mut target =
            Self { pid, began, child, clock, cpu_time: 0.0, pinned, freezer, ended, moved, end, guardian };
        if let Suspension::Freezer { root } = suspension {
            target.freezer = Some(Freezer::new(root, pid)?);
        }
        let thaw = target.freezer.as_ref().map(Freezer::thaw_by);
        let pinned = target.pinned.clone();
        let duty = Duty {
            signal_to: Some(target.signal_to()),
            terminate: target.child.is_some(),
            thaw,
            pinned,
            undo: None,
        };
        target.guardian = Some(Guardian::post(&duty)?);
        target.suspend()?;
        Ok(target)
    }

    pub(super) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it has ended.
    pub(super) fn ended(&mut self) -> bool {
        if !self.ended {
            match stat(self.pid).filter(|stat| stat.began == self.began) {
                Some(stat) if !matches!(stat.state, 'Z' | 'X') => {}
                found => {
                    if found.is_some() {
                        self.cpu_time();
                    }
                    self.ended = true;
                    if let Some(child) = &mut self.child {
                        // A zombie: its counts are there yet, and waiting for it answers at once.
                        let bytes = self.moved.read().ok().filter(|&bytes| bytes > 0);
                        self.end = child.wait().ok().map(|status| Ended { status, bytes });
                    }
                }
            }
        }
        self.ended
    }

    /// How it ended, once that is known, of one that was started.
    pub(super) const fn end(&self) -> Option<Ended> {
        self.end
    }

    /// Makes it stand still.
    pub(super) fn suspend(&mut self) -> Result<(), PirateError> {
        if self.ended() {
            return Ok(());
        }
        if let Some(freezer) = &mut self.freezer {
            return freezer.freeze();
        }
        self.signal(Signal::SIGSTOP)?;
        let deadline = Instant::now() + PATIENCE;
        while !self.stands_still() {
            if Instant::now() > deadline {
                let (object, remedy) =
                    (format!("process {}", self.pid), "it may wait for a device: try again");
                return Err(PirateError::system("suspend", object, io::ErrorKind::TimedOut, remedy));
            }
            thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// Lets it run on.
    pub(super) fn resume(&mut self) -> Result<(), PirateError> {
        if self.ended() {
            return Ok(());
        }
        match &mut self.freezer {
            Some(freezer) => freezer.thaw(),
            None => self.signal(Signal::SIGCONT),
        }
    }

    /// Lets it run to its end.
    pub(super) fn wait(&mut self) -> Result<(), PirateError> {
        self.resume()?;
        while !self.ended() {
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn terminate(&mut self) -> Result<(), PirateError> {
        if !self.ended() {
            self.signal(Signal::SIGTERM)?;
        }
        self.wait()
    }

    /// Processor time used, in nanoseconds; the last known once it has ended.
    pub(super) fn cpu_time(&mut self) -> f64 {
        if let Some(time) = self.clock.and_then(|clock| clock_gettime(clock).ok()) {
            let time = time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64;
            self.cpu_time = self.cpu_time.max(time);
        }
        self.cpu_time
    }

    fn stands_still(&mut self) -> bool {
        self.ended()
            || threads_of(self.pid)
                .into_iter()
                .filter_map(|thread| read_stat(&format!("/proc/{}/task/{thread}/stat", self.pid)))
                // One in the kernel's hands (D) stops when it comes back from there: a parent in vfork does only after
                // its child has run on.
                .all(|stat| matches!(stat.state, 'T' | 't' | 'D' | 'Z' | 'X'))
    }

    /// Process, or its group where it has one of its own.
    const fn signal_to(&self) -> i32 {
        if self.child.is_some() { -self.pid } else { self.pid }
    }

    fn signal(&mut self, signal: Signal) -> Result<(), PirateError> {
        match kill(Pid::from_raw(self.signal_to()), signal) {
            Ok(()) => Ok(()),
            Err(_) if self.ended() => Ok(()),
            Err(errno) => {
                let object = format!("process {}", self.pid);
                Err(PirateError::system("signal", object, errno, "run as the target's owner"))
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // The order matters: free, then the guardian may go. Whatever fails here, the target is gone.
        drop(self.freezer.take());
        if !self.ended() {
            if self.child.is_some() {
                let _ = self.signal(Signal::SIGTERM);
            }
            let _ = self.signal(Signal::SIGCONT);
        }
        if let Some(pinned) = self.pinned.take() {
            for thread in threads_of(self.pid) {
                let _ = affinity::set(thread, pinned.of(thread));
            }
        }
        if self.child.is_some() {
            let deadline = Instant::now() + PATIENCE;
            while !self.ended() {
                if Instant::now() > deadline {
                    let _ = self.signal(Signal::SIGKILL);
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

struct Stat {
    state: char,
    began: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    read_stat(&format!("/proc/{pid}/stat"))
}

/// State and start time: fields 3 and 22 of `stat`, after a name that may hold anything.
fn read_stat(path: &str) -> Option<Stat> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, began: fields.nth(18)?.parse().ok()? })
}
