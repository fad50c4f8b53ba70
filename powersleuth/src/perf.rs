//! The processor's own counters, through `perf_event_open`.
//!
//! Each event is opened once, when it is first asked for, and only those of the group at hand are enabled: a
//! disabled event holds no counter. Where the counters are short all the same, because others use them too, the
//! kernel lets events take turns; each count comes with the time it was enabled and the time it ran.
//!
//! Counted is user mode of one thread: the calling one, or another by its number.

use std::io;

use crate::multiplex::{Count, CounterSource, Reading};

/// An event of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventCode {
    /// By its code, as the processor's manual has it: on x86 unit mask and event select, `0x412E` for misses of
    /// the last level of cache.
    Raw(u64),
    /// Cycles in which nothing is executed or retired, as the kernel understands it on this processor.
    StalledCycles,
    /// Requests of the last level of cache.
    CacheReferences,
    /// Misses of the last level of cache.
    CacheMisses,
    /// Retired branches.
    Branches,
    /// Mispredicted branches.
    BranchMisses,
}

/// Why counters cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfError {
    /// An event cannot be opened.
    #[error("cannot count {}: {source}{}", named(*event), remedy(source, is_filtered()))]
    Open {
        /// Number of the event; `None` for instructions and cycles.
        event: Option<usize>,
        /// What the system said.
        source: io::Error,
    },
    /// A counter cannot be enabled, disabled or read.
    #[error("cannot use the counters: {0}")]
    Use(#[source] io::Error),
    /// An event had no counter at any time.
    #[error(
        "{} got no counter; others hold them (the NMI watchdog holds one: set kernel.nmi_watchdog to 0), or a group has \
         more events than there are counters",
        named(*event)
    )]
    NeverRan {
        /// Number of the event; `None` for instructions and cycles.
        event: Option<usize>,
    },
    /// An event that was not given a code.
    #[error("event {event} has no code; give one for each event")]
    NoSuch {
        /// Its number.
        event: usize,
    },
    /// Read without having been started.
    #[error("the counters were read without having been started")]
    NotStarted,
    /// Not on Linux.
    #[error("counters are read through perf_event_open, on Linux only")]
    Unsupported,
}

fn named(event: Option<usize>) -> String {
    event.map_or_else(|| "instructions and cycles".to_owned(), |event| format!("event {event}"))
}

/// What to change where an event cannot be opened, under a seccomp filter (`filtered`) or not.
fn remedy(refusal: &io::Error, filtered: bool) -> &'static str {
    const EPERM: i32 = 1;
    const ENODEV: i32 = 19;
    const EMFILE: i32 = 24;
    const ENOSYS: i32 = 38;
    const EOPNOTSUPP: i32 = 95;
    match (refusal.raw_os_error(), refusal.kind()) {
        (Some(EPERM | ENOSYS), _) if filtered => {
            "; a seccomp filter forbids perf_event_open: start the container with --cap-add PERFMON, or leave it"
        }
        (Some(ENODEV | ENOSYS | EOPNOTSUPP), _) | (_, io::ErrorKind::NotFound) => {
            "; this machine has no such counter (virtual machines mostly have none)"
        }
        (_, io::ErrorKind::PermissionDenied) => {
            "; run as the program's owner or root, or set kernel.perf_event_paranoid to 2 or lower"
        }
        (Some(EMFILE), _) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    }
}

/// Whether this process is under a seccomp filter.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// Counters of one thread.
#[derive(Debug)]
pub struct PerfCounters {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    codes: Vec<EventCode>,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    thread: Option<i32>,
    #[cfg(target_os = "linux")]
    opened: counters::Opened,
}

impl PerfCounters {
    /// Of the calling thread. Event number `i` is `codes[i]`. Nothing is opened yet.
    #[must_use]
    pub fn of_this_thread(codes: Vec<EventCode>) -> Self {
        Self::new(codes, None)
    }

    /// Of the thread numbered `thread`, which for the first thread of a process is the number of the process.
    #[must_use]
    pub fn of_thread(thread: i32, codes: Vec<EventCode>) -> Self {
        Self::new(codes, Some(thread))
    }

    fn new(codes: Vec<EventCode>, thread: Option<i32>) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            opened: counters::Opened::none(codes.len()),
            codes,
            thread,
        }
    }
}

impl PerfCounters {
    /// Instructions since the last start, while counting goes on. What the processor executes meanwhile may or may
    /// not be among them.
    ///
    /// # Errors
    /// [`PerfError::NotStarted`] if nothing is being counted; [`PerfError::Use`] if the counter cannot be read;
    /// [`PerfError::Unsupported`] where there are no counters.
    pub fn instructions_so_far(&mut self) -> Result<Count, PerfError> {
        #[cfg(target_os = "linux")]
        return self.opened.instructions_so_far();
        #[cfg(not(target_os = "linux"))]
        Err(PerfError::Unsupported)
    }
}

#[cfg(not(target_os = "linux"))]
impl CounterSource for PerfCounters {
    type Error = PerfError;

    fn start(&mut self, _: &[usize]) -> Result<(), PerfError> {
        Err(PerfError::Unsupported)
    }

    fn stop(&mut self) -> Result<Reading, PerfError> {
        Err(PerfError::Unsupported)
    }
}

#[cfg(target_os = "linux")]
impl CounterSource for PerfCounters {
    type Error = PerfError;

    fn start(&mut self, events: &[usize]) -> Result<(), PerfError> {
        self.opened.start(events, &self.codes, self.thread)
    }

    fn stop(&mut self) -> Result<Reading, PerfError> {
        self.opened.stop()
    }
}

#[cfg(target_os = "linux")]
mod counters {
    use std::io;
    use std::time::Duration;

