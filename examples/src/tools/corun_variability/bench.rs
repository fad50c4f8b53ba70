//! A program alone with each size of the shared cache, all sizes at once: a reference is looked up in the private caches
//! once, and what gets past them goes to a chip for each size.

use std::num::NonZeroUsize;
use std::thread;

use cachesharing::{CurvePoint, ReuseTimes};

use super::Ground;
use super::returns::ReuseWatch;
use crate::cli::Failure;
use crate::machines::chip::{Chip, CoreSettings, Counters, Driven, PrivateCaches, Reference};

/// References played at a time.
const PIECE: usize = 1 << 16;

/// What was measured in a window.
pub(super) struct Measured {
    /// Instructions.
    pub work: f64,
    /// One for each size, rising.
    pub points: Vec<CurvePoint>,
    /// Where they are counted.
    pub reuse_times: Option<ReuseTimes>,
}

/// A chip for each size, with a core of its own, and what is counted beside them.
pub(super) struct Bench {
    private: PrivateCaches,
    stand_alone: bool, // else each chip has the private caches looked up in its own way
    chips: Vec<Sized>,
    threads: usize,
    times: Option<ReuseWatch>,
}

/// A chip by the size of its shared cache.
struct Sized {
    bytes: u64, // of the shared cache
    chip: Chip<Driven>,
    before: Counters, // when the window began
}

impl Bench {
    /// With empty caches, for shared caches of these sizes.
    pub fn new(ground: &Ground, sizes: Vec<u64>, threads: NonZeroUsize) -> Result<Self, Failure> {
        let geometry = ground.settings.shared.geometry;
        let chip = |bytes: u64| {
            let mut settings = ground.settings.clone();
            let ways = bytes * geometry.ways() / geometry.bytes();
            settings.shared.geometry = geometry.with_ways(ways)?;
            let core = CoreSettings { timing: ground.timing, ..CoreSettings::new(Driven) };
            Ok(Sized { bytes, chip: Chip::new(&settings, vec![core])?, before: Counters::default() })
        };
        Ok(Self {
            private: PrivateCaches::new(&ground.settings),
            stand_alone: PrivateCaches::stand_alone(&ground.settings, ground.timing),
            chips: sizes.into_iter().map(chip).collect::<Result<_, Failure>>()?,
            threads: threads.get(),
            times: ground.reuse_times.then(|| ReuseWatch::new(ground)).transpose()?,
        })
    }

    /// Plays references that belong to no window.
    pub fn warm_up(&mut self, references: impl Iterator<Item = Reference>) -> Result<(), Failure> {
        self.play(references);
        self.chips.iter_mut().for_each(|sized| sized.before = sized.chip.counters(0));
        self.times.as_mut().map_or(Ok(()), |times| times.end().map(drop))
    }

    /// Plays a window of so many references, at least one.
    pub fn window(
        &mut self,
        references: impl Iterator<Item = Reference>,
        count: u64,
    ) -> Result<Measured, Failure> {
        if let Some(times) = &mut self.times {
            times.begin(count);
        }
        self.play(references);
        let counted = self.chips.iter_mut().map(|sized| {
            let before = std::mem::replace(&mut sized.before, sized.chip.counters(0));
            (sized.bytes, sized.before - before)
        });
        let counted: Vec<(u64, Counters)> = counted.collect();
        Ok(Measured {
            // Those up to the last reference, on every chip alike.
            work: counted.first().map_or(0.0, |(_, counters)| counters.instructions),
            points: counted.iter().map(|(bytes, counters)| point(*bytes, counters)).collect(),
            reuse_times: self.times.as_mut().map(ReuseWatch::end).transpose()?,
        })
    }

    fn play(&mut self, mut references: impl Iterator<Item = Reference>) {
        let Self { private, stand_alone, chips, threads, times } = self;
        let (mut piece, mut stretches) = (Vec::with_capacity(PIECE), Vec::new());
        loop {
            piece.clear();
            piece.extend(references.by_ref().take(PIECE));
            if piece.is_empty() {
                return;
            }
            stretches.clear();
            private.play(&piece, |stretch| stretches.push(stretch));
            if let Some(times) = times {
                times.follow(&stretches);
            }
            let play = |chips: &mut [Sized]| {
                for Sized { chip, .. } in chips {
                    if *stand_alone {
                        for stretch in &stretches {
                            chip.stretch(0, stretch);
                        }
                    } else {
                        for &reference in &piece {
                            chip.reference(0, reference);
                        }
                    }
                }
            };
            let each = chips.len().div_ceil(*threads).max(1);
            let mut parts = chips.chunks_mut(each);
            let own = parts.next();
            thread::scope(|scope| {
                parts.for_each(|chips| drop(scope.spawn(|| play(chips))));
                own.map(play);
            });
        }
    }
}

/// A point of a curve from what was counted.
pub(super) fn point(bytes: u64, counters: &Counters) -> CurvePoint {
    let hits = counters.shared_accesses - counters.shared_misses;
    CurvePoint::new(bytes, counters.cpi(), counters.miss_ratio())
        .with_fetch_ratio(counters.fetch_ratio())
        .with_hit_rate(hits as f64 / counters.cycles)
        .with_stall_rate((counters.memory_stall_cycles / counters.cycles).min(1.0))
}
