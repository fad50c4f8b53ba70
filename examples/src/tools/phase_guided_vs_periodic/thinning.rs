//! What a sampler sees of a window: a random part of its accesses.

use rand::{Rng, RngExt};
use reuse_sampler::Outcome;

/// Chooses each of the accesses that `reuse` counts with probability 1 / `gap`, and counts what became of those that
/// were chosen: the outcomes that [`ReusePlan::Sparse`](reuse_sampler::ReusePlan::Sparse) leads to if every sample is
/// followed to its end, in distribution exactly. A `gap` of at most 1 chooses all.
pub fn thin(reuse: &[(Outcome, u64)], gap: f64, random: &mut impl Rng) -> Vec<(Outcome, u64)> {
    if gap <= 1.0 {
        return reuse.iter().copied().filter(|&(_, count)| count > 0).collect();
    }
    let scale = 1.0 / (-1.0 / gap).ln_1p();
    // Failures before the next success of probability 1 / gap.
    let mut skip = || ((1.0 - random.random::<f64>()).ln() * scale) as u64;
    let mut chosen = Vec::new();
    let mut next = skip();
    for &(outcome, count) in reuse {
        let mut found = 0;
        while next < count {
            found += 1;
            next = next.saturating_add(1).saturating_add(skip());
        }
        next -= count;
        if found > 0 {
            chosen.push((outcome, found));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use reuse_sampler::ReuseDistance;

    use super::*;

    #[test]
    fn each_access_has_the_same_chance() {
        let reuse: Vec<_> = (0..50).map(|d| (Outcome::Reused(ReuseDistance(d)), 1 + d * d)).collect();
        let mut random = StdRng::seed_from_u64(1);
        let mut sums = [0_u64; 50];
        for _ in 0..2_000 {
            for (outcome, count) in thin(&reuse, 10.0, &mut random) {
                let Outcome::Reused(distance) = outcome else { panic!("{outcome:?}") };
                sums[distance.0 as usize] += count;
            }
        }
        for (&(_, count), found) in reuse.iter().zip(sums) {
            // A binomial: five standard deviations.
            let (mean, sd) = (2_000.0 * count as f64 / 10.0, (2_000.0 * count as f64 * 0.09).sqrt());
            assert!((found as f64 - mean).abs() < 5.0 * sd, "{found} {mean}");
        }
    }

    #[test]
    fn a_gap_of_one_chooses_everything() {
        let reuse = [(Outcome::Dangling, 3), (Outcome::Reused(ReuseDistance(0)), 0)];
        assert_eq!(thin(&reuse, 1.0, &mut StdRng::seed_from_u64(0)), [(Outcome::Dangling, 3)]);
    }
}
