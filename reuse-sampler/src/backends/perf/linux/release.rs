//! Letting processes go, or ending them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use nix::libc;

use super::circumstances::Status;
use super::trace::{self, Change as Fate};
use super::{Known, Linux, status_of};
use crate::perf::kernel::{Stop, Tid};

impl Linux {
    /// Ends or frees the processes. Signals that they were about to receive, they receive. What cannot be freed yet, because it
    /// sleeps until a process that shares its memory is through, is freed by a later call, or with the calling thread's end.
    pub(in crate::backends::perf) fn release(&mut self) {
        self.rings.clear();
        self.events.clear(); // no more signals from here on
        self.memory.clear();
        self.threads.extend(std::mem::take(&mut self.made).into_iter().map(|tid| (tid, Known::Running)));
        if self.started_here {
            self.end();
            self.threads.clear();
            return;
        }
        // Those that stand still first: others may be waiting for them.
        let (standing, running): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.threads).into_iter().partition(|(_, known)| *known != Known::Running);
        for (tid, known) in standing.into_iter().chain(running) {
            if !free(tid, known, self.stepped.contains(&tid)) {
                self.threads.insert(tid, Known::Running);
            }
        }
    }

    /// Asks the processes to end, makes them if they do not, and reaps them.
    fn end(&mut self) {
        const GRACE: Duration = Duration::from_millis(500);
        if self.threads.is_empty() {
            return;
        }
        let mut processes: BTreeSet<Tid> = self.processes.values().map(|(process, _)| *process).collect();
        for &process in &processes {
            trace::signal(process, libc::SIGTERM);
            trace::signal(process, libc::SIGCONT);
        }
        let deadline = Instant::now() + GRACE;
        let mut killed = false;
        for (tid, known) in std::mem::take(&mut self.threads) {
            if let Known::Standing(signal) = known {
                let _ = trace::run(tid, signal);
            }
        }
        loop {
            match trace::next_change(killed) {
                Ok(Some((tid, Fate::Stopped(stop)))) => {
                    let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
                    let process = status_of(tid, "Tgid:").unwrap_or(tid);
                    // One that was made meanwhile has to be asked, too.
                    if processes.insert(process) || killed {
                        trace::signal(process, if killed { libc::SIGKILL } else { libc::SIGTERM });
                    }
                    let _ = trace::run(tid, signal);
                }
                Ok(Some((tid, fate))) => {
                    if tid == self.process {
                        self.status = Some(fate);
                    }
                    if processes.remove(&tid) {
                        self.ended.push((tid, fate));
                    }
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return, // there is none left
            }
            if !killed && Instant::now() > deadline {
                for &process in &processes {
                    trace::signal(process, libc::SIGKILL);
                }
                killed = true;
            }
        }
    }
}

/// Lets a thread go as if nobody had ever looked: no `SIGTRAP` of an event, or of a step that was asked for (`stepped`),
/// may be left for it to die of. Whether it is free, or gone: one that sleeps where nothing wakes it cannot be yet.
fn free(tid: Tid, mut known: Known, stepped: bool) -> bool {
    const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
    const PATIENCE: Duration = Duration::from_millis(200);
    let sleeps = Cell::new(false);
    let stands = || match trace::wait_within(tid, PATIENCE) {
        Ok(Some(Fate::Stopped(Stop::Signal(libc::SIGTRAP)))) if stepped && trace::is_step(tid) => Some(0),
        Ok(Some(Fate::Stopped(Stop::Signal(signal)))) => Some(signal),
        Ok(Some(Fate::Stopped(_))) => Some(0),
        Ok(None) => {
            sleeps.set(true);
            None
        }
        _ => None,
    };
    for _ in 0..100 {
        let signal = match known {
            Known::Running => {
                if trace::interrupt(tid).is_err() {
                    return true;
                }
                let Some(signal) = stands() else { return !sleeps.get() };
                signal
            }
            Known::Standing(signal) => signal,
        };
        if !pending(tid) {
            let _ = trace::detach(tid, signal);
            return true;
        }
        // The signal is taken out by letting it be delivered to nobody.
        let mask = trace::blocked(tid).unwrap_or(0);
        let _ = trace::block(tid, mask & !TRAP);
        if trace::run(tid, signal).is_err() {
            return true;
        }
        let taken = stands();
        let _ = trace::block(tid, mask);
        let Some(signal) = taken else { return !sleeps.get() };
        known = Known::Standing(signal);
    }
    let _ = trace::detach(tid, 0);
    true
}

/// Whether a `SIGTRAP` waits for a thread.
fn pending(tid: Tid) -> bool {
    let status = Status::read(tid);
    let mask = status.field("SigPnd:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    mask.is_some_and(|mask| mask & 1 << (libc::SIGTRAP - 1) != 0)
}
