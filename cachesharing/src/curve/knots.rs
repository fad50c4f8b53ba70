//! Where the straight pieces of a curve meet: at the measured sizes, at size 0, and at bends between two sizes.
//!
//! A working set rarely ends at a measured size. Where a curve comes down steeply and goes on level, the chord between
//! the two sizes lies above it, and a program that fits is taken to miss. A curve that bends one way lies between the
//! chord and the continuations of the pieces on either side: on the continuations where all of the bend is between the
//! two sizes, and a quarter of the way to them where it bends as much before and after (a parabola). How much of the
//! bend the neighbours have decides which.

use super::CurvePoint;

/// Values at a size where two straight pieces meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knot {
    pub bytes: f64,
    pub cpi: f64,
    pub misses: f64,  // per access
    pub fetches: f64, // per access
    pub hits: f64,    // per access
    pub stalled: f64, // time per access
}

/// Misses and hits per access at the smallest size whose hit rate is known.
pub(super) fn reaching(points: &[CurvePoint], mix: f64) -> Option<f64> {
    points.iter().find_map(|p| Some(p.miss_ratio + p.hit_rate? * p.cpi / mix))
}

/// Time that a miss per access costs per unit of work, as far as the points show; nothing where they differ by `least` at
/// most.
pub(super) fn cpi_per_miss(points: &[CurvePoint], least: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let lost = first.miss_ratio - last.miss_ratio;
    (lost > least).then(|| ((first.cpi - last.cpi) / lost).max(0.0))
}

/// The points, with size 0 in front and bends between them.
pub(super) fn of(points: &[CurvePoint], mix: f64, reaching: Option<f64>) -> Vec<Knot> {
    let Some(first) = points.first() else { return Vec::new() };
    let at_zero = reaching.unwrap_or(first.miss_ratio).max(first.miss_ratio);
    let per_miss = cpi_per_miss(points, 1e-9).unwrap_or(0.0);
    let zero = Knot {
        bytes: 0.0,
        cpi: first.cpi + per_miss * (at_zero - first.miss_ratio),
        misses: at_zero,
        fetches: first.fetch_ratio + (at_zero - first.miss_ratio),
        hits: 0.0,
        stalled: first.stalled(mix) + per_miss * (at_zero - first.miss_ratio) / mix,
    };
    let measured = points.iter().map(|p| Knot {
        bytes: p.bytes as f64,
        cpi: p.cpi,
        misses: p.miss_ratio,
        fetches: p.fetch_ratio,
        hits: p.hit_rate.map_or((at_zero - p.miss_ratio).max(0.0), |rate| rate * p.cpi / mix),
        stalled: p.stalled(mix),
    });
    bent(&std::iter::once(zero).chain(measured).collect::<Vec<_>>())
}

/// Adds a knot between two where the curve of the fetches bends.
fn bent(knots: &[Knot]) -> Vec<Knot> {
    let mut all = Vec::with_capacity(2 * knots.len());
    for (i, &knot) in knots.iter().enumerate() {
        all.push(knot);
        all.extend(i.checked_sub(1).and_then(|before| bend(knots, before)));
    }
    all
}

/// The knot between the second and the third of the four from number `first` on.
fn bend(knots: &[Knot], first: usize) -> Option<Knot> {
    let piece = |get: fn(&Knot) -> f64| Piece::new(knots, first, get);
    let fetches = piece(|k| k.fetches)?;
    let bytes = fetches.meeting()?;
    Some(Knot {
        bytes,
        cpi: piece(|k| k.cpi)?.at(bytes),
        misses: piece(|k| k.misses)?.at(bytes),
        fetches: fetches.at(bytes),
        hits: piece(|k| k.hits)?.at(bytes),
        stalled: piece(|k| k.stalled)?.at(bytes),
    })
}

/// One quantity between two knots, and how it goes on.
struct Piece {
    left: (f64, f64), // bytes, value
    right: (f64, f64),
    before: f64, // slopes of the piece before, this one, the one after
    slope: f64,
    after: f64,
    continued: f64, // weight of the continuations, in [1/4, 1]
}

