//! A program's distribution of reuse distances, ready to be stretched: at full resolution, and at a coarse one
//! on which solutions are searched before they are polished.

use reuse_sampler::{
    DistanceMass, Evaluator, Outcome, Reuse, ReuseDistance, ReuseDistribution, ReuseProfile,
};

/// Relative width of a coarse piece.
const COARSE: f64 = 1.0 / 16.0;
/// Weight of all programs' accesses in a merged profile: large enough that the rounding of a weight to a whole
/// number stays below 1e-9 of any probability that matters, small enough that sums stay exact.
const WEIGHT: f64 = (1_u64 << 50) as f64;
/// Stretched distances below this are split between the two whole numbers around them.
const SPLIT_BELOW: f64 = 1024.0;

/// How finely a distribution is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    Coarse,
    Fine,
}

/// A distribution in pieces of increasing distance.
#[derive(Clone, Debug)]
pub struct Pieces {
    fine: Vec<DistanceMass>,
    coarse: Vec<DistanceMass>,
    endless: f64, // probability of dangling or unresolved, in [0, 1]
}

impl Pieces {
    pub fn new(distribution: &ReuseDistribution) -> Self {
        let mut fine = distribution.masses().to_vec();
        // What other threads take away misses whatever comes in between.
        let mut endless = distribution.dangling() + distribution.unresolved();
        for mass in &mut fine {
            mass.probability -= mass.invalidated;
            endless += std::mem::take(&mut mass.invalidated);
        }
        let mut coarse: Vec<DistanceMass> = Vec::with_capacity(fine.len().min(512));
        for &mass in &fine {
            match coarse.last_mut() {
                Some(last) if (mass.high as f64) < (last.low as f64) * (1.0 + COARSE) => {
                    last.high = mass.high;
                    last.probability += mass.probability;
                }
                _ => coarse.push(mass),
            }
        }
        Self { fine, coarse, endless }
    }

    pub fn fine(&self) -> &[DistanceMass] {
        &self.fine
    }

    const fn at(&self, resolution: Resolution) -> &Vec<DistanceMass> {
        match resolution {
            Resolution::Coarse => &self.coarse,
            Resolution::Fine => &self.fine,
        }
    }

    /// Adds the distribution to `merged` with its distances stretched, as `share` of all accesses.
    pub fn stretch_into(&self, merged: &mut ReuseProfile, resolution: Resolution, stretch: f64, share: f64) {
        let scale = share * WEIGHT;
        let mut add = |distance: u64, weight: f64| {
            merged.record(Outcome::Reused(ReuseDistance(distance)), nearest(weight));
        };
        for mass in self.at(resolution) {
            let distance = stretched(mass.middle(), stretch);
            let weight = mass.probability * scale;
            if distance < SPLIT_BELOW {
                let below = distance as u64;
                let part = distance - below as f64;
                add(below, weight * (1.0 - part));
                add(below + 1, weight * part);
            } else {
                add(nearest(distance), weight);
            }
        }
        merged.record(Outcome::Dangling, nearest(self.endless * scale));
    }

    /// Fraction of the accesses that miss, if each is as likely to as `at` says of its stretched distance.
    ///
    /// A piece counts as its middle, except where a model goes from hit to miss: there the place is looked for
    /// within the two pieces around it.
    pub fn miss_ratio(&self, resolution: Resolution, stretch: f64, at: &Evaluator<'_>) -> f64 {
        let masses = self.at(resolution);
        let mut reused = 0.0;
        let mut before = 0.0;
        for (k, mass) in masses.iter().enumerate() {
            let mut misses = probability(at, mass.middle(), stretch);
            if misses - before > 0.5 {
                if let Some(last) = k.checked_sub(1).map(|last| &masses[last]) {
                    reused += last.probability * (within(last, stretch, at) - before);
                }
                before = misses;
                misses = within(mass, stretch, at);
            } else {
                before = misses;
            }
            reused += mass.probability * misses;
        }
        if let Some(last) = masses.last().filter(|last| probability(at, last.high, stretch) - before > 0.5) {
            reused += last.probability * (within(last, stretch, at) - before);
        }
        (reused + self.endless).clamp(0.0, 1.0)
    }
}

/// The whole number nearest to a non-negative one.
fn nearest(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// A distance of r accesses as it appears among other programs' accesses, when there are `stretch` accesses
/// of all programs to one of this one.
///
/// r + 1 accesses of the own program after the first one ends the epoch, in which the others make
/// (r + 1) (stretch - 1): one more than the paper counts, whose r is not exact for short distances.
pub fn stretched(distance: u64, stretch: f64) -> f64 {
    (distance as f64 + 1.0) * stretch - 1.0
}

pub fn probability(at: &Evaluator<'_>, distance: u64, stretch: f64) -> f64 {
    at.miss_probability(Reuse::Distance(ReuseDistance(nearest(stretched(distance, stretch)))))
}

/// Mean miss probability over a piece, with the place where it goes from hit to miss, if that is in it.
fn within(mass: &DistanceMass, stretch: f64, at: &Evaluator<'_>) -> f64 {
    if mass.low == mass.high {
        return probability(at, mass.low, stretch);
    }
    let (first, last) = (probability(at, mass.low, stretch), probability(at, mass.high, stretch));
    if last - first < 0.5 {
        return if first == last { first } else { probability(at, mass.middle(), stretch) };
    }
    let half = f64::midpoint(first, last);
    let (mut hit, mut miss) = (mass.low, mass.high);
    while miss - hit > 1 {
        let middle = hit + (miss - hit) / 2;
        if probability(at, middle, stretch) < half {
            hit = middle;
        } else {
            miss = middle;
        }
    }
    let missing = (mass.high - miss) as f64 + 1.0;
    let width = (mass.high - mass.low) as f64 + 1.0;
    first + (last - first) * missing / width
}
