//! Shares followed over time, against a cache simulated access by access, where windows are too short to settle.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::HashMap;
use std::num::NonZeroUsize;

use cachesharing::{
    CacheCurve, CoRun, CurvePoint, EvictionAge, MemoryLimit, Method, Offsets, Probes, Program, Random,
    ReuseTimes, SetReuse, Settings, SharedCache, Trajectory, Until, Window, variability,
};
use common::Draws;
use quickcheck::quickcheck;
use reuse_sampler::{FootprintCounter, Line};

const LINES: usize = 256;
const LINE: u64 = 64;
const WINDOW: usize = 1000;
const HIT: f64 = 10.0;
const MISS: f64 = 130.0;

/// A program as the lines it touches, in windows, each with its phase. An access is an instruction.
struct Touches {
    lines: Vec<u32>,
    phases: Vec<u64>,
}

/// Phases in turn: so many windows, of draws from so many lines from a first one on, or of a walk through them.
fn touches(seed: u64, rounds: usize, phases: &[(usize, u32, u32, bool)]) -> Touches {
    let mut draws = Draws(seed);
    let (mut lines, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (number, &(windows, first, count, walk)) in phases.iter().enumerate() {
            for i in 0..windows * WINDOW {
                let line = if walk { i as u64 % u64::from(count) } else { draws.below(u64::from(count)) };
                lines.push(first + line as u32);
            }
            numbers.extend(vec![number as u64; windows]);
        }
    }
    Touches { lines, phases: numbers }
}

/// An LRU stack: where a line is found in it is how many others were touched since.
#[derive(Default)]
struct Stack(Vec<u32>);

impl Stack {
    fn touch(&mut self, line: u32) -> usize {
        let depth = self.0.iter().rev().position(|&l| l == line);
        if let Some(depth) = depth {
            self.0.remove(self.0.len() - 1 - depth);
        }
        self.0.push(line);
        depth.unwrap_or(usize::MAX)
    }
}

/// Measures each window alone in caches of 32 sizes, after a pass to warm up.
fn measured(name: &str, of: &Touches) -> Program<u64> {
    measured_with(name, of, false)
}

/// The same, with reuse times where they are asked for, in the one set of the cache.
fn measured_with(name: &str, of: &Touches, timed: bool) -> Program<u64> {
    let mut stack = Stack::default();
    let (mut last, mut now) = (HashMap::new(), 0.0);
    for &line in &of.lines {
        stack.touch(line);
        now += 1.0;
        last.insert(line, now);
    }
    let windows = of.lines.chunks(WINDOW).zip(&of.phases).map(|(window, &phase)| {
        let depths: Vec<usize> = window.iter().map(|&line| stack.touch(line)).collect();
        let mut reuses = Vec::new();
        for (line, depth) in window.iter().zip(&depths) {
            now += 1.0;
            let before = last.insert(*line, now);
            if let Some(before) = before.filter(|_| *depth < LINES) {
                reuses.push(SetReuse { distance: *depth as u32, accesses: now - before, count: 1.0 });
            }
        }
        let point = |k: usize| {
            let lines = LINES * k / 32;
            let misses = depths.iter().filter(|&&depth| depth >= lines).count() as f64 / WINDOW as f64;
            let cpi = HIT + (MISS - HIT) * misses;
            let hit_rate = (1.0 - misses) / cpi;
            CurvePoint::new(lines as u64 * LINE, cpi, misses).with_hit_rate(hit_rate)
        };
        let mut curve = CacheCurve::new((1..=32).map(point).collect(), 1.0, LINE as u32).unwrap();
        if timed {
            // Nothing varies where there is but one set.
            curve = curve.with_reuse_times(ReuseTimes::new(LINE, Vec::new(), reuses).unwrap()).unwrap();
        }
        Window::measured(WINDOW as f64, phase, curve)
    });
    Program::new(name, [], windows.collect::<Vec<_>>()).unwrap()
}

/// Time of a pass of the first program beside the second, which begins at `offset`, and beside nobody. Both run for
/// half a pass of the first before it counts.
fn simulated(first: &Touches, second: Option<(&Touches, f64)>) -> f64 {
    let mut stack = Stack::default();
    let count = first.lines.len();
    let mut at = count / 2;
    let mut other = 0;
    let (mut now, mut others, mut counted) = (0.0, 0.0, 0.0);
    let cost = |depth: usize| if depth < LINES { HIT } else { MISS };
    let mut warm = true;
    loop {
        if at == count {
            if !warm {
                return now - counted;
            }
            (warm, at, counted) = (false, 0, now);
            if let Some((second, offset)) = second {
                other = (offset * second.lines.len() as f64) as usize;
            }
        }
        match second {
            Some((second, _)) if others < now => {
                others += cost(stack.touch(second.lines[other] + 1_000_000));
                other = (other + 1) % second.lines.len();
            }
            _ => {
                now += cost(stack.touch(first.lines[at]));
                at += 1;
            }
        }
    }
}

