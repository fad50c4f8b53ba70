//! What things cost, and what is to be minimised.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use crate::error::{Error, not_negative};
use crate::{Joules, Seconds, Watts};

/// Time and energy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cost {
    /// Time in seconds.
    pub time: Seconds,
    /// Energy in joules.
    pub energy: Joules,
}

impl Cost {
    /// Average power.
    #[must_use]
    pub fn power(&self) -> Watts {
        self.energy / self.time
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { time: self.time + other.time, energy: self.energy + other.energy }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

/// Number of a frequency of an analysis, from the slowest, 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Level(pub usize);

/// What is to be as small as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Objective {
    /// Energy.
    Energy,
    /// Energy times time: a compromise that gives one per cent of either for one of the other.
    Edp,
    /// Energy times time squared: time weighs twice.
    Ed2p,
}

impl Objective {
    /// Its value: `E t^n` with `n` = 0, 1 or 2.
    #[must_use]
    pub fn of(self, cost: Cost) -> f64 {
        let (energy, time) = (cost.energy.0, cost.time.0);
        match self {
            Self::Energy => energy,
            Self::Edp => energy * time,
            Self::Ed2p => energy * time * time,
        }
    }
}

/// What a change of frequency costs: the time for which the core stands still, and the energy of that.
pub type Transition = Cost;

/// What to optimise for, and what not to exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    objective: Objective,
    slowdown: f64, // >= 0, may be infinite
    margin: f64,   // >= 0
    transition: Transition,
}

impl Goal {
    /// The least of `objective`, however slow, with transitions that cost nothing.
    #[must_use]
    pub fn least(objective: Objective) -> Self {
        Self { objective, slowdown: f64::INFINITY, margin: 0.0, transition: Transition::default() }
    }

    /// No phase may take more than `slowdown` longer than at the highest frequency: 0.1 for ten per cent.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and not negative.
    pub fn within(mut self, slowdown: f64) -> Result<Self, Error> {
        self.slowdown = not_negative("the bound on slowdown", slowdown)?;
        Ok(self)
    }

    /// Allows for the error of predicted times: an analysis that was predicted keeps the bound in truth only if it
    /// keeps it with a margin. [`SlowdownErrors`](crate::performance::SlowdownErrors) measures the margin on the
    /// machine; 0 for costs that were measured themselves.
    ///
    /// # Formula
    /// The share of a phase's time that scales with the clock may be larger than predicted by `margin d`, with the mean
    /// `d` of the phase's [doubts](crate::performance::PerformanceModel::doubt), 1 for most models: a level is within the
    /// bound `b` if `t_l / t_fast - 1 + margin d (f_fast / f_l - 1) <= b`, or `f_fast / f_l - 1 <= b`: no more than all of
    /// it scales.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is finite and not negative.
    pub fn with_margin(mut self, margin: f64) -> Result<Self, Error> {
        self.margin = not_negative("the margin of the bound on slowdown", margin)?;
        Ok(self)
    }

    /// With the cost of each change of frequency.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless both parts are finite and not negative.
    pub fn with_transition(mut self, transition: Transition) -> Result<Self, Error> {
        not_negative("the time of a transition in seconds", transition.time.0)?;
        not_negative("the energy of a transition in joules", transition.energy.0)?;
        self.transition = transition;
        Ok(self)
    }

    /// What is minimised.
    #[must_use]
    pub const fn objective(&self) -> Objective {
        self.objective
    }

    /// Bound on the slowdown of each phase; infinite if there is none.
    #[must_use]
    pub const fn slowdown(&self) -> f64 {
        self.slowdown
    }

    /// Error of the share of time that scales with the clock, which the bound allows for.
    #[must_use]
    pub const fn margin(&self) -> f64 {
        self.margin
    }

    /// Cost of a change of frequency.
    #[must_use]
    pub const fn transition(&self) -> Transition {
        self.transition
    }
}
