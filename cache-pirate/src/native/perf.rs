//! Hardware counters through `perf_event_open`, as far as the technique needs them: counting, no sampling.
//!
//! Counters of a process are inherited by threads and children it starts later; those it has already are
//! opened one by one. Where there are more events than hardware counters the kernel takes turns, and counts are
//! scaled by the time each was on.

use std::io;

use nix::libc;
use perf_event::Builder;
use perf_event::events::{Cache, CacheOp, CacheResult, Event, Hardware, WhichCache};

use super::threads::threads_of;
use crate::counts::MemoryCounts;
use crate::error::PirateError;

/// Demand loads of the first level, or of the last one, those that miss it, and its prefetches that do.
const LOADS: Cache = cache(WhichCache::L1D, CacheOp::READ, CacheResult::ACCESS);
const LAST_LEVEL_LOADS: Cache = cache(WhichCache::LL, CacheOp::READ, CacheResult::ACCESS);
const LAST_LEVEL_LOAD_MISSES: Cache = cache(WhichCache::LL, CacheOp::READ, CacheResult::MISS);
const LAST_LEVEL_PREFETCH_MISSES: Cache = cache(WhichCache::LL, CacheOp::PREFETCH, CacheResult::MISS);

const fn cache(which: WhichCache, operation: CacheOp, result: CacheResult) -> Cache {
    Cache { which, operation, result }
}

/// One event of some threads.
#[derive(Debug)]
pub(super) struct Counter(Vec<perf_event::Counter>);

impl Counter {
    /// Counts `event` in `threads` from now on, and in what they start if `inherit`.
    pub(super) fn open(event: impl Into<Event>, threads: &[i32], inherit: bool) -> io::Result<Self> {
        let event = event.into();
        let open = |&thread: &i32| {
            let mut builder = Builder::new().kind(event.clone()).observe_pid(thread);
            builder.inherit(inherit).enabled(true);
            builder.build()
        };
        threads.iter().map(open).collect::<io::Result<_>>().map(Self)
    }

    /// The count so far, scaled up where the counter was shared.
    pub(super) fn read(&mut self) -> io::Result<f64> {
        let mut total = 0.0;
        for counter in &mut self.0 {
            let now = counter.read_count_and_time()?;
            let [count, enabled, running] = [now.count, now.time_enabled, now.time_running].map(|n| n as f64);
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
        let open = |event: Event| Counter::open(event, &threads, true);
        let refused = |source: io::Error| {
            let remedy = remedy(&source, is_filtered());
            let object = format!("hardware events of process {pid}");
            PirateError::system("count", object, source, remedy)
        };
        let memory = || -> io::Result<MemoryCounters> {
            Ok(MemoryCounters {
                loads: open(LOADS.into())?,
                shared: open(LAST_LEVEL_LOADS.into())?,
                misses: open(LAST_LEVEL_LOAD_MISSES.into())?,
                prefetches: open(LAST_LEVEL_PREFETCH_MISSES.into()).ok(),
            })
        };
        Ok(Self {
            cycles: open(Hardware::CPU_CYCLES.into()).map_err(refused)?,
            instructions: open(Hardware::INSTRUCTIONS.into()).map_err(refused)?,
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
        Some(Self([open(LAST_LEVEL_LOAD_MISSES)?, open(LAST_LEVEL_PREFETCH_MISSES)?]))
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
    fn the_task_clock_runs_with_the_thread_and_not_faster_than_the_wall() {
        let Ok(mut counter) = Counter::open(perf_event::events::Software::TASK_CLOCK, &[0], false) else {
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
