use quickcheck::quickcheck;

use reuse_sampler::SetReuse;

use super::*;

fn point(bytes: u64, cpi: f64, misses: f64) -> CurvePoint {
    CurvePoint::new(bytes, cpi, misses)
}

/// A curve over 1 to n KiB whose misses fall by the drawn steps.
fn falling(draws: &[u8], mix: f64) -> CacheCurve {
    let total: f64 = draws.iter().copied().map(f64::from).sum::<f64>() + 1.0;
    let mut left = total;
    let points = draws.iter().zip(1..).map(|(&draw, kib)| {
        left -= f64::from(draw);
        let misses = 0.2 * left / total;
        let cpi = 1.0 + mix * (1.0 + 100.0 * misses);
        CurvePoint { hit_rate: Some((0.2 - misses).max(0.0) * mix / cpi), ..point(kib << 10, cpi, misses) }
    });
    CacheCurve::new(points.collect(), mix, 64).unwrap()
}

#[test]
fn values_between_points_lie_on_the_straight_line() {
    let curve = CacheCurve::new(vec![point(1000, 4.0, 0.2), point(3000, 2.0, 0.1)], 0.5, 64).unwrap();
    for (bytes, cpi, misses) in
        [(1000.0, 4.0, 0.2), (2000.0, 3.0, 0.15), (2500.0, 2.5, 0.125), (3000.0, 2.0, 0.1)]
    {
        assert!((curve.cpi(bytes) - cpi).abs() < 1e-12);
        assert!((curve.miss_ratio(bytes) - misses).abs() < 1e-12);
    }
}

#[test]
fn values_outside_are_held_and_said_to_be_outside() {
    let curve = CacheCurve::new(vec![point(1000, 4.0, 0.2), point(3000, 2.0, 0.1)], 0.5, 64).unwrap();
    assert_eq!((curve.cpi(10.0), curve.cpi(1e9)), (4.0, 2.0));
    assert_eq!(
        [10.0, 999.0, 1000.0, 3000.0, 3001.0].map(|b| curve.covers(b)),
        [false, false, true, true, false]
    );
}

#[test]
fn hit_rates_lead_to_the_cache_of_size_zero() {
    // 0.3 of the accesses get past the private caches; a miss costs 100 cycles, an access 2, and mix is 0.5.
    let cpi = |misses: f64| 1.0 + 0.5 * (2.0 + 100.0 * misses);
    let at = |bytes, misses: f64| CurvePoint {
        hit_rate: Some((0.3 - misses) * 0.5 / cpi(misses)),
        ..point(bytes, cpi(misses), misses)
    };
    let curve = CacheCurve::new(vec![at(1000, 0.2), at(3000, 0.05)], 0.5, 64).unwrap();
    assert!((curve.reaching().unwrap() - 0.3).abs() < 1e-12);
    assert!((curve.miss_ratio(0.0) - 0.3).abs() < 1e-12);
    assert!((curve.cpi(0.0) - cpi(0.3)).abs() < 1e-9);
    assert!((curve.cpi(500.0) - cpi(0.25)).abs() < 1e-9);
    for bytes in [0.0, 700.0, 1000.0, 2222.0, 3000.0] {
        assert!((curve.miss_ratio(bytes) + curve.hit_ratio(bytes) - 0.3).abs() < 1e-12);
    }
}

#[test]
fn rates_and_ratios_are_each_others_inverse() {
    let rates = Rates { miss_rate: 0.01, hit_rate: 0.03, fetch_rate: 0.02 };
    let curve = CacheCurve::new(vec![CurvePoint::from_rates(4096, 2.5, 0.4, rates)], 0.4, 64).unwrap();
    let read = curve.rates(4096.0);
    let pairs = [
        (read.miss_rate, rates.miss_rate),
        (read.hit_rate, rates.hit_rate),
        (read.fetch_rate, rates.fetch_rate),
        (curve.bandwidth(4096.0), rates.fetch_rate * 64.0),
    ];
    for (read, given) in pairs {
        assert!((read / given - 1.0).abs() < 1e-12);
    }
}

