//! The reference chip as a testbed: the target on core 0, pirate threads on the others, as real co-runners.
//!
//! The pirate's cores are out of order and touch a line of the shared cache every five cycles each, which is
//! what a thread of the paper's pirate reached (28.7 GB/s at 2.26 GHz); what they miss overlaps, up to ten lines
//! at a time. The chip does not know that one of its programs is a pirate.

use cache_pirate::{
    LinePlacement, MemoryCounts, Outcome, PirateCounts, Reading, SharedCache, TargetCounts, Testbed, Until,
    Who,
};

use super::walk::{Side, Walk};
use crate::machines::chip::{
    Activity, Chip, ChipError, ChipSettings, CoreSettings, CoreTiming, Counters, Event, Inclusion, Program,
};

/// Core of the target.
const TARGET: usize = 0;

/// How fast a pirate thread is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PirateCore {
    /// Cycles per line that is there, above 0.
    pub cycles_per_line: f64,
    /// Lines on their way at a time.
    pub outstanding: u32,
}

impl Default for PirateCore {
    fn default() -> Self {
        Self { cycles_per_line: 5.0, outstanding: 10 }
    }
}

/// A target and a pirate on the reference chip.
///
/// Work is instructions, time is cycles; all counters are exact.
#[derive(Debug)]
pub struct SimulatedTestbed<P> {
    chip: Chip<Side<P>>,
    cache: SharedCache,
    placement: LinePlacement,
    passes: u64, // after which the target has ended
    active: usize,
    stolen: (u64, u64), // lines and threads that walk them, 0 only for both
    ended: bool,
}

impl<P: Program> SimulatedTestbed<P> {
    /// A chip with empty caches, `target` on its first core and `threads` cores for the pirate.
    ///
    /// A target that does not restart ends with its first pass; one that does after `passes` of them.
    ///
    /// # Errors
    /// As [`Chip::new`].
    pub fn new(
        settings: &ChipSettings,
        target: CoreSettings<P>,
        passes: u64,
        threads: usize,
        pirate: PirateCore,
    ) -> Result<Self, ChipError> {
        let timing =
            CoreTiming::OutOfOrder { base_cpi: 1.0, reorder_buffer: 128, outstanding: pirate.outstanding };
        let CoreSettings { program, timing: target_timing, start, restarts } = target;
        let mut cores =
            vec![CoreSettings { program: Side::Target(program), timing: target_timing, start, restarts }];
        cores.extend((0..threads).map(|_| {
            let program = Side::Rival(Walk::new(pirate.cycles_per_line));
            CoreSettings { program, timing, start, restarts: true }
        }));
        let mut chip = Chip::new(settings, cores)?;
        for core in 0..=threads {
            chip.suspend(core);
        }
        let bytes = settings.shared.geometry.bytes();
        let cache = SharedCache { bytes, line_size: settings.line_size().bytes() };
        let private_bytes = match settings.inclusion {
            Inclusion::Inclusive => 0,
            // A second level is taken to have the first one's lines too.
            _ => settings.l2.unwrap_or(settings.l1).geometry.bytes(),
        };
        let ways = Some(settings.shared.geometry.ways() as u32);
        let placement = LinePlacement {
            scattered_pages: settings.frames.is_some(),
            ways,
            private_bytes,
            ..LinePlacement::default()
        };
        Ok(Self { chip, cache, placement, passes, active: 0, stolen: (0, 0), ended: false })
    }

    /// The target's counters, all of them.
    pub fn target_counters(&self) -> Counters {
        self.chip.counters(TARGET)
    }

    /// Lines of the shared cache that the pirate holds at this moment: the truth behind its fetch ratio.
    pub fn lines_held(&self) -> u64 {
        (1..self.chip.cores()).map(|core| self.chip.occupancy(core).0).sum()
    }

    /// Confines the target's lines to some ways of the shared cache, and the pirate's to others, a bit each.
    pub(super) fn allow(&mut self, target: u64, pirate: u64) -> Result<(), ChipError> {
        for core in 0..self.chip.cores() {
            self.chip.allow(core, if core == TARGET { target } else { pirate })?;
        }
        Ok(())
    }

    /// Lines of the shared cache that hold the target's data.
    pub fn lines_of_target(&self) -> u64 {
        self.chip.occupancy(TARGET).0
    }

    fn now(&self) -> f64 {
        (0..self.chip.cores()).map(|core| self.chip.time(core)).fold(0.0, f64::max)
    }

