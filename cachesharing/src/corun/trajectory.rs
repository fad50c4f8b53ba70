//! What each program does over the course of a run: CPI, share of the cache, bandwidth (the paper's figure IV.8).

use std::hash::Hash;

use super::{CoRun, Step, Until};
use crate::SharingModel;
#[cfg(feature = "serde")]
use crate::error::finite;
use crate::error::{Error, above_zero};

/// A run, recorded.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Saved"))]
pub struct Trajectory {
    programs: usize,
    starts: Vec<f64>,   // of each step
    times: Vec<f64>,    // of each step
    points: Vec<Point>, // programs points per step
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Point {
    phase: usize,
    cpi: f64,
    bytes: f64,
    bandwidth: f64,
}

/// A run as it is read: not yet known to have every program in every step.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved {
    programs: usize,
    starts: Vec<f64>,
    times: Vec<f64>,
    points: Vec<Point>,
}

#[cfg(feature = "serde")]
impl TryFrom<Saved> for Trajectory {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { programs, starts, times, points } = saved;
        if starts.len() != times.len() {
            return Err(Error::Count {
                what: "starts of steps",
                count: starts.len(),
                remedy: "one for each time",
            });
        }
        if programs.checked_mul(times.len()) != Some(points.len()) {
            let (what, count) = ("points of a trajectory", points.len());
            return Err(Error::Count { what, count, remedy: "one for each program in each step" });
        }
        for &time in &times {
            above_zero("the time of a step", time)?;
        }
        for point in &points {
            above_zero("a time per unit of work", point.cpi)?;
            finite("bytes of the cache", point.bytes)?;
            finite("a bandwidth", point.bandwidth)?;
        }
        for &start in &starts {
            finite("the start of a step", start)?;
        }
        Ok(Self { programs, starts, times, points })
    }
}

/// Averages over one stretch of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TrajectoryBin {
    /// Where it begins: time, or work of the program it is cut by.
    pub start: f64,
    /// Time that passes in it.
    pub time: f64,
    /// Work that the program does in it.
    pub work: f64,
    /// Mean bytes of the cache over time.
    pub bytes: f64,
    /// Mean bytes fetched from memory per unit of time.
    pub bandwidth: f64,
}

impl TrajectoryBin {
    /// Time per unit of work; infinite where no work is done.
    #[must_use]
    pub fn cpi(&self) -> f64 {
        self.time / self.work
    }

    /// Work per unit of time; not a number for a bin of no time.
    #[must_use]
    pub fn ipc(&self) -> f64 {
        self.work / self.time
    }
}

/// A narrow bin on a long run must not take all of the memory.
const BINS_AT_MOST: usize = 1 << 22;

impl Trajectory {
    /// Records a run.
    pub fn record<P: Clone + Eq + Hash, M: SharingModel>(
        run: &CoRun<'_, P, M>,
        offsets: &[f64],
        until: Until,
    ) -> Self {
        let mut trajectory = Self { programs: run.programs().len(), ..Self::default() };
        run.run(offsets, until, |step: &Step<'_>| {
            trajectory.starts.push(step.start);
            trajectory.times.push(step.time);
            trajectory.points.extend(step.phases.iter().zip(step.shares).map(|(&phase, share)| Point {
                phase,
                cpi: share.cpi,
                bytes: share.bytes,
                bandwidth: share.bandwidth,
            }));
        });
        trajectory
    }

    /// Time of the whole run.
    #[must_use]
    pub fn time(&self) -> f64 {
        self.times.iter().sum()
    }

    /// Number of programs.
    #[must_use]
    pub const fn programs(&self) -> usize {
        self.programs
    }

    /// The steps of one program: start, time, number of its phase. Empty if there is no such program.
    pub fn phases(&self, program: usize) -> impl Iterator<Item = (f64, f64, usize)> + '_ {
        let steps = self.starts.iter().zip(&self.times).enumerate();
        steps.filter_map(move |(step, (&start, &time))| Some((start, time, self.point(step, program)?.phase)))
    }

    /// One program over time, in bins of `width`; the last may be shorter.
    ///
    /// # Errors
    /// [`Error::Value`] unless `width` is finite and above 0; [`Error::Index`] if there is no such program;
    /// [`Error::Count`] for more than 4,194,304 bins.
    pub fn over_time(&self, program: usize, width: f64) -> Result<Vec<TrajectoryBin>, Error> {
        self.bins(program, width, |_| 1.0)
    }

    /// One program over its own work, in bins of `width`: with the work of its windows, a bin is a window. The
    /// last may be shorter.
    ///
    /// # Errors
    /// As [`over_time`](Self::over_time).
    pub fn over_work(&self, program: usize, width: f64) -> Result<Vec<TrajectoryBin>, Error> {
        self.bins(program, width, |point| 1.0 / point.cpi)
    }

    /// Bins along an axis that advances by `speed` per unit of time.
    fn bins(
        &self,
        program: usize,
        width: f64,
        speed: impl Fn(&Point) -> f64,
    ) -> Result<Vec<TrajectoryBin>, Error> {
        above_zero("the width of a bin", width)?;
        if program >= self.programs {
            return Err(Error::Index { what: "program", index: program, count: self.programs });
        }
        let steps = self.times.iter().enumerate();
        let axis: f64 =
            steps.filter_map(|(step, time)| self.point(step, program).map(|point| time * speed(point))).sum();
        if axis > width * BINS_AT_MOST as f64 {
            let count = (axis / width) as usize;
            return Err(Error::Count { what: "bins", count, remedy: "at most 4,194,304: make them wider" });
        }
        let mut bins: Vec<TrajectoryBin> = Vec::new();
        let mut bin = TrajectoryBin::default();
        let mut room = width;
        for (step, &step_time) in self.times.iter().enumerate() {
            let Some(point) = self.point(step, program) else { continue };
            let speed = speed(point);
            let mut left = step_time * speed;
            while left > 0.0 {
                let taken = left.min(room);
                let time = taken / speed;
                bin.time += time;
                bin.work += time / point.cpi;
                bin.bytes += point.bytes * time;
                bin.bandwidth += point.bandwidth * time;
                left -= taken;
                room -= taken;
                if room <= 1e-9 * width {
                    bins.push(finished(bin));
                    bin = TrajectoryBin { start: bins.len() as f64 * width, ..TrajectoryBin::default() };
                    room = width;
                }
            }
        }
        // A remainder of rounding is not a bin.
        if width - room > 1e-6 * width {
            bins.push(finished(bin));
        }
        Ok(bins)
    }

    fn point(&self, step: usize, program: usize) -> Option<&Point> {
        if program < self.programs { self.points.get(step * self.programs + program) } else { None }
    }
}

fn finished(mut bin: TrajectoryBin) -> TrajectoryBin {
    bin.bytes /= bin.time;
    bin.bandwidth /= bin.time;
    bin
}
