//! The machine at hand as a [`Testbed`].

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::params::{NativeParams, Pages, Placement, Suspension};
use super::perf::{self, Counter, TargetCounters};
use super::probe::ping_pong;
use super::progress::{Progress, ProgressCounter};
use super::self_check::LineTimes;
use super::target::Target;
use super::topology::{Topology, Warning};
use crate::counts::{PirateCounts, Reading, TargetCounts};
use crate::error::PirateError;
use crate::testbed::{Evidence, Outcome, SharedCache, Testbed, Until, Who};

/// Longest and shortest time between two looks at the target's progress.
const LONGEST_LOOK: Duration = Duration::from_millis(20);
const SHORTEST_LOOK: Duration = Duration::from_micros(200);
/// Lines put out of the caches to learn what one from memory costs.
const CALIBRATION_BYTES: u64 = 8 << 20;

/// A program on this machine beside a pirate.
///
/// The target is never left suspended: it is set free when this value is dropped, and by a process that watches
/// over it when this one is killed or aborts. A program that was attached to then runs on; one that was started
/// is ended (asked to, and killed after two seconds), because nobody would be left to look after it:
/// [`wait`](Self::wait) lets it finish first.
///
/// # Limits
/// The target is pinned to one processor, all its threads with it. Work is looked at by polling, so that
/// intervals are longer than asked for by up to a millisecond or the time of 5 % of the work, whichever is more;
/// what is reported is what was done.
pub struct NativeTestbed {
    target: Target,
    target_cpu: usize,
    pirate_cpus: Vec<usize>,
    crew: Crew,
    cache: SharedCache,
    placement: Placement,
    work: Work,
    fetches: Fetches,
    times: Vec<((u64, usize), LineTimes)>,
    stolen: (u64, usize),
    shared_round_trip: Option<f64>,
    last_round_trip: Option<f64>,
    began: Instant,
    stop: Option<Arc<AtomicBool>>,
    warnings: Vec<Warning>,
}

/// Where the target's work and time come from.
enum Work {
    Counters(TargetCounters),
    TaskClock,
    Counter(Box<dyn ProgressCounter>),
}

impl Work {
    fn of(progress: Progress, target: &Target) -> Result<Self, PirateError> {
        Ok(match progress {
            Progress::Instructions => Self::Counters(TargetCounters::open(target.pid())?),
            Progress::TaskClock => Self::TaskClock,
            Progress::Counter(counter) => Self::Counter(counter),
        })
    }
}

/// Where the pirate's fetches come from.
enum Fetches {
    Counted(Counter),
    Timed { lost: Option<f64>, sum: f64 },
}

impl NativeTestbed {
    /// Starts `command` and suspends it before it gets anywhere. Its standard streams are as the command says.
    ///
    /// # Errors
    /// [`PirateError::Machine`] if no cache is shared with another core, [`PirateError::System`] for whatever
    /// the system refuses.
    pub fn spawn(command: Command, params: NativeParams) -> Result<Self, PirateError> {
        Self::begin(params, |cpu, suspension| Target::spawn(command, cpu, suspension))
    }

