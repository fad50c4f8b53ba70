//! One window of a program: how far back its accesses reach, prepared for lookups in time.

use reuse_sampler::{Clock, LineSize, ReuseProfile};

use crate::{Error, WindowCpi};

/// One window of a program, profiled alone.
#[derive(Clone, Debug)]
pub struct ProfiledWindow {
    line_size: LineSize,
    all: Reach,   // of all touches of lines
    asked: Reach, // of the program's own, its accesses; the same unless lines are fetched ahead
    weight: f64,  // of all touches
    touches: f64, // for each access
    lines: f64,   // first touched in it
    cpi: WindowCpi,
    beyond_private: f64,  // accesses per access that private caches do not serve, in [0, 1]
    safe: f64,            // accesses back, at least 0, within which the model alone has every line stay
    safe_hits: f64,       // counted alone over those modelled, at least 0, of reuses within `safe`
    other_hits: f64,      // and of longer ones
    correction: f64,      // misses counted alone per access less those modelled, where the model has no hits
    far: Vec<(f64, f64)>, // reuses that private caches do not serve: accesses since the line was asked for, and part
}

/// Points that those are put together to, at most.
const POINTS: usize = 96;

#[derive(Clone, Copy, Debug)]
struct Step {
    low: f64,    // smallest and
    high: f64,   // largest number of accesses back, counting the access itself: distance + 1
    here: f64,   // probability of these
    longer: f64, // and of more, `endless` included
    area: f64,   // sum over shorter ones of number * probability
}

/// How far back accesses reach.
#[derive(Clone, Debug)]
struct Reach {
    steps: Vec<Step>, // by increasing distance
    endless: f64,     // probability of reaching back beyond the program's beginning, in [0, 1]
}

impl Reach {
    fn new(profile: &ReuseProfile) -> Result<Self, Error> {
        if profile.clock() != Clock::Accesses {
            return Err(Error::Clock { found: profile.clock() });
        }
        if profile.is_empty() {
            return Err(Error::EmptyProfile);
        }
        let distribution = profile.distribution();
        let endless = distribution.dangling() + distribution.invalidated() + distribution.unresolved();
        let mut steps: Vec<Step> = Vec::with_capacity(distribution.masses().len());
        let mut area = 0.0;
        for mass in distribution.masses() {
            let (low, high) = (mass.low as f64 + 1.0, mass.high as f64 + 1.0);
            steps.push(Step { low, high, here: mass.probability - mass.invalidated, longer: 0.0, area });
            area += (mass.probability - mass.invalidated) * f64::midpoint(low, high);
        }
        let mut longer = endless;
        for step in steps.iter_mut().rev() {
            step.longer = longer;
            longer += step.here;
        }
        Ok(Self { steps, endless })
    }

    /// Fraction of the accesses that reach back further than `n` accesses.
    fn beyond(&self, n: f64) -> f64 {
        let next = self.steps.partition_point(|step| step.high <= n);
        let Some(step) = self.steps.get(next) else { return self.endless };
        let width = step.high - step.low;
        let part = if n < step.low || width <= 0.0 { 1.0 } else { (step.high - n) / width };
        step.longer + step.here * part
    }

    /// Of `n` consecutive accesses, those that reach back beyond the first of them.
    fn beyond_the_first(&self, n: f64) -> f64 {
        let next = self.steps.partition_point(|step| step.middle() <= n);
        match self.steps.get(next) {
            Some(step) => step.area + n * (step.here + step.longer),
            None => {
                self.steps.last().map_or(0.0, |last| last.area + last.here * last.middle()) + n * self.endless
            }
        }
    }
}

