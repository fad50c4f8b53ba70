//! Power at every frequency at once: an intercept and a scale per frequency, weights of events shared by all.
//!
//! # Formula
//! `P_i = b_f (1 + k d_i) + s_f sum_k w_k x_ik`, with the event rates `x` per cycle at the frequency `f` of row `i`
//! and its excess `d` of ambient temperature. Static power and the constant of the effective capacitance add up to
//! `b_f = P_static + s_f w_0`: no measurement under load separates them, and no prediction needs to. `s_f` is
//! `f V^2` up to a common factor, which is fixed at the highest frequency.
//!
//! The sum of squared *relative* errors is minimised by alternating between its linear parts: weights with
//! intercepts profiled out, then intercepts and scales, then `k`. Events move together, so the weights carry a
//! ridge penalty on standardised rates.
//!
//! # References
//! Alternating least squares for bilinear models: Gabriel and Zamir, *Lower rank approximation of matrices by least
//! squares with any choice of weights*, Technometrics 1979. Ridge: Hoerl and Kennard, Technometrics 1970.

use crate::error::Error;
use crate::ridge::Pair;

/// One measured stretch at one frequency.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub frequency: usize, // number of it
    pub program: usize,
    pub power: f64,      // watts, > 0
    pub rates: Vec<f64>, // per cycle, one per event
    pub warmth: f64,     // kelvin above what this power explains; 0 without a sensor
}

/// The fitted parts of the formula.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    pub intercepts: Vec<f64>, // watts, per frequency
    pub scales: Vec<f64>,     // > 0, per frequency
    pub weights: Vec<f64>,    // per event
    pub per_kelvin: f64,
}

/// Rounds of alternation; it settles in some ten.
const ROUNDS: usize = 200;

impl Joint {
    /// Fits `rows`. `scales` is where the search begins: `f`, or `f V^2` where voltages are known, which are then kept.
    ///
    /// # Errors
    /// [`Error::TooFewObservations`] unless there are more rows than parameters, three at least per frequency.
    pub fn fit(rows: &[&Row], scales: &[f64], voltages_known: bool, ridge: f64) -> Result<Self, Error> {
        let events = rows.first().map_or(0, |row| row.rates.len());
        let parameters = events + scales.len() * if voltages_known { 1 } else { 2 };
        let fewest = (0..scales.len()).map(|f| rows.iter().filter(|row| row.frequency == f).count()).min();
        if rows.len() <= parameters || fewest.is_none_or(|fewest| fewest < 3) {
            return Err(Error::TooFewObservations { observations: rows.len(), parameters });
        }
        let mut joint = Self {
            intercepts: vec![0.0; scales.len()],
            scales: scales.to_vec(),
            weights: vec![0.0; events],
            per_kelvin: 0.0,
        };
        let warm = rows.iter().any(|row| row.warmth != 0.0);
        let mut before = f64::INFINITY;
        for _ in 0..ROUNDS {
            joint.fit_weights(rows, ridge);
            joint.fit_frequencies(rows, voltages_known);
            if !voltages_known {
                joint.fix_scale(scales);
            }
            if warm {
                joint.fit_warmth(rows);
            }
            let now: f64 = rows.iter().map(|row| joint.relative(row).powi(2)).sum();
            if (before - now).abs() <= 1e-10 * now {
                break;
            }
            before = now;
        }
        Ok(joint)
    }

    /// Power at frequency number `frequency` of a program with these event rates.
    pub fn power(&self, frequency: usize, rates: &[f64], warmth: f64) -> f64 {
        self.intercepts[frequency] * (1.0 + self.per_kelvin * warmth)
            + self.scales[frequency] * self.activity(rates)
    }

    /// Predicted over measured power, less 1.
    pub fn relative(&self, row: &Row) -> f64 {
        self.power(row.frequency, &row.rates, row.warmth) / row.power - 1.0
    }

    fn activity(&self, rates: &[f64]) -> f64 {
        self.weights.iter().zip(rates).map(|(weight, rate)| weight * rate).sum()
    }

