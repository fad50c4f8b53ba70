//! What becomes of a program's reuses beside co-runners: which of them still hit, and what an access costs then.

use std::iter;
use std::sync::LazyLock;

use reuse_sampler::SetReuse;

use super::{CacheCurve, ReuseTimes};

/// Reuses at one distance that make up less than this part of the time between no cache and all of it are merged.
const NEGLIGIBLE: f64 = 1e-3;

/// Lines that co-runners insert into a set while a line is not used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foreign {
    pub lines: f64,    // mean
    pub variance: f64, // from set to set and from time to time
}

/// What an access costs with co-runners, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Met {
    pub time: f64,
    pub misses: f64,
    pub inflow: f64, // bytes fetched
}

impl Met {
    /// What an access costs in caches of these sizes, which fall. A curve may be measured faster in a smaller one; what is
    /// lost is lost nevertheless.
    pub(super) fn with_less(curve: &CacheCurve, sizes: impl Iterator<Item = f64>) -> Vec<Self> {
        let at = |bytes: f64| Self {
            time: curve.cpi(bytes) / curve.mix,
            misses: curve.miss_ratio(bytes),
            inflow: curve.fetch_ratio(bytes) * f64::from(curve.line_size),
        };
        let rising = sizes.scan(Self::default(), |most, size| {
            *most = most.and_at_least(&at(size));
            Some(*most)
        });
        rising.collect()
    }

    /// The larger of each.
    fn and_at_least(&self, of: &Self) -> Self {
        Self {
            time: self.time.max(of.time),
            misses: self.misses.max(of.misses),
            inflow: self.inflow.max(of.inflow),
        }
    }

    /// By how much it is more, of each.
    pub(super) fn beyond(&self, of: &Self) -> Self {
        Self { time: self.time - of.time, misses: self.misses - of.misses, inflow: self.inflow - of.inflow }
    }

    /// A part of it.
    fn part(&self, part: f64) -> Self {
        Self { time: part * self.time, misses: part * self.misses, inflow: part * self.inflow }
    }

    pub(super) fn add(&mut self, of: &Self, part: f64) {
        self.time += part * of.time;
        self.misses += part * of.misses;
        self.inflow += part * of.inflow;
    }
}

/// Reuse times with what depends on them: made once from a curve and its reuses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Returns {
    times: ReuseTimes,
    near: Met,          // where all reuses on the curve hit
    groups: Vec<Group>, // by time
    cells: Vec<Cell>,
}

/// Reuses after the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Group {
    accesses: f64,
    end: usize, // of its cells
}

/// Reuses past one number of lines.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    distance: f64,
    lost: Met, // if all of them miss
}

/// Times and parts of all `reuses`, which come by their times. A part below `least` goes with those after it, and at the
/// end with the last.
fn parts<'a>(reuses: impl Iterator<Item = &'a SetReuse> + Clone, least: f64) -> Vec<(f64, f64)> {
    let count: f64 = reuses.clone().map(|reuse| reuse.count).sum();
    let (mut parts, mut gathered): (Vec<(f64, f64)>, f64) = (Vec::new(), 0.0);
    let mut latest = 0.0;
    for reuse in reuses {
        latest = reuse.accesses;
        gathered += reuse.count / count;
        if gathered >= least {
            parts.push((latest, gathered));
            gathered = 0.0;
        }
    }
    match parts.last_mut() {
        Some((_, last)) => *last += gathered,
        None if gathered > 0.0 => parts.push((latest, gathered)),
        None => {}
    }
    parts
}

