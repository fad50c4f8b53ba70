//! Miss probabilities at one cache size, tabulated: a single answer costs a look-up.

use reuse_sampler::ReuseDistance;

/// Grid points per octave of the distance.
const PER_OCTAVE: u64 = 32;
const OCTAVE_BITS: u32 = PER_OCTAVE.trailing_zeros();

/// By how much an interpolation may err; laws of [`CacheModel`] allow it. Between points further apart than this the law may
/// have a step, and where it is half as far from the straight line halfway, a kink: there it is asked itself.
///
/// [`CacheModel`]: reuse_sampler::CacheModel
const STEEP: f64 = 2e-3;

/// Probabilities on a grid: exact below 64, then 32 points to an octave with straight lines in between.
#[derive(Clone, Debug)]
pub struct Prepared {
    start: usize,            // grid index of the first entry; 0 below
    probabilities: Vec<f64>, // 1 beyond
    bent: Vec<bool>,         // whether the law is to be asked between a point and the next
}

impl Prepared {
    /// Tabulates `law`, which is 0 below `from` and 1 from some distance on. It does not fall from `rises_from` on.
    pub fn new(from: u64, rises_from: u64, law: impl Fn(u64) -> f64) -> Self {
        let start = index_of(from);
        let (mut probabilities, mut bent) = (Vec::new(), Vec::new());
        let mut ones = 0;
        for index in start.. {
            let Some(distance) = distance_of(index) else { break };
            let probability = if distance < from { 0.0 } else { law(distance) };
            if let Some(&before) = probabilities.last() {
                bent.push(is_bent(
                    index - 1,
                    before,
                    probability,
                    |at| if at < from { 0.0 } else { law(at) },
                ));
            }
            probabilities.push(probability);
            // A whole octave of certain misses: it stays so.
            ones = if probability > 1.0 - 1e-9 && distance >= rises_from { ones + 1 } else { 0 };
            if ones > PER_OCTAVE {
                break;
            }
        }
        bent.push(probabilities.last().is_some_and(|&last| 1.0 - last > STEEP)); // no point after the largest
        Self { start, probabilities, bent }
    }

    /// Probability that an access of this reuse distance misses; `law` is the one that was tabulated.
    #[inline]
    pub fn at(&self, distance: ReuseDistance, law: impl Fn(u64) -> f64) -> f64 {
        let index = index_of(distance.0);
        let Some(k) = index.checked_sub(self.start) else { return 0.0 };
        let Some(&low) = self.probabilities.get(k) else { return 1.0 };
        let within = distance.0 - distance_of(index).unwrap_or(distance.0);
        if within == 0 {
            return low;
        }
        if self.bent.get(k).is_some_and(|&bent| bent) {
            return law(distance.0);
        }
        let high = self.probabilities.get(k + 1).copied().unwrap_or(1.0);
        low + (high - low) * (within as f64 / step_at(distance.0) as f64)
    }
}

/// Whether a straight line from `low`, at a grid point, to `high`, at the next one, is too far from `law`. One kink is at most
/// twice as far away as the law is halfway.
fn is_bent(index: usize, low: f64, high: f64, law: impl Fn(u64) -> f64) -> bool {
    let Some(point) = distance_of(index) else { return false };
    let step = step_at(point);
    step > 1
        && ((high - low).abs() > STEEP || (law(point + step / 2) - 0.5 * (low + high)).abs() > 0.5 * STEEP)
}

/// The last grid point at or below `distance`.
#[inline]
fn index_of(distance: u64) -> usize {
    if distance < 2 * PER_OCTAVE {
        return distance as usize;
    }
    let octave = distance.ilog2();
    (u64::from(octave - OCTAVE_BITS) * PER_OCTAVE + (distance >> (octave - OCTAVE_BITS))) as usize
}

#[inline]
fn step_at(distance: u64) -> u64 {
    if distance < 2 * PER_OCTAVE { 1 } else { 1 << (distance.ilog2() - OCTAVE_BITS) }
}

/// The distance of a grid point; `None` beyond the largest distance.
#[inline]
fn distance_of(index: usize) -> Option<u64> {
    let index = index as u64;
    if index < 2 * PER_OCTAVE {
        return Some(index);
    }
    let octaves = index / PER_OCTAVE - 1;
    (octaves + u64::from(OCTAVE_BITS) < 64).then(|| (index % PER_OCTAVE + PER_OCTAVE) << octaves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_points_ascend_to_the_largest_distance() {
        let mut before = None;
        let mut index = 0;
        while let Some(distance) = distance_of(index) {
            assert_eq!(index_of(distance), index);
            assert!(before < Some(distance));
            if let Some(below) = before {
                assert_eq!(index_of(distance - 1), index - 1);
                assert_eq!(below + step_at(below), distance);
            }
            before = Some(distance);
            index += 1;
        }
        assert_eq!(index_of(u64::MAX), index - 1);
    }

    /// A step is where the law has it, wherever the grid points are.
    #[test]
    fn keeps_steps() {
        for step in [70, 1001, 123_457] {
            let law = |distance: u64| if distance < step { 0.0 } else { 1.0 };
            let prepared = Prepared::new(10, 0, law);
            for distance in step - 5..step + 5 {
                assert_eq!(prepared.at(ReuseDistance(distance), law), law(distance), "{distance}");
            }
        }
    }

    /// A law that falls and rises again between two grid points.
    #[test]
    fn keeps_kinks() {
        for kink in [1025, 1029, 1040, 123_457] {
            let law = |distance: u64| (0.9 + 1e-4 * distance.abs_diff(kink) as f64).min(1.0);
            let prepared = Prepared::new(10, kink, law);
            for distance in kink - 100..kink + 100 {
                let (found, expected) = (prepared.at(ReuseDistance(distance), law), law(distance));
                assert!((found - expected).abs() <= STEEP, "{distance}: {found} {expected}");
            }
        }
    }

    /// A smooth law is met within what its curvature makes of a thirty-second of an octave.
    #[test]
    fn interpolates() {
        let law = |distance: u64| 1.0 - (-(distance as f64 - 100.0) / 3000.0).exp();
        let prepared = Prepared::new(100, 0, law);
        for distance in [0, 50, 99, 100, 101, 150, 333, 1000, 12_345, 40_000, 1 << 40, u64::MAX] {
            let expected = if distance < 100 { 0.0 } else { law(distance) };
            let found = prepared.at(ReuseDistance(distance), law);
            assert!((found - expected).abs() < 1e-3, "{distance}: {found} {expected}");
        }
    }
}
