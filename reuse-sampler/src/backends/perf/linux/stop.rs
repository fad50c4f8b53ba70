//! A child process that is stopped again and again, to measure what that costs it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::libc;

use super::{Known, Linux, trace};
use crate::SamplerError;
use crate::perf::kernel::{Change, Event, Kernel, Notice, Opening, Resume, Source, Stop, Tid};
use crate::perf::ring::Layout;

/// What is done at a stop before the child goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopWork {
    /// Nothing: what remains is the interrupt, two changes of process, and the calls that wait for the child and let it
    /// go on.
    Nothing,
    /// What the sampler does where the instruction that is chosen accesses nothing: its counts, the code there, and the
    /// period to the next one.
    Chosen,
    /// The same and the registers: what it does where the instruction accesses memory, but for setting a watchpoint.
    Decoded,
}

/// A child that does nothing but count, for measuring what a stop costs a program. Its stops are overflows of its
/// processor time, which every machine has; a counter of the processor costs about the same.
#[derive(Debug)]
pub struct StopCycle {
    linux: Linux, // ends the child
    child: Tid,
    leader: Event,
    gap: Event,
    counted: Counted,
    speed: f64, // counts in a nanosecond; above 0
    bytes: Vec<u8>,
}

const LAYOUT: Layout = Layout { address: true, counts: true, branches: false, user_ip: false };
/// Longest period.
const NEVER: u64 = 1 << 40;
/// Time between two stops, in nanoseconds.
const PERIOD: u64 = 100_000;

impl StopCycle {
    /// Starts the child, controlled by the calling thread, which is to be the one that calls [`run`](Self::run).
    ///
    /// # Errors
    /// [`SamplerError::Io`] if processes or events cannot be had.
    pub fn new() -> Result<Self, SamplerError> {
        Self::start().map_err(|source| failed("start", source))
    }

    fn start() -> io::Result<Self> {
        let counted = Counted::map()?;
        // SAFETY: the child is a copy of this process with one thread, and until its end does nothing but one system call and
        // count in memory that it shares with its parent.
        let child = unsafe { libc::fork() };
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        if child == 0 {
            // SAFETY: passes numbers.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                counted.add();
            }
        }
        let mut linux = Linux::new(child, true);
        trace::seize_child(child)?;
        linux.know(child, child);
        linux.threads.insert(child, Known::Running);
        stand(&mut linux, child)?;
        let (stops, enabled) = (true, true);
        let opening =
            Opening { period: NEVER, stops, layout: LAYOUT, enabled, ..Opening::of(Source::TASK_CLOCK) };
        let leader = linux.open(child, &opening, None)?;
        let gap = linux.open(child, &opening, Some(leader))?;
        let mut cycle = Self { linux, child, leader, gap, counted, speed: 1.0, bytes: Vec::new() };
        // By its own processor time, whatever else this machine does; and no faster than when nothing interrupts it.
        let mut speed = f64::MIN_POSITIVE;
        for _ in 0..10 {
            let (begun, before) = (cycle.time()?, cycle.counted.get());
            cycle.linux.resume(child, Resume::Run, 0)?;
            std::thread::sleep(Duration::from_millis(10));
            stand(&mut cycle.linux, child)?;
            let (counted, time) = (cycle.counted.get() - before, cycle.time()? - begun);
            speed = speed.max(counted as f64 / time.max(1) as f64);
        }
        cycle.speed = speed;
        Ok(cycle)
    }

    /// The child's processor time, in nanoseconds.
    fn time(&mut self) -> io::Result<u64> {
        let reading = self.linux.read(self.leader)?;
        reading.of(self.leader).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Stops the child so many times, a tenth of a millisecond apart: what that took it, all together. That is the time that
    /// passed and in which it would have counted further than it did.
    ///
    /// # Errors
    /// [`SamplerError::Io`] if the kernel refuses.
    pub fn run(&mut self, stops: u64, work: StopWork) -> Result<Duration, SamplerError> {
        self.stops(stops, work).map_err(|source| failed("stop", source))
    }

    fn stops(&mut self, stops: u64, work: StopWork) -> io::Result<Duration> {
        self.linux.change(self.gap, Change::Period(PERIOD))?;
        let (begun, before) = (Instant::now(), self.counted.get());
        self.linux.resume(self.child, Resume::Run, 0)?;
        let mut left = stops;
        while left > 0 {
            match self.linux.wait()? {
                Notice::Stopped(_, Stop::Event) => {
                    left -= 1;
                    self.work(work)?;
                }
                Notice::Stopped(..) => {}
                Notice::Tick => continue,
                _ => return Err(io::Error::other("the child has ended")),
            }
            if left > 0 {
                self.linux.resume(self.child, Resume::Run, 0)?;
            }
        }
        let counted = (self.counted.get() - before) as f64 / self.speed;
        Ok(begun.elapsed().saturating_sub(Duration::from_nanos(counted as u64)))
    }

    fn work(&mut self, work: StopWork) -> io::Result<()> {
        if work == StopWork::Nothing {
            return Ok(());
        }
        self.linux.read(self.leader)?;
        self.bytes.clear();
        self.linux.drain(self.leader, &mut self.bytes)?;
        let pc = self.bytes.get(16..24).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes);
        self.linux.may_access(self.child, pc)?;
        if work == StopWork::Decoded {
            let registers = self.linux.registers(self.child)?;
            self.linux.operands(self.child, &registers)?;
        }
        self.linux.change(self.gap, Change::Period(PERIOD))
    }
}

/// Has a running child stand still.
fn stand(linux: &mut Linux, child: Tid) -> io::Result<()> {
    linux.interrupt(child)?;
    loop {
        match linux.wait()? {
            Notice::Stopped(_, Stop::Interrupted) => return Ok(()),
            Notice::Stopped(..) => linux.resume(child, Resume::Run, 0)?,
            Notice::Tick => {}
            _ => return Err(io::Error::other("the child has ended")),
        }
    }
}

fn failed(operation: &'static str, source: io::Error) -> SamplerError {
    SamplerError::Io { operation, object: "a child process that counts".to_owned(), source }
}

/// A word that parent and child share.
#[derive(Debug)]
struct Counted(*mut AtomicU64);

// SAFETY: a mapping that belongs to this value alone, in this process, and whose word is atomic.
unsafe impl Send for Counted {}

impl Counted {
    const LENGTH: usize = 4096;

    fn map() -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), Self::LENGTH, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(base.cast())) }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: mapped, aligned, and zero at first.
        unsafe { &*self.0 }
    }

    fn get(&self) -> u64 {
        self.word().load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.word().store(self.get() + 1, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing borrows from it any more.
        unsafe { libc::munmap(self.0.cast(), Self::LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The child goes on between its stops, and is gone with its cycle.
    #[test]
    fn stops_come_when_they_are_asked_for_and_leave_nobody_behind() {
        let Ok(mut cycle) = StopCycle::new() else {
            let required = std::env::var_os("REQUIRE_PERF").is_some();
            assert!(!required, "REQUIRE_PERF is set, but no child can be stopped");
            return eprintln!("skipped: no child can be stopped by an event");
        };
        for work in [StopWork::Nothing, StopWork::Chosen, StopWork::Decoded] {
            let before = cycle.counted.get();
            let cost = cycle.run(20, work).unwrap();
            assert!(cycle.counted.get() > before, "{work:?}: {cost:?}");
        }
        let child = cycle.child;
        drop(cycle);
        // SAFETY: asks whether there is such a process.
        assert_eq!(unsafe { libc::kill(child, 0) }, -1, "it goes on");
    }
}