impl Returns {
    pub(super) fn new(curve: &CacheCurve, times: ReuseTimes) -> Self {
        let (way, line) = (times.way_bytes() as f64, f64::from(curve.line_size()));
        let depth = (curve.largest() as f64 / way).ceil().max(1.0);
        let ways = Met::with_less(curve, (0..=depth as u32).rev().map(|ways| f64::from(ways) * way));
        let near = ways[0];
        let span = ways[depth as usize].beyond(&near);
        let mut all: Vec<(f64, Cell)> = Vec::new();
        for (distance, pair) in (0..depth as u32).rev().map(f64::from).zip(ways.windows(2)) {
            let mut lost = pair[1].beyond(&pair[0]);
            let at = |reuse: &&SetReuse| f64::from(reuse.distance) == distance;
            let ahead = lost.inflow - lost.misses * line;
            if ahead > 0.0 {
                let fetched = parts(times.prefetches().iter().filter(at), NEGLIGIBLE * span.inflow / ahead);
                if !fetched.is_empty() {
                    lost.inflow -= ahead;
                }
                all.extend(fetched.into_iter().map(|(accesses, part)| {
                    (accesses, Cell { distance, lost: Met { inflow: part * ahead, ..Met::default() } })
                }));
            }
            let mut parts = parts(times.reuses().iter().filter(at), NEGLIGIBLE * span.time / lost.time);
            if parts.is_empty() && pair[0] != pair[1] {
                // Some hit there, though none was counted: they take as long as the program takes to fill as much alone.
                parts.push((curve.filling().accesses((distance + 0.5) * way).max(1.0), 1.0));
            }
            all.extend(
                parts
                    .into_iter()
                    .map(|(accesses, part)| (accesses, Cell { distance, lost: lost.part(part) })),
            );
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut groups = Vec::new();
        let mut end = 0;
        for group in all.chunk_by(|a, b| a.0 == b.0) {
            end += group.len();
            groups.push(Group { accesses: group[0].0, end });
        }
        let cells = all.into_iter().map(|(_, cell)| cell).collect();
        Self { times, near, groups, cells }
    }

    /// Bytes of a way of the cache that distances were counted in.
    pub(super) const fn way(&self) -> f64 {
        self.times.way_bytes() as f64
    }

    /// The reuse times as they were given.
    pub(super) const fn times(&self) -> &ReuseTimes {
        &self.times
    }

    /// Variance of how many lines come into a set where `lines` do on average.
    pub(super) fn variance(&self, lines: f64) -> f64 {
        self.times.variance(lines)
    }

    /// What an access costs in a cache of `ways` ways, where co-runners insert `foreign(n)` lines into a set in the time of
    /// n accesses. It is called with rising times.
    ///
    /// A line is still there if fewer than `ways - distance` lines of others came into its set. How many do is taken to
    /// be normally distributed, a line being as wide as it is.
    pub(crate) fn met(&self, ways: f64, mut foreign: impl FnMut(f64) -> Foreign) -> Met {
        let mut met = self.near;
        let mut begin = 0;
        for group in &self.groups {
            let others = foreign(group.accesses);
            // Lines are whole: between two numbers of them, one set has the smaller and another the larger one.
            let part = others.lines - others.lines as u64 as f64;
            let scale = 1.0 / others.variance.max(part * (1.0 - part)).max(1e-9).sqrt();
            for cell in &self.cells[begin..group.end] {
                let room = ways - cell.distance;
                let gone = if room >= 1.0 {
                    below((others.lines - room + 0.5) * scale)
                } else {
                    // A part of the sets has a way more than the others.
                    1.0 - room.max(0.0)
                };
                if gone > 0.0 {
                    met.add(&cell.lost, gone);
                }
            }
            begin = group.end;
        }
        met
    }
}

/// The probability that a standard normal variable lies below `x`, to 2e-5: read off a table.
#[inline]
fn below(x: f64) -> f64 {
    let place = (x.clamp(-WIDEST, WIDEST) + WIDEST) * STEPS;
    let left = place as usize;
    let part = place - left as f64;
    let table = &*BELOW;
    match (table.get(left), table.get(left + 1)) {
        (Some(left), Some(right)) => left + part * (right - left),
        (Some(last), None) => *last,
        (None, _) => f64::NAN, // the table reaches as far as that
    }
}

/// How far from the middle the table reaches, and entries of it for each standard deviation.
const WIDEST: f64 = 4.5;
const STEPS: f64 = 64.0;

static BELOW: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let last = (2.0 * WIDEST * STEPS) as usize;
    let at = |i: usize| normal(i as f64 / STEPS - WIDEST);
    // Nothing is lost beyond the ends.
    iter::once(0.0).chain((1..last).map(at)).chain([1.0]).collect()
});