#[test]
fn bad_points_are_refused_by_name() {
    let new = |points: Vec<CurvePoint>, mix, line| CacheCurve::new(points, mix, line).unwrap_err();
    let good = point(1000, 4.0, 0.2);
    assert_eq!(new(vec![], 0.5, 64), Error::NoPoints);
    assert_eq!(new(vec![good, good], 0.5, 64), Error::Sizes { bytes: 1000, before: 1000 });
    assert_eq!(new(vec![CurvePoint { bytes: 0, ..good }], 0.5, 64), Error::Sizes { bytes: 0, before: 0 });
    assert_eq!(new(vec![good], 0.5, 48), Error::LineSize { bytes: 48 });
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(new(vec![good], bad, 64), Error::Value { what: "a mix", .. }));
        let cpi = CurvePoint { cpi: bad, ..good };
        assert!(matches!(new(vec![cpi], 0.5, 64), Error::Point { what: "a CPI", bytes: 1000, .. }));
    }
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        let misses = CurvePoint { miss_ratio: bad, ..good };
        assert!(matches!(new(vec![misses], 0.5, 64), Error::Point { what: "a miss ratio", .. }));
        let fetches = CurvePoint { fetch_ratio: bad, ..good };
        assert!(matches!(new(vec![fetches], 0.5, 64), Error::Point { what: "a fetch ratio", .. }));
        let hits = CurvePoint { hit_rate: Some(bad), ..good };
        assert!(matches!(new(vec![hits], 0.5, 64), Error::Point { what: "a hit rate", .. }));
    }
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let stalls = good.with_stall_rate(bad);
        assert!(matches!(new(vec![stalls], 0.5, 64), Error::Point { what: "a stall rate", .. }));
    }
}

#[test]
fn stalls_are_known_where_every_point_has_them() {
    let slow = point(1000, 4.0, 0.2).with_stall_rate(0.5);
    let of = |fast: CurvePoint| CacheCurve::new(vec![slow, fast], 0.5, 64).unwrap();
    let curve = of(point(2000, 2.0, 0.1).with_stall_rate(0.25));
    // Stalled cycles per access: part of the time x CPI / mix.
    for (bytes, stalled) in [(1000.0, 4.0), (1500.0, 2.5), (2000.0, 1.0), (9000.0, 1.0)] {
        assert!((curve.stalled(bytes).unwrap() - stalled).abs() < 1e-12, "{bytes}");
    }
    assert_eq!(of(point(2000, 2.0, 0.1)).stalled(1000.0), None);
    let both = average(&[(1.0, &curve), (3.0, &curve)]).unwrap();
    assert_eq!(both.stalled(1000.0), curve.stalled(1000.0));
}

#[test]
fn filling_is_the_integral() {
    let curve = falling(&[9, 0, 30, 2, 200, 0, 0, 1], 0.4);
    for end in [300.0, 1024.0, 2500.0, 4096.0, 5000.0, 8192.0] {
        // The trapezium rule on a grid of a tenth of a byte, over which 1 / m changes by less than 1e-4.
        let steps = (end * 10.0) as u32;
        let h = end / f64::from(steps);
        let inverse = |i: u32| 1.0 / (64.0 * curve.fetch_ratio(h * f64::from(i)).max(1e-6));
        let integral: f64 = (0..steps).map(|i| h * 0.5 * (inverse(i) + inverse(i + 1))).sum();
        let filled = curve.filling().accesses(end);
        assert!((filled / integral - 1.0).abs() < 1e-6, "{end}: {filled} {integral}");
    }
}

