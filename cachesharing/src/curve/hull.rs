//! The concave hull of the hits over size, from which the sticky part of a program's data is read.
//!
//! A working set that only pays once all of it fits has no marginal gain before that; on the hull its gain is
//! spread over the whole set, which is how a cache that holds it came to hold it.

use super::Knot;

/// A straight piece of the hull.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HullStep {
    pub bytes: f64, // width of the piece
    pub slope: f64, // hits per access and byte, > 0 and falling from piece to piece
}

/// The rising pieces of the upper hull of the hits, from size 0.
pub(super) fn of_hits(knots: &[Knot]) -> Vec<HullStep> {
    let mut hull: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    for knot in knots.iter().filter(|k| k.bytes > 0.0) {
        while let [.., a, b] = hull[..] {
            if (b.1 - a.1) * (knot.bytes - b.0) > (knot.hits - b.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        hull.push((knot.bytes, knot.hits));
    }
    hull.windows(2)
        .map(|w| HullStep { bytes: w[1].0 - w[0].0, slope: (w[1].1 - w[0].1) / (w[1].0 - w[0].0) })
        .take_while(|step| step.slope > 0.0)
        .collect()
}
