//! Where in its run each interferer is when the target starts.

/// Start offsets of many runs, as fractions of each interferer's work.
///
/// The same number of the same run is always the same, whoever asks and in whatever order: there is no generator
/// to share between threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Offsets {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Random { count: usize, seed: u64 },
    Stratified { count: usize, seed: u64 },
    Given(Vec<Vec<f64>>),
}

impl Offsets {
    /// `count` runs, each offset drawn uniformly and independently: what starting programs at unrelated times does.
    #[must_use]
    pub const fn random(count: usize, seed: u64) -> Self {
        Self { kind: Kind::Random { count, seed } }
    }

    /// `count` runs whose offsets cover the interferers evenly: one in each of `count` equal parts, drawn within
    /// the part, the parts of different interferers paired at random (a Latin hypercube). Fewer runs give the same
    /// precision of the mean, but the confidence intervals of
    /// [`SlowdownDistribution`](super::SlowdownDistribution) are then too wide.
    #[must_use]
    pub const fn stratified(count: usize, seed: u64) -> Self {
        Self { kind: Kind::Stratified { count, seed } }
    }

    /// Given offsets: per run one for each interferer, as fractions of its work; those missing are 0.
    #[must_use]
    pub const fn given(runs: Vec<Vec<f64>>) -> Self {
        Self { kind: Kind::Given(runs) }
    }

    /// Number of runs.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.kind {
            Kind::Random { count, .. } | Kind::Stratified { count, .. } => *count,
            Kind::Given(runs) => runs.len(),
        }
    }

    /// The offsets of one run of `programs` programs, the target's (0) included.
    #[must_use]
    pub fn of_run(&self, run: usize, programs: usize) -> Vec<f64> {
        (0..programs)
            .map(|program| match (program.checked_sub(1), &self.kind) {
                (None, _) => 0.0,
                (_, &Kind::Random { seed, .. }) => uniform(seed, program, run),
                (_, &Kind::Stratified { count, seed }) => {
                    let part = permuted(run, count, seed ^ scramble(program as u64));
                    (part as f64 + uniform(seed, program, run)) / count.max(1) as f64
                }
                (Some(interferer), Kind::Given(runs)) => {
                    runs.get(run).and_then(|offsets| offsets.get(interferer)).copied().unwrap_or(0.0)
                }
            })
            .collect()
    }
}

/// A number in [0, 1) for a program in a run.
pub(crate) fn uniform(seed: u64, program: usize, run: usize) -> f64 {
    let bits = scramble(scramble(scramble(seed) ^ program as u64) ^ run as u64);
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finaliser of `SplitMix64` (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA
/// 2014), on a sequence number.
const fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The place of `index` in a permutation of `count` that the seed draws.
fn permuted(index: usize, count: usize, seed: u64) -> usize {
    // How many keys come before this one's; ties by index. Quadratic over all, and counts are hundreds.
    let key = |i: usize| (scramble(seed ^ scramble(i as u64)), i);
    (0..count).filter(|&other| key(other) < key(index)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_offsets_are_uniform() {
        let offsets = Offsets::random(20_000, 7);
        let mut drawn: Vec<f64> = (0..offsets.count()).map(|run| offsets.of_run(run, 2)[1]).collect();
        drawn.sort_by(f64::total_cmp);
        let n = drawn.len() as f64;
        let distance =
            drawn.iter().enumerate().map(|(i, x)| (x - (i as f64 + 0.5) / n).abs()).fold(0.0, f64::max);
        // Kolmogorov: exceeded by chance once in 100,000 seeds.
        assert!(distance < 2.5 / n.sqrt(), "{distance}");
    }

    #[test]
    fn offsets_of_two_programs_and_of_two_seeds_are_unrelated() {
        let correlation = |pairs: &[(f64, f64)]| {
            let n = pairs.len() as f64;
            12.0 * pairs.iter().map(|(a, b)| (a - 0.5) * (b - 0.5)).sum::<f64>() / n
        };
        let (one, two) = (Offsets::random(20_000, 1), Offsets::random(20_000, 2));
        let programs: Vec<_> = (0..20_000).map(|r| one.of_run(r, 3)).map(|o| (o[1], o[2])).collect();
        let seeds: Vec<_> = (0..20_000).map(|r| (one.of_run(r, 2)[1], two.of_run(r, 2)[1])).collect();
        let runs: Vec<_> = (0..20_000).map(|r| (one.of_run(r, 2)[1], one.of_run(r + 1, 2)[1])).collect();
        for pairs in [programs, seeds, runs] {
            // Four standard deviations of the correlation of 20,000 unrelated pairs.
            assert!(correlation(&pairs).abs() < 4.0 / 20_000_f64.sqrt());
        }
    }

    #[test]
    fn stratified_offsets_fall_one_into_each_part() {
        let offsets = Offsets::stratified(64, 3);
        for program in 1..4 {
            let mut parts: Vec<usize> =
                (0..64).map(|run| (offsets.of_run(run, 4)[program] * 64.0) as usize).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_target_starts_at_its_beginning() {
        for offsets in
            [Offsets::random(5, 1), Offsets::stratified(5, 1), Offsets::given(vec![vec![0.5, 0.25]])]
        {
            assert_eq!(offsets.of_run(0, 3)[0], 0.0);
        }
        assert_eq!(Offsets::given(vec![vec![0.5, 0.25]]).of_run(0, 4), [0.0, 0.5, 0.25, 0.0]);
    }
}
