//! Linux: events through `perf_event_open`, threads through `ptrace`.
//!
//! An event that overflows with `sigtrap` set sends its own thread a `SIGTRAP` before the next user instruction, and
//! the tracer sees the thread stop there. The program never sees the signal. All calls come from one thread of this
//! process, because `ptrace` wants that.
#![allow(unsafe_code)]

mod circumstances;
mod cycle;
mod event;
mod guard;
mod mapping;
mod spawn;
mod stop;
mod trace;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::libc;

pub use self::cycle::WatchCycle;
use self::event::OpenEvent;
pub(super) use self::guard::guarded;
use self::mapping::Ring;
pub(super) use self::spawn::{Program, start};
pub use self::stop::{StopCycle, StopWork};
use self::trace::Change as Fate;
pub(super) use self::trial::{can_open, can_watch, counted, counts_together, free_registers, reports_once};
use super::causes::{Circumstances, Subject};
use super::decode;
use super::kernel::{
    Change, Event, Kernel, Notice, Opening, Operands, Output, Reading, Registers, Resume, Stop, Tid,
};
use super::ring::Traced;
pub(super) use crate::backends::blind::blind;

pub(super) use self::trace::{can_wait, own_number, wake, wake_signal};

/// What a thread does as far as the tracer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Running,
    /// Standing still, with a signal that has not been passed on (0 for none).
    Standing(i32),
}

/// An instruction, or as much of it as can be read.
#[derive(Clone, Copy, Debug)]
struct Code {
    pc: u64,
    bytes: [u8; 16],
    length: usize, // at most 16
}

impl Code {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The kernel, and one process under control.
#[derive(Debug)]
pub(super) struct Linux {
    process: i32,
    started_here: bool,
    threads: BTreeMap<Tid, Known>,
    fresh: BTreeSet<Tid>,   // attached to, and not yet seen standing still
    stepped: BTreeSet<Tid>, // asked for a step, and not yet reported it
    events: BTreeMap<i32, OpenEvent>,
    rings: BTreeMap<i32, Ring>,
    memory: Option<File>,
    code: Option<(Tid, Code)>, // that a thread that stands still stands at
    start: Instant,
    first: Vec<Notice>, // to be returned before anything else
    observer: u32,      // the process that wants to know, of which the calling one may be a guard
    pub status: Option<Fate>,
}

pub(super) use self::trace::Change as TargetFate;

impl Linux {
    /// Takes over a running process, all its threads, for the process `observer`, which may be this one.
    pub fn attach(process: i32, observer: u32) -> io::Result<Self> {
        let mut linux = Self::new(process, false);
        linux.observer = observer;
        // Threads made meanwhile by threads already seized come by themselves; others are found in the next round.
        loop {
            linux.leave_if_alone();
            let mut found = false;
            for entry in fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
                let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                if linux.threads.contains_key(&tid) {
                    continue;
                }
                match trace::seize(tid).and_then(|()| trace::interrupt(tid)) {
                    Ok(()) => {
                        linux.threads.insert(tid, Known::Running);
                        linux.fresh.insert(tid);
                        found = true;
                    }
                    Err(error) if tid == process => {
                        return Err(match error.raw_os_error() {
                            Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
                            _ => uncontrolled(&error, process, false),
                        });
                    }
                    Err(_) => {} // it has ended
                }
            }
            if !found {
                return Ok(linux);
            }
        }
    }

    fn new(process: i32, started_here: bool) -> Self {
        Self {
            process,
            started_here,
            threads: BTreeMap::new(),
            fresh: BTreeSet::new(),
            stepped: BTreeSet::new(),
            events: BTreeMap::new(),
            rings: BTreeMap::new(),
            memory: File::open(format!("/proc/{process}/mem")).ok(),
            code: None,
            start: Instant::now(),
            first: Vec::new(),
            observer: std::process::id(),
            status: None,
        }
    }

    pub fn process(&self) -> i32 {
        self.process
    }

