//! The simplest testbed: one LRU cache, a target given as the lines it touches, and a pirate.
//!
//! For trying the technique and planning a measurement without a machine: how long intervals and warm-ups
//! should be, how much a pirate of a given speed can steal from a given stream. Each access takes a hit or a
//! miss time and whoever is furthest behind goes next; there are no private caches, no prefetcher and no
//! bandwidth limit.

use crate::counts::{MemoryCounts, PirateCounts, Reading, TargetCounts};
use crate::error::PirateError;
use crate::testbed::{Outcome, SharedCache, Testbed, Until, Who};

/// The machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimpleMachine {
    /// Sets of the cache, at least 1.
    pub sets: usize,
    /// Lines in a set, at least 1.
    pub ways: usize,
    /// Bytes in a line, a power of two.
    pub line_size: u32,
    /// Time of an access of the target that hits, finite and above 0.
    pub hit_time: f64,
    /// Time of one that misses, finite and above 0.
    pub miss_time: f64,
    /// Time in which a pirate thread touches a line that is there, finite and above 0.
    pub pirate_hit_time: f64,
    /// Time in which it touches one that is not, finite and above 0.
    pub pirate_miss_time: f64,
    /// Most threads of the pirate, at least 1.
    pub threads: usize,
    /// Pirate threads that the cache has bandwidth for beside the target. Each one beyond adds a tenth to the
    /// target's access times.
    pub free_threads: usize,
}

impl Default for SimpleMachine {
    /// 64 KiB in 64 sets of 16 ways; hits of 10 and misses of 100; a pirate that touches a line in 1 and fetches
    /// one in 20; one thread.
    fn default() -> Self {
        Self {
            sets: 64,
            ways: 16,
            line_size: 64,
            hit_time: 10.0,
            miss_time: 100.0,
            pirate_hit_time: 1.0,
            pirate_miss_time: 20.0,
            threads: 1,
            free_threads: 1,
        }
    }
}

/// A target on a [`SimpleMachine`]. `I` yields the numbers of the lines that the target touches, one per unit
/// of work, and ends where the target ends.
#[derive(Clone, Debug)]
pub struct SimpleTestbed<I> {
    machine: SimpleMachine,
    target: I,
    cache: Lru,
    now: f64,
    counts: Reading,
    pirate: Vec<Walker>,
    ended: bool,
}

/// One pirate thread: lines `[first, first + lines)`, the next of them, lines touched.
#[derive(Clone, Debug)]
struct Walker {
    first: u64,
    lines: u64,
    next: u64,
    touched: u64,
    clock: f64,
}

impl<I: Iterator<Item = u64>> SimpleTestbed<I> {
    /// An empty cache and a target at its beginning.
    ///
    /// # Errors
    /// [`PirateError`] naming the first parameter out of range.
    pub fn new(machine: SimpleMachine, target: I) -> Result<Self, PirateError> {
        let counts = [
            ("sets", machine.sets),
            ("ways", machine.ways),
            ("threads", machine.threads),
            ("line size", machine.line_size as usize),
        ];
        for (what, value) in counts {
            if value == 0 {
                return Err(PirateError::Parameter { what, value: 0.0, remedy: "at least 1" });
            }
        }
        let times = [
            ("hit time", machine.hit_time),
            ("miss time", machine.miss_time),
            ("pirate's hit time", machine.pirate_hit_time),
            ("pirate's miss time", machine.pirate_miss_time),
        ];
        for (what, value) in times {
            if !(value.is_finite() && value > 0.0) {
                return Err(PirateError::Parameter { what, value, remedy: "a finite time above 0" });
            }
        }
        let memory = Some(MemoryCounts { fetches: Some(0.0), ..MemoryCounts::default() });
        let counts = Reading { target: TargetCounts { memory, ..Default::default() }, ..Default::default() };
        let cache = Lru::new(machine.sets, machine.ways);
        Ok(Self { machine, target, cache, now: 0.0, counts, pirate: Vec::new(), ended: false })
    }

    fn step_target(&mut self, clock: &mut f64) -> Option<()> {
        let line = self.target.next()?;
        let hit = self.cache.touch(line << 1);
        let extra = self.pirate.len().saturating_sub(self.machine.free_threads) as f64 * 0.1;
        let time = (1.0 + extra) * if hit { self.machine.hit_time } else { self.machine.miss_time };
        *clock += time;
        let target = &mut self.counts.target;
        target.work += 1.0;
        target.time += time;
        if let Some(memory) = &mut target.memory {
            let missed = if hit { 0.0 } else { 1.0 };
            *memory = MemoryCounts {
                accesses: memory.accesses + 1.0,
                shared_accesses: memory.shared_accesses + 1.0,
                misses: memory.misses + missed,
                fetches: memory.fetches.map(|fetches| fetches + missed),
            };
        }
        Some(())
    }

