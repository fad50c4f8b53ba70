//! When an empty cache becomes full.

use reuse_sampler::{CacheLines, DistanceMass, ReuseDistribution};

/// How many different lines a program has touched after so many accesses from its beginning, estimated by the
/// average over all its stretches of that length.
///
/// # Formula
/// A line is missed by the stretches of t accesses that lie wholly between two of its touches, before its
/// first or after its last one. With N accesses to C lines, the average number of lines in a stretch is
///
/// C - (sum over reuses of (d + 1 - t)+ + sum over lines of (first - t)+ + (N - last - t)+) / (N - t).
///
/// When lines are touched first and last is not known, but the time that all of them spend before and after
/// is: N C less the reuses. It is taken to be spread evenly from 0 to twice its mean, which is exact for a
/// scan of lines that are never reused.
///
/// # References
/// Xiang, Bao, Ding and Gao, *Linear-time Modeling of Program Working Set in Shared Cache*, PACT 2011
/// (the average footprint).
#[derive(Clone, Debug, Default)]
pub struct Filling {
    knots: Vec<(f64, f64)>, // accesses, lines; both ascending, from (0, 0) to the whole run
}

impl Filling {
    /// The filling of a run of `accesses` accesses with this distribution, in place of another; the memory is kept. At
    /// least one line is touched.
    pub fn fit(&mut self, distribution: &ReuseDistribution, accesses: u64) {
        let total = (accesses as f64).max(1.0);
        let never = distribution.dangling() + distribution.unresolved();
        let lines = (never * total).clamp(1.0, total);
        let reuse = |mass: &DistanceMass| ((mass.middle() as f64 + 1.0).min(total), mass.probability * total);
        let reuses = || distribution.masses().iter().map(reuse);
        let between: f64 = reuses().map(|(gap, count)| gap * count).sum();
        let edge = ((total * lines - between) / (2.0 * lines)).max(0.0);

        let knots = &mut self.knots;
        knots.clear();
        knots.push((0.0, 0.0));
        let (mut inside, mut longer, mut highest) = (between, total - lines, 0.0_f64);
        let mut at = 0.0;
        let mut visit = |until: f64, inside: f64| {
            let outside = (2.0 * edge - until).max(0.0);
            let edges = if edge > 0.0 { 2.0 * lines * outside * outside / (4.0 * edge) } else { 0.0 };
            highest = highest.max(lines - (inside.max(0.0) + edges) / (total - until)).min(lines);
            knots.push((until, highest));
        };
        for (gap, count) in reuses() {
            // Long gaps are wider apart than the curve is straight.
            let steps = (8.0 * (gap - at) / gap).ceil().max(1.0);
            let start = at;
            for step in 1..=steps as u32 {
                let next = start + (gap - start) * f64::from(step) / steps;
                inside -= (next - at) * longer;
                at = next;
                if at < total {
                    visit(at, inside);
                }
            }
            longer -= count;
        }
        for step in 1..8 {
            visit(at + (total - at) * f64::from(step) / 8.0, 0.0);
        }
        self.knots.push((total, lines));
    }

    /// Accesses of the run.
    pub fn accesses(&self) -> f64 {
        self.run().0
    }

    /// First touches per access.
    pub fn first_touches(&self) -> f64 {
        self.run().1 / self.run().0
    }

    fn run(&self) -> (f64, f64) {
        self.knots.last().copied().unwrap_or((1.0, 1.0))
    }

    /// Accesses until a cache of `size` is full; `None` if it never is.
    pub fn full_at(&self, size: CacheLines) -> Option<f64> {
        let (accesses, all) = self.run();
        let lines = size.0 as f64;
        if lines >= all {
            return None;
        }
        let next = self.knots.partition_point(|&(_, filled)| filled < lines).max(1);
        let ((t0, n0), (t1, n1)) = (self.knots[next - 1], self.knots[next]);
        let full_at = if n1 > n0 { t0 + (t1 - t0) * ((lines - n0) / (n1 - n0)) } else { t1 };
        (full_at < accesses).then_some(full_at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};

    use super::*;

    /// The average footprint of a scan with some reuse, over all stretches, counted.
    #[test]
    fn agrees_with_counted_stretches() {
        let mut state = 1_u64;
        let stream: Vec<u64> = (0..3000_u64)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let random = state >> 33;
                if random % 3 == 0 { 1000 + i } else { random % 200 }
            })
            .collect();
        let mut profile = ReuseProfile::new(LineSize::B64);
        let mut last = HashMap::new();
        for (at, line) in stream.iter().enumerate() {
            if let Some(before) = last.insert(line, at) {
                profile.record(Outcome::Reused(ReuseDistance((at - before - 1) as u64)), 1);
            }
        }
        profile.record_many(Outcome::Dangling, last.len() as u64, 1);
        let mut filling = Filling::default();
        filling.fit(&profile.distribution(), 3000);
        // 20 % because lines of two kinds, scanned and reused, are first touched at times that one even spread does
        // not describe; it matters for stretches that are a good part of the run.
        for (length, within) in [(1_usize, 0.05), (10, 0.05), (100, 0.05), (500, 0.12), (1500, 0.21)] {
            let stretches = stream.windows(length);
            let count = stretches.len() as f64;
            let footprint = |stretch: &[u64]| {
                let mut lines = stretch.to_vec();
                lines.sort_unstable();
                lines.dedup();
                lines.len() as f64
            };
            let counted = stretches.map(footprint).sum::<f64>() / count;
            let size = CacheLines(counted.round() as u64);
            let (low, high) = (CacheLines(size.0 - 1), CacheLines(size.0 + 1));
            let full_at = |size| filling.full_at(size).unwrap();
            let length = length as f64;
            // One line more or less for the rounding.
            let found = (full_at(low), full_at(high));
            assert!(found.0 <= length * (1.0 + within) + 1.0, "{length}: {found:?}");
            assert!(found.1 >= length * (1.0 - within) - 1.0, "{length}: {found:?}");
        }
        assert_eq!(filling.full_at(CacheLines(last.len() as u64)), None);
    }
}