    fn event(&mut self, event: Event) -> io::Result<&mut OpenEvent> {
        self.events.get_mut(&event.handle).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// The code at `pc`, where a thread stands still. Read once for each time it stands there.
    fn code_at(&mut self, thread: Tid, pc: u64) -> Code {
        if let Some((_, code)) = self.code.filter(|(of, code)| *of == thread && code.pc == pc) {
            return code;
        }
        let mut code = Code { pc, bytes: [0; 16], length: 0 };
        if decode::LENGTH <= 4 && pc % 4 == 0 {
            // One word is cheaper to ask for than a file to read.
            if let Ok(word) = trace::word(thread, pc & !7) {
                let four = (word >> ((pc & 4) * 8)) as u32;
                code.bytes[..4].copy_from_slice(&four.to_le_bytes());
                code.length = 4;
            }
        } else if let Some(memory) = &self.memory {
            code.length = memory.read_at(&mut code.bytes, pc).unwrap_or(0);
        }
        self.code = Some((thread, code));
        code
    }

    /// Whether a thread belongs to the process, which one made by `clone` need not.
    fn is_ours(&self, tid: Tid) -> bool {
        fs::metadata(format!("/proc/{}/task/{tid}", self.process)).is_ok()
    }

    fn notice(&mut self, tid: Tid, fate: Fate) -> Option<Notice> {
        match fate {
            Fate::Exited(_) | Fate::Killed(_) => {
                if tid == self.process {
                    self.status = Some(fate);
                }
                self.fresh.remove(&tid);
                self.stepped.remove(&tid);
                self.threads.remove(&tid).map(|_| Notice::Gone(tid))
            }
            Fate::Stopped(mut stop) => {
                // The end of a system call that was stepped over is reported in another way than that of an instruction.
                if stop == Stop::Signal(libc::SIGTRAP) && self.stepped.contains(&tid) && trace::is_step(tid) {
                    stop = Stop::Step;
                }
                if stop == Stop::Step {
                    self.stepped.remove(&tid);
                }
                let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
                let known = self.threads.insert(tid, Known::Standing(signal)).is_some();
                if stop == Stop::Exec {
                    // Whatever its number was, the thread that called it has the process's now.
                    self.threads.retain(|&other, _| other == tid);
                    self.memory = File::open(format!("/proc/{}/mem", self.process)).ok();
                    return Some(Notice::Stopped(tid, stop));
                }
                if !known {
                    if !self.is_ours(tid) {
                        self.threads.remove(&tid);
                        let _ = trace::detach(tid, signal);
                        return None;
                    }
                    return Some(Notice::Started(tid));
                }
                // Its first stop after attaching is the one that was asked for, once its own signals are through.
                if self.fresh.contains(&tid) {
                    if stop == Stop::Interrupted {
                        self.fresh.remove(&tid);
                        return Some(Notice::Started(tid));
                    }
                    let _ = if stop == Stop::Group { trace::listen(tid) } else { trace::run(tid, signal) };
                    self.threads.insert(tid, Known::Running);
                    return None;
                }
                Some(Notice::Stopped(tid, stop))
            }
        }
    }

    /// Frees the process and ends this one, if that was all for a process that is no more.
    pub(super) fn leave_if_alone(&mut self) {
        if guard::is_alone(self.observer) {
            self.release();
            guard::leave();
        }
    }

    /// Ends or frees the process. Signals that it was about to receive, it receives.
    pub(super) fn release(&mut self) {
        self.rings.clear();
        self.events.clear(); // no more signals from here on
        if self.started_here {
            self.end();
        } else {
            let threads: Vec<(Tid, Known)> = self.threads.iter().map(|(&tid, &known)| (tid, known)).collect();
            for (tid, known) in threads {
                free(tid, known, self.stepped.contains(&tid));
            }
        }
        self.threads.clear();
    }

    /// Asks the program to end, makes it if it does not, and reaps it.
    fn end(&mut self) {
        const GRACE: Duration = Duration::from_millis(500);
        if self.status.is_some() {
            return;
        }
        trace::signal(self.process, libc::SIGTERM);
        trace::signal(self.process, libc::SIGCONT);
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
                    let _ = trace::run(tid, signal);
                }
                Ok(Some((tid, fate))) => {
                    if tid == self.process {
                        self.status = Some(fate);
                        return;
                    }
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
            if !killed && Instant::now() > deadline {
                trace::signal(self.process, libc::SIGKILL);
                killed = true;
            }
        }
    }
}

/// Why a process cannot be controlled: one that was just started (`own`), or another.
fn uncontrolled(error: &io::Error, process: i32, own: bool) -> io::Error {
    io::Error::other(Circumstances::here().control(error, &Subject::of(process), own))
}

/// Why the records of an event, the `rings`th, have no memory.
fn no_room(error: &io::Error, rings: usize) -> io::Error {
    Circumstances::here().mapping(error, Ring::bytes() >> 10, rings)
}

