//! Which chunks of a line are touched next.

/// Accesses within which a touch makes its chunk a companion; one that comes later counts [`FAR`] of that.
pub const NEAR: u64 = 1024;
const FAR: f64 = 0.3;
/// How much of what is known a further sample leaves.
const KEPT: f64 = 0.98;
/// Samples that what is known of all instructions is worth.
const PRIOR: f64 = 1.0;
/// The least fraction of an instruction's samples, and of those that end at other chunks than their own, that makes a
/// companion.
const LEAST: [f64; 2] = [0.015, 0.15];
/// How many companions a sample has at most.
const COMPANIONS: usize = 2;
/// Chunks of the longest line, and one less: what is known of all instructions is kept by distance from the own chunk.
const MIDDLE: usize = 63;

/// Touches by chunk, and samples.
#[derive(Clone, Debug, Default)]
pub struct Companions {
    touches: Vec<f64>,
    samples: f64,
}

impl Companions {
    fn add(&mut self, place: usize, count: f64) {
        if place >= self.touches.len() {
            self.touches.resize(place + 1, 0.0);
        }
        self.touches[place] += count;
    }

    fn at(&self, place: usize) -> f64 {
        self.touches.get(place).copied().unwrap_or(0.0)
    }

    /// The companions of chunk `own`, of `all`, the likeliest first.
    pub fn best(&self, own: u64, all: u64, others: &Self) -> Vec<u64> {
        let share = |chunk: u64| {
            let prior = others.at(place(own, chunk)) / others.samples.max(1.0);
            (self.at(chunk as usize) + PRIOR * prior) / (self.samples + PRIOR)
        };
        let mut shares: Vec<(u64, f64)> =
            (0..all).filter(|&chunk| chunk != own).map(|chunk| (chunk, share(chunk))).collect();
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        shares.retain(|(_, share)| *share > LEAST[0] && *share > LEAST[1] * total);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares.into_iter().map(|(chunk, _)| chunk).take(COMPANIONS).collect()
    }

    /// A sample of chunk `own` has ended at `age` where another chunk was touched, that stands for so many, or elsewhere.
    pub fn learn(&mut self, next: Option<(u64, f64)>, age: u64, others: &mut Self, own: u64) {
        for touches in &mut self.touches {
            *touches *= KEPT;
        }
        self.samples = self.samples * KEPT + 1.0;
        others.samples += 1.0;
        if let Some((chunk, stands_for)) = next {
            let count = if age < NEAR { stands_for } else { FAR * stands_for };
            self.add(chunk as usize, count);
            others.add(place(own, chunk), count);
        }
    }
}

fn place(own: u64, chunk: u64) -> usize {
    MIDDLE + chunk as usize - own as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_next_is_a_companion_and_what_comes_late_is_not() {
        let (mut one, mut all) = (Companions::default(), Companions::default());
        for _ in 0..20 {
            one.learn(Some((7, 1.0)), 5, &mut all, 3);
            one.learn(None, 5, &mut all, 3);
            one.learn(Some((1, 0.4)), 100_000, &mut all, 3);
        }
        assert_eq!(one.best(3, 8, &all), [7]);
        // Elsewhere the same distance is expected, as far as the line goes.
        assert_eq!(Companions::default().best(2, 8, &all), [6]);
    }
}
