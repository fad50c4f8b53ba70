//! Many repetitions of a sampler on one pass over a program.
//!
//! Each repetition chooses its accesses and follows them to their reuse as if it were alone. What is shared is the
//! question whether anybody watches a line, which is the cost of an access.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use reuse_sampler::{Hierarchy, Line, LineSize, Outcome, ReuseDistance, ReuseProfile};

use super::schedule::{Schedule, Spacing};
use reuse_sampler::reference::LineIds;

const NONE: u32 = u32::MAX;

/// A burst of one repetition, or the part of it that lies in one window of the run: its accesses, and what became of
/// those that were chosen.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Number of the burst.
    pub burst: u32,
    /// Numbers of its accesses.
    pub accesses: Range<u64>,
    /// Reuse distances.
    pub reused: Vec<u64>,
    /// Lines never touched again.
    pub dangling: u64,
}

impl Piece {
    /// Its samples as a profile.
    pub fn profile(&self, line_size: LineSize) -> ReuseProfile {
        let mut profile = ReuseProfile::new(line_size);
        self.record(&mut profile);
        profile
    }

    /// Adds its samples to a profile.
    pub fn record(&self, profile: &mut ReuseProfile) {
        for &distance in &self.reused {
            profile.record(Outcome::Reused(ReuseDistance(distance)), 1);
        }
        profile.record_many(Outcome::Dangling, self.dangling, 1);
    }

    /// How many accesses were chosen.
    pub fn samples(&self) -> u64 {
        self.reused.len() as u64 + self.dangling
    }
}

/// A sample that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    repetition: u32,
    piece: u32,
    started: u64,
    next: u32, // of the same line, or of the free ones
}

/// The repetitions.
#[derive(Debug)]
pub struct Repetitions {
    schedules: Vec<Schedule>,
    window: u64,                          // accesses, at least 1
    due: BinaryHeap<Reverse<(u64, u32)>>, // the next choice of each
    next: u64,                            // the first of them
    now: u64,
    ids: LineIds,
    heads: Vec<u32>, // of the open samples, by line
    open: Vec<Open>,
    free: u32,
    pieces: Vec<Vec<Piece>>, // by repetition
}

impl Repetitions {
    /// Repetitions of the samplers given, each with its seed. Bursts are divided where windows of so many accesses end.
    pub fn new(samplers: impl IntoIterator<Item = (Hierarchy, Spacing, u64)>, window: u64) -> Self {
        let schedule = |(hierarchy, spacing, seed)| Schedule::new(hierarchy, spacing, seed);
        let schedules: Vec<Schedule> = samplers.into_iter().map(schedule).collect();
        let due: BinaryHeap<_> =
            schedules.iter().enumerate().map(|(k, schedule)| Reverse((schedule.next(), k as u32))).collect();
        Self {
            next: due.peek().map_or(u64::MAX, |first| first.0.0),
            pieces: vec![Vec::new(); schedules.len()],
            schedules,
            window: window.max(1),
            due,
            now: 0,
            ids: LineIds::new(),
            heads: Vec::new(),
            open: Vec::new(),
            free: NONE,
        }
    }

    /// Accesses so far.
    pub const fn accesses(&self) -> u64 {
        self.now
    }

    /// Accesses `line`.
    #[inline]
    pub fn access(&mut self, line: Line) {
        let (id, first) = self.ids.id(line);
        if first {
            self.heads.push(NONE);
        } else if self.heads[id as usize] != NONE {
            self.end(id);
        }
        if self.now == self.next {
            self.start(id);
        }
        self.now += 1;
    }

    #[cold]
    fn end(&mut self, id: u32) {
        let mut at = std::mem::replace(&mut self.heads[id as usize], NONE);
        while at != NONE {
            let sample = &mut self.open[at as usize];
            let piece = &mut self.pieces[sample.repetition as usize][sample.piece as usize];
            piece.reused.push(self.now - sample.started - 1);
            let next = std::mem::replace(&mut sample.next, self.free);
            self.free = at;
            at = next;
        }
    }

    #[cold]
    fn start(&mut self, id: u32) {
        while let Some(&Reverse((at, repetition))) = self.due.peek() {
            if at != self.now {
                break;
            }
            self.due.pop();
            let schedule = &mut self.schedules[repetition as usize];
            let (burst, accesses) = schedule.burst();
            let pieces = &mut self.pieces[repetition as usize];
            if pieces.last().is_none_or(|last| last.burst != burst || last.accesses.end <= self.now) {
                let window = self.now / self.window * self.window;
                let accesses = accesses.start.max(window)..accesses.end.min(window + self.window);
                pieces.push(Piece { burst, accesses, ..Piece::default() });
            }
            let head = &mut self.heads[id as usize];
            let piece = pieces.len() as u32 - 1;
            let sample = Open { repetition, piece, started: self.now, next: *head };
            if self.free == NONE {
                *head = self.open.len() as u32;
                self.open.push(sample);
            } else {
                *head = self.free;
                self.free = std::mem::replace(&mut self.open[*head as usize], sample).next;
            }
            schedule.step();
            self.due.push(Reverse((schedule.next(), repetition)));
        }
        self.next = self.due.peek().map_or(u64::MAX, |first| first.0.0);
    }

    /// The pieces of each repetition, in order, each with a sample; what is open dangles. A burst that the end cut short
    /// is as long as it came to be.
    pub fn finish(mut self) -> Vec<Vec<Piece>> {
        for head in std::mem::take(&mut self.heads) {
            let mut at = head;
            while at != NONE {
                let sample = self.open[at as usize];
                self.pieces[sample.repetition as usize][sample.piece as usize].dangling += 1;
                at = sample.next;
            }
        }
        for piece in self.pieces.iter_mut().flatten() {
            piece.accesses.end = piece.accesses.end.min(self.now);
        }
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each repetition against the distances of the accesses that its schedule chooses, counted one by one.
    #[test]
    fn every_repetition_sees_what_it_would_see_alone() {
        let hierarchy = Hierarchy::new(50, 200, 20).unwrap();
        let mut state = 5_u64;
        let lines: Vec<Line> = (0..5_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                Line((state >> 40) % 37 * ((state >> 50) % 3))
            })
            .collect();
        let spacing = |seed| if seed < 4 { Spacing::Gaps } else { Spacing::Stretches };
        let mut repetitions = Repetitions::new((0..8).map(|seed| (hierarchy, spacing(seed), seed)), 40);
        for &line in &lines {
            repetitions.access(line);
        }
        for (seed, pieces) in repetitions.finish().into_iter().enumerate() {
            let mut schedule = Schedule::new(hierarchy, spacing(seed as u64), seed as u64);
            for piece in &pieces {
                let Range { start, end } = piece.accesses;
                assert!(start < end && start / 40 == (end - 1) / 40, "in one window: {piece:?}");
            }
            let follow = |two: &[Piece]| two[0].accesses.end <= two[1].accesses.start;
            assert!(pieces.windows(2).all(follow));
            let (mut expected, mut dangling) = (Vec::new(), 0);
            while let Some(&line) = lines.get(schedule.next() as usize) {
                let after = &lines[schedule.next() as usize + 1..];
                match after.iter().position(|&other| other == line) {
                    Some(distance) => expected.push(distance as u64),
                    None => dangling += 1,
                }
                schedule.step();
            }
            let mut found: Vec<u64> = pieces.iter().flat_map(|piece| piece.reused.iter().copied()).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(pieces.iter().map(|piece| piece.dangling).sum::<u64>(), dangling);
        }
    }
}