    fn step_pirate(&mut self, thread: usize) {
        let walker = &mut self.pirate[thread];
        let hit = self.cache.touch((walker.first + walker.next) << 1 | 1);
        walker.clock += if hit { self.machine.pirate_hit_time } else { self.machine.pirate_miss_time };
        walker.touched += 1;
        walker.next = (walker.next + 1) % walker.lines;
        let fetches = if hit { 0.0 } else { 1.0 };
        self.counts.pirate = self.counts.pirate + PirateCounts { touches: 1.0, fetches };
    }

    /// The pirate thread furthest behind.
    fn slowest(&self) -> Option<usize> {
        (0..self.pirate.len()).min_by(|&a, &b| self.pirate[a].clock.total_cmp(&self.pirate[b].clock))
    }

    fn run_target(&mut self, with_pirate: bool, work: f64) -> Outcome {
        let until = self.counts.target.work + work;
        let mut clock = self.now;
        while !self.ended && self.counts.target.work < until {
            match self.slowest().filter(|&thread| with_pirate && self.pirate[thread].clock < clock) {
                Some(thread) => self.step_pirate(thread),
                None => self.ended = self.step_target(&mut clock).is_none(),
            }
        }
        self.now = clock;
        if self.ended { Outcome::TargetEnded } else { Outcome::Done }
    }

    fn run_pirate(&mut self, walks: u32) {
        // Whole walks from wherever each thread is.
        let until: Vec<u64> = self.pirate.iter().map(|w| w.touched + w.lines * u64::from(walks)).collect();
        while self.pirate.iter().zip(&until).any(|(walker, &until)| walker.touched < until) {
            let Some(thread) = self.slowest() else { return };
            self.step_pirate(thread);
        }
        self.now = self.pirate.iter().map(|walker| walker.clock).fold(self.now, f64::max);
    }
}

impl<I: Iterator<Item = u64>> Testbed for SimpleTestbed<I> {
    type Error = PirateError;

    fn cache(&self) -> SharedCache {
        let SimpleMachine { sets, ways, line_size, .. } = self.machine;
        SharedCache { bytes: (sets * ways) as u64 * u64::from(line_size), line_size }
    }

    fn max_threads(&self) -> usize {
        self.machine.threads
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), PirateError> {
        let lines = bytes / u64::from(self.machine.line_size);
        let threads = (threads.clamp(1, self.machine.threads) as u64).min(lines);
        let part = |thread| lines * thread / threads.max(1);
        self.pirate = (0..threads)
            .map(|thread| Walker {
                first: part(thread),
                lines: part(thread + 1) - part(thread),
                next: 0,
                touched: 0,
                clock: self.now,
            })
            .collect();
        Ok(())
    }

    /// A pirate's `Until::Walks` beside the target and a target's `Until::Work` without it are no such runs:
    /// they return at once.
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, PirateError> {
        for walker in &mut self.pirate {
            walker.clock = self.now;
        }
        match (who, until) {
            (Who::Target, Until::Work(work)) => return Ok(self.run_target(false, work)),
            (Who::Both, Until::Work(work)) => return Ok(self.run_target(true, work)),
            (Who::Pirate, Until::Walks(walks)) => self.run_pirate(walks),
            (Who::Target | Who::Both, Until::Walks(_)) | (Who::Pirate, Until::Work(_)) => {}
        }
        Ok(Outcome::Done)
    }

    fn read(&mut self) -> Result<Reading, PirateError> {
        Ok(Reading { elapsed: self.now, ..self.counts })
    }
}

/// A set-associative LRU cache: per set the lines, most recent first.
#[derive(Clone, Debug)]
struct Lru {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Lru {
    fn new(sets: usize, ways: usize) -> Self {
        Self { sets: vec![Vec::with_capacity(ways); sets], ways }
    }

    /// `tag` is the line with its owner in the lowest bit.
    fn touch(&mut self, tag: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[((tag >> 1) % count) as usize];
        if let Some(at) = set.iter().position(|&t| t == tag) {
            set[..=at].rotate_right(1);
            return true;
        }
        set.truncate(self.ways - 1);
        set.insert(0, tag);
        false
    }
}
