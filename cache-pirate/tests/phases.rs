//! Each phase gets its own full curve, from one run.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use cache_pirate::measure::PhaseReport;
use cache_pirate::simple::{SimpleMachine, SimpleTestbed};
use cache_pirate::{Pace, PirateParams, Testbed, measure, measure_phases};
use common::{miss_ratio, random_lines};

/// 300,000 accesses to 400 lines, then 300,000 to 1200 others, and so on.
fn phased() -> impl Iterator<Item = u64> {
    let (mut small, mut large) = (random_lines(400, 1), random_lines(1200, 2));
    (0_u64..12_000_000).map(move |i| {
        if (i / 300_000) % 2 == 0 { small.next().unwrap() } else { 10_000 + large.next().unwrap() }
    })
}

/// Classifies a stretch by where in the stream it ended; `None` where it began in the other phase. Phases have names, as in
/// a phase profile.
fn classifier() -> impl FnMut(&cache_pirate::Reading) -> PhaseReport<String> {
    let mut position = 0.0;
    move |reading| {
        let phase = |at: f64| if (at / 300_000.0) as u64 % 2 == 0 { "A" } else { "B" }.to_owned();
        let (begin, end) = (position, position + reading.target.work);
        position = end;
        let was = (phase(begin) == phase(end - 1.0)).then(|| phase(begin));
        PhaseReport { was, next: Some(phase(end)) }
    }
}

#[test]
fn each_phase_has_the_curve_it_would_have_alone() {
    let params = PirateParams {
        interval: Some(8_000.0),
        target_warm_up: Some(16_000.0),
        cycles: Some(4),
        sizes: Some((3..=16).map(|ways| ways * 4096).collect()),
        ..PirateParams::default()
    };
    let machine = SimpleMachine { pirate_hit_time: 0.4, ..SimpleMachine::default() };
    let mut testbed = SimpleTestbed::new(machine, phased()).unwrap();
    let plan = params.check(testbed.cache()).unwrap();
    let run = measure_phases(&mut testbed, &plan, classifier()).unwrap();
    assert!(!run.all.ended, "every phase was measured before the end");
    assert_eq!(run.phases(), ["A", "B"]);
    for (phase, lines) in [("A", 400), ("B", 1200)] {
        let curve = run.curve_of(phase.to_owned()).unwrap();
        assert_eq!(curve.points().len(), 14);
        let stream: Vec<u64> = random_lines(lines, 9).take(300_000).collect();
        for point in curve.points() {
            let ways = (point.bytes / 4096) as usize;
            assert!(point.is_trusted() && point.intervals >= 4, "{point:?}");
            let truth = miss_ratio(64, ways, &stream, 100_000);
            let n = point.intervals as f64 * 8_000.0;
            // Five standard errors, and the cold misses after a change of phase: at most 1200 lines in one of
            // four intervals if all fell into this size; as intervals cannot begin in the other phase, and
            // changes are one in 38 intervals, allow one interval's.
            let cold = lines.min(1024) as f64 / n;
            let tolerance = 5.0 * (truth * (1.0 - truth) / n).sqrt() + cold + 0.002;
            let error = (point.miss_ratio.unwrap() - truth).abs();
            assert!(error < tolerance, "phase {phase}, {ways} ways: off by {error}");
        }
    }
    // The stretches are the run, without gaps.
    let work: f64 = run.stretches.iter().map(|stretch| stretch.work).sum();
    assert_eq!(work, run.all.total.target.work);
    let measured = run.stretches.iter().filter(|stretch| stretch.interval.is_some()).count();
    assert_eq!(measured, run.all.intervals.len());
}

#[test]
fn phases_aside_it_is_the_same_measurement() {
    // One phase throughout: the order of sizes and the result are those of plain cycles.
    let pace = Pace::Continuous;
    let params = PirateParams { interval: Some(8_000.0), cycles: Some(2), pace, ..PirateParams::default() };
    let testbed = || SimpleTestbed::new(SimpleMachine::default(), random_lines(900, 3)).unwrap();
    let plan = params.check(testbed().cache()).unwrap();
    let plain = measure(&mut testbed(), &plan).unwrap();
    let phased =
        measure_phases(&mut testbed(), &plan, |_| PhaseReport { was: Some('a'), next: None }).unwrap();
    assert_eq!(phased.all, plain);
    assert_eq!(phased.curve_of('a').unwrap(), plain.curve().unwrap());
    assert!(phased.curve_of('b').is_err());
}
