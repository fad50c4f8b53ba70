//! Cores and the cache they share.

use reuse_sampler::{AccessKind, CacheLines};

use super::cache::Cache;
use super::config::{ChipSettings, Frames, Inclusion};
use super::core::{Activity, Core, CoreSettings};
use super::counters::Counters;
use super::owner::Owners;
use super::private::Stretch;
use super::program::{Program, Reference};
use super::timing::Served;
use super::{ChipError, Latencies};

/// Cycles of work that the memory channel may be behind before prefetches are dropped: a demand miss then
/// still waits less than about two latencies.
pub(super) const PREFETCH_BACKLOG: f64 = 200.0;

/// Why [`Chip::advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This core has made as many accesses as it was allowed to.
    Limit {
        /// Number of the core.
        core: usize,
    },
    /// The program of this core came to its end; it will start over if it restarts.
    Ended {
        /// Number of the core.
        core: usize,
    },
    /// No core is running.
    Idle,
}

/// The chip. Core `i` runs the `i`-th of the programs it was built with.
#[derive(Debug)]
pub struct Chip<P> {
    shared: SharedSide,
    cores: Vec<Core<P>>,
}

/// All that is not private to a core.
#[derive(Debug)]
struct SharedSide {
    cache: Cache,
    inclusion: Inclusion,
    frames: Option<Frames>,
    page_shift: u32, // lines of a 4 KiB page, as a power of two
    owners: Owners,
    latencies: Latencies,
    cycles_per_line: f64, // 0: no limit
    channel_free_at: f64, // when memory can start on the next line
}