    /// Lets the cores of `who` run on from now.
    fn start(&mut self, who: Who) {
        // The core that is furthest ahead sets the time for the others, whether it is to run or not.
        let latest = (0..self.chip.cores()).max_by(|&a, &b| self.chip.time(a).total_cmp(&self.chip.time(b)));
        let latest = latest.unwrap_or(TARGET);
        self.chip.resume(latest);
        let pirate = 1..=self.active;
        let runs = |core: usize| match who {
            Who::Target => core == TARGET,
            Who::Pirate => pirate.contains(&core),
            Who::Both => core == TARGET || pirate.contains(&core),
        };
        for core in (0..self.chip.cores()).filter(|&core| runs(core)) {
            self.chip.resume(core);
        }
        if !runs(latest) {
            self.chip.suspend(latest);
        }
    }

    fn stop(&mut self) {
        for core in 0..self.chip.cores() {
            self.chip.suspend(core);
        }
    }

    fn run_target(&mut self, work: f64) {
        let goal = self.chip.counters(TARGET).instructions + work;
        loop {
            let counters = self.chip.counters(TARGET);
            let left = goal - counters.instructions;
            // Less than a thousandth of an instruction is rounding.
            if left < 1e-3 {
                return;
            }
            // All that follow are assumed to be like the first access; where their kind changes, the next round makes up for it.
            let more =
                if counters.accesses == 0 { 1 } else { (left * counters.mix()).ceil().max(1.0) as u64 };
            match self.chip.advance(&[counters.accesses.saturating_add(more)]) {
                Event::Ended { core: TARGET } => {
                    if self.chip.counters(TARGET).passes >= self.passes {
                        self.ended = true;
                        return;
                    }
                }
                Event::Limit { .. } | Event::Ended { .. } => {}
                Event::Idle => {
                    self.ended = true;
                    return;
                }
            }
            if self.chip.activity(TARGET) == Activity::Stopped {
                self.ended = true;
                return;
            }
        }
    }

    fn run_pirate(&mut self, walks: u32) {
        let limits: Vec<u64> = (0..self.chip.cores())
            .map(|core| {
                let lines = match self.chip.program(core) {
                    Side::Rival(walk) => walk.lines(),
                    Side::Target(_) => 0,
                };
                self.chip.counters(core).accesses + lines * u64::from(walks)
            })
            .collect();
        while let Event::Limit { core } | Event::Ended { core } = self.chip.advance(&limits) {
            self.chip.suspend(core);
        }
    }
}

impl<P: Program> Testbed for SimulatedTestbed<P> {
    type Error = ChipError;

    fn cache(&self) -> SharedCache {
        self.cache
    }

    fn max_threads(&self) -> usize {
        self.chip.cores() - 1
    }

    fn placement(&self) -> LinePlacement {
        self.placement
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), ChipError> {
        let lines = bytes / u64::from(self.cache.line_size);
        let threads = (threads.clamp(1, self.max_threads().max(1)) as u64).min(lines);
        self.active = threads as usize;
        // Cores have address spaces of their own here: dealt out in turn, each line stays with its thread when the
        // number of lines changes, and is not fetched anew by another.
        // The rest, and what another thread walks from now on, is given up.
        let (had, by) = self.stolen;
        for line in 0..had {
            let thread = line % by;
            if line >= lines || line % threads != thread {
                self.chip.flush(thread as usize + 1, line);
            }
        }
        self.stolen = (lines, threads);
        for thread in 0..threads {
            let part = (lines - thread).div_ceil(threads);
            if let Side::Rival(walk) = self.chip.program_mut(thread as usize + 1) {
                walk.assign(thread, threads, part);
            }
        }
        Ok(())
    }

    /// A pirate's `Until::Work` and a target's `Until::Walks` return at once.
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, ChipError> {
        let pirate = who == Who::Pirate;
        if !(pirate && self.active == 0 || !pirate && self.ended) {
            self.start(who);
            match until {
                Until::Work(work) if !pirate => self.run_target(work),
                Until::Walks(walks) if pirate => self.run_pirate(walks),
                _ => {}
            }
            self.stop();
        }
        Ok(if self.ended && !pirate { Outcome::TargetEnded } else { Outcome::Done })
    }

    fn read(&mut self) -> Result<Reading, ChipError> {
        let target = self.chip.counters(TARGET);
        let pirate = (1..self.chip.cores()).map(|core| self.chip.counters(core));
        let pirate = pirate.fold(PirateCounts::default(), |sum, counters| PirateCounts {
            touches: sum.touches + counters.accesses as f64,
            fetches: sum.fetches + counters.fetches() as f64,
        });
        let memory = MemoryCounts {
            accesses: target.accesses as f64,
            shared_accesses: target.shared_accesses as f64,
            misses: target.shared_misses as f64,
            fetches: Some(target.fetches() as f64),
        };
        let target = TargetCounts {
            work: target.instructions,
            time: target.cycles,
            memory: Some(memory),
            ..TargetCounts::default()
        };
        Ok(Reading { elapsed: self.now(), target, pirate })
    }
}