fn co_run<'a>(
    programs: &[&'a Program<u64>],
    model: EvictionAge,
    method: Method,
) -> CoRun<'a, u64, EvictionAge> {
    let mut cache = SharedCache::new(LINES as u64 * LINE).unwrap();
    if programs[0].phases()[0].1.reuse_times().is_some() {
        cache = cache.with_ways(LINES as u32).unwrap();
    }
    CoRun::new(cache, programs, model, Settings { method, probes: Probes::One, extrapolate: false }).unwrap()
}

/// Comes back to tables that it left a while ago.
fn returning() -> Touches {
    touches(1, 8, &[(2, 0, 110, false), (3, 200, 90, false), (1, 400, 60, true)])
}

/// A small table for a while, then lines that are never used again in time.
fn bursts() -> Touches {
    touches(2, 3, &[(4, 0, 30, false), (4, 100, 3000, true)])
}

#[test]
fn slowdowns_are_those_of_the_cache_where_windows_are_too_short_to_settle() {
    let (a, b) = (returning(), bursts());
    let programs = [measured("a", &a), measured("b", &b)];
    let alone = simulated(&a, None);
    let (mut followed_error, mut settled_error) = (0.0_f64, 0.0_f64);
    for offset in [0.0, 0.1, 0.35, 0.6, 0.85] {
        let truth = simulated(&a, Some((&b, offset))) / alone;
        assert!(truth > 1.05, "{truth}");
        let slowdown = |model, method| {
            let run = co_run(&[&programs[0], &programs[1]], model, method);
            run.run(&[0.0, offset], Until::TargetEnds, |_| {}).slowdown() / truth - 1.0
        };
        let followed = slowdown(EvictionAge::followed(), Method::Window);
        // Within a window of 1,000 accesses uses are not spread evenly: 1 % is left.
        assert!(followed.abs() < 0.015, "{offset}: {followed} of {truth}");
        followed_error += followed.abs() / 5.0;
        settled_error += slowdown(EvictionAge::default(), Method::Window).abs() / 5.0;
        // Phases average what a phase finds first and last: their beginnings, where all is missed, come out too fast.
        let phases = slowdown(EvictionAge::followed(), Method::Phase);
        assert!(phases.abs() < 0.06, "{offset}: {phases} of {truth}");
    }
    assert!(followed_error < 0.5 * settled_error, "{followed_error} {settled_error}");
}

#[test]
fn reuse_times_know_what_phases_average() {
    let (a, b) = (returning(), bursts());
    let programs = |timed| [measured_with("a", &a, timed), measured_with("b", &b, timed)];
    let (with, without) = (programs(true), programs(false));
    let alone = simulated(&a, None);
    let (mut error, mut without_error) = (0.0, 0.0);
    for offset in [0.0, 0.1, 0.35, 0.6, 0.85] {
        let truth = simulated(&a, Some((&b, offset))) / alone;
        let off = |of: &[Program<u64>; 2], method| {
            let run = co_run(&[&of[0], &of[1]], EvictionAge::followed(), method);
            run.run(&[0.0, offset], Until::TargetEnds, |_| {}).slowdown() / truth - 1.0
        };
        let window = off(&with, Method::Window);
        assert!(window.abs() < 0.015, "{offset}: {window} of {truth}");
        error += off(&with, Method::Phase).abs() / 5.0;
        without_error += off(&without, Method::Phase).abs() / 5.0;
    }
    assert!(error < 0.8 * without_error, "{error} {without_error}");
}

