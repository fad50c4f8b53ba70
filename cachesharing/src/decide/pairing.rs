//! Who runs beside whom: the pairing of a set of programs that costs least.

use super::CoSchedule;

/// What a pairing is to keep small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Objective {
    /// The sum of all mean slowdowns: throughput.
    #[default]
    Total,
    /// The largest mean slowdown: fairness. Among pairings of equal worst, some one.
    Worst,
}

/// Programs in pairs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Pairing {
    /// The pairs; of an odd number of programs one is left over.
    pub pairs: Vec<(usize, usize)>,
    /// The one that runs alone, if the number is odd.
    pub alone: Option<usize>,
    /// Sum of the mean slowdowns, that of a program alone being 1.
    pub total: f64,
    /// Largest mean slowdown.
    pub worst: f64,
    /// Whether no other pairing is better; else it is the best that local search found.
    pub exact: bool,
}

/// Up to here all pairings are looked at: 2^n states of n steps each.
const MOST_EXACT: usize = 20;

impl CoSchedule {
    /// The pairing that is best for `objective`.
    ///
    /// Exact for up to 20 programs, by dynamic programming over the sets of programs placed so far; beyond, pairs
    /// are exchanged as long as that helps.
    ///
    /// # Cost
    /// At most n 2^n steps where it is exact; n^2 a sweep beyond.
    #[must_use]
    pub fn best_pairing(&self, objective: Objective) -> Pairing {
        pairing(&self.means(), objective, false)
    }

    /// The pairing that is worst for `objective`: what a careless schedule can cost. Exact where
    /// [`best_pairing`](Self::best_pairing) is. By [`Objective::Worst`], it holds the worst pair there is.
    #[must_use]
    pub fn worst_pairing(&self, objective: Objective) -> Pairing {
        pairing(&self.means(), objective, true)
    }
}

/// Cost of placing two programs together, or one alone where both are the same.
fn cost(means: &[Vec<f64>], objective: Objective, a: usize, b: usize) -> f64 {
    match objective {
        _ if a == b => 1.0,
        Objective::Total => means[a][b] + means[b][a],
        Objective::Worst => means[a][b].max(means[b][a]),
    }
}

fn together(objective: Objective, a: f64, b: f64) -> f64 {
    match objective {
        Objective::Total => a + b,
        Objective::Worst => a.max(b),
    }
}

fn pairing(means: &[Vec<f64>], objective: Objective, worst: bool) -> Pairing {
    let exact = means.len() <= MOST_EXACT;
    let placed = if exact { search_all(means, objective, worst) } else { exchange(means, objective, worst) };
    let sum = |o: Objective| {
        placed.iter().map(|&(a, b)| cost(means, o, a, b)).reduce(|a, b| together(o, a, b)).unwrap_or(0.0)
    };
    let (total, worst) = (sum(Objective::Total), sum(Objective::Worst));
    let alone = placed.iter().find(|(a, b)| a == b).map(|&(a, _)| a);
    let pairs = placed.into_iter().filter(|(a, b)| a != b).collect();
    Pairing { pairs, alone, total, worst, exact }
}

/// Best cost of every set of programs, each built from a smaller one by placing its lowest program.
fn search_all(means: &[Vec<f64>], objective: Objective, worst: bool) -> Vec<(usize, usize)> {
    let count = means.len();
    let sets = 1_usize << count;
    let mut best = vec![(f64::NAN, 0_u8); sets]; // cost, partner of the lowest
    best[0].0 = 0.0;
    for set in 1..sets {
        let lowest = set.trailing_zeros() as usize;
        let rest = set & (set - 1);
        // Alone only where the number is odd, so that at most one is.
        let odd = set.count_ones() % 2 == 1;
        let partners = (lowest + 1..count).filter(|&b| rest >> b & 1 == 1);
        for partner in odd.then_some(lowest).into_iter().chain(partners) {
            let remainder = if partner == lowest { rest } else { rest & !(1 << partner) };
            let candidate = together(objective, cost(means, objective, lowest, partner), best[remainder].0);
            let better = if worst { candidate > best[set].0 } else { candidate < best[set].0 };
            if better || best[set].0.is_nan() {
                best[set] = (candidate, partner as u8);
            }
        }
    }
    let mut placed = Vec::new();
    let mut set = sets - 1;
    while set != 0 {
        let lowest = set.trailing_zeros() as usize;
        let partner = best[set].1 as usize;
        placed.push((lowest, partner));
        set &= !(1 << lowest | 1 << partner);
    }
    placed
}