    /// Takes over process `pid`, which must belong to the caller, with all its threads.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn attach(pid: i32, params: NativeParams) -> Result<Self, PirateError> {
        Self::begin(params, |cpu, suspension| Target::attach(pid, cpu, suspension))
    }

    fn begin(
        params: NativeParams,
        take: impl FnOnce(usize, &Suspension) -> Result<Target, PirateError>,
    ) -> Result<Self, PirateError> {
        let topology = Topology::read(&params.root)?;
        let cpu = params.target_cpu.unwrap_or_else(|| best_cpu(&topology));
        let reason = "has no last-level cache that the kernel knows: give its size";
        let last = topology.last_level(cpu);
        let bytes = params.cache_bytes.or(last.map(|cache| cache.bytes));
        let bytes = bytes.ok_or(PirateError::Machine { cpu, reason })?;
        let cache = SharedCache { bytes, line_size: last.map_or(64, |cache| cache.line_size) };
        if !cache.line_size.is_power_of_two() || cache.line_size < 8 || bytes < u64::from(cache.line_size) {
            return Err(PirateError::Cache { bytes, line_size: cache.line_size });
        }
        let pirate_cpus = match (params.placement, params.pirate_cpus) {
            (Placement::TimeSliced { .. }, _) => vec![cpu],
            (Placement::Beside, Some(cpus)) => cpus,
            (Placement::Beside, None) => topology.companions(cpu),
        };
        if pirate_cpus.is_empty() {
            let reason = "shares its last-level cache with no other core: use the time-sliced pirate";
            return Err(PirateError::Machine { cpu, reason });
        }
        if params.placement == Placement::Beside && pirate_cpus.contains(&cpu) {
            let reason = "is the target's: name other ones for the pirate, or use the time-sliced pirate";
            return Err(PirateError::Machine { cpu, reason });
        }
        let mut crew = Crew::new(&pirate_cpus, bytes, cache.line_size, params.placement)?;
        let mut warnings = topology.warnings(cpu);
        if crew.pages() == Pages::Small {
            warnings.push(Warning::SmallPages);
        }
        let fetches = match perf::pirate_fetches(&crew.threads()) {
            Some(counter) => Fetches::Counted(counter),
            None => Fetches::Timed { lost: crew.time_after_flush(CALIBRATION_BYTES.min(bytes)), sum: 0.0 },
        };
        // Last, so that nothing above can leave it suspended.
        let target = take(cpu, &params.suspension)?;
        let work = Work::of(params.progress, &target)?;
        Ok(Self {
            target,
            target_cpu: cpu,
            pirate_cpus,
            crew,
            cache,
            placement: params.placement,
            work,
            fetches,
            times: Vec::new(),
            stolen: (0, 1),
            shared_round_trip: params.shared_round_trip,
            last_round_trip: None,
            began: Instant::now(),
            stop: params.stop,
            warnings,
        })
    }

    /// What may spoil the measurement.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What pages the pirate's memory is in.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.crew.pages()
    }

    /// Number of the target's process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.target.pid()
    }

    /// The target's processor, and the pirate's.
    #[must_use]
    pub fn processors(&self) -> (usize, &[usize]) {
        (self.target_cpu, &self.pirate_cpus)
    }

    /// What the pirate knows of its time per line at the size and number of threads it now has.
    #[must_use]
    pub fn line_times(&self) -> LineTimes {
        let known = self.times.iter().find(|(stolen, _)| *stolen == self.stolen).map(|(_, times)| *times);
        let lost = match self.fetches {
            Fetches::Timed { lost, .. } => lost,
            Fetches::Counted(_) => None,
        };
        LineTimes { lost, ..known.unwrap_or_default() }
    }

    /// Nanoseconds of the last probe's round trip.
    #[must_use]
    pub const fn round_trip(&self) -> Option<f64> {
        self.last_round_trip
    }

    /// Counts the target's work in another way from now on: one that needs to know the process. Not between the
    /// readings of one measurement.
    ///
    /// # Errors
    /// [`PirateError::System`] if it cannot be counted so.
    pub fn set_progress(&mut self, progress: Progress) -> Result<(), PirateError> {
        self.work = Work::of(progress, &self.target)?;
        Ok(())
    }

    /// Lets the target run alone to its end.
    ///
    /// # Errors
    /// [`PirateError::System`] if it cannot be resumed.
    pub fn wait(&mut self) -> Result<(), PirateError> {
        self.target.wait()
    }

    /// Asks the target to end, and waits for it.
    ///
    /// # Errors
    /// [`PirateError::System`] if it cannot be signalled.
    pub fn terminate(&mut self) -> Result<(), PirateError> {
        self.target.terminate()
    }

    fn work_done(&mut self) -> Result<f64, PirateError> {
        match &mut self.work {
            Work::Counters(counters) => {
                counters.read().map(|(instructions, ..)| instructions).map_err(unreadable)
            }
            Work::TaskClock => Ok(self.target.cpu_time()),
            Work::Counter(counter) => counter.read().map(|count| count as f64).map_err(unreadable),
        }
    }

    /// Lets the target run until it has done `work` more; it and the pirate are stopped on every way out.
    fn run_target(&mut self, with_pirate: bool, work: f64) -> Result<Outcome, PirateError> {
        let begin = self.work_done()?;
        if with_pirate {
            self.crew.start();
        }
        let ran = self.target.resume().and_then(|()| self.watch(begin, work));
        let suspended = self.target.suspend();
        self.crew.stop();
        suspended?;
        ran
    }

    fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn watch(&mut self, begin: f64, work: f64) -> Result<Outcome, PirateError> {
        let mut look = SHORTEST_LOOK;
        loop {
            thread::sleep(look);
            if self.target.ended() || self.stopped() {
                return Ok(Outcome::TargetEnded);
            }
            let done = self.work_done()? - begin;
            if done >= work {
                return Ok(Outcome::Done);
            }
            // Up to twenty looks per interval.
            look = (look * if done < 0.05 * work { 2 } else { 1 }).clamp(SHORTEST_LOOK, LONGEST_LOOK);
            if done > 0.9 * work {
                look = SHORTEST_LOOK;
            }
        }
    }

    /// Infers the fetches of a run from what its lines took.
    fn account(&mut self, alone: bool, before: &(u64, super::self_check::Snapshot)) {
        let touched = self.crew.touched() - before.0;
        let Some(time) = self.crew.times().since(&before.1).time_per_line() else { return };
        let stolen = self.stolen;
        let place = self.times.iter().position(|(known, _)| *known == stolen).unwrap_or_else(|| {
            self.times.push((stolen, LineTimes::default()));
            self.times.len() - 1
        });
        if alone {
            self.times[place].1.walked_alone(time);
        }
        if let Fetches::Timed { lost, sum } = &mut self.fetches {
            let times = LineTimes { lost: *lost, ..self.times[place].1 };
            *sum += times.fetch_ratio(time) * touched as f64;
        }
    }
}