    use perf_event::events::Hardware;
    use perf_event::{Builder, Counter};

    use super::{Count, EventCode, PerfError, Reading};

    /// `PERF_TYPE_RAW` of `linux/perf_event.h`.
    const RAW: u32 = 4;

    /// A counter and what it showed when it was last enabled.
    #[derive(Debug)]
    struct Running {
        counter: Counter,
        before: Count,
    }

    #[derive(Debug)]
    pub(super) struct Opened {
        fixed: Option<[Running; 2]>, // instructions, cycles
        events: Vec<Option<Running>>,
        group: Option<Vec<usize>>, // while it is counted
    }

    impl Opened {
        pub(super) fn none(events: usize) -> Self {
            Self { fixed: None, events: (0..events).map(|_| None).collect(), group: None }
        }

        pub(super) fn start(
            &mut self,
            events: &[usize],
            codes: &[EventCode],
            thread: Option<i32>,
        ) -> Result<(), PerfError> {
            self.disable()?;
            if self.fixed.is_none() {
                let open = |kind: Hardware| open(Builder::new().kind(kind), thread, None);
                self.fixed = Some([open(Hardware::INSTRUCTIONS)?, open(Hardware::CPU_CYCLES)?]);
            }
            for &event in events {
                let (Some(slot), Some(&code)) = (self.events.get_mut(event), codes.get(event)) else {
                    return Err(PerfError::NoSuch { event });
                };
                if slot.is_none() {
                    *slot = Some(open(builder(code), thread, Some(event))?);
                }
            }
            self.group = Some(events.to_vec());
            self.each(Running::enable)
        }

        pub(super) fn stop(&mut self) -> Result<Reading, PerfError> {
            self.disable()?;
            let (Some(fixed), Some(group)) = (&mut self.fixed, self.group.take()) else {
                return Err(PerfError::NotStarted);
            };
            let [instructions, cycles] = fixed;
            let (instructions, cycles) = (instructions.count(None)?, cycles.count(None)?);
            let mut counts = Vec::with_capacity(group.len());
            for event in group {
                if let Some(Some(running)) = self.events.get_mut(event) {
                    counts.push(running.count(Some(event))?);
                }
            }
            Ok(Reading { instructions, cycles, counts })
        }

        pub(super) fn instructions_so_far(&mut self) -> Result<Count, PerfError> {
            match (&mut self.fixed, &self.group) {
                (Some([instructions, _]), Some(_)) => instructions.since_enabled(),
                _ => Err(PerfError::NotStarted),
            }
        }

        /// All that is being counted.
        fn each(&mut self, act: fn(&mut Running) -> io::Result<()>) -> Result<(), PerfError> {
            let Some(group) = &self.group else { return Ok(()) };
            for running in self.fixed.iter_mut().flatten() {
                act(running).map_err(PerfError::Use)?;
            }
            for &event in group {
                if let Some(Some(running)) = self.events.get_mut(event) {
                    act(running).map_err(PerfError::Use)?;
                }
            }
            Ok(())
        }

        fn disable(&mut self) -> Result<(), PerfError> {
            self.each(|running| running.counter.disable())
        }
    }

    impl Running {
        fn enable(&mut self) -> io::Result<()> {
            self.before = self.read()?;
            self.counter.enable()
        }

        fn read(&mut self) -> io::Result<Count> {
            let now = self.counter.read_count_and_time()?;
            Ok(Count {
                value: now.count,
                enabled: Duration::from_nanos(now.time_enabled),
                running: Duration::from_nanos(now.time_running),
            })
        }

        fn since_enabled(&mut self) -> Result<Count, PerfError> {
            let now = self.read().map_err(PerfError::Use)?;
            Ok(Count {
                value: now.value.wrapping_sub(self.before.value),
                enabled: now.enabled.saturating_sub(self.before.enabled),
                running: now.running.saturating_sub(self.before.running),
            })
        }

        /// Since it was enabled, unless it had no counter at any time.
        fn count(&mut self, event: Option<usize>) -> Result<Count, PerfError> {
            let count = self.since_enabled()?;
            if count.running.is_zero() { Err(PerfError::NeverRan { event }) } else { Ok(count) }
        }
    }

    fn open(builder: Builder<'_>, thread: Option<i32>, event: Option<usize>) -> Result<Running, PerfError> {
        let builder = match thread {
            Some(thread) => builder.observe_pid(thread),
            None => builder,
        };
        let counter = builder.build().map_err(|source| PerfError::Open { event, source })?;
        Ok(Running { counter, before: Count::default() })
    }

    fn builder(code: EventCode) -> Builder<'static> {
        let kind = match code {
            EventCode::Raw(code) => {
                let mut builder = Builder::new();
                let attributes = builder.attrs_mut();
                attributes.type_ = RAW;
                attributes.config = code;
                return builder;
            }
            EventCode::StalledCycles => Hardware::STALLED_CYCLES_BACKEND,
            EventCode::CacheReferences => Hardware::CACHE_REFERENCES,
            EventCode::CacheMisses => Hardware::CACHE_MISSES,
            EventCode::Branches => Hardware::BRANCH_INSTRUCTIONS,
            EventCode::BranchMisses => Hardware::BRANCH_MISSES,
        };
        Builder::new().kind(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_to_change() {
        for (number, filtered, says) in [
            (1, true, "seccomp"),
            (1, false, "perf_event_paranoid"),
            (13, true, "perf_event_paranoid"),
            (24, true, "ulimit -n"),
            (2, true, "no such counter"),
        ] {
            let remedy = remedy(&io::Error::from_raw_os_error(number), filtered);
            assert!(remedy.contains(says), "{number}: {remedy}");
        }
    }
}
