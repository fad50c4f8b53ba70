//! The machine at hand as a [`Testbed`].

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::affinity;
use super::crew::Crew;
use super::events::{self, Codes};
use super::params::{Ended, NativeParams, Pages, Placement, Suspension};
use super::perf::{Choice, PirateFetches, TargetCounters};
use super::probe::ping_pong;
use super::progress::{Progress, Rising};
use super::residency::Times;
use super::target::Target;
use super::topology::{Topology, Warning};
use crate::counts::{PirateCounts, Reading, TargetCounts};
use crate::error::PirateError;
use crate::testbed::{Evidence, LinePlacement, Outcome, SharedCache, Testbed, Until, Who};

/// Longest and shortest time between two looks at the target's progress.
const LONGEST_LOOK: Duration = Duration::from_millis(20);
const SHORTEST_LOOK: Duration = Duration::from_micros(200);
/// Least memory that is taken to fit into the cache when the time of a line in it is measured.
const LEAST_REFERENCE: u64 = 64 << 10;
/// Largest share of lines lost alone for the time of a probe to be a reference of its size.
const LOST_ALONE: f64 = 0.2;

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
    lines: LinePlacement,
    work: Work,
    choice: Choice, // of what is counted of the target
    fetches: Fetches,
    alone: Vec<((u64, usize), f64)>, // best probe of a size after walks alone, in nanoseconds per line
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
    Counter(Rising),
}

impl Work {
    fn of(progress: Progress, target: &Target, choice: &Choice) -> Result<Self, PirateError> {
        Ok(match progress {
            Progress::Instructions => Self::Counters(TargetCounters::open(target.pid(), choice)?),
            Progress::TaskClock => Self::TaskClock,
            Progress::Counter(counter) => Self::Counter(Rising::new(counter)),
        })
    }
}