impl<P: Program> Chip<P> {
    /// A chip with empty caches.
    ///
    /// # Errors
    /// [`ChipError`] naming the first parameter that is refused.
    pub fn new(settings: &ChipSettings, cores: Vec<CoreSettings<P>>) -> Result<Self, ChipError> {
        settings.check(cores.len())?;
        for core in &cores {
            core.timing.check()?;
            super::config::not_negative("start", core.start)?;
        }
        let shared = SharedSide {
            cache: Cache::new(settings.shared.geometry, settings.shared.policy),
            inclusion: settings.inclusion,
            frames: settings.frames,
            page_shift: 12_u32.saturating_sub(settings.line_size().shift()),
            owners: Owners::new(settings.line_size()),
            latencies: settings.latencies,
            cycles_per_line: settings.lines_per_cycle.map_or(0.0, f64::recip),
            channel_free_at: 0.0,
        };
        let cores = cores.into_iter().map(|core| Core::new(core, settings)).collect();
        Ok(Self { shared, cores })
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Runs all running cores, the one furthest behind first (of equals, the lowest), until one of them has
    /// made `limits[core]` accesses since it started, or its program ends.
    ///
    /// A core that is already at its limit is reported at once: raise its limit, suspend it or stop there.
    /// Cores beyond the end of `limits` have none.
    ///
    /// # Cost
    /// 10 to 50 ns per access.
    pub fn advance(&mut self, limits: &[u64]) -> Event {
        let limit = |core: usize| limits.get(core).copied().unwrap_or(u64::MAX);
        for (index, core) in self.cores.iter().enumerate() {
            if core.activity == Activity::Running && core.counters.accesses >= limit(index) {
                return Event::Limit { core: index };
            }
        }
        loop {
            let Some((index, horizon)) = self.next_core() else { return Event::Idle };
            match self.run_core(index, horizon, limit(index)) {
                Stop::Horizon => {}
                Stop::Limit => return Event::Limit { core: index },
                Stop::Ended => return Event::Ended { core: index },
            }
        }
    }

    /// Makes one reference on behalf of `core` at its present time: for whoever drives the chip with a stream
    /// of their own, whose order is fixed.
    pub fn reference(&mut self, core: usize, reference: Reference) {
        execute(&mut self.cores, &mut self.shared, core, reference);
    }

    /// Makes the references of `stretch` on behalf of `core` at its present time, leaving its private caches as they
    /// are: what they serve is known. Only where [`PrivateCaches::stand_alone`](super::PrivateCaches::stand_alone).
    pub fn stretch(&mut self, core: usize, stretch: &Stretch) {
        let Latencies { l1, l2, .. } = self.shared.latencies;
        let Core { clock, counters, .. } = &mut self.cores[core];
        counters.accesses += stretch.accesses;
        counters.stores += stretch.stores;
        counters.l1_misses += stretch.l1_misses;
        counters.instructions += stretch.instructions;
        let from_l2 = stretch.l1_misses - u64::from(stretch.beyond.is_some());
        clock.issue(stretch.instructions, false);
        clock.complete(clock.now, (stretch.accesses - stretch.l1_misses) as f64 * l1, Served::First);
        clock.complete(clock.now, from_l2 as f64 * l2, Served::Cache);
        if let Some(line) = stretch.beyond {
            let issued = clock.now;
            let tag = self.shared.owners.tag(core, line);
            let (latency, served) = from_shared(&mut self.cores, &mut self.shared, core, tag, issued);
            self.cores[core].clock.complete(issued, latency, served);
        }
    }

    /// Takes a line of `core`'s program out of all caches, as the instruction for it does. Costs no time.
    pub fn flush(&mut self, core: usize, line: u64) {
        let shared = &mut self.shared;
        let line = shared.frames.map_or(line, |frames| frames.line(core, line, shared.page_shift));
        let tag = shared.owners.tag(core, line);
        let private = &mut self.cores[core];
        private.l1.remove(tag);
        if let Some(l2) = &mut private.l2 {
            l2.remove(tag);
        }
        if shared.cache.remove(tag) {
            private.lines -= 1;
        }
    }

    /// Lets the lines of a core's program come in only at these ways of the shared cache, from now on; those that are
    /// there stay, and are found in any way.
    ///
    /// # Errors
    /// [`ChipError::Allocation`] if none of them is a way of the cache.
    pub fn allow(&mut self, core: usize, ways: u64) -> Result<(), ChipError> {
        let all = u64::MAX >> (64 - self.shared.cache.geometry().ways());
        if ways & all == 0 {
            return Err(ChipError::Allocation { mask: ways, ways: self.shared.cache.geometry().ways() });
        }
        self.cores[core].allowed = Some(ways & all);
        Ok(())
    }

    /// Counts of a core.
    pub fn counters(&self, core: usize) -> Counters {
        self.cores[core].counters()
    }

    /// Lines of the shared cache that a core's program holds.
    pub fn occupancy(&self, core: usize) -> CacheLines {
        CacheLines(self.cores[core].lines)
    }

    /// Time of a core on the chip's axis, in cycles.
    pub fn time(&self, core: usize) -> f64 {
        self.cores[core].clock.now
    }

    /// Whether a core is running.
    pub fn activity(&self, core: usize) -> Activity {
        self.cores[core].activity
    }

    /// Takes a running core out of the race; its lines stay where they are until others evict them.
    pub fn suspend(&mut self, core: usize) {
        if self.cores[core].activity == Activity::Running {
            self.cores[core].activity = Activity::Suspended;
        }
    }

    /// Lets a suspended core run on from now: the time of the running core furthest behind, or its own if
    /// that is later or there is none.
    pub fn resume(&mut self, core: usize) {
        if self.cores[core].activity != Activity::Suspended {
            return;
        }
        let running = self.cores.iter().filter(|c| c.activity == Activity::Running).map(|c| c.clock.now);
        let now = running.min_by(f64::total_cmp);
        let core = &mut self.cores[core];
        if let Some(now) = now {
            core.skip_to(now);
        }
        core.activity = Activity::Running;
    }

    /// The program of a core.
    pub fn program(&self, core: usize) -> &P {
        &self.cores[core].program
    }

    /// The program of a core, to change what it does from its next reference on.
    pub fn program_mut(&mut self, core: usize) -> &mut P {
        &mut self.cores[core].program
    }

    /// The core to run and the time until which it stays the one furthest behind.
    #[inline]
    fn next_core(&self) -> Option<(usize, f64)> {
        let mut first: Option<(usize, f64)> = None;
        let mut second = f64::INFINITY;
        for (index, core) in self.cores.iter().enumerate() {
            if core.activity != Activity::Running {
                continue;
            }
            let now = core.clock.now;
            match first {
                Some((_, least)) if now >= least => second = second.min(now),
                Some((_, least)) => {
                    second = least;
                    first = Some((index, now));
                }
                None => first = Some((index, now)),
            }
        }
        first.map(|(index, _)| (index, second))
    }

    /// Runs one core to the first of: its clock reaches `horizon`, it has made `limit` accesses, its program
    /// ends. Executes at least one reference.
    fn run_core(&mut self, index: usize, horizon: f64, limit: u64) -> Stop {
        loop {
            let core = &mut self.cores[index];
            if core.counters.accesses >= limit {
                return Stop::Limit;
            }
            let Some(reference) = core.program.next_reference() else {
                core.end_pass();
                return Stop::Ended;
            };
            execute(&mut self.cores, &mut self.shared, index, reference);
            let core = &self.cores[index];
            if core.counters.accesses >= limit {
                return Stop::Limit;
            }
            if core.clock.now >= horizon {
                return Stop::Horizon;
            }
        }
    }
}

enum Stop {
    Horizon,
    Limit,
    Ended,
}

/// Executes one reference: first level, then the way out.
#[inline]
fn execute<P: Program>(cores: &mut [Core<P>], shared: &mut SharedSide, index: usize, reference: Reference) {
    let core = &mut cores[index];
    core.counters.accesses += 1;
    core.counters.instructions += reference.instructions;
    core.counters.stores += u64::from(reference.kind == AccessKind::Store);
    let issued = core.clock.issue(reference.instructions, reference.dependent);
    let line = match shared.frames {
        Some(frames) => frames.line(index, reference.line, shared.page_shift),
        None => reference.line,
    };
    let tag = shared.owners.tag(index, line);
    if core.l1.touch(tag) {
        core.clock.complete(issued, shared.latencies.l1, Served::First);
    } else {
        let (latency, served) = beyond_l1(cores, shared, index, tag, issued);
        cores[index].clock.complete(issued, latency, served);
    }
}

/// Serves an access that missed the private first level; answers its latency and what served it.
fn beyond_l1<P>(
    cores: &mut [Core<P>],
    shared: &mut SharedSide,
    index: usize,
    tag: u64,
    issued: f64,
) -> (f64, Served) {
    let core = &mut cores[index];
    core.counters.l1_misses += 1;
    if let Some(l2) = &mut core.l2 {
        if l2.touch(tag) {
            core.l1.insert(tag);
            return (shared.latencies.l2, Served::Cache); // with a second level, the first one's victims are forgotten
        }
    }
    let served = from_shared(cores, shared, index, tag, issued);
    // After the shared cache, whose victim may have left room here; before the prefetches, whose victims
    // must be found here.
    let core = &mut cores[index];
    let first = core.l1.insert(tag);
    let victim = match &mut core.l2 {
        Some(l2) => l2.insert(tag),
        None => first,
    };
    // A prefetch may have brought it in before.
    if let Some(victim) = victim.filter(|&v| shared.inclusion == Inclusion::Victim && !shared.cache.touch(v))
    {
        fetch(cores, shared, index, victim);
    }
    prefetch(cores, shared, index, tag, issued);
    served
}

/// Serves an access that missed all private levels from the shared cache, or from memory; answers its latency and which.
fn from_shared<P>(
    cores: &mut [Core<P>],
    shared: &mut SharedSide,
    index: usize,
    tag: u64,
    issued: f64,
) -> (f64, Served) {
    let core = &mut cores[index];
    core.counters.shared_accesses += 1;
    if shared.cache.touch(tag) {
        if shared.inclusion == Inclusion::Victim {
            core.lines -= 1;
            shared.cache.remove(tag);
        }
        return (shared.latencies.shared, Served::Cache);
    }
    core.counters.shared_misses += 1;
    let wait = shared.occupy_channel(issued);
    core.counters.bandwidth_stall += wait;
    if shared.inclusion != Inclusion::Victim {
        fetch(cores, shared, index, tag);
    }
    (shared.latencies.memory + wait, Served::Memory)
}

/// Brings a line into the shared cache and settles what leaves for it.
fn fetch<P>(cores: &mut [Core<P>], shared: &mut SharedSide, index: usize, tag: u64) {
    cores[index].lines += 1;
    let victim = match cores[index].allowed {
        None => shared.cache.insert(tag),
        Some(ways) => shared.cache.insert_within(tag, ways),
    };
    let Some(victim) = victim else { return };
    let owner = &mut cores[shared.owners.owner(victim)];
    owner.lines -= 1;
    if shared.inclusion == Inclusion::Inclusive {
        let in_l1 = owner.l1.remove(victim);
        let in_l2 = owner.l2.as_mut().is_some_and(|l2| l2.remove(victim));
        owner.counters.inclusion_victims += u64::from(in_l1 || in_l2);
    }
}

/// Lets the prefetcher of a core see a reference and fetches what it asks for.
fn prefetch<P>(cores: &mut [Core<P>], shared: &mut SharedSide, index: usize, tag: u64, now: f64) {
    let Some(mut prefetcher) = cores[index].prefetcher.take() else { return };
    let line = shared.owners.line(tag);
    prefetcher.observe(line, |ahead| {
        let ahead = shared.owners.tag(index, ahead);
        if shared.channel_free_at - now > PREFETCH_BACKLOG || shared.cache.contains(ahead) {
            return;
        }
        shared.occupy_channel(now);
        cores[index].counters.prefetches += 1;
        fetch(cores, shared, index, ahead);
    });
    cores[index].prefetcher = Some(prefetcher);
}

impl SharedSide {
    /// Takes one line's turn on the memory channel and answers how long it had to be waited for.
    #[inline]
    fn occupy_channel(&mut self, now: f64) -> f64 {
        if self.cycles_per_line == 0.0 {
            return 0.0;
        }
        let start = now.max(self.channel_free_at);
        self.channel_free_at = start + self.cycles_per_line;
        start - now
    }
}
