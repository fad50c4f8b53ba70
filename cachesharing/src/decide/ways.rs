//! What a cache way more or less is worth to a program.

use crate::Program;
use crate::error::{Error, above_zero};

/// How a program's time changes with a little more or less of the cache.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WaySensitivity {
    /// Time of one pass with `bytes` of the cache.
    pub time: f64,
    /// Time with one way less over the time as it is; at least 1 but for noise.
    pub one_less: f64,
    /// Time with one way more over the time as it is; at most 1 but for noise.
    pub one_more: f64,
    /// The same per phase, with its share of the time: (share of the time, one less, one more), in the order of
    /// the program's phases.
    pub phases: Vec<(f64, f64, f64)>,
    /// Whether one of the sizes lies outside the measured ones.
    pub extrapolated: bool,
}

/// Compares a program that has `bytes` of the cache with itself after a way of `way` bytes is taken or given, as
/// cache partitioning (CAT) does.
///
/// For a program with co-runners, `bytes` is its share from [`Trajectory`](crate::Trajectory) or
/// [`Sharing`](crate::Sharing). A size below 0 counts as 0.
///
/// # Errors
/// [`Error::Value`] unless both sizes are finite and above 0.
pub fn way_sensitivity<P>(program: &Program<P>, bytes: f64, way: f64) -> Result<WaySensitivity, Error>
where
    P: Clone + Eq + std::hash::Hash,
{
    above_zero("a cache size", bytes)?;
    above_zero("the size of a way", way)?;
    let sizes = [bytes, (bytes - way).max(0.0), bytes + way];
    let mut phases = vec![[0.0; 3]; program.phases().len()];
    let mut extrapolated = false;
    for (work, phase, curve) in program.windows() {
        for (time, size) in phases[phase].iter_mut().zip(sizes) {
            *time += work * curve.cpi(size);
            extrapolated |= !curve.covers(size);
        }
    }
    let sum = |i: usize| phases.iter().map(|times| times[i]).sum::<f64>();
    let time = sum(0);
    // A phase without windows takes no time and is as it is.
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
    Ok(WaySensitivity {
        time,
        one_less: sum(1) / time,
        one_more: sum(2) / time,
        phases: phases.iter().map(|t| (t[0] / time, ratio(t[1], t[0]), ratio(t[2], t[0]))).collect(),
        extrapolated,
    })
}
