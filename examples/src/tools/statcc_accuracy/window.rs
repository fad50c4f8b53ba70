//! One window of a program: how far back its accesses reach, ready for the questions that are asked in time.

use reuse_sampler::ReuseDistribution;

/// Distribution of reuse distances in a form that answers in logarithmic time.
#[derive(Clone, Debug)]
pub struct Window {
    steps: Vec<Step>, // by increasing distance
    endless: f64,     // probability of reaching back beyond the program's beginning, in [0, 1]
    /// Fraction of the accesses that the private cache does not serve, in [0, 1].
    pub beyond_private: f64,
    /// Misses per access that were counted alone, less those that the distribution gives for that.
    pub correction: f64,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    low: f64,    // smallest and
    high: f64,   // largest number of accesses back, counting the access itself: distance + 1
    here: f64,   // probability of these
    longer: f64, // and of more, `endless` included
    area: f64,   // sum over shorter ones of number * probability
}

impl Step {
    fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

impl Window {
    /// A window whose accesses reach back as `distribution` says, of which private caches leave
    /// `beyond_private` to the shared one.
    #[must_use]
    pub fn new(distribution: &ReuseDistribution, beyond_private: f64) -> Self {
        let endless = distribution.dangling() + distribution.unresolved();
        let mut steps: Vec<Step> = Vec::with_capacity(distribution.masses().len());
        let mut area = 0.0;
        for mass in distribution.masses() {
            let (low, high) = (mass.low as f64 + 1.0, mass.high as f64 + 1.0);
            steps.push(Step { low, high, here: mass.probability, longer: 0.0, area });
            area += mass.probability * f64::midpoint(low, high);
        }
        let mut longer = endless;
        for step in steps.iter_mut().rev() {
            step.longer = longer;
            longer += step.here;
        }
        Self { steps, endless, beyond_private, correction: 0.0 }
    }

    /// Fraction of the accesses that reach back further than `n` accesses.
    #[must_use]
    pub fn reaching_beyond(&self, n: f64) -> f64 {
        let next = self.steps.partition_point(|step| step.high <= n);
        let Some(step) = self.steps.get(next) else { return self.endless };
        let width = step.high - step.low;
        let part = if n < step.low || width <= 0.0 { 1.0 } else { (step.high - n) / width };
        step.longer + step.here * part
    }

    /// Of `n` consecutive accesses of this window, those that reach back beyond the first of them: the
    /// different lines among them.
    #[must_use]
    pub fn different_lines(&self, n: f64) -> f64 {
        let next = self.steps.partition_point(|step| step.middle() <= n);
        match self.steps.get(next) {
            Some(step) => step.area + n * (step.here + step.longer),
            None => {
                self.steps.last().map_or(0.0, |last| last.area + last.here * last.middle()) + n * self.endless
            }
        }
    }

    /// Fraction of the accesses that miss where one that reaches back `n` accesses misses with probability
    /// `misses(n)`, at no more than `points` of the distribution.
    pub fn missing(&self, points: usize, misses: impl Fn(f64) -> f64) -> f64 {
        let mut sum = self.endless;
        for chunk in self.steps.chunks(self.steps.len().div_ceil(points.max(1)).max(1)) {
            let here: f64 = chunk.iter().map(|step| step.here).sum();
            let area: f64 = chunk.iter().map(|step| step.here * step.middle()).sum();
            if here > 0.0 {
                sum += here * misses(area / here);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};

    use super::*;

    fn window(distances: &[u64], dangling: u64) -> Window {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for &distance in distances {
            profile.record(Outcome::Reused(ReuseDistance(distance)), 1);
        }
        profile.record(Outcome::Dangling, dangling);
        Window::new(&profile.distribution(), 1.0)
    }

    #[test]
    fn sums_are_those_over_all_accesses() {
        let distances = [0, 0, 1, 3, 3, 7, 40, 200];
        let window = window(&distances, 2);
        for n in 0..300_u64 {
            let beyond = distances.iter().filter(|&&d| d >= n).count() as f64 + 2.0;
            assert!((window.reaching_beyond(n as f64) - beyond / 10.0).abs() < 1e-12, "{n}");
            // An access that is the j-th of n reaches out if its distance is j - 1 or more.
            let lines: f64 =
                (0..n).map(|j| (distances.iter().filter(|&&d| d >= j).count() as f64 + 2.0) / 10.0).sum();
            assert!((window.different_lines(n as f64) - lines).abs() < 1e-9, "{n}");
            let step = |back: f64| if back > n as f64 { 1.0 } else { 0.0 };
            assert!((window.missing(100, step) - beyond / 10.0).abs() < 1e-12, "{n}");
        }
    }
}
