//! One stable state, as a model found it.

use super::Start;
use crate::curve::{Lookup, Met};
#[cfg(feature = "serde")]
use crate::error::{Error, above_zero, not_negative};
use crate::{CacheCurve, SharedCache};

/// What one program has of the cache. Two are equal if their public values are.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Saved"))]
pub struct Allocation {
    /// Bytes of the cache.
    pub bytes: f64,
    /// Those of them that the program uses again before they are old enough to be evicted; the rest is on its
    /// way out.
    pub sticky_bytes: f64,
    /// Time per memory access, waiting for memory included.
    pub time: f64,
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) waiting: f64, // part of the time that memory serves others
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) at: Lookup,
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) met: Option<Met>, // where reuse times are known
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) by_curve: Option<f64>, // the time per access by the curves alone, where reuse times are known
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) assumed: f64, // time per access that led to these bytes
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) before: (f64, f64), // logarithms of what was assumed a round ago and of the excess
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) excess: f64, // of the time that followed over the assumed one, relative, a round ago
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) accesses: f64, // in which the program, alone, fills these bytes
}

impl PartialEq for Allocation {
    fn eq(&self, other: &Self) -> bool {
        let answer = |a: &Self| (a.bytes, a.sticky_bytes, a.time);
        answer(self) == answer(other)
    }
}

/// An allocation as it is read: not yet known to be one.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    bytes: f64,
    sticky_bytes: f64,
    time: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Allocation {
    type Error = Error;

    fn try_from(Saved { bytes, sticky_bytes, time }: Saved) -> Result<Self, Error> {
        for (what, value) in [("an allocation in bytes", bytes), ("sticky bytes", sticky_bytes)] {
            not_negative(what, value)?;
        }
        above_zero("a time per access", time)?;
        Ok(Self { bytes, sticky_bytes, time, ..Self::default() })
    }
}

/// How programs divide a cache when nothing changes any more.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "SavedSolution"))]
#[non_exhaustive]
pub struct Solution {
    /// Per program what it has, in the order of the curves.
    pub allocations: Vec<Allocation>,
    /// Time after which a line not used again is evicted, where the model has one.
    pub age: Option<f64>,
    /// Largest relative difference between the time per access that was assumed of a program and the one that
    /// followed: 0 where the answer agrees with itself.
    pub residual: f64,
    /// Rounds it took.
    pub rounds: u32,
}

/// A solution as it is read: its numbers are not yet known to be any.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct SavedSolution {
    allocations: Vec<Allocation>,
    age: Option<f64>,
    residual: f64,
    rounds: u32,
}

#[cfg(feature = "serde")]
impl TryFrom<SavedSolution> for Solution {
    type Error = Error;

    fn try_from(saved: SavedSolution) -> Result<Self, Error> {
        let SavedSolution { allocations, age, residual, rounds } = saved;
        if let Some(age) = age {
            not_negative("an eviction age", age)?;
        }
        not_negative("a residual", residual)?;
        Ok(Self { allocations, age, residual, rounds })
    }
}

/// How far [`relax`](Solution::relax) goes, as an exponent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    now: f64,     // in [SMALLEST_STEP, largest]
    largest: f64, // below the last one at which a program swung
}

impl Default for Step {
    fn default() -> Self {
        Self { now: FIRST_STEP, largest: LARGEST_STEP }
    }
}

const FIRST_STEP: f64 = 0.5;
const SMALLEST_STEP: f64 = 0.01;
const LARGEST_STEP: f64 = 4.0;
/// Residual below which the same direction again means that larger steps are due.
const CREEPING: f64 = 0.05;

impl Solution {
    /// One allocation for each curve, as fast as `start` says.
    pub(super) fn begin(&mut self, cache: &SharedCache, curves: &[&CacheCurve], start: Start) {
        self.allocations.resize(curves.len(), Allocation::default());
        for (i, (a, curve)) in self.allocations.iter_mut().zip(curves).enumerate() {
            let bytes = match start {
                Start::Fast => cache.bytes(),
                Start::Favouring(favoured) if favoured == i => cache.bytes(),
                Start::Slow | Start::Favouring(_) => 0.0,
                Start::Held => a.bytes.clamp(0.0, cache.bytes()),
            };
            let mut at = Lookup::default();
            curve.filling().at(bytes, &mut at);
            *a = Allocation { time: at.time, assumed: at.time, at, ..Allocation::default() };
        }
        self.age = None;
        self.residual = f64::INFINITY;
        self.rounds = 0;
    }

    /// Sets the residual from what was assumed and what followed, and assumes where the two would agree if this round and
    /// the one `before`, if there was one, lay on a straight line (Anderson's mixing of depth 1, of logarithms).
    pub(super) fn mix(&mut self, before: bool) {
        let (mut along, mut length) = (0.0, 0.0);
        self.residual = 0.0;
        for a in &self.allocations {
            let ratio = a.time / a.assumed;
            self.residual = self.residual.max((ratio - 1.0).abs());
            let excess = ratio.ln();
            let turn = excess - a.before.1;
            along += excess * turn;
            length += turn * turn;
        }
        let back = if before && length > 0.0 { (along / length).clamp(-2.0, 0.8) } else { 0.0 };
        for a in &mut self.allocations {
            let (assumed, excess) = (a.assumed.ln(), (a.time / a.assumed).ln());
            let next = assumed + excess;
            let next = next - back * (next - a.before.0 - a.before.1);
            a.before = (assumed, excess);
            a.assumed = next.exp();
        }
    }

    /// Sets the residual from what was assumed and what followed, and assumes a value between the two.
    ///
    /// # Formula
    /// `w <- w (w' / w)^step`, with a step of a half that shrinks whenever a program is found to swing (where its
    /// time falls steeply with its size, half way is too far) and grows while all creep one way.
    pub(super) fn relax(&mut self, step: &mut Step) {
        // A program that is all but settled may swing as it likes.
        let matters = 0.3 * self.residual;
        self.residual = 0.0;
        let mut swings = false;
        for a in &mut self.allocations {
            let excess = a.time / a.assumed - 1.0;
            self.residual = self.residual.max(excess.abs());
            swings |=
                excess * a.excess < 0.0 && a.excess.abs() > matters && excess.abs() > 0.5 * a.excess.abs();
            a.excess = excess;
        }
        if swings {
            step.largest = (step.now * 0.8).max(SMALLEST_STEP);
            step.now = (step.now * 0.5).max(SMALLEST_STEP);
        } else if self.residual < CREEPING || step.now < FIRST_STEP {
            step.now = (step.now * 1.3).min(step.largest);
        }
        for a in &mut self.allocations {
            let ratio = 1.0 + a.excess;
            a.assumed *= if step.now == FIRST_STEP { ratio.sqrt() } else { ratio.powf(step.now) };
        }
    }
}
