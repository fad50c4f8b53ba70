//! Whether the reuses that decide how much misses are of one length or of many.
//!
//! The models take misses to be spread evenly over a window. Where reuses are of many lengths, what they get wrong for some
//! is made up for by others; in a loop, and in a product of matrices, all of them err alike.

/// Quarters of octaves of distances that a number of 64 bits has.
const BINS: usize = 4 * 64 + 1;

/// Reuses by their distance, those weighted most whose fate one more eviction decides.
#[derive(Clone, Debug)]
pub struct Concentration {
    weights: [f64; BINS],
}

impl Default for Concentration {
    fn default() -> Self {
        Self { weights: [0.0; BINS] }
    }
}

impl Concentration {
    /// Adds `count` reuses after `distance` accesses, in which a line is evicted `evictions` times on average.
    pub fn add(&mut self, distance: f64, count: f64, evictions: f64) {
        let bin = ((distance + 1.0).log2() * 4.0) as usize;
        self.weights[bin.min(BINS - 1)] += count * evictions * (-evictions).exp();
    }

    /// Weight of all reuses.
    pub fn weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Sum of the squared shares of the distances: 1 if all reuses are of one, 0 if there are none that count.
    pub fn share(&self) -> f64 {
        let all = self.weight();
        if all > 0.0 {
            self.weights.iter().map(|weight| (weight / all).powi(2)).sum::<f64>().min(1.0)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_length_is_1_and_lengths_of_equal_weight_share() {
        let mut reuses = Concentration::default();
        assert_eq!(reuses.share(), 0.0);
        reuses.add(100.0, 3.0, 0.5);
        assert_eq!(reuses.share(), 1.0);
        reuses.add(1e6, 1.0, 0.0); // never evicted: nothing to decide
        assert_eq!(reuses.share(), 1.0);
        reuses.add(1000.0, 3.0, 0.5);
        assert!((reuses.share() - 0.5).abs() < 1e-12);
    }
}