impl Step {
    fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

impl ProfiledWindow {
    /// A window with this `profile`, which takes `cpi` cycles per instruction as a function of the misses per access:
    /// a [`LinearLatency`](crate::LinearLatency) or a [`MeasuredCpi`](crate::MeasuredCpi). The private hits of `cpi` never reach the shared cache.
    ///
    /// # Errors
    /// [`Error::EmptyProfile`]; [`Error::Clock`] unless distances count accesses.
    pub fn new(profile: &ReuseProfile, cpi: impl Into<WindowCpi>) -> Result<Self, Error> {
        let (all, cpi) = (Reach::new(profile)?, cpi.into());
        let (lines, beyond_private) = (profile.dangling_weight() as f64, 1.0 - cpi.private_hits());
        let far = far(&all.steps, cpi.private_hits());
        Ok(Self {
            line_size: profile.line_size(),
            far,
            asked: all.clone(),
            all,
            weight: profile.total_weight() as f64,
            touches: 1.0,
            lines,
            cpi,
            beyond_private,
            safe: 0.0,
            safe_hits: 1.0,
            other_hits: 1.0,
            correction: 0.0,
        })
    }

    /// The same where lines are fetched ahead: the profile that it was made of is one of all touches of lines, those that a
    /// prefetcher asks for ahead included, and `accesses` is the part of it that the program makes itself, of which alone
    /// misses are waited for. Distances of both go back to the last touch of either kind, and count the program's accesses.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::MixedLineSizes`].
    pub fn asking_for(mut self, accesses: &ReuseProfile) -> Result<Self, Error> {
        super::program::of_one_line_size([self.line_size, accesses.line_size()])?;
        self.asked = Reach::new(accesses)?;
        self.touches = self.weight / accesses.total_weight() as f64;
        self.far = far(&self.asked.steps, self.cpi.private_hits());
        Ok(self)
    }

    /// Line size it was profiled at.
    pub(super) const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// CPI as a function of the misses per access.
    pub(super) const fn cpi(&self) -> &WindowCpi {
        &self.cpi
    }

    /// Lines first touched in it.
    pub(super) const fn lines(&self) -> f64 {
        self.lines
    }

    /// Starts predictions from the misses per access that were `counted` alone where `modelled` are expected, and every line
    /// is expected to stay for `safe` accesses.
    ///
    /// As many more or fewer hits are expected of those that are left with co-runners. Reuses that the model is sure of alone
    /// hit as they are: of a loop that just does not fit and of which it has a part hit, the hits of a small table
    /// are not fewer for that.
    pub(super) fn start_from(&mut self, counted: f64, modelled: f64, safe: f64) {
        self.safe = safe;
        let counted_hits = (self.beyond_private - counted).max(0.0);
        let certain = self.hits(safe).0;
        let possible = (self.beyond_private - self.asked.endless).max(0.0) - certain;
        let uncertain = (self.beyond_private - modelled - certain).max(0.0);
        let rest = counted_hits - certain;
        (self.safe_hits, self.other_hits, self.correction) = if rest >= 0.0 && uncertain > 0.0 {
            (1.0, rest.min(possible.max(uncertain)) / uncertain, 0.0)
        } else if certain > 0.0 {
            (counted_hits / certain, 0.0, 0.0)
        } else {
            (1.0, 1.0, counted - modelled)
        };
    }

    /// Hits per access where lines stay for `n` accesses: of reuses within `safe`, and of longer ones.
    pub(super) fn hits(&self, n: f64) -> (f64, f64) {
        let within = |n: f64| (self.beyond_private - self.reaching_beyond(n)).max(0.0);
        let certain = within(n.min(self.safe));
        (certain, if n > self.safe { (within(n) - certain).max(0.0) } else { 0.0 })
    }

    /// Misses per access where the distribution gives these [hits](Self::hits).
    pub(super) fn misses(&self, (certain, others): (f64, f64)) -> f64 {
        let hits = certain * self.safe_hits + others * self.other_hits;
        (self.beyond_private - hits + self.correction).max(0.0).min(self.beyond_private)
    }

    /// Fraction of the accesses that reach back further than `n` accesses.
    fn reaching_beyond(&self, n: f64) -> f64 {
        self.asked.beyond(n)
    }

    /// Of `n` consecutive accesses of this window, those that reach back beyond the first of them: the
    /// different lines among them.
    pub(super) fn different_lines(&self, n: f64) -> f64 {
        self.touches * self.all.beyond_the_first(n)
    }

    /// Hits where the fraction `missing` of the accesses misses, whatever they reach back.
    pub(super) fn hits_without(&self, missing: f64) -> (f64, f64) {
        (0.0, (self.beyond_private - missing).max(0.0))
    }

