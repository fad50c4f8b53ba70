//! Hardware counters through `perf_event_open`, as far as the technique needs them: counting, no sampling.
//!
//! Counters of a process are inherited by threads and children it starts later; those it has already are
//! opened one by one. Where there are more events than hardware counters the kernel takes turns, and counts are
//! scaled by the time each was on.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use nix::libc;

use super::threads::threads_of;
use crate::counts::MemoryCounts;
use crate::error::PirateError;

/// `struct perf_event_attr` as of its first version, which every kernel still takes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const TIMES: u64 = 0b11; // enabled and running
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Cycles,
    Instructions,
    Loads,
    LastLevelLoads,
    LastLevelLoadMisses,
    LastLevelPrefetchMisses,
    /// Nanoseconds on a processor: a software event, there on every kernel.
    #[cfg(test)]
    TaskClock,
}

impl Event {
    /// Type and number in the kernel's interface.
    const fn code(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const CACHE: u32 = 3;
        const fn cache(cache: u64, operation: u64, result: u64) -> (u32, u64) {
            (CACHE, cache | operation << 8 | result << 16)
        }
        match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::Loads => cache(0, 0, 0),
            Self::LastLevelLoads => cache(2, 0, 0),
            Self::LastLevelLoadMisses => cache(2, 0, 1),
            Self::LastLevelPrefetchMisses => cache(2, 2, 1),
            #[cfg(test)]
            Self::TaskClock => (1, 1),
        }
    }
}

/// One event of some threads.
#[derive(Debug)]
pub(super) struct Counter(Vec<File>);

impl Counter {
    /// Counts `event` in `threads` from now on, and in what they start if `inherit`.
    pub(super) fn open(event: Event, threads: &[i32], inherit: bool) -> io::Result<Self> {
        let (kind, config) = event.code();
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            read_format: TIMES,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | if inherit { INHERIT } else { 0 },
            ..Attributes::default()
        };
        let open = |&thread: &i32| {
            // SAFETY: the attributes outlive the call, which only reads the `size` bytes they say they have.
            let descriptor = unsafe {
                libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, -1, -1, CLOSE_ON_EXEC)
            };
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: a descriptor that the kernel just made for us and nobody else knows.
            Ok(unsafe { File::from_raw_fd(descriptor as i32) })
        };
        threads.iter().map(open).collect::<io::Result<Vec<File>>>().map(Self)
    }

    /// The count so far, scaled up where the counter was shared.
    pub(super) fn read(&mut self) -> io::Result<f64> {
        let mut total = 0.0;
        for file in &mut self.0 {
            let mut words = [0_u8; 24];
            file.read_exact(&mut words)?;
            let [count, enabled, running] = [0, 8, 16].map(|at| {
                let mut word = [0; 8];
                word.copy_from_slice(&words[at..at + 8]);
                u64::from_ne_bytes(word) as f64
            });
            total += if running > 0.0 { count * (enabled / running).max(1.0) } else { count };
        }
        Ok(total)
    }
}

/// What to change where an event cannot be opened, under a seccomp filter (`filtered`) or not.
fn remedy(refusal: &io::Error, filtered: bool) -> &'static str {
    match refusal.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) if filtered => {
            "a seccomp filter forbids perf_event_open: start the container with --cap-add PERFMON, or run outside of it"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "run as the program's owner or root, or set kernel.perf_event_paranoid to 2 or lower"
        }
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n): each thread takes up to six",
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENOSYS) => {
            "this machine has no hardware counters: give a progress counter instead"
        }
        _ => "",
    }
}

/// Whether this process is under a seccomp filter.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// The target's hardware counters.
#[derive(Debug)]
pub(super) struct TargetCounters {
    cycles: Counter,
    instructions: Counter,
    memory: Option<MemoryCounters>,
}

#[derive(Debug)]
struct MemoryCounters {
    loads: Counter,
    shared: Counter,
    misses: Counter,
    prefetches: Option<Counter>, // not every processor has the event
}

impl TargetCounters {
    /// Counts what process `pid` and its later threads and children do.
    pub(super) fn open(pid: i32) -> Result<Self, PirateError> {
        let threads = threads_of(pid);
        let open = |event| Counter::open(event, &threads, true);
        let refused = |source: io::Error| {
            let remedy = remedy(&source, is_filtered());
            let object = format!("hardware events of process {pid}");
            PirateError::System { operation: "count", object, source, remedy }
        };
        let memory = || -> io::Result<MemoryCounters> {
            Ok(MemoryCounters {
                loads: open(Event::Loads)?,
                shared: open(Event::LastLevelLoads)?,
                misses: open(Event::LastLevelLoadMisses)?,
                prefetches: open(Event::LastLevelPrefetchMisses).ok(),
            })
        };
        Ok(Self {
            cycles: open(Event::Cycles).map_err(refused)?,
            instructions: open(Event::Instructions).map_err(refused)?,
            memory: memory().ok(),
        })
    }

    /// Instructions, cycles and memory counts.
    pub(super) fn read(&mut self) -> io::Result<(f64, f64, Option<MemoryCounts>)> {
        let memory = match &mut self.memory {
            None => None,
            Some(counters) => {
                let misses = counters.misses.read()?;
                let prefetches = counters.prefetches.as_mut().map(Counter::read).transpose()?;
                Some(MemoryCounts {
                    accesses: counters.loads.read()?,
                    shared_accesses: counters.shared.read()?,
                    misses,
                    fetches: prefetches.map(|prefetches| misses + prefetches),
                })
            }
        };
        Ok((self.instructions.read()?, self.cycles.read()?, memory))
    }
}

/// The lines that the pirate's threads fetch.
#[derive(Debug)]
pub(super) struct PirateFetches([Counter; 2]); // on demand, ahead

impl PirateFetches {
    /// `None` unless the processor can count prefetches too: the pirate walks in order, so that a prefetcher brings
    /// most of the lines that it lost, and demand misses alone would pass a pirate that holds nothing.
    pub(super) fn open(threads: &[i32]) -> Option<Self> {
        let open = |event| Counter::open(event, threads, false).ok();
        Some(Self([open(Event::LastLevelLoadMisses)?, open(Event::LastLevelPrefetchMisses)?]))
    }

    pub(super) fn read(&mut self) -> io::Result<f64> {
        let [demand, ahead] = &mut self.0;
        Ok(demand.read()? + ahead.read()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_to_change() {
        for (number, filtered, says) in [
            (libc::EPERM, true, "seccomp"),
            (libc::EPERM, false, "perf_event_paranoid"),
            (libc::EACCES, true, "perf_event_paranoid"),
            (libc::EMFILE, true, "ulimit -n"),
            (libc::ENOENT, true, "no hardware counters"),
        ] {
            let remedy = remedy(&io::Error::from_raw_os_error(number), filtered);
            assert!(remedy.contains(says), "{number}: {remedy}");
        }
    }

    #[test]
    fn the_layout_is_the_kernels_first() {
        assert_eq!(size_of::<Attributes>(), 64); // PERF_ATTR_SIZE_VER0
    }

    #[test]
    fn the_task_clock_runs_with_the_thread_and_not_faster_than_the_wall() {
        let Ok(mut counter) = Counter::open(Event::TaskClock, &[0], false) else {
            eprintln!("perf_event_open is not allowed here: nothing to test");
            return;
        };
        let wall = std::time::Instant::now();
        let before = counter.read().unwrap();
        let mut x = 1_u64;
        while counter.read().unwrap() - before < 2e6 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let counted = counter.read().unwrap() - before;
        assert!(counted <= wall.elapsed().as_nanos() as f64);
    }
}