/// Where the pirate's fetches come from.
enum Fetches {
    Counted(PirateFetches),
    Timed { times: Times, sum: f64 },
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
        let mut topology = Topology::read(&params.root)?;
        topology.keep(&affinity::allowed()?);
        let cpu = params.target_cpu.unwrap_or_else(|| best_cpu(&topology));
        if topology.cpu(cpu).is_none() {
            let reason = "is offline or outside the cpuset of this process: name another one";
            return Err(PirateError::Machine { cpu, reason });
        }
        let reason = "has no last-level cache that the kernel knows: give its size";
        let last = topology.last_level(cpu);
        let real = last.map(|cache| cache.bytes);
        let bytes = params.cache_bytes.or(real).ok_or(PirateError::Machine { cpu, reason })?;
        if let Some(real) = real.filter(|&real| bytes > real) {
            return Err(PirateError::CacheTooLarge { claimed: bytes, real });
        }
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
        // Twice the cache: a pirate that is to steal all of it can also be shown what it could not hold.
        let mut crew = Crew::new(&pirate_cpus, 2 * bytes, cache.line_size, params.placement)?;
        let mut warnings = topology.warnings(cpu);
        let private = warnings.iter().find_map(|warning| match warning {
            Warning::NotInclusive { private_bytes } => Some(*private_bytes),
            _ => None,
        });
        let lines = LinePlacement {
            scattered_pages: crew.pages() == Pages::Small,
            ways: last.and_then(|cache| cache.ways),
            private_bytes: private.unwrap_or(0),
            ..LinePlacement::default()
        };
        if crew.pages() == Pages::Small {
            warnings.push(Warning::SmallPages);
        }
        if let Some(reported) = real.filter(|&real| bytes < real) {
            warnings.push(Warning::SmallerThanReported { stated: bytes, reported });
        }
        let (vendor, family, model) = topology.make();
        let listed = Codes::listed(vendor, family, model);
        let choice = |cpu| Choice::new(listed.clone(), events::unit_of(&params.root, cpu));
        let threads = crew.threads().into_iter().zip(pirate_cpus.iter().map(|&cpu| choice(cpu)));
        let fetches = if let Some(counter) = PirateFetches::open(threads) {
            Fetches::Counted(counter)
        } else {
            // Mostly beyond the private caches, and small enough to be in the shared one for sure.
            let reference = (4 * topology.private_bytes(pirate_cpus[0])).min(bytes / 4).max(LEAST_REFERENCE);
            let times = crew.calibrate(reference.min(bytes));
            let times = times.unwrap_or(Times { held: f64::NAN, lost: f64::NAN });
            if !times.are_distinct() {
                warnings.push(Warning::Blind);
            }
            Fetches::Timed { times, sum: 0.0 }
        };
        let choice = choice(cpu);
        if matches!(params.progress, Progress::Instructions) {
            // Nothing is started in vain, not even for the time it takes to end it again.
            TargetCounters::open(std::process::id() as i32, &choice)?;
        }
        // Last, so that nothing above can leave it suspended.
        let target = take(cpu, &params.suspension)?;
        let work = Work::of(params.progress, &target, &choice)?;
        Ok(Self {
            target,
            target_cpu: cpu,
            pirate_cpus,
            crew,
            cache,
            placement: params.placement,
            lines,
            work,
            choice,
            fetches,
            alone: Vec::new(),
            stolen: (0, 1),
            shared_round_trip: params.shared_round_trip,
            last_round_trip: None,
            began: Instant::now(),
            stop: params.stop,
            warnings,
        })
    }

    /// How the target ended, once it has, if it was started here.
    #[must_use]
    pub const fn ended(&self) -> Option<Ended> {
        self.target.end()
    }

    /// What may spoil the measurement.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The events that count what the target fetches, prefetches included, as their maker calls them; `None` where its
    /// fetches are not counted, or by the kernel's own names for them.
    #[must_use]
    pub fn fetches_counted_by(&self) -> Option<&str> {
        match &self.work {
            Work::Counters(counters) if counters.counts_fetches() => self.choice.fetched_by(),
            _ => None,
        }
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
        self.work = Work::of(progress, &self.target, &self.choice)?;
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
        // At once, so that neither gains on the other before the pirate's lines are probed.
        self.crew.ask_to_stop();
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

    /// Infers the fetches of a run in which the pirate touched `touched` lines.
    fn account(&mut self, alone: bool, touched: u64) {
        let Fetches::Timed { times, sum } = &mut self.fetches else { return };
        if touched == 0 {
            return;
        }
        let Some(time) = self.crew.probe(false) else { return };
        let known = self.alone.iter_mut().find(|(stolen, _)| *stolen == self.stolen);
        let ratio = if alone {
            match known {
                Some((_, best)) => *best = best.min(time),
                None => self.alone.push((self.stolen, time)),
            }
            // Nobody else takes lines: what is lost after one walk is fetched in the next.
            times.lost_share(time)
        } else {
            // Small pages cost the same size as much alone.
            let held = known.map(|(_, best)| *best).filter(|&best| times.lost_share(best) <= LOST_ALONE);
            let held = held.map_or(times.held, |best| best.max(times.held));
            Times { held, ..*times }.fetch_ratio(time)
        };
        // Whole lines, so that differences of sums are exact.
        *sum += (ratio * touched as f64).round();
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

    fn placement(&self) -> LinePlacement {
        self.lines
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), PirateError> {
        if bytes > 2 * self.cache.bytes {
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
        let before = self.crew.touched();
        let outcome = match (who, until) {
            (Who::Target, Until::Work(work)) => self.run_target(false, work)?,
            (Who::Both, Until::Work(work)) => self.run_target(true, work)?,
            (Who::Pirate, Until::Walks(walks)) => {
                self.crew.walk(walks);
                Outcome::Done
            }
            (Who::Target | Who::Both, Until::Walks(_)) | (Who::Pirate, Until::Work(_)) => Outcome::Done,
        };
        self.account(who == Who::Pirate, self.crew.touched() - before);
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
                (TargetCounts { work, time: cycles, memory, traffic: None }, wall * rate)
            }
            Work::TaskClock => {
                (TargetCounts { work: cpu_time, time: cpu_time, ..TargetCounts::default() }, wall)
            }
            Work::Counter(counter) => {
                let work = counter.read().map_err(unreadable)? as f64;
                (TargetCounts { work, time: cpu_time, ..TargetCounts::default() }, wall)
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
    PirateError::system("read", "the target's progress or counters", source, "")
}
