//! Hardware counters through `perf_event_open`, as far as the technique needs them: counting, no sampling.
//!
//! Counters of a process are inherited by threads and children it starts later; those it has already are
//! opened one by one. Where there are more events than hardware counters the kernel takes turns, and counts are
//! scaled by the time each was on.

use std::io;

use nix::libc;
use perf_event::Builder;
use perf_event::events::{Cache, CacheOp, CacheResult, Event, Hardware, WhichCache};

use super::events::{Code, Codes, Unit};
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

/// Type of an event that is a processor's own, `PERF_TYPE_RAW`.
const RAW: u32 = 4;

/// An event as the kernel is asked for it, by the names of `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    kind: u32,
    config: u64,
    config1: u64,
}

impl Asked {
    /// The kernel's own.
    fn named(event: impl Into<Event>, unit: Unit) -> Self {
        let mut builder = Builder::new().kind(event);
        let attributes = builder.attrs_mut();
        // Since Linux 5.13 the unit stands in the upper half.
        let unit = unit.number.map_or(0, |number| u64::from(number) << 32);
        Self { kind: attributes.type_, config: attributes.config | unit, config1: 0 }
    }

    /// The processor's own.
    fn raw(code: Code, unit: Unit) -> Self {
        Self { kind: unit.number.unwrap_or(RAW), config: code.config, config1: code.extra }
    }

    fn builder(self) -> Builder<'static> {
        let mut builder = Builder::new();
        let attributes = builder.attrs_mut();
        (attributes.type_, attributes.config) = (self.kind, self.config);
        attributes.__bindgen_anon_3.config1 = self.config1;
        builder
    }
}

/// Events of some threads, counted together.
#[derive(Debug)]
pub(super) struct Counter(Vec<perf_event::Counter>);

impl Counter {
    /// Counts `events` in `threads` from now on, and in what they start if `inherit`.
    fn open(events: &[Asked], threads: &[i32], inherit: bool) -> io::Result<Self> {
        let each = events.iter().flat_map(|event| threads.iter().map(move |&thread| (event, thread)));
        let open = |(event, thread): (&Asked, i32)| {
            let mut builder = event.builder().observe_pid(thread);
            builder.inherit(inherit).enabled(true);
            builder.build()
        };
        each.map(open).collect::<io::Result<_>>().map(Self)
    }

    /// The count so far, scaled up where the counter was shared.
    pub(super) fn read(&mut self) -> io::Result<f64> {
        let mut total = 0.0;
        for counter in &mut self.0 {
            let now = counter.read_count_and_time()?;
            total += scaled(now.count, now.time_enabled, now.time_running)?;
        }
        Ok(total)
    }
}

/// A count scaled up to the time in which it was wanted, in nanoseconds.
fn scaled(count: u64, enabled: u64, running: u64) -> io::Result<f64> {
    /// In which the kernel gives each event its turn many times over.
    const LONG: u64 = 100_000_000;
    if running > 0 {
        return Ok(count as f64 * (enabled as f64 / running as f64).max(1.0));
    }
    if enabled > LONG {
        let reason = "an event was never counted: it is of another kind of core, or others hold the counters";
        return Err(io::Error::other(reason));
    }
    Ok(count as f64)
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
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n): each thread takes up to eight",
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

/// What to count on a processor, and by which unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    codes: Codes,
    unit: Unit,
}

impl Choice {
    /// By the processor's own codes, if they are listed and its unit's, else by the kernel's names.
    pub(super) fn new(listed: Option<Codes>, unit: Unit) -> Self {
        Self { codes: listed.filter(|_| unit.is_listed).unwrap_or_default(), unit }
    }

    /// What counts the lines that are fetched with all prefetches, for people, where the list has it.
    pub(super) fn fetched_by(&self) -> Option<&str> {
        Some(self.codes.fetched_by.as_str()).filter(|names| !names.is_empty())
    }