/// The same to 1e-5: Abramowitz and Stegun, 26.2.16.
fn normal(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.332_67 * x.abs());
    let density =
        std::f64::consts::FRAC_1_SQRT_2 * 0.5 * std::f64::consts::FRAC_2_SQRT_PI * (-0.5 * x * x).exp();
    let tail = density * t * (0.436_183_6 + t * (-0.120_167_6 + t * 0.937_298));
    if x > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CurvePoint, Error};

    const WAY: u64 = 4096;

    /// A program that finds a line in the way where it is with probability 1 / 10, in ten ways of sixteen.
    fn curve() -> CacheCurve {
        let point = |way: u64| {
            let misses = (1.0 - way as f64 / 10.0).max(0.0);
            let cpi = 10.0 + 120.0 * misses;
            CurvePoint::new(way * WAY, cpi, misses).with_hit_rate((1.0 - misses) / cpi)
        };
        CacheCurve::new((1..=16).map(point).collect(), 1.0, 64).unwrap()
    }

    fn reuse(distance: u32, accesses: f64) -> SetReuse {
        SetReuse { distance, accesses, count: 1.0 }
    }

    #[test]
    fn others_take_their_ways() {
        let reuses = (0..10).flat_map(|d| (1..=5).map(move |n| reuse(d, f64::from(100 * n + 10 * d))));
        let times = ReuseTimes::new(WAY, vec![0.5], reuses).unwrap();
        let with = curve().with_reuse_times(times).unwrap();
        let returns = with.returns(Some(WAY as f64)).unwrap();
        for ways in 1..=16 {
            for lines in 0..=20 {
                let met =
                    returns.met(f64::from(ways), |_| Foreign { lines: f64::from(lines), variance: 0.0 });
                let left = f64::from((ways - lines).max(0)) * WAY as f64;
                let expected = [with.cpi(left), with.miss_ratio(left), with.fetch_ratio(left)];
                for (met, expected) in [met.time, met.misses, met.inflow / 64.0].into_iter().zip(expected) {
                    assert!((met - expected).abs() < 1e-9, "{ways} {lines}: {met} {expected}");
                }
            }
        }
        assert!(with.returns(Some(2.0 * WAY as f64)).is_none() && with.returns(None).is_none());
    }

    /// Tree-PLRU may miss less with fewer ways; beside others a program is no faster for it.
    #[test]
    fn no_co_runner_makes_a_program_faster_than_alone() {
        let points = (1..=16).map(|way: u64| {
            let misses = if way == 9 { 0.0 } else { 0.5 - way as f64 / 100.0 };
            let point = |cpi| CurvePoint::new(way * WAY, cpi, misses);
            point(1.0 + 100.0 * misses)
        });
        let curve = CacheCurve::new(points.collect(), 1.0, 64).unwrap();
        let all = 16.0 * WAY as f64;
        let reuses = (0..16).map(|d| reuse(d, if d < 9 { 1e6 } else { 10.0 }));
        let with = curve.with_reuse_times(ReuseTimes::new(WAY, vec![0.5], reuses).unwrap()).unwrap();
        for after in [5.0, 1e5] {
            let foreign =
                |accesses: f64| Foreign { lines: if accesses > after { 20.0 } else { 0.0 }, variance: 0.0 };
            let met = with.returns(Some(WAY as f64)).unwrap().met(16.0, foreign);
            assert!(met.time >= with.cpi(all) && met.time <= with.cpi(0.0), "{after}: {}", met.time);
            assert!(met.misses >= with.miss_ratio(all) && met.inflow >= 64.0 * with.fetch_ratio(all));
        }
    }

    #[test]
    fn what_was_not_counted_takes_as_long_as_filling_alone() {
        let with = curve().with_reuse_times(ReuseTimes::new(WAY, Vec::new(), []).unwrap()).unwrap();
        let mut asked = Vec::new();
        let met = with.returns(Some(WAY as f64)).unwrap().met(16.0, |accesses| {
            asked.push(accesses);
            Foreign::default()
        });
        assert!((met.time - with.cpi(16.0 * WAY as f64)).abs() < 1e-9);
        assert!(asked.len() == 10 && asked.is_sorted(), "{asked:?}");
        assert!((asked[4] / with.filling().accesses(4.5 * WAY as f64) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_hardly_matters_goes_with_its_neighbour() {
        let all = [reuse(0, 1.0), SetReuse { count: 7.0, ..reuse(0, 4.0) }, reuse(0, 9.0), reuse(0, 16.0)];
        let of = |least| -> Vec<(f64, f64)> {
            parts(all.iter(), least).into_iter().map(|(time, part)| (time, (10.0 * part).round())).collect()
        };
        assert_eq!(of(0.0), [(1.0, 1.0), (4.0, 7.0), (9.0, 1.0), (16.0, 1.0)]);
        assert_eq!(of(0.15), [(4.0, 8.0), (16.0, 2.0)]);
        assert_eq!(of(0.75), [(4.0, 10.0)]);
        assert_eq!(of(f64::INFINITY), [(16.0, 10.0)]);
        assert_eq!(parts([].iter(), 0.1), []);
    }

    #[test]
    fn below_is_the_integral_of_the_density() {
        let (mut sum, step, mut x) = (0.0, 1e-3, -8.0_f64);
        while x < 6.0 {
            assert!((below(x) - sum).abs() < 3e-5, "{x}: {} {sum}", below(x));
            let middle = x + 0.5 * step;
            sum += step * (-0.5 * middle * middle).exp() / (2.0 * std::f64::consts::PI).sqrt();
            x += step;
        }
        assert_eq!((below(f64::NEG_INFINITY), below(f64::INFINITY)), (0.0, 1.0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let new = |way, variance, accesses, count| {
            ReuseTimes::new(way, vec![1.0, variance], [SetReuse { distance: 3, accesses, count }])
        };
        assert!(new(WAY, 0.0, 1.0, 1.0).is_ok());
        for (way, variance, accesses, count) in [
            (0, 0.0, 1.0, 1.0),
            (WAY, -0.1, 1.0, 1.0),
            (WAY, f64::NAN, 1.0, 1.0),
            (WAY, 0.0, 0.0, 1.0),
            (WAY, 0.0, f64::INFINITY, 1.0),
            (WAY, 0.0, 1.0, -1.0),
        ] {
            assert!(new(way, variance, accesses, count).is_err(), "{way} {variance} {accesses} {count}");
        }
        // A curve of sixteen ways of 4096 bytes; a file may say anything.
        let ways_of = |bytes| curve().with_reuse_times(ReuseTimes::new(bytes, Vec::new(), []).unwrap());
        assert!(ways_of(16).is_ok());
        assert!(matches!(ways_of(15), Err(Error::Value { what: "a way in bytes", .. })));
    }
}