/// Lets a thread go as if nobody had ever looked: no `SIGTRAP` of an event, or of a step that was asked for (`stepped`),
/// may be left for it to die of.
fn free(tid: Tid, mut known: Known, stepped: bool) {
    const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
    let stands = || match trace::wait_for(tid) {
        Ok(Fate::Stopped(Stop::Signal(libc::SIGTRAP))) if stepped && trace::is_step(tid) => Some(0),
        Ok(Fate::Stopped(Stop::Signal(signal))) => Some(signal),
        Ok(Fate::Stopped(_)) => Some(0),
        _ => None,
    };
    for _ in 0..100 {
        let signal = match known {
            Known::Running => {
                if trace::interrupt(tid).is_err() {
                    return;
                }
                let Some(signal) = stands() else { return };
                signal
            }
            Known::Standing(signal) => signal,
        };
        if !pending(tid) {
            let _ = trace::detach(tid, signal);
            return;
        }
        // The signal is taken out by letting it be delivered to nobody.
        let mask = trace::blocked(tid).unwrap_or(0);
        let _ = trace::block(tid, mask & !TRAP);
        if trace::run(tid, signal).is_err() {
            return;
        }
        let taken = stands();
        let _ = trace::block(tid, mask);
        let Some(signal) = taken else { return };
        known = Known::Standing(signal);
    }
    let _ = trace::detach(tid, 0);
}

/// Whether a `SIGTRAP` waits for a thread.
fn pending(tid: Tid) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{tid}/status")) else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .is_some_and(|mask| mask & 1 << (libc::SIGTRAP - 1) != 0)
}

impl Drop for Linux {
    fn drop(&mut self) {
        self.release();
    }
}

impl Kernel for Linux {
    fn wait(&mut self) -> io::Result<Notice> {
        if let Some(notice) = self.first.pop() {
            return Ok(notice);
        }
        loop {
            self.leave_if_alone();
            match trace::next_change(true) {
                Ok(Some((tid, fate))) => {
                    if let Some(notice) = self.notice(tid, fate) {
                        return Ok(notice);
                    }
                }
                Ok(None) => return Ok(Notice::Tick),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Notice::Tick),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Notice::Ended),
                Err(error) => return Err(error),
            }
        }
    }

    fn open(&mut self, thread: Tid, opening: &Opening, leader: Option<Event>) -> io::Result<Event> {
        let event = OpenEvent::open(thread, opening, leader.map(|leader| leader.handle))?;
        let handle = event.descriptor();
        let id = event.id()?;
        match leader {
            _ if opening.period == 0 || opening.output == Output::Nowhere => {}
            Some(leader) => event.write_to(leader.handle)?,
            None => {
                let mut ring = Ring::map(handle).map_err(|error| no_room(&error, self.rings.len() + 1))?;
                if let Output::Trace(bytes) = opening.output {
                    ring.map_trace(handle, bytes)?;
                }
                self.rings.insert(handle, ring);
            }
        }
        self.events.insert(handle, event);
        Ok(Event { handle, id })
    }

    fn close(&mut self, event: Event) {
        self.rings.remove(&event.handle);
        self.events.remove(&event.handle);
    }

    fn change(&mut self, event: Event, change: Change) -> io::Result<()> {
        self.event(event)?.change(change)
    }

    fn read(&mut self, leader: Event) -> io::Result<Reading> {
        self.event(leader)?.read()
    }

    fn drain(&mut self, leader: Event, bytes: &mut Vec<u8>) -> io::Result<()> {
        if let Some(ring) = self.rings.get(&leader.handle) {
            ring.drain(bytes);
        }
        Ok(())
    }

    fn drain_trace(&mut self, leader: Event, part: &Traced, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.rings.get(&leader.handle).map_or(Ok(()), |ring| ring.drain_trace(part, bytes))
    }

    fn resume(&mut self, thread: Tid, how: Resume, signal: i32) -> io::Result<()> {
        self.code = None;
        match how {
            Resume::Run => trace::run(thread, signal)?,
            Resume::Step => {
                self.stepped.insert(thread);
                trace::step(thread, signal)?;
            }
            Resume::Listen => trace::listen(thread)?,
        }
        self.threads.insert(thread, Known::Running);
        Ok(())
    }

    fn interrupt(&mut self, thread: Tid) -> io::Result<()> {
        trace::interrupt(thread)
    }

    fn registers(&mut self, thread: Tid) -> io::Result<Registers> {
        trace::registers(thread)
    }

    fn may_access(&mut self, thread: Tid, pc: u64) -> io::Result<bool> {
        let code = self.code_at(thread, pc);
        Ok(decode::may_access(code.bytes(), pc))
    }

    fn operands(&mut self, thread: Tid, registers: &Registers) -> io::Result<Operands> {
        let code = self.code_at(thread, registers.pc);
        Ok(decode::operands(code.bytes(), registers))
    }

    fn circumstances(&self, error: &io::Error) -> Circumstances {
        Circumstances::behind(error)
    }

    fn now(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
