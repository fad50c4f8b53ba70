//! What becomes of a program's reuses where any line may leave: which part of them still hits beside co-runners, and what
//! an access costs then.

use super::filling::LEAST_INFLOW;
use super::{CacheCurve, Filling, Met};

/// A line that stays while a whole cache is fetched `k` times stays with probability exp(-k): this often, fetched by all
/// programs together, and by its own alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchanged {
    pub together: f64,
    pub alone: f64,
}

/// Reuse times, and what hits are worth by the curve: made once from a curve for a cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chances {
    reuses: Vec<(f64, f64)>, // accesses since the last use, and part of all accesses
    at_once: f64,            // part that reuses lines before any can have left
    sizes: Vec<Met>,         // from the whole cache to none; no misses fewer than those before
}

/// Reuses that are fewer than this part of all are put together with those after them.
const NEGLIGIBLE: f64 = 2e-3;

impl Chances {
    /// Of a program with this curve in a cache of `bytes`.
    pub(crate) fn new(curve: &CacheCurve, bytes: f64) -> Self {
        let line = f64::from(curve.line_size);
        let below = curve.knots.iter().rev().map(|knot| knot.bytes).filter(|&size| size < bytes);
        let mut sizes = Met::with_less(curve, std::iter::once(bytes).chain(below));
        for met in &mut sizes {
            met.inflow = met.inflow.max(LEAST_INFLOW * line);
        }
        // A footprint shows nothing of the shortest times.
        let uses = sizes.last().map_or(0.0, |none| none.misses);
        let shown = curve.filling().first_inflow() / line;
        Self { reuses: put_together(curve.filling(), line), at_once: (uses - shown).max(0.0), sizes }
    }

    /// Bytes of so many lines fetched per access: some, so that every cache is exchanged some day.
    pub(crate) fn inflow(lines: f64, curve: &CacheCurve) -> f64 {
        lines.max(LEAST_INFLOW) * f64::from(curve.line_size)
    }

    /// Bytes fetched per access with the whole cache.
    pub(crate) fn inflow_alone(&self) -> f64 {
        self.sizes.first().map_or(0.0, |whole| whole.inflow)
    }

    /// What an access costs where the cache is exchanged `exchanged(n)` times in the time of n accesses.
    ///
    /// Of the hits of the whole cache stay as many as of reuses where lines leave at the rate that they do together, of
    /// those where they leave as they do alone. The curve shows what so many misses cost.
    pub(crate) fn met(&self, mut exchanged: impl FnMut(f64) -> Exchanged) -> Met {
        let (mut together, mut alone) = (self.at_once, self.at_once);
        for &(accesses, part) in &self.reuses {
            let exchanged = exchanged(accesses);
            together += part * (-exchanged.together).exp();
            alone += part * (-exchanged.alone).exp();
        }
        let (Some(whole), Some(none)) = (self.sizes.first(), self.sizes.last()) else {
            return Met::default();
        };
        // As with the whole cache, whatever other sizes with as many misses cost.
        if together >= alone {
            return *whole;
        }
        let misses = none.misses - together / alone * (none.misses - whole.misses);
        let next = self.sizes.partition_point(|size| size.misses <= misses);
        match (next.checked_sub(1).and_then(|at| self.sizes.get(at)), self.sizes.get(next)) {
            (Some(fewer), Some(more)) => {
                let part = (misses - fewer.misses) / (more.misses - fewer.misses);
                let mut met = *fewer;
                met.add(&more.beyond(fewer), part);
                met
            }
            (None, _) => *whole, // by rounding
            (_, None) => *none,
        }
    }
}

/// Times and parts of reuses: where the lines used within a time grow more slowly from then on.
fn put_together(filling: &Filling, line: f64) -> Vec<(f64, f64)> {
    let all: Vec<(f64, f64)> = filling.slowing().map(|(accesses, bytes)| (accesses, bytes / line)).collect();
    let sum: f64 = all.iter().map(|reuse| reuse.1).sum();
    let mut reuses = Vec::new();
    let (mut area, mut part) = (0.0, 0.0);
    for (accesses, here) in all {
        area += accesses * here;
        part += here;
        if part >= NEGLIGIBLE * sum && part > 0.0 {
            reuses.push((area / part, part));
            (area, part) = (0.0, 0.0);
        }
    }
    if part > 0.0 {
        reuses.push((area / part, part));
    }
    reuses
}