/// Exchanges partners of two pairs until no exchange helps.
fn exchange(means: &[Vec<f64>], objective: Objective, worst: bool) -> Vec<(usize, usize)> {
    let count = means.len();
    let mut placed: Vec<(usize, usize)> =
        (0..count).step_by(2).map(|a| (a, if a + 1 < count { a + 1 } else { a })).collect();
    let cost_of = |(a, b): (usize, usize)| cost(means, objective, a, b);
    let both = |p, q| together(objective, cost_of(p), cost_of(q));
    let mut improved = true;
    while improved {
        improved = false;
        for i in 0..placed.len() {
            for j in i + 1..placed.len() {
                let ((a, b), (c, d)) = (placed[i], placed[j]);
                // The one alone, if any, is the last: it may change places with either of a pair.
                let others = if c == d {
                    [((a, c), (b, b)), ((c, b), (a, a))]
                } else {
                    [((a, c), (b, d)), ((a, d), (b, c))]
                };
                for (p, q) in others {
                    let (now, then) = (both(placed[i], placed[j]), both(p, q));
                    if if worst { then > now + 1e-12 } else { then < now - 1e-12 } {
                        (placed[i], placed[j]) = (p, q);
                        improved = true;
                    }
                }
            }
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    /// All ways to pair `left`, one alone if their number is odd.
    fn all(left: &[usize]) -> Vec<Vec<(usize, usize)>> {
        let Some((&first, rest)) = left.split_first() else { return vec![Vec::new()] };
        let mut found = Vec::new();
        if left.len() % 2 == 1 {
            for mut p in all(rest) {
                p.push((first, first));
                found.push(p);
            }
        }
        for (i, &partner) in rest.iter().enumerate() {
            let mut others = rest.to_vec();
            others.remove(i);
            for mut p in all(&others) {
                p.push((first, partner));
                found.push(p);
            }
        }
        found
    }

    fn matrix(count: usize, draws: &[u8]) -> Vec<Vec<f64>> {
        let draw = |i: usize| 1.0 + f64::from(draws.get(i % draws.len().max(1)).copied().unwrap_or(0)) / 64.0;
        (0..count).map(|a| (0..count).map(|b| draw(7 * a + 3 * b + a * b)).collect()).collect()
    }

    fn value(means: &[Vec<f64>], objective: Objective, pairs: &[(usize, usize)]) -> f64 {
        let slowdowns =
            pairs.iter().flat_map(|&(a, b)| if a == b { vec![1.0] } else { vec![means[a][b], means[b][a]] });
        match objective {
            Objective::Total => slowdowns.sum(),
            Objective::Worst => slowdowns.fold(0.0, f64::max),
        }
    }

    quickcheck! {
        fn no_other_pairing_is_better_or_worse(count: u8, draws: Vec<u8>) -> bool {
            let count = 1 + usize::from(count % 8);
            let means = matrix(count, &draws);
            let numbers: Vec<usize> = (0..count).collect();
            [Objective::Total, Objective::Worst].into_iter().all(|objective| {
                let values: Vec<f64> =
                    all(&numbers).iter().map(|pairs| value(&means, objective, pairs)).collect();
                let of = |p: Pairing| match objective {
                    Objective::Total => p.total,
                    Objective::Worst => p.worst,
                };
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                let most = values.iter().copied().fold(0.0, f64::max);
                (of(pairing(&means, objective, false)) - least).abs() < 1e-9
                    && (of(pairing(&means, objective, true)) - most).abs() < 1e-9
            })
        }

        fn every_program_is_placed_once(count: u8, draws: Vec<u8>) -> bool {
            // Beyond the exact search too.
            let count = usize::from(count % 32);
            let p = pairing(&matrix(count, &draws), Objective::Total, false);
            let mut placed: Vec<usize> = p.pairs.iter().flat_map(|&(a, b)| [a, b]).chain(p.alone).collect();
            placed.sort_unstable();
            placed == (0..count).collect::<Vec<_>>() && p.alone.is_some() == (count % 2 == 1)
        }
    }

    #[test]
    fn exchanging_finds_a_pairing_that_stands_out() {
        // Programs 2i and 2i + 25 belong together: any other pair costs more.
        let count = 24;
        let mean = |a: usize, b: usize| if (a + 12) % count == b { 1.01 } else { 1.5 };
        let means: Vec<Vec<f64>> = (0..count).map(|a| (0..count).map(|b| mean(a, b)).collect()).collect();
        let p = pairing(&means, Objective::Total, false);
        assert!(!p.exact);
        assert!((p.total - 1.01 * 24.0).abs() < 1e-9, "{p:?}");
    }
}