    /// Weights for these scales, with the best intercept of each frequency taken out of rates and power first.
    fn fit_weights(&mut self, rows: &[&Row], penalty: f64) {
        let events = self.weights.len();
        let mut columns: Vec<Vec<f64>> = Vec::with_capacity(rows.len()); // rates, then power
        for row in rows {
            let rates = row.rates.iter().map(|rate| rate * self.scales[row.frequency] / row.power);
            columns.push(rates.chain([1.0]).collect());
        }
        for frequency in 0..self.scales.len() {
            let here: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].frequency == frequency).collect();
            let level = |i: usize| (1.0 + self.per_kelvin * rows[i].warmth) / rows[i].power;
            let square: f64 = here.iter().map(|&i| level(i).powi(2)).sum();
            let mut along = vec![0.0; events + 1];
            for &i in &here {
                along.iter_mut().zip(&columns[i]).for_each(|(sum, value)| *sum += level(i) / square * value);
            }
            for &i in &here {
                columns[i].iter_mut().zip(&along).for_each(|(value, along)| *value -= along * level(i));
            }
        }
        // The last column is power.
        let y: Vec<f64> = columns.iter_mut().filter_map(Vec::pop).collect();
        self.weights = crate::ridge::ridge(&columns, &y, penalty);
    }

    /// Intercept of each frequency for these weights and, unless the voltages are known, its scale.
    fn fit_frequencies(&mut self, rows: &[&Row], voltages_known: bool) {
        for frequency in 0..self.scales.len() {
            let here = rows.iter().filter(|row| row.frequency == frequency);
            let sums = Pair::of(here.map(|row| {
                let level = (1.0 + self.per_kelvin * row.warmth) / row.power;
                [level, self.activity(&row.rates) / row.power]
            }));
            // Activity draws more at any frequency: noise alone can say otherwise.
            if let Some([_, scale]) = sums.weights().filter(|&[_, scale]| !voltages_known && scale > 0.0) {
                self.scales[frequency] = scale;
            }
            self.intercepts[frequency] = sums.first(self.scales[frequency]);
        }
    }

    /// The highest frequency keeps the scale it began with.
    fn fix_scale(&mut self, scales: &[f64]) {
        let (Some(wanted), Some(found)) = (scales.last(), self.scales.last()) else { return };
        let factor = wanted / found;
        self.scales.iter_mut().for_each(|scale| *scale *= factor);
        self.weights.iter_mut().for_each(|weight| *weight /= factor);
    }

    fn fit_warmth(&mut self, rows: &[&Row]) {
        let (mut squares, mut along) = (0.0, 0.0);
        for row in rows {
            let effect = self.intercepts[row.frequency] * row.warmth / row.power;
            let cold = self.power(row.frequency, &row.rates, 0.0) / row.power;
            squares += effect * effect;
            along += effect * (1.0 - cold);
        }
        if squares > 0.0 {
            self.per_kelvin = along / squares;
        }
    }
}

/// Standard errors from 0 that the effect of a warm room must be to count as more than noise.
const SIGNIFICANT: f64 = 3.0;

impl Joint {
    /// Whether warmth raises power beyond doubt.
    pub fn warmth_matters(&self, rows: &[Row]) -> bool {
        let (mut squares, mut residuals) = (0.0, 0.0);
        for row in rows {
            squares += (self.intercepts[row.frequency] * row.warmth / row.power).powi(2);
            residuals += self.relative(row).powi(2);
        }
        let deviation = (residuals / rows.len() as f64).sqrt();
        self.per_kelvin * squares.sqrt() > SIGNIFICANT * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_made_the_rows_is_found() {
        let (b, s, w, k) = ([6.0, 9.0, 14.0], [1.1, 1.9, 3.1], [2.0, -0.7], 0.003);
        let rows: Vec<Row> = (0..60)
            .map(|i| {
                let frequency = i % 3;
                let rates = vec![(i / 3 % 5) as f64 / 4.0, ((i / 3 * 7) % 11) as f64 / 10.0];
                let warmth = ((i * 5) % 13) as f64 - 6.0;
                let activity: f64 = w.iter().zip(&rates).map(|(w, x)| w * x).sum();
                let power = b[frequency] * (1.0 + k * warmth) + s[frequency] * activity;
                Row { frequency, program: i / 3, power, rates, warmth }
            })
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let joint = Joint::fit(&rows, &[1.0, 2.0, 3.1], false, 0.0).unwrap();
        let close = |got: &[f64], expected: &[f64]| {
            got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-4)
        };
        assert!(close(&joint.intercepts, &b) && close(&joint.scales, &s), "{joint:?}");
        assert!(close(&joint.weights, &w) && (joint.per_kelvin - k).abs() < 1e-5, "{joint:?}");
        let known = Joint::fit(&rows, &s, true, 0.0).unwrap();
        assert!(close(&known.weights, &w) && known.scales == s, "{known:?}");
        assert!(matches!(Joint::fit(&rows[..8], &s, false, 0.0), Err(Error::TooFewObservations { .. })));
    }
}
