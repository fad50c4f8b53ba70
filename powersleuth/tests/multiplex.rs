//! Rotation and interpolation against the paper's figure and a slow, plain reimplementation.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use powersleuth::multiplex::{
    Collector, CollectorError, Count, CounterGroups, CounterSource, Filling, InTime, PerPhase, Reading,
    Record, Roles, Rotation, Source, Step,
};
use powersleuth::performance::Event;
use powersleuth::{Cycles, Error, Hertz};
use quickcheck::quickcheck;

/// Plays a perfect predictor over `phases` with `groups` and returns which group each interval counted.
fn groups_of(phases: &str, mut rotation: impl Rotation<char>) -> Vec<usize> {
    phases
        .chars()
        .map(|phase| {
            let group = rotation.next_group(Some(phase));
            rotation.counted(phase, group);
            group
        })
        .collect()
}

#[test]
fn each_phase_goes_round_on_its_own() {
    // Figure V.3: two events on one counter, phases that come and go.
    assert_eq!(groups_of("ABBBABBBC", PerPhase::new(2)), [0, 0, 1, 0, 1, 1, 0, 1, 0]);
    assert_eq!(groups_of("ABBBABBBC", InTime::new(2)), [0, 1, 0, 1, 0, 1, 0, 1, 0]);
    // In step with the program, time-based rotation never counts the second event in phase A.
    assert_eq!(groups_of("ABABABAB", InTime::new(2)), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(groups_of("ABABABAB", PerPhase::new(2)), [0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn a_wrong_prediction_costs_the_predicted_phase_nothing() {
    let mut rotation = PerPhase::new(3);
    rotation.counted('A', 0);
    assert_eq!(rotation.next_group(Some('A')), 1);
    rotation.counted('B', 1); // B came instead
    assert_eq!(rotation.next_group(Some('A')), 1);
    assert_eq!(rotation.next_group(Some('B')), 2);
    // Without any prediction the groups still take turns.
    let unpredicted: Vec<usize> = (0..6).map(|_| rotation.next_group(None)).collect();
    assert!((0..3).all(|group| unpredicted.iter().filter(|&&g| g == group).count() == 2), "{unpredicted:?}");
}

/// An interval: phase, instructions, the counts of those events that were counted, cycles.
type Interval = (u8, f64, Vec<Option<f64>>, f64);

fn record(intervals: &[Interval], events: usize) -> Record<u8> {
    let mut record = Record::new(events);
    for (phase, instructions, counts, cycles) in intervals {
        let counted = counts.iter().enumerate().filter_map(|(event, count)| Some((event, (*count)?)));
        record.push(*phase, *instructions, *cycles, counted).unwrap();
    }
    record
}

/// The four steps by their words: a search of all intervals for each value.
fn four_steps(intervals: &[Interval], at: usize, event: usize, filling: Filling) -> Option<(f64, Step)> {
    let (phase, instructions, counts, _) = &intervals[at];
    if let Some(count) = counts[event] {
        return Some((count, Step::Interval));
    }
    let same_instance = |i: usize| {
        let (low, high) = (i.min(at), i.max(at));
        intervals[low..=high].iter().all(|interval| interval.0 == *phase)
    };
    let counted = |member: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..intervals.len()).filter(|&i| member(i) && intervals[i].2[event].is_some()).collect()
    };
    let average = |member: &dyn Fn(usize) -> bool| {
        let counted = counted(member);
        let count: f64 = counted.iter().map(|&i| intervals[i].2[event].unwrap()).sum();
        let within: f64 = counted.iter().map(|&i| intervals[i].1).sum();
        (!counted.is_empty()).then(|| count / within * instructions)
    };
    let cpi = |i: usize| intervals[i].3 / intervals[i].1;
    // The nearest on either side, in time and in cycles per instruction (of equals in time).
    let alike = |member: &dyn Fn(usize) -> bool| {
        let orders: [&dyn Fn(usize) -> (f64, usize); 2] = [&|i| (0.0, i), &|i| (cpi(i), i)];
        let counted = counted(member);
        let (mut sum, mut weights) = (0.0, 0.0);
        for place in orders {
            let by_place = |a: &usize, b: &usize| place(*a).partial_cmp(&place(*b)).unwrap();
            let before = counted.iter().copied().filter(|&i| place(i) < place(at)).max_by(by_place);
            let after = counted.iter().copied().filter(|&i| place(i) > place(at)).min_by(by_place);
            for i in before.into_iter().chain(after) {
                let weight =
                    1.0 / ((i as f64 - at as f64).powi(2) + (100.0 * (cpi(i) / cpi(at)).ln()).powi(2));
                sum += weight * intervals[i].2[event].unwrap() / intervals[i].1;
                weights += weight;
            }
        }
        (weights > 0.0).then(|| sum / weights * instructions)
    };
    let filled = |member: &dyn Fn(usize) -> bool| match filling {
        Filling::Averages => average(member),
        Filling::Alike => alike(member),
    };
    filled(&same_instance)
        .map(|v| (v, Step::Instance))
        .or_else(|| filled(&|i| intervals[i].0 == *phase).map(|v| (v, Step::Phase)))
        .or_else(|| average(&|_| true).map(|v| (v, Step::Program)))
}

/// Whether a record is filled as the search says.
fn filled_in_four_steps(intervals: &[Interval], filling: Filling) -> bool {
    let expected: Option<Vec<(f64, Step)>> =
        (0..2 * intervals.len()).map(|cell| four_steps(intervals, cell / 2, cell % 2, filling)).collect();
    match (record(intervals, 2).interpolate(filling), expected) {
        (Ok(complete), Some(expected)) => expected.iter().enumerate().all(|(cell, (value, step))| {
            let got = complete.values(cell / 2)[cell % 2];
            // Values up to 2^16 over up to 256 instructions, summed in another order.
            (got - value).abs() <= 1e-9 * (1.0 + value.abs()) && complete.steps(cell / 2)[cell % 2] == *step
        }),
        (Err(Error::NeverCounted { event }), None) => {
            intervals.iter().all(|interval| interval.2[event].is_none())
        }
        (Err(Error::Empty { .. }), _) => intervals.is_empty(),
        _ => false,
    }
}

quickcheck! {
    fn interpolation_follows_the_four_steps(cells: Vec<(u8, u8, Option<u16>, Option<u16>)>) -> bool {
        let intervals: Vec<Interval> = cells
            .into_iter()
            .map(|(byte, instructions, a, b)| {
                let instructions = f64::from(instructions) + 1.0;
                let cycles = instructions * f64::from(1 + byte / 4 % 8);
                (byte % 4, instructions, vec![a.map(f64::from), b.map(f64::from)], cycles)
            })
            .collect();
        [Filling::Averages, Filling::Alike].iter().all(|&f| filled_in_four_steps(&intervals, f))
    }

    /// Where each phase always does the same, what was counted anywhere in a phase is right everywhere in it.
    fn constant_phases_are_interpolated_without_error(phases: Vec<u8>) -> bool {
        let truth = |phase: u8, event: usize| f64::from(phase) * 10.0 + event as f64 + 1.0;
        let groups = CounterGroups::round_robin(9, 4).unwrap();
        let mut rotation = PerPhase::new(groups.as_slice().len());
        let mut record = Record::new(9);
        // Nine intervals of each phase first, so that every event of every phase is counted somewhere.
        let phases: Vec<u8> =
            (0..3).flat_map(|p| [p; 9]).chain(phases.into_iter().map(|p| p % 3)).collect();
        for &phase in &phases {
            let group = rotation.next_group(Some(phase));
            rotation.counted(phase, group);
            let counted = groups.as_slice()[group].iter().map(|&event| (event, truth(phase, event)));
            record.push(phase, 100.0, 100.0, counted).unwrap();
        }
        let complete = record.interpolate(Filling::default()).unwrap();
        complete.count(Step::Program) == 0
            && phases.iter().enumerate().all(|(i, &phase)| {
                let values = complete.values(i).iter().enumerate();
                values.into_iter().all(|(event, value)| (value - truth(phase, event)).abs() < 1e-9)
            })
    }
}

#[test]
fn the_baseline_carries_the_last_count_forward() {
    let intervals: Vec<Interval> = [None, Some(4.0), None, None, Some(8.0), None]
        .into_iter()
        .enumerate()
        .map(|(i, count)| (i as u8, 2.0, vec![count], 4.0))
        .collect();
    let complete = record(&intervals, 1).carry_forward().unwrap();
    let values: Vec<f64> = (0..6).map(|i| complete.values(i)[0]).collect();
    assert_eq!(values, [4.0, 4.0, 4.0, 4.0, 8.0, 8.0]);
    assert_eq!(complete.count(Step::Interval), 2);
    assert!(complete.values(6).is_empty() && complete.steps(6).is_empty());
    assert!(matches!(Record::<u8>::new(1).carry_forward(), Err(Error::Empty { .. })));
    assert!(matches!(
        record(&[(0, 1.0, vec![None], 1.0)], 1).carry_forward(),
        Err(Error::NeverCounted { event: 0 })
    ));
}

#[test]
fn a_complete_record_becomes_a_profile() {
    let intervals: Vec<Interval> = vec![
        (0, 10.0, vec![Some(30.0), Some(2.0), Some(7.0)], 20.0),
        (0, 10.0, vec![None, None, None], 20.0),
    ];
    let complete = record(&intervals, 3).interpolate(Filling::Averages).unwrap();
    let roles = Roles {
        stall_cycles: 0,
        llc_misses: 1,
        leading_misses: Some(1),
        resource_stalls: Some(2),
        power: vec![
            (Event::fixed("uops"), Source::Event(2)),
            (Event::fixed("instructions"), Source::Instructions),
        ],
    };
    let profile = complete.profile(Hertz(1e9), &roles).unwrap();
    assert_eq!(profile.len(), 2);
    for (phase, counts, power) in profile.iter() {
        // 30 stalls were read in 20 cycles: cut to the cycles there are.
        assert_eq!((phase, counts.stall_cycles().0, counts.llc_misses()), (&0, 20.0, 2.0));
        assert_eq!((counts.leading_misses(), power), (Some(2.0), &[7.0, 10.0][..]));
        assert_eq!(counts.resource_stalls(), Some(Cycles(7.0)));
    }
    let beyond = Roles { llc_misses: 3, ..roles };
    assert!(matches!(complete.profile(Hertz(1e9), &beyond), Err(Error::NoSuch { index: 3, .. })));
}

/// Counters of a program in which event `e` happens `e + 1` times per instruction.
#[derive(Default)]
struct Counters {
    asked: Vec<Vec<usize>>,
    running: u64, // in tenths of the time enabled
    missing: bool,
    broken: bool,
}

impl CounterSource for Counters {
    type Error = std::io::Error;

    fn start(&mut self, events: &[usize]) -> Result<(), Self::Error> {
        self.asked.push(events.to_vec());
        if self.broken { Err(std::io::Error::other("no such event")) } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<Reading, Self::Error> {
        let events = self.asked.last().unwrap();
        let count = |&event: &usize| Count {
            value: (event as u64 + 1) * 100 * self.running,
            enabled: Duration::from_millis(10),
            running: Duration::from_millis(self.running),
        };
        let mut counts: Vec<Count> = events.iter().map(count).collect();
        if self.missing {
            counts.pop();
        }
        Ok(Reading { instructions: Count::exact(1000), cycles: Count::exact(1500), counts })
    }
}

#[test]
fn a_collector_turns_the_counters_and_scales_what_they_missed() {
    let groups = CounterGroups::round_robin(3, 2).unwrap();
    let source = Counters { running: 10, ..Counters::default() };
    let mut collector = Collector::new(source, groups, PerPhase::new(3));
    for phase in ['A', 'B', 'A', 'A'] {
        collector.begin(Some(phase)).unwrap();
        collector.end(phase).unwrap();
    }
    let (record, mut source) = collector.finish();
    assert_eq!(source.asked, [[0, 1], [0, 1], [2, 0], [1, 2]]);
    assert_eq!((record.count(2, 2), record.count(2, 1), record.count(9, 0)), (Some(3000.0), None, None));

    // Counters that ran half the time saw half: scaled to the whole. Those that never ran saw nothing.
    for (running, expected) in [(5, Some(1000.0)), (0, None)] {
        source.running = running;
        let mut collector =
            Collector::new(source, CounterGroups::round_robin(3, 2).unwrap(), PerPhase::new(3));
        collector.begin(Some('A')).unwrap();
        collector.end('A').unwrap();
        let record;
        (record, source) = collector.finish();
        assert_eq!(record.count(0, 0), expected);
    }
}

#[test]
fn a_collector_reports_what_failed() {
    let collector =
        |source| Collector::new(source, CounterGroups::round_robin(3, 2).unwrap(), InTime::new(3));
    let mut broken = collector(Counters { broken: true, ..Counters::default() });
    let error: CollectorError<std::io::Error> = broken.begin(Some('A')).unwrap_err();
    assert_eq!(error.to_string(), "the counters failed: no such event");
    assert!(matches!(broken.end('A'), Err(CollectorError::NotBegun)));
    let mut missing = collector(Counters { missing: true, running: 10, ..Counters::default() });
    missing.begin(Some('A')).unwrap();
    let error = missing.end('A').unwrap_err();
    assert!(matches!(error, CollectorError::Reading(Error::Length { expected: 2, got: 1, .. })));
    assert!(missing.record().is_empty());
}

#[test]
fn each_bad_interval_is_refused_and_leaves_no_trace() {
    let mut record: Record<u8> = Record::new(2);
    assert!(matches!(record.push(0, 0.0, 1.0, []), Err(Error::OutOfRange { .. })));
    assert!(matches!(record.push(0, 1.0, f64::NAN, []), Err(Error::OutOfRange { .. })));
    assert!(matches!(record.push(0, 1.0, 1.0, [(0, -1.0)]), Err(Error::OutOfRange { .. })));
    assert!(matches!(record.push(0, 1.0, 1.0, [(2, 1.0)]), Err(Error::NoSuch { .. })));
    assert!(record.is_empty());
    record.push(0, 1.0, 1.0, [(1, 1.0)]).unwrap();
    assert_eq!((record.len(), record.count(0, 1), record.count(0, 2)), (1, Some(1.0), None));
}
