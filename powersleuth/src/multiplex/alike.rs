//! Holes filled from the intervals that have most in common with them: next in time, and next in cycles.
//!
//! Instructions and cycles are counted in every interval, whatever else is. An interval that takes as many cycles
//! per instruction as another of the same phase misses the caches about as often: the first visit to some data, or
//! a burst of it, shows in both. The paper leaves this out and averages.

/// As much of a difference as one interval of time: one per cent of the cycles per instruction.
const CYCLES_SCALE: f64 = 100.0;

/// Stretches of intervals within which one may stand in for another.
#[derive(Debug)]
pub(super) struct Alike {
    logarithms: Vec<f64>,    // of cycles per instruction
    orders: Vec<Vec<usize>>, // of each stretch by time and by cycles
}

/// Rates weighted by how much their intervals have in common with the one they stand in for.
#[derive(Clone, Copy, Debug, Default)]
struct Weighted {
    rates: f64,
    weights: f64,
}

impl Alike {
    /// `stretches` list intervals in order; `cycles` are those of each interval per instruction.
    pub(super) fn new(stretches: Vec<Vec<usize>>, cycles: impl Iterator<Item = f64>) -> Self {
        let logarithms: Vec<f64> = cycles.map(f64::ln).collect();
        let mut by_cycles = stretches.clone();
        for stretch in &mut by_cycles {
            stretch.sort_by(|&a, &b| logarithms[a].total_cmp(&logarithms[b]));
        }
        Self { logarithms, orders: stretches.into_iter().chain(by_cycles).collect() }
    }

    /// Of each interval in which nothing was counted, from the nearest on either side in both orders; `None` where
    /// nothing was counted in its stretch.
    pub(super) fn fill(&self, column: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut sums = vec![Weighted::default(); column.len()];
        for order in &self.orders {
            self.lean_on_last(order.iter(), column, &mut sums);
            self.lean_on_last(order.iter().rev(), column, &mut sums);
        }
        sums.iter().map(|sum| (sum.weights > 0.0).then(|| sum.rates / sum.weights)).collect()
    }

    /// Along `order`, adds to each interval the last one before it in which the event was counted.
    fn lean_on_last<'a>(
        &self,
        order: impl Iterator<Item = &'a usize>,
        column: &[Option<f64>],
        sums: &mut [Weighted],
    ) {
        let mut last = None;
        for &i in order {
            if let Some(rate) = column[i] {
                last = Some((i, rate));
            } else if let Some((counted, rate)) = last {
                let time = i.abs_diff(counted) as f64; // at least 1
                let difference = CYCLES_SCALE * (self.logarithms[i] - self.logarithms[counted]);
                let weight = (time * time + difference * difference).recip();
                sums[i].rates += weight * rate;
                sums[i].weights += weight;
            }
        }
    }
}
