//! How likely a line is gone after so many accesses, and how that grows with the rate of replacement.

/// When evictions can hit a line between two touches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// In all the accesses between: the cache was full all along.
    Full,
    /// Only in those since the cache became full, `full_at` accesses into a run of `accesses`.
    Filled {
        /// Number of the access that filled it.
        full_at: f64, // in [0, accesses)
        /// Length of the run.
        accesses: f64,
    },
}

impl Law {
    /// Probability that a line not touched for `distance` accesses was evicted, at `rate` evictions of it per
    /// access, and the derivative of that by `rate`.
    ///
    /// It is 1 - exp(-rate m) with m the accesses in which it can be evicted: all of them, or those since the
    /// cache was full. In the second case it is the average over the moments of the run at which a line can
    /// be touched again after `distance` accesses.
    pub fn evicted(self, distance: f64, rate: f64) -> (f64, f64) {
        match self {
            Self::Full => {
                let survives = (-rate * distance).exp();
                (1.0 - survives, distance * survives)
            }
            Self::Filled { full_at, accesses } => {
                let distance = distance.min(accesses - 1.0).max(0.0);
                let after = accesses - full_at;
                // Moments at which all `distance` accesses came after the filling...
                let whole = (after - distance).max(0.0);
                let survives = (-rate * distance).exp();
                // ...and those at which some did: from `least` of them to `most`.
                let (least, most) = ((distance - full_at).max(0.0), distance.min(after));
                let ((a, a_slope), (b, b_slope)) = (ramp(rate * least), ramp(rate * most));
                let gone = whole * (1.0 - survives) + most * b - least * a;
                let slope = whole * distance * survives + most * most * b_slope - least * least * a_slope;
                let moments = accesses - distance;
                (gone / moments, slope / moments)
            }
        }
    }

    /// The share of the accesses with this reuse distance that come when the cache is full.
    pub fn share(self, distance: f64) -> f64 {
        match self {
            Self::Full => 1.0,
            Self::Filled { full_at, accesses } => {
                let distance = distance.min(accesses - 1.0).max(0.0);
                (accesses - full_at.max(distance)) / (accesses - distance)
            }
        }
    }
}

/// The average of 1 - exp(-x u) over u from 0 to 1, and its derivative by x.
fn ramp(x: f64) -> (f64, f64) {
    if x < 1e-3 {
        (x * (0.5 - x * (1.0 / 6.0 - x / 24.0)), 0.5 - x * (1.0 / 3.0 - x / 8.0))
    } else {
        let e = (-x).exp();
        let gone = 1.0 - e;
        (1.0 - gone / x, (gone - x * e) / (x * x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a sum over the moments of a run, and the derivative against differences.
    #[test]
    fn law_agrees_with_a_sum_over_moments() {
        for distance in [1.0_f64, 30.0, 400.0, 3000.0] {
            for rate in [1e-7_f64, 1e-5, 1e-3, 0.1] {
                for full_at in [100.0, 1000.0, 4500.0] {
                    let accesses = 5000.0;
                    let law = Law::Filled { full_at, accesses };
                    let steps = 20_000;
                    let (mut gone, mut full) = (0.0, 0);
                    for k in 0..steps {
                        let at = distance + (f64::from(k) + 0.5) * (accesses - distance) / f64::from(steps);
                        gone += 1.0 - (-rate * distance.min((at - full_at).max(0.0))).exp();
                        full += u32::from(at >= full_at);
                    }
                    let (found, slope) = law.evicted(distance, rate);
                    // Midpoint sums of 20,000 steps over a function with kinks.
                    assert!((found - gone / f64::from(steps)).abs() < 1e-4, "{distance} {rate} {full_at}");
                    assert!((law.share(distance) - f64::from(full) / f64::from(steps)).abs() < 1e-4);
                    let step = rate * 1e-4;
                    let difference =
                        law.evicted(distance, rate + step).0 - law.evicted(distance, rate - step).0;
                    let difference = difference / (2.0 * step);
                    assert!((slope - difference).abs() <= 1e-3 * slope.abs() + 1e-5, "{slope} {difference}");
                }
            }
        }
    }

    #[test]
    fn a_cache_full_from_the_beginning_of_a_long_run_is_full_all_along() {
        let law = Law::Filled { full_at: 0.0, accesses: 1e15 };
        for distance in [1.0, 1e3, 1e6] {
            let ((a, _), (b, _)) = (law.evicted(distance, 1e-4), Law::Full.evicted(distance, 1e-4));
            assert!((a - b).abs() < 1e-8, "{distance}: {a} {b}");
        }
    }
}
