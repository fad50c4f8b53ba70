//! How far it is from one sample to the next.

use super::random::Random;

/// When accesses are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// One in `mean` on average, each access with the same probability.
    Sparse {
        /// Mean gap, at least 1.
        mean: f64,
    },
    /// `samples` on average in each burst of `burst` accesses, bursts separated by exponential gaps of mean
    /// `hibernation`.
    Hierarchical {
        /// Accesses in a burst, at least `samples`.
        burst: u64,
        /// Mean gap between bursts.
        hibernation: u64,
        /// Mean number of samples in a burst, at least 1.
        samples: u64,
    },
}

impl Rate {
    /// How many accesses a sample stands for.
    #[must_use]
    pub fn weight(self) -> u64 {
        let mean = match self {
            Self::Sparse { mean } => mean,
            Self::Hierarchical { burst, hibernation, samples } => {
                (burst as f64 + hibernation as f64) / samples as f64
            }
        };
        (mean.round() as u64).max(1)
    }
}

/// What the logarithm of a uniform number is multiplied with to give a gap of this mean, 0 for a mean of 1.
fn scale_of(mean: f64) -> f64 {
    if mean <= 1.0 { 0.0 } else { 1.0 / (-1.0 / mean).ln_1p() }
}

/// A source of gaps.
#[derive(Clone, Debug)]
pub struct Gaps {
    rate: Rate,
    scale: f64,         // of the gaps between samples, those within a burst
    left_in_burst: u64, // Hierarchical only
    asleep: u64,        // hibernation still to come before the burst, Hierarchical only
    drawn: Vec<u64>,    // gaps to come, the next one last; Sparse only
}

/// Gaps drawn at a time. Between two of them the caches fill with the code of the program that is observed, and
/// the logarithm must be fetched from far away; so it is used often, seldom.
const DRAWN: usize = 64;

impl Gaps {
    /// Gaps at `rate`, starting at a random moment of the burst cycle.
    #[must_use]
    pub fn new(rate: Rate, random: &mut Random) -> Self {
        let (mut left_in_burst, mut asleep) = (0, 0);
        let scale = scale_of(match rate {
            Rate::Sparse { mean } => mean,
            Rate::Hierarchical { burst, samples, .. } => burst as f64 / samples as f64,
        });
        if let Rate::Hierarchical { burst, hibernation, .. } = rate {
            let cycle = burst as f64 + hibernation as f64;
            let position = random.unit() * cycle;
            if position <= burst as f64 {
                left_in_burst = (burst as f64 - position).round() as u64;
            } else {
                asleep = random.exponential(hibernation as f64);
                left_in_burst = burst;
            }
        }
        Self { rate, scale, left_in_burst, asleep, drawn: Vec::new() }
    }

    /// The rate the gaps follow.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Whether each access is chosen with the same probability, whatever was chosen before it. Between bursts
    /// no sample is started: that none was says nothing then.
    #[must_use]
    pub const fn is_uniform(&self) -> bool {
        matches!(self.rate, Rate::Sparse { .. })
    }

    /// Accesses from here to the next sample, at least 1 (1 is the very next access).
    pub fn next(&mut self, random: &mut Random) -> u64 {
        match self.rate {
            Rate::Sparse { .. } => self.drawn.pop().unwrap_or_else(|| {
                self.drawn.extend((0..DRAWN).map(|_| random.geometric(self.scale)));
                self.drawn.pop().unwrap_or(1)
            }),
            Rate::Hierarchical { burst, hibernation, .. } => {
                let mut passed = std::mem::take(&mut self.asleep);
                loop {
                    let gap = random.geometric(self.scale);
                    if gap <= self.left_in_burst {
                        self.left_in_burst -= gap;
                        return passed.saturating_add(gap);
                    }
                    let sleep = random.exponential(hibernation as f64);
                    passed = passed.saturating_add(self.left_in_burst).saturating_add(sleep);
                    self.left_in_burst = burst;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean of `n` gaps; the tolerance of the callers is five standard errors of an exponential mean.
    fn mean_gap(rate: Rate, n: u32) -> f64 {
        let mut random = Random::new(7, 0);
        let mut gaps = Gaps::new(rate, &mut random);
        let total: f64 = (0..n).map(|_| gaps.next(&mut random) as f64).sum();
        total / f64::from(n)
    }

    #[test]
    fn sparse_gaps_have_the_mean_asked_for() {
        for mean in [1.0, 1.5, 10.0, 1000.0, 1e6] {
            let found = mean_gap(Rate::Sparse { mean }, 100_000);
            assert!((found / mean - 1.0).abs() < 5.0 / 100_000_f64.sqrt(), "{mean}: {found}");
        }
    }

    #[test]
    fn sparse_gaps_are_memoryless() {
        // P(gap > k) = (1 - 1/mean)^k
        let mut random = Random::new(3, 1);
        let mut gaps = Gaps::new(Rate::Sparse { mean: 20.0 }, &mut random);
        let drawn: Vec<u64> = (0..200_000).map(|_| gaps.next(&mut random)).collect();
        for k in [1_u64, 5, 20, 60] {
            let found = drawn.iter().filter(|&&g| g > k).count() as f64 / 200_000.0;
            let expected = (1.0_f64 - 1.0 / 20.0).powi(k as i32);
            assert!(
                (found - expected).abs() < 5.0 * (0.25_f64 / 200_000.0).sqrt(),
                "{k}: {found} {expected}"
            );
        }
    }

    #[test]
    fn hierarchical_gaps_average_to_the_cycle_over_its_samples() {
        let rate = Rate::Hierarchical { burst: 10_000, hibernation: 90_000, samples: 50 };
        let found = mean_gap(rate, 200_000);
        // 4,000 bursts, each with a random number of samples and a random sleep: 5 / sqrt(4000) = 8 %.
        assert!((found / 2000.0 - 1.0).abs() < 0.08, "{found}");
        assert_eq!(rate.weight(), 2000);
    }
}