impl Piece {
    fn new(knots: &[Knot], first: usize, get: fn(&Knot) -> f64) -> Option<Self> {
        let point = |i: usize| knots.get(i).map(|k| (k.bytes, get(k)));
        let slope = |i: usize| {
            let (a, b) = (point(i)?, point(i + 1)?);
            Some((b.1 - a.1) / (b.0 - a.0))
        };
        let (before, after) = (slope(first)?, slope(first + 2)?);
        let outside = |from: Option<f64>, to: f64| from.map(|from| (to - from).abs());
        let (earlier, later) =
            (outside(first.checked_sub(1).and_then(slope), before), outside(slope(first + 3), after));
        // Near the ends of a curve there is no neighbour: the bend is assumed to be gentle.
        let neighbours = earlier.zip(later).map_or(f64::INFINITY, |(earlier, later)| earlier + later);
        let elsewhere = (neighbours / (after - before).abs()).clamp(0.0, 1.0);
        let continued = if elsewhere.is_nan() { 0.25 } else { 1.0 - 0.75 * elsewhere };
        let (left, right, slope) = (point(first + 1)?, point(first + 2)?, slope(first + 1)?);
        Some(Self { left, right, before, slope, after, continued })
    }

    /// Where the continuations meet, if between the two knots.
    fn meeting(&self) -> Option<f64> {
        let width = self.right.0 - self.left.0;
        let rise = self.right.1 - self.left.1;
        let x = (rise - self.after * width) / (self.before - self.after);
        // Next to a knot a bend is no news.
        (x > 0.02 * width && x < 0.98 * width).then_some(self.left.0 + x)
    }

    /// Between the chord and the continuations, where those lie on one side of it and within its range; else on the
    /// chord.
    fn at(&self, x: f64) -> f64 {
        let from_left = x - self.left.0;
        let chord = self.left.1 + self.slope * from_left;
        let (left, right) =
            (self.left.1 + self.before * from_left, self.right.1 + self.after * (x - self.right.0));
        let continued = if self.before < self.slope && self.slope < self.after {
            left.max(right)
        } else if self.before > self.slope && self.slope > self.after {
            left.min(right)
        } else {
            chord
        };
        let (low, high) = (self.left.1.min(self.right.1), self.left.1.max(self.right.1));
        chord + self.continued * (continued.clamp(low, high) - chord)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knots at whole sizes from 0 to 8 of a curve given by its fetches.
    fn sampled(fetches: impl Fn(f64) -> f64) -> Vec<Knot> {
        let knot = |i: i32| {
            let bytes = f64::from(i);
            let value = fetches(bytes);
            Knot {
                bytes,
                cpi: 1.0 + 3.0 * value,
                misses: value,
                fetches: value,
                hits: 1.0 - value,
                stalled: 0.0,
            }
        };
        (0..=8).map(knot).collect()
    }

    fn value(knots: &[Knot], x: f64) -> f64 {
        let right = knots.iter().position(|k| k.bytes > x).unwrap();
        let (a, b) = (knots[right - 1], knots[right]);
        a.fetches + (b.fetches - a.fetches) * (x - a.bytes) / (b.bytes - a.bytes)
    }

    /// Largest error against the curve between sizes 1 and 7, with bends and without.
    fn errors(fetches: impl Fn(f64) -> f64) -> (f64, f64) {
        let plain = sampled(&fetches);
        let bent = bent(&plain);
        let worst = |knots: &[Knot]| {
            (0..600)
                .map(|i| 1.0 + f64::from(i) / 100.0)
                .map(|x| (value(knots, x) - fetches(x)).abs())
                .fold(0.0, f64::max)
        };
        (worst(&bent), worst(&plain))
    }

    #[test]
    fn a_sharp_bend_is_found_wherever_it_is() {
        for bend in [2.3, 3.1, 3.5, 3.77, 4.4, 5.9] {
            // A table read at random: misses fall in proportion until it fits.
            let (error, chord) = errors(|x| (1.0 - x / bend).max(0.01));
            assert!(error < 1e-9 && chord > 0.01, "{bend}: {error} {chord}");
        }
    }

    #[test]
    fn a_gentle_curve_is_no_worse_than_its_chords() {
        let curves: [fn(f64) -> f64; 3] =
            [|x| (-x / 2.0).exp(), |x| 1.0 / (1.0 + x), |x| 1.0 - 0.1 * x + 0.005 * x * x];
        for curve in curves {
            let (error, chord) = errors(curve);
            assert!(error <= chord * 1.0001, "{error} {chord}");
        }
    }

    #[test]
    fn all_quantities_bend_alike_and_stay_in_range() {
        for knot in bent(&sampled(|x| (1.0 - x / 3.6).max(0.02))) {
            assert!((knot.cpi - 1.0 - 3.0 * knot.fetches).abs() < 1e-12);
            assert!((knot.hits - 1.0 + knot.misses).abs() < 1e-12);
        }
        // A cliff bends one way and then the other: its chord stays.
        let cliff = sampled(|x| if x < 3.5 { 0.9 } else { 0.1 });
        assert_eq!(bent(&cliff), cliff);
    }
}