/// Seven streams insert 74 lines while a walk through 138 hits, 93 while it misses, which fit together even in a slightly
/// smaller cache. In half as long again they insert 111, which do not: that only matters if the walk may be slow for as
/// long as it takes to come round, which windows that are alike rule out.
#[test]
fn windows_that_are_alike_show_that_there_are_no_bursts() {
    const WALK: usize = 138;
    let point = |k: usize| {
        let misses = if LINES * k / 32 < WALK { 1.0 } else { 0.0 };
        let (bytes, cpi) = ((LINES * k / 32) as u64 * LINE, HIT + 2.5 * misses);
        CurvePoint::new(bytes, cpi, misses).with_hit_rate((1.0 - misses) / cpi)
    };
    let reuse = SetReuse { distance: WALK as u32 - 1, accesses: WALK as f64, count: 1.0 };
    let curve = CacheCurve::new((1..=32).map(point).collect(), 1.0, LINE as u32).unwrap();
    let curve = curve.with_reuse_times(ReuseTimes::new(LINE, Vec::new(), vec![reuse]).unwrap()).unwrap();
    let window = |_| Window::measured(WINDOW as f64, 0, curve.clone());
    let in_windows = Program::new("walk", [], (0..40).map(window)).unwrap();
    let in_one = Program::steady("walk", 0, curve.clone(), in_windows.work()).unwrap();
    let stream = measured_with("stream", &touches(4, 1, &[(40, 1000, 40_000, true)]), true);
    let of = |target: &Program<u64>| {
        let programs: Vec<&Program<u64>> = std::iter::once(target).chain([&stream; 7]).collect();
        let cache = SharedCache::new(LINES as u64 * LINE).unwrap().with_ways(LINES as u32).unwrap();
        CoRun::new(cache, &programs, EvictionAge::followed(), Settings::default()).unwrap().slowdown(&[])
    };
    let (in_windows, in_one) = (of(&in_windows), of(&in_one));
    assert!(
        (in_windows.slowdown - 1.0).abs() < 0.01 && (in_one.slowdown - 1.0).abs() < 0.01,
        "{in_windows:?}"
    );
    assert!(!in_windows.flagged && in_windows.high < 1.03, "{in_windows:?}");
    assert!(in_one.flagged && in_one.high > 1.2, "{in_one:?}");
}

#[test]
fn what_is_followed_settles_where_the_model_says() {
    for timed in [false, true] {
        settles_where_the_model_says(timed);
    }
}

fn settles_where_the_model_says(timed: bool) {
    // Windows far longer than it takes to exchange the cache.
    let (a, b) = (touches(3, 1, &[(40, 0, 150, false)]), touches(4, 1, &[(40, 0, 400, false)]));
    let programs = [measured_with("a", &a, timed), measured_with("b", &b, timed)];
    let average = |p: &Program<u64>| Program::steady("p", 0, p.average().unwrap(), 100.0 * p.work()).unwrap();
    let steady = [average(&programs[0]), average(&programs[1])];
    for method in [Method::Window, Method::DynamicWindow, Method::Phase, Method::Oblivious] {
        let slowdown = |model| {
            let run = co_run(&[&steady[0], &steady[1]], model, method);
            run.run(&[], Until::TargetEnds, |_| {}).slowdown()
        };
        let (followed, settled) = (slowdown(EvictionAge::followed()), slowdown(EvictionAge::default()));
        // Between the moments that are kept, what was touched is interpolated.
        assert!((followed / settled - 1.0).abs() < 5e-3, "{method:?}: {followed} {settled}");
    }
}

/// The same program with its phases' curves for all windows.
fn of_phases(of: &Program<u64>) -> Program<u64> {
    let windows: Vec<_> =
        of.windows().map(|(work, phase, _)| Window::of_phase(work, of.phases()[phase].0)).collect();
    Program::new(of.name(), of.phases().to_vec(), windows).unwrap()
}

#[test]
fn what_is_looked_up_is_what_is_followed() {
    for timed in [false, true] {
        looked_up_is_what_is_followed(timed);
    }
}

fn looked_up_is_what_is_followed(timed: bool) {
    // Phases of one to twenty windows, some of which settle and most of which do not; two and three programs.
    let long = touches(5, 2, &[(20, 0, 90, false), (12, 100, 300, true), (16, 500, 200, false)]);
    let programs = [returning(), bursts(), long].map(|t| of_phases(&measured_with("p", &t, timed)));
    let lists: [&[usize]; 5] = [&[0, 1], &[0, 2], &[2, 1], &[2, 0], &[0, 1, 2]];
    let (mut error, mut settled_error) = (0.0, 0.0);
    for list in lists {
        let list: Vec<&Program<u64>> = list.iter().map(|&i| &programs[i]).collect();
        let offsets = Offsets::random(12, 5);
        for number in 0..12 {
            let offsets = offsets.of_run(number, list.len());
            let slowdown = |model, method| {
                co_run(&list, model, method).run(&offsets, Until::TargetEnds, |_| {}).slowdown()
            };
            // Windows of one phase have one curve: what differs is that nothing is looked up.
            let plain = slowdown(EvictionAge::followed(), Method::DynamicWindow);
            let looked_up = slowdown(EvictionAge::followed(), Method::Phase) / plain - 1.0;
            // A blend of settled states is not quite what is held between them.
            assert!(looked_up.abs() < 0.005, "{number}: {looked_up} of {plain}");
            error += looked_up.abs() / 60.0;
            settled_error += (slowdown(EvictionAge::default(), Method::Phase) / plain - 1.0).abs() / 60.0;
        }
    }
    assert!(settled_error > 0.002, "nothing to follow: {settled_error}");
    assert!(error < 0.2 * settled_error, "{error} {settled_error}");
}