    fn shared(&self) -> Vec<Asked> {
        self.own_or(&self.codes.shared, &[LAST_LEVEL_LOADS])
    }

    fn misses(&self) -> Vec<Asked> {
        self.own_or(&self.codes.misses, &[LAST_LEVEL_LOAD_MISSES])
    }

    /// All lines fetched: by the kernel's names, two that add up.
    fn fetches(&self) -> Vec<Asked> {
        self.own_or(&self.codes.fetches, &[LAST_LEVEL_LOAD_MISSES, LAST_LEVEL_PREFETCH_MISSES])
    }

    fn named(&self, event: impl Into<Event>) -> [Asked; 1] {
        [Asked::named(event, self.unit)]
    }

    fn own_or(&self, own: &[Code], kernels: &[Cache]) -> Vec<Asked> {
        if own.is_empty() {
            return kernels.iter().map(|cache| Asked::named(cache.clone(), self.unit)).collect();
        }
        own.iter().map(|&code| Asked::raw(code, self.unit)).collect()
    }
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
    fetches: Option<Fetched>, // not every processor has the events
}

/// Events of fetches, but for those that are counted as misses already.
#[derive(Debug)]
struct Fetched {
    others: Counter,
    and_misses: bool,
}

impl Fetched {
    fn open(choice: &Choice, open: impl Fn(&[Asked]) -> io::Result<Counter>) -> io::Result<Self> {
        let (misses, mut others) = (choice.misses(), choice.fetches());
        let and_misses = misses.iter().all(|miss| others.contains(miss));
        if and_misses {
            others.retain(|event| !misses.contains(event));
        }
        Ok(Self { others: open(&others)?, and_misses })
    }

    fn read(&mut self, misses: f64) -> io::Result<f64> {
        Ok(self.others.read()? + if self.and_misses { misses } else { 0.0 })
    }
}

impl TargetCounters {
    /// Counts what process `pid` and its later threads and children do.
    pub(super) fn open(pid: i32, choice: &Choice) -> Result<Self, PirateError> {
        let threads = threads_of(pid);
        let open = |events: &[Asked]| Counter::open(events, &threads, true);
        let refused = |source: io::Error| {
            let remedy = remedy(&source, is_filtered());
            let object = format!("hardware events of process {pid}");
            PirateError::system("count", object, source, remedy)
        };
        let memory = || -> io::Result<MemoryCounters> {
            Ok(MemoryCounters {
                loads: open(&choice.named(LOADS))?,
                shared: open(&choice.shared())?,
                misses: open(&choice.misses())?,
                fetches: Fetched::open(choice, open).ok(),
            })
        };
        Ok(Self {
            cycles: open(&choice.named(Hardware::CPU_CYCLES)).map_err(refused)?,
            instructions: open(&choice.named(Hardware::INSTRUCTIONS)).map_err(refused)?,
            memory: memory().ok(),
        })
    }

    /// Whether fetches are counted with all prefetches.
    pub(super) fn counts_fetches(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.fetches.is_some())
    }

    /// Instructions, cycles and memory counts.
    pub(super) fn read(&mut self) -> io::Result<(f64, f64, Option<MemoryCounts>)> {
        let memory = match &mut self.memory {
            None => None,
            Some(counters) => {
                let misses = counters.misses.read()?;
                let fetches = counters.fetches.as_mut().map(|fetches| fetches.read(misses));
                Some(MemoryCounts {
                    accesses: counters.loads.read()?,
                    shared_accesses: counters.shared.read()?,
                    misses,
                    fetches: fetches.transpose()?,
                })
            }
        };
        Ok((self.instructions.read()?, self.cycles.read()?, memory))
    }
}

/// The lines that the pirate's threads fetch, each on a core whose unit may be of its own kind.
#[derive(Debug)]
pub(super) struct PirateFetches(Vec<Counter>);