impl Testbed for NativeTestbed {
    type Error = PirateError;

    fn cache(&self) -> SharedCache {
        self.cache
    }

    fn max_threads(&self) -> usize {
        self.crew.len()
    }

    fn evidence(&self) -> Evidence {
        match self.fetches {
            Fetches::Counted(_) => Evidence::Counted,
            Fetches::Timed { .. } => Evidence::Timed,
        }
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), PirateError> {
        if bytes > self.cache.bytes {
            return Err(PirateError::Size { bytes, cache_bytes: self.cache.bytes });
        }
        let bytes = bytes / u64::from(self.cache.line_size) * u64::from(self.cache.line_size);
        let threads = threads.clamp(1, self.crew.len());
        self.crew.assign(bytes, threads);
        self.stolen = (bytes, threads);
        Ok(())
    }

    /// A pirate's `Until::Work` and a target's `Until::Walks` return at once.
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, PirateError> {
        let before = (self.crew.touched(), self.crew.times());
        let outcome = match (who, until) {
            (Who::Target, Until::Work(work)) => self.run_target(false, work)?,
            (Who::Both, Until::Work(work)) => self.run_target(true, work)?,
            (Who::Pirate, Until::Walks(walks)) => {
                self.crew.walk(walks);
                Outcome::Done
            }
            (Who::Target | Who::Both, Until::Walks(_)) | (Who::Pirate, Until::Work(_)) => Outcome::Done,
        };
        self.account(who == Who::Pirate, &before);
        Ok(outcome)
    }

    fn read(&mut self) -> Result<Reading, PirateError> {
        let cpu_time = self.target.cpu_time();
        let wall = self.began.elapsed().as_nanos() as f64;
        let (target, elapsed) = match &mut self.work {
            Work::Counters(counters) => {
                let (work, cycles, memory) = counters.read().map_err(unreadable)?;
                // The wall's time in the target's cycles.
                let rate = if cpu_time > 0.0 { cycles / cpu_time } else { 1.0 };
                (TargetCounts { work, time: cycles, memory }, wall * rate)
            }
            Work::TaskClock => (TargetCounts { work: cpu_time, time: cpu_time, memory: None }, wall),
            Work::Counter(counter) => {
                let work = counter.read().map_err(unreadable)? as f64;
                (TargetCounts { work, time: cpu_time, memory: None }, wall)
            }
        };
        let fetches = match &mut self.fetches {
            Fetches::Counted(counter) => counter.read().map_err(unreadable)?,
            Fetches::Timed { sum, .. } => *sum,
        };
        Ok(Reading { elapsed, target, pirate: PirateCounts { touches: self.crew.touched() as f64, fetches } })
    }

    fn shares_cache(&mut self) -> Result<Option<bool>, PirateError> {
        let (Some(limit), Placement::Beside) = (self.shared_round_trip, self.placement) else {
            return Ok(None);
        };
        let mut slowest: Option<f64> = None;
        for &cpu in &self.pirate_cpus[..self.stolen.1.min(self.pirate_cpus.len())] {
            let Some(time) = ping_pong(self.target_cpu, cpu)? else { return Ok(None) };
            slowest = Some(slowest.map_or(time, |s| s.max(time)));
        }
        self.last_round_trip = slowest;
        Ok(slowest.map(|time| time <= limit))
    }
}

impl Drop for NativeTestbed {
    fn drop(&mut self) {
        // The target frees itself; a pirate must not go on beside it while that happens.
        self.crew.stop();
    }
}

/// The processor with the most cores to share with.
fn best_cpu(topology: &Topology) -> usize {
    let most = topology
        .cpus()
        .iter()
        .max_by_key(|cpu| (topology.companions(cpu.id).len(), std::cmp::Reverse(cpu.id)));
    most.map_or(0, |cpu| cpu.id)
}

fn unreadable(source: io::Error) -> PirateError {
    PirateError::System {
        operation: "read",
        object: "the target's progress or counters".to_owned(),
        source,
        remedy: "",
    }
}