#[test]
fn the_cache_is_full_and_the_result_the_same_on_any_number_of_threads() {
    let programs = [measured("a", &returning()), measured("b", &bursts())];
    let list = [&programs[0], &programs[1], &programs[1]];
    for method in [Method::Window, Method::DynamicWindow, Method::Phase, Method::Oblivious] {
        let all: Vec<_> = [1, 2, 5]
            .map(|threads| {
                let run = co_run(&list, EvictionAge::followed(), method);
                variability(&run, &Offsets::random(9, 3), NonZeroUsize::new(threads).unwrap()).unwrap()
            })
            .into();
        assert!(all.windows(2).all(|w| w[0] == w[1]), "{method:?}");
        let run = co_run(&list, EvictionAge::followed(), method);
        let outcome = run.run(&[0.0, 0.3, 0.8], Until::TargetEnds, |step| {
            let bytes: f64 = step.shares.iter().map(|share| share.bytes).sum();
            assert!((bytes / (LINES as u64 * LINE) as f64 - 1.0).abs() < 1e-6, "{method:?}: {bytes}");
        });
        assert!((outcome.work[0] / programs[0].work() - 1.0).abs() < 1e-9);
        let trajectory = Trajectory::record(&run, &[0.0, 0.3, 0.8], Until::TargetEnds);
        assert!((trajectory.time() / outcome.time - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_limited_memory_slows_down_what_is_followed_too() {
    let programs = [measured("a", &returning()), measured("b", &bursts())];
    let time = |limit: Option<f64>| {
        let mut cache = SharedCache::new(LINES as u64 * LINE).unwrap();
        if let Some(limit) = limit {
            cache = cache.with_memory(MemoryLimit::new(limit).unwrap());
        }
        let settings = Settings { method: Method::Window, probes: Probes::One, extrapolate: false };
        let run =
            CoRun::new(cache, &[&programs[0], &programs[1]], EvictionAge::followed(), settings).unwrap();
        let mut most = 0.0_f64;
        let outcome = run.run(&[], Until::TargetEnds, |step| {
            most = most.max(step.shares.iter().map(|share| share.bandwidth).sum());
        });
        (outcome.time, most)
    };
    let (free, demand) = time(None);
    let (limited, most) = time(Some(0.6 * demand));
    assert!(limited > 1.02 * free, "{limited} {free}");
    // The curve's fetches, which bandwidth is told from, lie a little above their non-increasing form that is solved.
    assert!(most <= 0.6 * demand * 1.05, "{most} {demand}");
}

quickcheck! {
    fn every_offset_makes_a_whole_run(offset: f64, seed: u64) -> bool {
        let of = |seed: u64| {
            let mut draws = Draws(seed | 1);
            let mut phase = || (1 + draws.below(2) as usize, draws.below(900) as u32, 1 + draws.below(500) as u32, draws.below(2) == 0);
            measured("p", &touches(seed | 1, 1, &[phase(), phase(), phase()]))
        };
        let programs = [of(seed), of(seed.rotate_left(17) ^ 0x55)];
        [Method::Window, Method::Phase].into_iter().all(|method| {
            let run = co_run(&[&programs[0], &programs[1]], EvictionAge::followed(), method);
            let outcome = run.run(&[0.0, offset], Until::TargetEnds, |_| {});
            (outcome.work[0] / programs[0].work() - 1.0).abs() < 1e-6 && outcome.time.is_finite()
        })
    }
}

/// The first step has no step before it to go on from: it took an eighth longer, and with it runs in which nothing evicts.
#[test]
fn programs_that_fit_together_are_as_fast_as_alone() {
    let cache = 2 << 20;
    // Nothing that reaches the cache, and a tenth of the accesses to 60 KiB, by turns.
    let phases = [(0, common::scan(0.0, 0.3, 0.0, cache)), (1, common::scan(0.1, 0.3, 6e4, cache))];
    let windows = [0, 1].map(|phase| Window::of_phase(1e8, phase));
    let program = Program::new("small", phases, windows).unwrap();
    let cache = SharedCache::new(cache).unwrap();
    let run = CoRun::new(cache, &[&program, &program], EvictionAge::followed(), Settings::default()).unwrap();
    for offset in [0.0, 0.3, 0.5, 0.62, 0.9] {
        let slowdown = run.slowdown(&[0.0, offset]);
        assert!((slowdown.slowdown - 1.0).abs() < 1e-3 && !slowdown.flagged, "{offset}: {slowdown:?}");
    }
}

/// Time of a pass of the first program beside the second in a cache whose lines leave at random, and beside nobody.
fn simulated_at_random(first: &Touches, second: Option<&Touches>) -> f64 {
    let (mut draws, mut slots) = (Draws(99), Vec::with_capacity(LINES));
    let mut clocks = [0.0, if second.is_some() { 0.0 } else { f64::INFINITY }];
    let (mut at, mut time) = ([0, 0], 0.0);
    let programs = [Some(first), second];
    // Two passes to warm up.
    while at[0] < 3 * first.lines.len() {
        let who = usize::from(clocks[1] < clocks[0]);
        let lines = &programs[who].unwrap().lines;
        let key = (who, lines[at[who] % lines.len()]);
        at[who] += 1;
        let hit = slots.contains(&key);
        if !hit && slots.len() < LINES {
            slots.push(key);
        } else if !hit {
            slots[draws.below(LINES as u64) as usize] = key;
        }
        let taken = if hit { HIT } else { MISS };
        clocks[who] += taken;
        time += if who == 0 && at[0] > 2 * first.lines.len() { taken } else { 0.0 };
    }
    time
}

/// Measures each window alone in caches of 16 sizes whose lines leave at random, after two passes to warm up.
fn measured_at_random(name: &str, of: &Touches) -> Program<u64> {
    let mut draws = Draws(7);
    let mut caches: Vec<Vec<u32>> = vec![Vec::new(); 16];
    let mut footprint = FootprintCounter::default();
    let mut windows = Vec::new();
    for pass in 0..3_u64 {
        for (number, (window, &phase)) in of.lines.chunks(WINDOW).zip(&of.phases).enumerate() {
            let mut misses = [0.0; 16];
            for (i, &line) in window.iter().enumerate() {
                let now = pass * of.lines.len() as u64 + (number * WINDOW + i) as u64 + 1;
                footprint.touch(Line(u64::from(line)), now);
                for (k, (cache, misses)) in caches.iter_mut().zip(&mut misses).enumerate() {
                    if cache.contains(&line) {
                        continue;
                    }
                    *misses += 1.0;
                    let lines = LINES * (k + 1) / 16;
                    if cache.len() < lines {
                        cache.push(line);
                    } else {
                        cache[draws.below(lines as u64) as usize] = line;
                    }
                }
            }
            let used = footprint.take().into_iter();
            let used = used
                .map(|(time, sum)| (time as f64, sum / WINDOW as f64))
                .take_while(|&(time, _)| time < 1e6);
            if pass < 2 {
                continue;
            }
            let point = |k: usize| {
                let misses = misses[k] / WINDOW as f64;
                let cpi = HIT + (MISS - HIT) * misses;
                let bytes = (LINES * (k + 1) / 16) as u64 * LINE;
                let hit_rate = (1.0 - misses) / cpi;
                CurvePoint::new(bytes, cpi, misses).with_hit_rate(hit_rate)
            };
            let curve = CacheCurve::new((0..16).map(point).collect(), 1.0, LINE as u32).unwrap();
            let times = ReuseTimes::new(LINE, Vec::new(), []).unwrap().with_footprint(used).unwrap();
            windows.push(Window::measured(WINDOW as f64, phase, curve.with_reuse_times(times).unwrap()));
        }
    }
    Program::new(name, [], windows).unwrap()
}

#[test]
fn ranges_hold_what_becomes_of_caches_whose_lines_leave_at_random() {
    let (first, second) = (returning(), bursts());
    for (first, second) in [(&first, &second), (&second, &first), (&first, &first)] {
        let truth = simulated_at_random(first, Some(second)) / simulated_at_random(first, None);
        let [a, b] = [first, second].map(|of| measured_at_random("p", of));
        let cache = SharedCache::new(LINES as u64 * LINE).unwrap();
        let settings = Settings { method: Method::Window, probes: Probes::Cliffs, extrapolate: false };
        let found = CoRun::new(cache, &[&a, &b], Random, settings).unwrap().slowdown(&[]);
        // Who takes the cache from others is about as fast as alone; those who lose most of it are flagged.
        let is_right = if truth > 1.5 {
            found.flagged && (found.low..=found.high).contains(&truth)
        } else {
            !found.flagged && (found.slowdown / truth - 1.0).abs() < 0.01
        };
        assert!(is_right, "{truth}: {found:?}");
    }
}