impl PirateFetches {
    /// `None` unless the processor can count prefetches too: the pirate walks in order, so that a prefetcher brings
    /// most of the lines that it lost, and demand misses alone would pass a pirate that holds nothing.
    pub(super) fn open(threads: impl IntoIterator<Item = (i32, Choice)>) -> Option<Self> {
        let open = |(thread, choice): (i32, Choice)| Counter::open(&choice.fetches(), &[thread], false).ok();
        threads.into_iter().map(open).collect::<Option<_>>().map(Self)
    }

    pub(super) fn read(&mut self) -> io::Result<f64> {
        self.0.iter_mut().map(Counter::read).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_counted_is_an_error_and_not_0() {
        assert_eq!(scaled(100, 4_000_000, 1_000_000).unwrap(), 400.0);
        assert_eq!(scaled(100, 5, 5).unwrap(), 100.0);
        assert_eq!(scaled(0, 0, 0).unwrap(), 0.0);
        assert_eq!(scaled(0, 3_000_000, 0).unwrap(), 0.0, "its turn is still to come");
        assert!(scaled(0, 3_000_000_000, 0).unwrap_err().to_string().contains("never counted"));
    }

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
    fn events_are_asked_for_as_the_kernel_defines_them() {
        let asked = |events: Vec<Asked>| -> Vec<(u32, u64, u64)> {
            events.into_iter().map(|event| (event.kind, event.config, event.config1)).collect()
        };
        let plain = Choice::new(None, Unit::default());
        // The last level's loads and prefetches that miss, as `linux/perf_event.h` numbers them.
        assert_eq!(asked(plain.fetches()), [(3, 0x1_0002, 0), (3, 0x1_0202, 0)]);
        assert_eq!(plain.fetched_by(), None);
        let listed = || Codes::listed("GenuineIntel", 6, 106);
        let server = Choice::new(listed(), Unit { number: None, is_listed: true });
        assert_eq!(asked(server.fetches()), [(4, 0x1b7, 0x3f_3fc0_0477), (4, 0x1b7, 0x9400_2380)]);
        assert_eq!(asked(server.misses()), [(3, 0x1_0002, 0)]);
        assert!(server.fetched_by().is_some());
        // Of a hybrid processor the large cores' unit has the codes; the small ones are counted by the kernel's names.
        let large = Choice::new(listed(), Unit { number: Some(8), is_listed: true });
        assert_eq!(asked(large.fetches())[0], (8, 0x1b7, 0x3f_3fc0_0477));
        let small = Choice::new(listed(), Unit { number: Some(10), is_listed: false });
        assert_eq!(asked(small.fetches())[0], (3, 0xa_0001_0002, 0));
    }

    #[test]
    fn what_is_counted_as_misses_is_not_counted_again_as_fetches() {
        let opened = |vendor, family, model| {
            let unit = Unit { number: None, is_listed: true };
            let choice = Choice::new(Codes::listed(vendor, family, model), unit);
            let opened = std::cell::RefCell::new(Vec::new());
            let open = |events: &[Asked]| {
                opened.borrow_mut().extend(events.iter().map(|event| event.config));
                Ok(Counter(Vec::new()))
            };
            let and_misses = Fetched::open(&choice, open).unwrap().and_misses;
            (opened.into_inner(), and_misses)
        };
        assert_eq!(opened("", 0, 0), (vec![0x1_0202], true), "prefetches");
        assert_eq!(opened("AuthenticAMD", 23, 49), (vec![0x4859, 0x485a, 0xff72], true));
        assert_eq!(opened("GenuineIntel", 6, 106), (vec![0x1b7, 0x1b7], false));
    }

    #[test]
    fn the_task_clock_runs_with_the_thread_and_not_faster_than_the_wall() {
        let clock = Asked::named(perf_event::events::Software::TASK_CLOCK, Unit::default());
        let Ok(mut counter) = Counter::open(&[clock], &[0], false) else {
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
