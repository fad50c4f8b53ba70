//! A cache of sets against a simulated one: what fits only just is lost where others come in unevenly.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use cachesharing::{
    CacheCurve, CurvePoint, EvictionAge, Probes, ReuseTimes, SetReuse, SharedCache, Sharing, share,
};
use common::{Draws, LINE, scan, stream, uniform};

const WAYS: usize = 16;
const SETS: u64 = 64;
const CACHE: u64 = WAYS as u64 * SETS * LINE;
const MIX: f64 = 0.3;

/// Times per instruction of two programs in an LRU cache of sets, by playing them: each tells the line it touches next
/// and the set that belongs in.
fn simulated(next: [&mut dyn FnMut() -> (u64, u64); 2], accesses: usize) -> [f64; 2] {
    let mut sets: Vec<Vec<(usize, u64)>> = vec![Vec::new(); SETS as usize];
    let (mut clocks, mut counted) = ([0.0; 2], [(0.0, 0.0); 2]);
    for tick in 0..accesses {
        let who = usize::from(clocks[1] < clocks[0]);
        let (line, set) = next[who]();
        let set = &mut sets[set as usize];
        let found = set.iter().position(|&entry| entry == (who, line));
        let time = 1.0 / MIX + if found.is_some() { 10.0 } else { 130.0 };
        match found {
            Some(place) => drop(set.remove(place)),
            None if set.len() == WAYS => drop(set.remove(0)),
            None => {}
        }
        set.push((who, line));
        clocks[who] += time;
        if tick > accesses / 2 {
            counted[who].0 += time;
            counted[who].1 += 1.0 / MIX;
        }
    }
    counted.map(|(time, instructions)| time / instructions)
}

/// The same of two programs whose accesses are drawn uniformly from so many lines each, next to each other.
fn played(lines: [u64; 2], accesses: usize) -> [f64; 2] {
    let draws = std::cell::RefCell::new(Draws(88_172_645_463_325_252));
    let draw = |lines| {
        let line = draws.borrow_mut().below(lines);
        (line, line % SETS)
    };
    simulated([&mut || draw(lines[0]), &mut || draw(lines[1])], accesses)
}

fn predicted(lines: [u64; 2], ways: Option<u32>) -> [f64; 2] {
    let mut cache = SharedCache::new(CACHE).unwrap();
    if let Some(ways) = ways {
        cache = cache.with_ways(ways).unwrap();
    }
    let curves = lines.map(|lines| uniform(1.0, MIX, (lines * LINE) as f64, CACHE));
    let mut sharing = Sharing::default();
    share(&EvictionAge::default(), &cache, &[&curves[0], &curves[1]], Probes::One, &mut sharing).unwrap();
    assert!(sharing.converged(), "{}", sharing.residual());
    [sharing.shares()[0].cpi, sharing.shares()[1].cpi]
}

#[test]
fn telling_sets_apart_comes_nearer_to_the_truth() {
    // Ten or eleven of sixteen ways, beside lines that hardly ever come back.
    for lines in [640, 672, 704] {
        let lines = [lines, 200_000];
        let (truth, alike, apart) =
            (played(lines, 1_500_000), predicted(lines, None), predicted(lines, Some(16)));
        let error = |of: [f64; 2]| (of[0] / truth[0] - 1.0).abs();
        assert!(error(alike) > 0.03, "nothing to correct: {truth:?} {alike:?}");
        assert!(error(apart) < 0.8 * error(alike), "{truth:?} {alike:?} {apart:?}");
        // It does not touch who has nothing to lose.
        assert!((apart[1] / truth[1] - 1.0).abs() < 0.005, "{truth:?} {apart:?}");
    }
}

#[test]
fn many_ways_are_one_set() {
    for lines in [[640, 200_000], [3000, 900]] {
        let (alike, apart) = (predicted(lines, None), predicted(lines, Some(1 << 20)));
        for (a, b) in alike.iter().zip(apart) {
            // The lognormal's variance is a millionth.
            assert!((a / b - 1.0).abs() < 1e-3, "{alike:?} {apart:?}");
        }
    }
    assert!(SharedCache::new(CACHE).unwrap().with_ways(0).is_err());
}

#[test]
fn a_walk_that_fits_in_some_sets_stands_on_a_cliff() {
    // Fifteen of sixteen lines of each set, in order, beside a table of three more, which lie where a hash puts them.
    let (walk, table) = (15 * SETS, 3 * SETS);
    let mut draws = Draws(3);
    let sets: Vec<u64> = (0..table).map(|_| draws.below(SETS)).collect();
    let mut at = 0;
    let mut step = || {
        at = (at + 1) % walk;
        (at, at % SETS)
    };
    let mut pick = || {
        let line = draws.below(table);
        (line, sets[line as usize])
    };
    let truth = simulated([&mut step, &mut pick], 1_500_000)[0];
    let curves =
        [scan(1.0, MIX, (walk * LINE) as f64, CACHE), uniform(1.0, MIX, (table * LINE) as f64, CACHE)];
    let flagged = |cache: SharedCache| {
        let mut sharing = Sharing::default();
        share(&EvictionAge::default(), &cache, &[&curves[0], &curves[1]], Probes::Cliffs, &mut sharing)
            .unwrap();
        (sharing.shares()[0].on_cliff, sharing.shares()[0].cpi_range)
    };
    let cache = SharedCache::new(CACHE).unwrap();
    let (alike, apart) = (flagged(cache), flagged(cache.with_ways(WAYS as u32).unwrap()));
    assert!(!alike.0 && truth < 0.97 * alike.1.0, "sets are nothing to tell apart: {truth} {alike:?}");
    assert!(apart.0 && (apart.1.0..=apart.1.1).contains(&truth), "{truth} {apart:?}");
}

