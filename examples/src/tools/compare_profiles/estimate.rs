//! Figures with what is left open of them.

use serde::Serialize;

use crate::guided::beside;
use crate::report::StoredPoint;

/// Of a normal distribution: 95 % lie within so many standard deviations.
const NORMAL: f64 = 1.96;
/// The same of Student's distribution with 1, 2, ... degrees of freedom.
const STUDENT: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/// Half a 95 % interval of what runs on other data differ by, relative: assumed where one run cannot show it.
/// `docs/compare-profiles.md` names the programs it was chosen with.
const OTHER_DATA: f64 = 0.05;

/// A figure with half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub value: f64,
    pub margin: f64,
}

/// What one run says of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub value: f64,
    /// Half the interval that its samples leave open.
    pub own: f64,
    /// Half the interval for phases for which others stand in. Runs of one program borrow alike, so that more runs do
    /// not make it smaller.
    pub lent: f64,
    /// Half the interval that other data leave open: serves a single run.
    pub data: f64,
}

impl Estimate {
    /// A count.
    pub fn exact(value: f64) -> Self {
        Self { value, own: 0.0, lent: 0.0, data: 0.0 }
    }

    /// From the point of a curve. What the model gets wrong it gets wrong in both versions.
    pub fn new(point: StoredPoint, lent: f64) -> Self {
        let reach = (point.high - point.miss_ratio).max(point.miss_ratio - point.low);
        let own = (reach.powi(2) - point.model_error.powi(2)).max(0.0).sqrt();
        Self { value: point.miss_ratio, own, lent, data: OTHER_DATA * point.miss_ratio }
    }
}

impl Figure {
    /// The mean of what several runs say, nothing without a run.
    pub fn mean(runs: &[Estimate]) -> Option<Self> {
        let n = runs.len() as f64;
        let value = runs.iter().map(|run| run.value).sum::<f64>() / n;
        let own = runs.iter().map(|run| run.own.powi(2)).sum::<f64>().sqrt() / n;
        let lent = runs.iter().map(|run| run.lent).sum::<f64>() / n;
        let margin = match runs.len() {
            0 => return None,
            1 => own.hypot(runs[0].data),
            many => {
                let variance = runs.iter().map(|run| (run.value - value).powi(2)).sum::<f64>() / (n - 1.0);
                own.max(STUDENT.get(many - 2).copied().unwrap_or(NORMAL) * (variance / n).sqrt())
            }
        };
        Some(Self { value, margin: margin.hypot(lent) })
    }

    /// `scale` times the figure less another one.
    pub fn less(self, before: Self, scale: f64) -> Self {
        Self { value: scale * self.value - before.value, margin: before.margin.hypot(scale * self.margin) }
    }

    /// By which part the figure is larger than another one.
    pub fn relative_to(self, before: Self) -> Option<Self> {
        let ratio = self.value / before.value;
        let margin = ratio * (self.margin / self.value).hypot(before.margin / before.value);
        (before.value > 0.0 && self.value > 0.0).then_some(Self { value: ratio - 1.0, margin })
    }
}

/// The point of a curve at `bytes`: in straight lines over the logarithm of the size. Beyond the largest size, nothing
/// changes any more.
pub(super) fn point(sizes: &[u64], points: &[StoredPoint], bytes: u64) -> Option<StoredPoint> {
    if sizes.last().is_some_and(|&largest| largest < bytes) {
        return points.last().copied();
    }
    let (left, right, t) = beside(sizes.iter().copied(), bytes as f64)?;
    let (left, right) = (points.get(left)?, points.get(right)?);
    let mix = |a: f64, b: f64| a + t * (b - a);
    Some(StoredPoint {
        miss_ratio: mix(left.miss_ratio, right.miss_ratio),
        low: mix(left.low, right.low),
        high: mix(left.high, right.high),
        model_error: mix(left.model_error, right.model_error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: f64, own: f64, lent: f64) -> Estimate {
        Estimate { value, own, lent, data: 0.0 }
    }

    #[test]
    fn several_runs_leave_open_what_they_differ_by() {
        let mean = |runs: &[Estimate]| Figure::mean(runs).unwrap();
        let alone = mean(&[run(0.1, 0.01, 0.0)]);
        assert!((alone.value - 0.1).abs() < 1e-12 && (alone.margin - 0.01).abs() < 1e-12);
        // What other data would change is assumed of one run, and seen in several.
        let one = Estimate { data: 0.03, ..run(0.1, 0.04, 0.0) };
        assert!((mean(&[one]).margin - 0.05).abs() < 1e-12 && mean(&[one; 4]).margin < 0.021);
        // Two that agree: half the variance. Two that do not: Student's factor for one degree of freedom.
        let two = mean(&[run(0.1, 0.01, 0.0); 2]);
        assert!((two.margin - 0.01 / 2.0_f64.sqrt()).abs() < 1e-12);
        let far = mean(&[run(0.1, 0.0, 0.0), run(0.2, 0.0, 0.0)]);
        assert!((far.value - 0.15).abs() < 1e-12 && (far.margin - 12.71 * 0.05).abs() < 1e-9);
        // What is borrowed stays.
        assert!((mean(&[run(0.1, 0.0, 0.02); 2]).margin - 0.02).abs() < 1e-12);
        assert_eq!(Figure::mean(&[]), None);
    }

    #[test]
    fn a_ratio_has_the_relative_margins_of_both() {
        let figure = |value, margin| Figure { value, margin };
        let ratio = figure(220.0, 22.0).relative_to(figure(200.0, 10.0)).unwrap();
        assert!((ratio.value - 0.1).abs() < 1e-12, "{ratio:?}");
        assert!((ratio.margin - 1.1 * (0.01_f64 + 0.0025).sqrt()).abs() < 1e-12, "{ratio:?}");
        assert_eq!(figure(1.0, 0.0).relative_to(figure(0.0, 0.0)), None);
    }

    #[test]
    fn points_lie_on_lines_over_the_logarithm_of_the_size() {
        let at = |miss_ratio| StoredPoint { miss_ratio, low: miss_ratio, high: miss_ratio, model_error: 0.0 };
        let points = [at(0.4), at(0.2)];
        let ratio = |bytes| point(&[1024, 4096], &points, bytes).map(|p| p.miss_ratio);
        assert_eq!((ratio(512), ratio(1024), ratio(1 << 20)), (None, Some(0.4), Some(0.2)));
        assert!((ratio(2048).unwrap() - 0.3).abs() < 1e-12);
    }
}