    /// Fraction of the accesses that miss where one for a line that the shared cache was asked for `n` accesses ago misses
    /// with probability `misses(n)`.
    pub(super) fn missing(&self, misses: impl Fn(f64) -> f64) -> f64 {
        self.asked.endless + self.far.iter().map(|&(n, part)| part * misses(n)).sum::<f64>()
    }
}

/// Accesses since the shared cache was asked for the line, and part of all, of reuses that private caches do not serve: those
/// that reach back furthest. Before them the private caches served the line for as long, on average, as the other reuses last.
fn far(steps: &[Step], private: f64) -> Vec<(f64, f64)> {
    let (mut left, mut near) = (private, 0.0);
    let mut far: Vec<(f64, f64)> = Vec::with_capacity(steps.len());
    for step in steps {
        let served = left.min(step.here);
        left -= served;
        near += served * step.middle();
        if step.here > served {
            far.push((step.middle(), step.here - served));
        }
    }
    let there = near / (1.0 - private);
    let gathered = |chunk: &[(f64, f64)]| {
        let part: f64 = chunk.iter().map(|far| far.1).sum();
        (there + chunk.iter().map(|far| far.0 * far.1).sum::<f64>() / part, part)
    };
    far.chunks(far.len().div_ceil(POINTS).max(1)).map(gathered).collect()
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{LineSize, Outcome, ReuseDistance};

    use super::*;
    use crate::LinearLatency;

    fn window(distances: &[u64], dangling: u64) -> ProfiledWindow {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for &distance in distances {
            profile.record(Outcome::Reused(ReuseDistance(distance)), 1);
        }
        profile.record(Outcome::Dangling, dangling);
        ProfiledWindow::new(&profile, LinearLatency::new(1.0, 1.0, &[], 10.0, 130.0).unwrap()).unwrap()
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
            assert!((window.missing(step) - beyond / 10.0).abs() < 1e-12, "{n}");
        }
    }

    #[test]
    fn what_private_caches_serve_does_not_miss() {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for distance in [3, 3, 3, 3, 3, 3, 9, 499, 999] {
            profile.record(Outcome::Reused(ReuseDistance(distance)), 1);
        }
        profile.record(Outcome::Dangling, 1);
        let served = crate::PrivateLevel { hit_ratio: 0.7, latency: 1.0 };
        let cpi = LinearLatency::new(1.0, 1.0, &[served], 10.0, 130.0).unwrap();
        let window = ProfiledWindow::new(&profile, cpi).unwrap();
        // Three of ten get past them: the first touch and two reuses, 34 accesses in three later than the access before.
        let since = 34.0 / 3.0;
        for (n, expected) in
            [(0.0, 0.3), (499.9 + since, 0.3), (500.1 + since, 0.2), (999.9 + since, 0.2), (1e9, 0.1)]
        {
            let missing = window.missing(|back| if back > n { 1.0 } else { 0.0 });
            assert!((missing - expected).abs() < 1e-9, "{n}: {missing}");
        }
    }

    #[test]
    fn safe_hits_stay_where_a_loop_beside_them_was_modelled_wrong() {
        // A table that is used again after 10 accesses, and a loop of 1,000 that the model has half of hit alone.
        let mut window = window(&[9, 9, 999, 999], 0);
        let modelled = |window: &ProfiledWindow, stays: f64| {
            let (short, long) = (window.hits(500.0), window.hits(2_000.0));
            let mean = |short: f64, long: f64| short + stays * (long - short);
            window.misses((mean(short.0, long.0), mean(short.1, long.1)))
        };
        for (counted, alone, next_to_others) in
            [(0.5, 0.5, 0.5), (0.25, 0.25, 0.5), (0.0, 0.0, 0.5), (0.6, 0.6, 0.6)]
        {
            window.start_from(counted, 0.25, 100.0);
            assert!((modelled(&window, 0.5) - alone).abs() < 1e-12, "{counted}");
            assert!((modelled(&window, 0.0) - next_to_others).abs() < 1e-12, "{counted}");
        }
    }
}