#[test]
fn whoever_is_alone_has_the_whole() {
    let cache = SharedCache::new(CACHE).unwrap().with_ways(16).unwrap();
    for curve in
        [uniform(0.4, MIX, 2.0 * CACHE as f64, CACHE), stream(0.2, MIX, CACHE), scan(0.3, MIX, 3000.0, CACHE)]
    {
        let mut sharing = Sharing::default();
        share(&EvictionAge::default(), &cache, &[&curve], Probes::Cliffs, &mut sharing).unwrap();
        assert!((sharing.shares()[0].bytes / CACHE as f64 - 1.0).abs() < 1e-6);
        assert!((sharing.shares()[0].cpi / curve.cpi(CACHE as f64) - 1.0).abs() < 1e-6);
    }
}

/// What a program does alone in the sets: its curve over the ways, and its reuse times.
fn counted(next: &mut dyn FnMut() -> (u64, u64), accesses: u64) -> CacheCurve {
    let mut sets: Vec<Vec<(u64, u64)>> = vec![Vec::new(); SETS as usize]; // lines and when, the youngest first
    let (mut within, mut reuses) = ([0_u64; WAYS], Vec::new());
    let (mut variances, mut looks) = (vec![0.0; WAYS], 0.0);
    for now in 0..2 * accesses {
        let (line, set) = next();
        let set = &mut sets[set as usize];
        if let Some(distance) = set.iter().position(|entry| entry.0 == line) {
            let (_, when) = set.remove(distance);
            if now >= accesses && distance < WAYS {
                within[distance] += 1;
                reuses.push(SetReuse {
                    distance: distance as u32,
                    accesses: (now - when) as f64,
                    count: 1.0,
                });
            }
        }
        set.insert(0, (line, now));
        set.truncate(4 * WAYS);
        if now >= accesses && now % 5000 == 0 {
            looks += 1.0;
            let mut all: Vec<u64> = sets.iter().flatten().map(|entry| entry.1).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            for (lines, sum) in (1..).zip(&mut variances) {
                let since = all[(lines * sets.len()).min(all.len()) - 1];
                let counts = sets.iter().map(|set| set.iter().filter(|e| e.1 >= since).count() as f64);
                let (one, two) = counts.fold((0.0, 0.0), |(one, two), c| (one + c, two + c * c));
                let mean = one / sets.len() as f64;
                *sum += two / sets.len() as f64 - mean * mean;
            }
        }
    }
    let variances = variances.iter().map(|sum| sum / looks).collect();
    let point = |ways: usize| {
        let hits = within[..ways].iter().sum::<u64>() as f64 / accesses as f64;
        let cpi = 1.0 + MIX * (10.0 * hits + 130.0 * (1.0 - hits));
        CurvePoint::new(ways as u64 * SETS * LINE, cpi, 1.0 - hits).with_hit_rate(hits * MIX / cpi)
    };
    let curve = CacheCurve::new((1..=WAYS).map(point).collect(), MIX, LINE as u32).unwrap();
    curve.with_reuse_times(ReuseTimes::new(SETS * LINE, variances, reuses).unwrap()).unwrap()
}

#[test]
fn knowing_when_lines_are_used_again_comes_nearest_to_the_truth() {
    // Tables read at random and walks in order, of so many lines for each set, with lines in the sets in turn.
    type Play = Box<dyn FnMut() -> (u64, u64)>;
    let table = |lines: u64, seed| -> Play {
        let mut draws = Draws(seed);
        Box::new(move || {
            let line = draws.below(lines * SETS);
            (line, line % SETS)
        })
    };
    let walk = |lines: u64| -> Play {
        let mut at = 0;
        Box::new(move || {
            at = (at + 1) % (lines * SETS);
            (at, at % SETS)
        })
    };
    let programs: [&dyn Fn() -> Play; 5] =
        [&|| table(3000, 5), &|| table(10, 7), &|| table(24, 9), &|| walk(5000), &|| walk(6)];
    let curves: Vec<CacheCurve> = programs.iter().map(|program| counted(&mut *program(), 300_000)).collect();
    let cache = SharedCache::new(CACHE).unwrap().with_ways(WAYS as u32).unwrap();
    let errors = |curves: &[CacheCurve], i: usize, j: usize, truth: [f64; 2]| {
        let mut sharing = Sharing::default();
        share(&EvictionAge::default(), &cache, &[&curves[i], &curves[j]], Probes::One, &mut sharing).unwrap();
        assert!(sharing.converged(), "{i} {j}: {}", sharing.residual());
        [0, 1].map(|k| (sharing.shares()[k].cpi / truth[k] - 1.0).abs())
    };
    let bare: Vec<CacheCurve> = curves
        .iter()
        .map(|c| CacheCurve::new(c.points().to_vec(), c.mix(), c.line_size()).unwrap())
        .collect();
    let (mut with, mut without, mut count) = (0.0, 0.0, 0.0);
    for i in 0..programs.len() {
        for j in i..programs.len() {
            let truth = simulated([&mut *programs[i](), &mut *programs[j]()], 1_000_000);
            for (with_it, without_it) in errors(&curves, i, j, truth).iter().zip(errors(&bare, i, j, truth)) {
                // Variances of counts that are not normally distributed; the simulation varies by 0.3 % itself.
                assert!(*with_it < 0.025, "{i} beside {j}: {with_it}, else {without_it}");
                with += with_it;
                without += without_it;
                count += 1.0;
            }
        }
    }
    assert!(with / count < 0.006 && with < 0.5 * without, "{} {}", with / count, without / count);
}