/// The footprint says how fast a program fills a cache, whatever it misses there.
#[test]
fn a_cache_is_filled_as_the_footprint_says() {
    let curve = CacheCurve::new((1..=8).map(|way| point(way * 1024, 3.0, 0.2)).collect(), 0.5, 64).unwrap();
    let times =
        || ReuseTimes::new(1024, vec![1.0; 8], [SetReuse { distance: 2, accesses: 90.0, count: 4.0 }]);
    let with = |times: ReuseTimes| curve.clone().with_reuse_times(times).unwrap();
    let after = |curve: &CacheCurve, accesses: f64| {
        let mut at = Lookup::default();
        curve.filling().after(accesses, &mut at);
        at.bytes / 64.0
    };
    assert_eq!(after(&with(times().unwrap()), 300.0), after(&curve, 300.0));
    // A walk round sixty lines: new ones in the first round only.
    let round = times().unwrap().with_footprint([(60.0, 60.0), (1e6, 60.0)]).unwrap();
    let walk = with(round.clone());
    assert!((after(&walk, 30.0) - 30.0).abs() < 1e-9);
    assert!((after(&walk, 3000.0) - 60.0).abs() < 0.01, "{}", after(&walk, 3000.0));
    assert_eq!((walk.miss_ratio(4096.0), walk.fetch_ratio(4096.0)), (0.2, 0.2));
    // What was used since 40 accesses ago is half of what there is; since 80 ago, all.
    let mut at = Lookup::default();
    walk.filling().grown(40.0 * 64.0, 40.0, 15.0, &mut at);
    assert!((at.bytes / 64.0 - 55.0).abs() < 1e-9);
    walk.filling().grown(60.0 * 64.0, 80.0, 15.0, &mut at);
    assert!((at.bytes / 64.0 - 60.0).abs() < 0.01);
    // Three windows that use nothing and one that walks.
    let none = times().unwrap().with_footprint([(100.0, 0.0)]).unwrap();
    let together = ReuseTimes::together([(3.0, Some(&none)), (1.0, Some(&round))].into_iter()).unwrap();
    assert_eq!(together.footprint(), [(60.0, 15.0), (100.0, 15.0), (1e6, 15.0)]);
    for bad in [
        [(0.0, 0.0), (1.0, 1.0)],
        [(2.0, 1.0), (1.0, 1.0)],
        [(1.0, 1.0), (2.0, 0.5)],
        [(1e-300, 1e15), (1e24, 1e15)],
    ] {
        assert!(times().unwrap().with_footprint(bad).is_err(), "{bad:?}");
    }
    assert!(times().unwrap().with_footprint([(1.0, f64::NAN)]).is_err());
    // Whatever a file says, a cache is full some day.
    for odd in [[(1e-300, 1e-291), (1e24, 1e15)], [(1.0, 0.0), (1e24, 0.0)], [(1.0, 0.0), (2.0, 1e9)]] {
        let odd = with(times().unwrap().with_footprint(odd).unwrap());
        let filled = odd.filling().accesses(8192.0);
        assert!(filled.is_finite() && filled > 0.0 && after(&odd, filled) > 127.0, "{filled}");
    }
}

#[test]
fn a_program_that_fits_fills_the_cache_all_the_same() {
    let curve = CacheCurve::new(vec![point(1000, 4.0, 0.2), point(2000, 2.0, 0.0)], 0.5, 64).unwrap();
    let mut at = Lookup::default();
    curve.filling().after(1e12, &mut at);
    assert!(at.bytes > 2000.0 && at.inflow > 0.0);
}

