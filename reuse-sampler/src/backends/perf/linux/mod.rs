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
mod line;
mod mapping;
mod release;
mod spawn;
mod stop;
mod trace;
mod trial;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Instant;

use nix::libc;

use self::circumstances::Status;
pub use self::cycle::WatchCycle;
use self::event::OpenEvent;
pub(super) use self::guard::guarded;
pub(super) use self::line::{Heard, Line, patiently};
use self::mapping::Ring;
pub(super) use self::spawn::{Program, start};
pub use self::stop::{StopCycle, StopWork};
use self::trace::Change as Fate;
pub(super) use self::trial::{can_open, can_watch, counted, counts_together, free_registers, reports_once};
use super::causes::{Circumstances, Subject};
use super::decode;
use super::kernel::{
    Change, Event, Executed, Kernel, Notice, Opening, Operands, Output, Reading, Registers, Resume, Stop, Tid,
};
use super::ring::Traced;
pub(super) use crate::backends::blind::blind;
use crate::backends::processes::command_of;

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
    follows: bool, // the processes that it makes, too
    threads: BTreeMap<Tid, Known>,
    processes: BTreeMap<Tid, (Tid, Tid)>, // of known threads: the process, and what made that
    made: BTreeSet<Tid>,                  // by known ones, and not yet seen standing still
    fresh: BTreeSet<Tid>,                 // attached to, and not yet seen standing still
    stepped: BTreeSet<Tid>,               // asked for a step, and not yet reported it
    events: BTreeMap<i32, OpenEvent>,
    rings: BTreeMap<i32, Ring>,
    memory: BTreeMap<Tid, File>, // of processes
    code: Option<(Tid, Code)>,   // that a thread that stands still stands at
    start: Instant,
    first: Vec<Notice>, // to be returned before anything else
    observer: u32,      // the process that wants to know, of which the calling one may be a guard
    pub status: Option<Fate>,
    pub ended: Vec<(Tid, Fate)>, // processes whose end is not yet reported
}

pub(super) use self::trace::Change as TargetFate;

impl Linux {
    /// Takes over a running process, all its threads, for the process `observer`, which may be this one.
    pub fn attach(process: i32, observer: u32, follows: bool) -> io::Result<Self> {
        let mut linux = Self::new(process, false);
        linux.follows = follows;
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
                        linux.know(tid, process);
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
            follows: true,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            made: BTreeSet::new(),
            fresh: BTreeSet::new(),
            stepped: BTreeSet::new(),
            events: BTreeMap::new(),
            rings: BTreeMap::new(),
            memory: BTreeMap::new(),
            code: None,
            start: Instant::now(),
            first: Vec::new(),
            observer: std::process::id(),
            status: None,
            ended: Vec::new(),
        }
    }

    /// Takes note of which process a thread belongs to.
    fn know(&mut self, tid: Tid, process: Tid) {
        let maker = status_of(process, "PPid:").unwrap_or(0);
        self.processes.insert(tid, (process, maker));
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
        } else {
            let process = self.processes.get(&thread).map_or(thread, |(process, _)| *process);
            if let Entry::Vacant(place) = self.memory.entry(process) {
                File::open(format!("/proc/{process}/mem")).map(|memory| place.insert(memory)).ok();
            }
            let memory = self.memory.get(&process);
            code.length = memory.map_or(0, |memory| memory.read_at(&mut code.bytes, pc).unwrap_or(0));
        }
        self.code = Some((thread, code));
        code
    }

    fn notice(&mut self, tid: Tid, fate: Fate) -> Option<Notice> {
        match fate {
            Fate::Exited(_) | Fate::Killed(_) => {
                if tid == self.process {
                    self.status = Some(fate);
                }
                if self.processes.remove(&tid).is_some_and(|(process, _)| process == tid) {
                    self.ended.push((tid, fate));
                    self.memory.remove(&tid);
                }
                self.made.remove(&tid);
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
                    let processes = &mut self.processes;
                    let gone = |other: Tid| {
                        other != tid && processes.get(&other).is_some_and(|(process, _)| *process == tid)
                    };
                    self.threads.retain(|&other, _| !gone(other));
                    processes.retain(|&other, (process, _)| other == tid || *process != tid);
                    self.memory.remove(&tid);
                    return Some(Notice::Stopped(tid, stop));
                }
                if matches!(stop, Stop::Clone | Stop::Vfork) {
                    // It may have shown itself, and ended, before.
                    let made = trace::made(tid).filter(|made| !self.threads.contains_key(made));
                    self.made.extend(made);
                }
                if !known {
                    self.made.remove(&tid);
                    let process = status_of(tid, "Tgid:").unwrap_or(tid);
                    if !self.follows && process != self.process {
                        self.threads.remove(&tid);
                        let _ = trace::detach(tid, signal);
                        return (process == tid).then_some(Notice::Ignored);
                    }
                    self.know(tid, process);
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
}

/// A number that the kernel says of a thread or process.
fn status_of(tid: Tid, what: &str) -> Option<Tid> {
    Status::read(tid).field(what)?.parse().ok()
}

/// Why a process cannot be controlled: one that was just started (`own`), or another.
fn uncontrolled(error: &io::Error, process: i32, own: bool) -> io::Error {
    io::Error::other(Circumstances::here().control(error, &Subject::of(process), own))
}

/// Why the records of an event, the `rings`th, have no memory.
fn no_room(error: &io::Error, rings: usize) -> io::Error {
    Circumstances::here().mapping(error, Ring::bytes() >> 10, rings)
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

    fn process_of(&mut self, thread: Tid) -> (Tid, Tid) {
        self.processes.get(&thread).copied().unwrap_or((thread, 0))
    }

    fn executed(&mut self, process: Tid) -> Executed {
        let folder = format!("/proc/{process}");
        let file = fs::read_link(format!("{folder}/exe")).unwrap_or_default();
        let unprivileged = fs::metadata(format!("{folder}/exe")).is_ok_and(|file| {
            let user = fs::metadata(&folder).map_or(file.uid(), |process| process.uid());
            file.mode() & libc::S_ISUID != 0 && file.uid() != user
        });
        Executed { file: file.to_string_lossy().into_owned(), command: command_of(process), unprivileged }
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