quickcheck! {
    fn filling_and_its_inverse_agree(draws: Vec<u8>, sizes: Vec<u16>) -> bool {
        let curve = falling(if draws.is_empty() { &[1] } else { &draws }, 0.3);
        let largest = curve.largest() as f64;
        // One lookup for all, so that searches start from everywhere.
        let mut at = Lookup::default();
        sizes.iter().all(|&size| {
            let bytes = largest * 1.2 * f64::from(size) / 65536.0;
            let mut there = Lookup::default();
            curve.filling().at(bytes, &mut there);
            curve.filling().after(curve.filling().accesses(bytes), &mut at);
            (at.bytes - bytes).abs() < 1e-6 * largest
                && (at.inflow / there.inflow - 1.0).abs() < 1e-5
                && (at.time - there.time).abs() < 1e-6 * there.time
        })
    }

    fn times_and_inflows_are_those_of_the_curve(draws: Vec<u8>, size: u16) -> bool {
        let curve = falling(if draws.is_empty() { &[1] } else { &draws }, 0.3);
        let bytes = curve.largest() as f64 * f64::from(size) / 65535.0;
        let mut at = Lookup::default();
        curve.filling().at(bytes, &mut at);
        (at.time * 0.3 - curve.cpi(bytes)).abs() < 1e-9
            && (at.inflow / 64.0 - curve.fetch_ratio(bytes).max(1e-6)).abs() < 1e-12
    }

    fn where_any_line_may_leave_what_is_lost_costs_what_the_curve_says(draws: Vec<u8>, rate: u8, more: u8) -> bool {
        let curve = falling(if draws.is_empty() { &[1] } else { &draws }, 0.3);
        let bytes = curve.largest() as f64;
        let chances = Chances::new(&curve, bytes);
        let rate = (1.0 + f64::from(rate)) * 1e-4;
        let met = |together: f64| {
            chances.met(|accesses| Exchanged { together: together * accesses, alone: rate * accesses })
        };
        let is = |met: Met, bytes: f64| {
            (met.time * 0.3 - curve.cpi(bytes)).abs() < 1e-9 && (met.misses - curve.miss_ratio(bytes)).abs() < 1e-12
        };
        let some = met(rate * (1.0 + f64::from(more) / 16.0));
        // Found between the sizes with more and with fewer misses.
        let (mut none, mut whole) = (0.0, bytes);
        for _ in 0..60 {
            let middle = f64::midpoint(none, whole);
            if curve.miss_ratio(middle) > some.misses { none = middle } else { whole = middle }
        }
        is(met(rate), bytes)
            && (is(met(f64::INFINITY), 0.0) || curve.miss_ratio(0.0) == curve.miss_ratio(bytes))
            && some.misses >= curve.miss_ratio(bytes)
            && (curve.miss_ratio(whole) - some.misses).abs() < 1e-9
            && (curve.cpi(whole) - some.time * 0.3).abs() < 1e-6 * curve.cpi(whole)
    }

    fn the_hull_is_the_least_concave_curve_above(draws: Vec<u8>) -> bool {
        let curve = falling(if draws.is_empty() { &[1] } else { &draws }, 0.3);
        let hits: Vec<(f64, f64)> =
            curve.knots.iter().map(|k| (k.bytes, k.hits)).collect();
        // The highest chord over each knot, by trying all.
        let highest = |x: f64| {
            let chord = |a: &(f64, f64), b: &(f64, f64)| {
                if a.0 == b.0 { a.1 } else { a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0) }
            };
            let left = || hits.iter().filter(|a| a.0 <= x);
            left().flat_map(|a| hits.iter().filter(|b| b.0 >= x).map(move |b| chord(a, b))).fold(0.0, f64::max)
        };
        let falls = curve.hull().windows(2).all(|w| w[0].slope > w[1].slope);
        let hull_at = |x: f64| {
            let (mut from, mut value) = (0.0, 0.0);
            for step in curve.hull() {
                value += step.slope * (x - from).clamp(0.0, step.bytes);
                from += step.bytes;
            }
            value
        };
        falls && hits.iter().all(|&(x, _)| (hull_at(x) - highest(x)).abs() < 1e-9)
    }

    fn an_average_is_what_a_program_in_turn_does(a: Vec<u8>, b: Vec<u8>, size: usize) -> bool {
        let (a, b) = (
            falling(if a.is_empty() { &[1] } else { &a }, 0.3),
            falling(if b.is_empty() { &[1] } else { &b }, 0.6),
        );
        let both = average(&[(3.0, &a), (1.0, &b)]).unwrap();
        // Between measured sizes each has bends of its own.
        let x = both.points()[size % both.points().len()].bytes as f64;
        let time = 3.0 * a.cpi(x) + b.cpi(x);
        let accesses: f64 = 3.0 * 0.3 + 0.6;
        let misses = 3.0 * 0.3 * a.miss_ratio(x) + 0.6 * b.miss_ratio(x);
        let hits = 3.0 * 0.3 * a.hit_ratio(x) + 0.6 * b.hit_ratio(x);
        (both.cpi(x) - time / 4.0).abs() < 1e-9
            && (both.mix() - accesses / 4.0).abs() < 1e-12
            && (both.miss_ratio(x) - misses / accesses).abs() < 1e-9
            && (both.hit_ratio(x) - hits / accesses).abs() < 1e-9
    }
}
