//! Ranges of walks: what is far from a cliff is certain, what only bursts of misses push over one is flagged.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use statcc::walk::{
    MemoryQueue, ProfiledWindow, Replacement, SetAssociativeCache, SetDispersion, SetDispersionCounter,
    Until, WindowedProgram, outlook, walk,
};
use statcc::{Error, LineSize, LinearLatency, MeasuredCpi, Outcome, ReuseDistance, ReuseProfile, Traffic};

const WINDOW: u64 = 20_000;
const WINDOWS: u64 = 16;

/// Lines in a row, which fill all sets alike.
fn even() -> SetDispersion {
    let mut counter = SetDispersionCounter::new(64, 16).unwrap();
    counter.look_back((0..4_096_u64).map(|line| (reuse_sampler::Line(line), line % 64)));
    counter.finish()
}

/// A program that walks through `lines` lines, over and over, and waits `memory` cycles for those that miss.
fn loops(lines: u64, memory: f64) -> WindowedProgram {
    loops_on(lines, memory, even())
}

/// The same where its lines fall on sets as `dispersion` says.
fn loops_on(lines: u64, memory: f64, dispersion: SetDispersion) -> WindowedProgram {
    let cpi = LinearLatency::new(1.0, 1.0, &[], 10.0, memory).unwrap();
    let window = |first: u64| {
        let mut profile = ReuseProfile::new(LineSize::B64);
        profile.record(Outcome::Dangling, first);
        profile.record(Outcome::Reused(ReuseDistance(lines - 1)), WINDOW - first);
        ProfiledWindow::new(&profile, cpi.clone()).unwrap()
    };
    let first = (0..WINDOWS).map(|k| window(lines.saturating_sub(k * WINDOW).min(WINDOW))).collect();
    let later = (0..WINDOWS).map(|_| window(0)).collect();
    WindowedProgram::new(1.0, WINDOW, WINDOW * WINDOWS, dispersion, first, later).unwrap()
}

/// CPI and outlook of a loop of so many lines beside so many streams, in a cache of 1,024 lines.
fn beside_streams(lines: u64, streams: usize) -> (f64, statcc::Outlook) {
    let (target, stream) = (loops(lines, 12.5), loops(WINDOW * WINDOWS, 130.0));
    let programs: Vec<&WindowedProgram> =
        std::iter::once(&target).chain(std::iter::repeat_n(&stream, streams)).collect();
    let cache = SetAssociativeCache::new(64, 16).unwrap();
    let walked = walk(&programs, cache, Replacement::Lru, Until::Ended(0), &[]).unwrap();
    let ranges = outlook(&programs, cache, Replacement::Lru, Until::Ended(0), &walked).unwrap();
    (walked[0].cpi(), ranges[0])
}

#[test]
fn far_from_a_cliff_a_range_is_three_per_cent_either_way_at_most() {
    let (cpi, range) = beside_streams(300, 2);
    assert!(!range.cliff && cpi < 12.0, "{cpi} {range:?}");
    assert!(range.lowest_cpi >= 0.969 * cpi && range.highest_cpi <= 1.031 * cpi, "{cpi} {range:?}");
}

#[test]
fn what_bursts_of_misses_push_over_a_cliff_is_flagged() {
    // In a loop of 555 lines six streams bring in 280 while it hits and 343 while it misses: nine tenths of the cache hold
    // both. In half as long again they bring in 419, which do not fit.
    let (cpi, range) = beside_streams(555, 6);
    assert!(cpi < 11.5, "{cpi}");
    assert!(range.cliff && range.lowest_cpi <= cpi && range.highest_cpi > 1.15 * cpi, "{cpi} {range:?}");
}

/// Lines drawn at random, which fill some sets before others.
fn uneven() -> SetDispersion {
    let mut counter = SetDispersionCounter::new(64, 16).unwrap();
    let drawn = |line: u64| {
        line.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    counter.look_back((0..4_096_u64).map(|line| (reuse_sampler::Line(line), drawn(line) >> 58)));
    counter.finish()
}

#[test]
fn what_was_counted_alone_does_not_outlast_the_hits_that_it_was_of() {
    // Alone the loop fits, though by chance as many lines would not; beside streams nothing of it does.
    let counted = |program: WindowedProgram| {
        let cache = SetAssociativeCache::new(64, 16).unwrap();
        let first = |k: usize| 940_u64.saturating_sub(k as u64 * WINDOW).min(WINDOW) as f64 / WINDOW as f64;
        program
            .counted_alone(cache, Replacement::Lru, 2, |pass, k| if pass == 0 { first(k) } else { 0.0 })
            .unwrap()
    };
    let target = loops_on(940, 130.0, uneven());
    let stream = loops(WINDOW * WINDOWS, 130.0);
    let cpi = |programs: &[&WindowedProgram]| {
        let cache = SetAssociativeCache::new(64, 16).unwrap();
        walk(programs, cache, Replacement::Lru, Until::Ended(0), &[]).unwrap()[0].cpi()
    };
    let (modelled, missing) = (cpi(&[&target]), cpi(&[&target, &stream, &stream]));
    let target = counted(target);
    let alone = cpi(&[&target]);
    // In the first of 16 windows the model has more hits at first than later.
    assert!(
        modelled > 3.0 * alone && (alone / (11.0 + 120.0 * 940.0 / 320_000.0) - 1.0).abs() < 0.03,
        "{alone}"
    );
    let beside = cpi(&[&target, &stream, &stream]);
    assert!(missing > 125.0 && (beside / missing - 1.0).abs() < 0.01, "{beside} {missing}");
}

/// Lines that leave at random leave the sooner the more miss: those that were counted, not those that the profile expects.
#[test]
fn alone_a_program_misses_as_often_as_was_counted() {
    let cache = SetAssociativeCache::new(64, 16).unwrap();
    let misses = |program: &WindowedProgram, replacement| {
        let walked = walk(&[program], cache, replacement, Until::Ended(0), &[]).unwrap()[0];
        walked.misses / walked.accesses
    };
    let spread = || {
        let mut profile = ReuseProfile::new(LineSize::B64);
        profile.record(Outcome::Dangling, 4);
        for lines in (1..=40).map(|k| 40 * k) {
            profile.record(Outcome::Reused(ReuseDistance(lines)), 1);
        }
        let cpi = LinearLatency::new(1.0, 1.0, &[], 10.0, 130.0).unwrap();
        let windows = (0..WINDOWS).map(|_| ProfiledWindow::new(&profile, cpi.clone()).unwrap()).collect();
        WindowedProgram::new(1.0, WINDOW, WINDOW * WINDOWS, even(), windows, Vec::new()).unwrap()
    };
    let expected = misses(&spread(), Replacement::Random);
    assert!((0.2..0.6).contains(&expected), "{expected}");
    for part in [0.6, 0.8, 1.0, 1.2, 1.5] {
        let ratio = part * expected;
        let counted = spread().counted_alone(cache, Replacement::Random, 2, |_, _| ratio).unwrap();
        let alone = misses(&counted, Replacement::Random);
        assert!((alone / ratio - 1.0).abs() < 0.01, "{part}: {alone} {ratio}");
    }
}

/// Before memory that passes a line after the other, in-order cores wait for each other also where it could deliver more.
#[test]
fn lines_wait_for_those_of_others() {
    let often = loops(WINDOW * WINDOWS, 130.0); // a line in 131 cycles
    let rarely = {
        let mut profile = ReuseProfile::new(LineSize::B64);
        profile.record(Outcome::Dangling, 1_000);
        profile.record(Outcome::Reused(ReuseDistance(10)), WINDOW - 1_000);
        let cpi = LinearLatency::new(1.0, 1.0, &[], 10.0, 130.0).unwrap();
        let windows = (0..WINDOWS).map(|_| ProfiledWindow::new(&profile, cpi.clone()).unwrap()).collect();
        WindowedProgram::new(1.0, WINDOW, WINDOW * WINDOWS, even(), windows, Vec::new()).unwrap()
    };
    let free = SetAssociativeCache::new(64, 16).unwrap();
    let queue = MemoryQueue::new().with_latency(120.0);
    let queued = free.with_memory(1.0 / 40.0, queue).unwrap();
    let programs = [&rarely, &often];
    let walked = |cache, programs: &[&WindowedProgram]| {
        walk(programs, cache, Replacement::Lru, Until::FirstEnded, &[]).unwrap()
    };
    let cpis = |cache| walked(cache, &programs).iter().map(|walked| walked.cpi()).collect::<Vec<_>>();
    let (alone, beside) = (cpis(free), cpis(queued));
    // One line in three of the first finds one of the other on its way, and waits for half of it or more.
    let waits = (beside[0] - alone[0]) / 0.05;
    assert!((4.0..12.0).contains(&waits), "{waits}");
    let of = walked(queued, &programs)[0];
    assert!((of.waiting() - (1.0 - alone[0] / beside[0])).abs() < 0.01, "{of:?}");
    let range = outlook(&programs, queued, Replacement::Lru, Until::FirstEnded, &[of, of]).unwrap()[0];
    assert!(
        range.lowest_cpi < beside[0] - 0.04 * waits && range.highest_cpi > beside[0] + 0.04 * waits,
        "{range:?}"
    );
    let alone = |cache| walked(cache, &[&rarely])[0].cpi();
    assert!((alone(queued) / alone(free) - 1.0).abs() < 1e-6);
    for (lines, latency) in
        [(0.0, 120.0), (f64::INFINITY, 120.0), (0.1, 0.0), (0.1, f64::NAN), (f64::NAN, 1.0)]
    {
        let queue = MemoryQueue::new().with_latency(latency);
        assert!(matches!(free.with_memory(lines, queue), Err(Error::Cycles { .. })), "{lines} {latency}");
    }
    let queue = queue.with_prefetch_backlog(-1.0);
    assert!(matches!(free.with_memory(0.1, queue), Err(Error::Cycles { cycles: -1.0, .. })));
}

/// A core that overlaps its misses waits for a part of each line; what is fetched ahead is before the lines of others.
#[test]
fn lines_that_overlap_or_are_fetched_ahead_wait_and_are_waited_for() {
    let program = |traffic: Option<(f64, f64)>| {
        let mut profile = ReuseProfile::new(LineSize::B64);
        profile.record(Outcome::Dangling, 500);
        profile.record(Outcome::Reused(ReuseDistance(10)), WINDOW - 500);
        let misses = 500.0 / WINDOW as f64;
        let cpi = MeasuredCpi::new([(misses, 10.0)], 0.0).unwrap();
        let at = traffic.map(|(ahead, stalled)| Traffic {
            miss_ratio: misses,
            fetched: misses + ahead,
            stalled: misses * stalled,
        });
        let cpi = cpi.with_traffic(at).unwrap();
        let windows = (0..WINDOWS).map(|_| ProfiledWindow::new(&profile, cpi.clone()).unwrap()).collect();
        WindowedProgram::new(1.0, WINDOW, WINDOW * WINDOWS, even(), windows, Vec::new()).unwrap()
    };
    let queue = MemoryQueue::new().with_latency(120.0).with_prefetch_backlog(200.0);
    let cache = SetAssociativeCache::new(64, 16).unwrap().with_memory(1.0 / 40.0, queue).unwrap();
    let added = |one: &WindowedProgram, other: &WindowedProgram| {
        walk(&[one, other], cache, Replacement::Lru, Until::FirstEnded, &[]).unwrap()[0].cpi() - 10.0
    };
    let (waits, overlaps, ahead) = (program(None), program(Some((0.0, 30.0))), program(Some((0.05, 120.0))));
    assert!(added(&overlaps, &waits) < 0.6 * added(&waits, &waits));
    assert!(added(&waits, &ahead) > 1.3 * added(&waits, &waits));
}

/// Lines that a prefetcher asks for are touched, but only what the program accesses later than that can miss.
#[test]
fn what_is_asked_for_ahead_takes_room_and_does_not_miss() {
    let cpi = LinearLatency::new(1.0, 1.0, &[], 10.0, 130.0).unwrap();
    // A stream: every line is asked for ten accesses before it is used once.
    let (mut touches, mut accesses) = (ReuseProfile::new(LineSize::B64), ReuseProfile::new(LineSize::B64));
    touches.record(Outcome::Dangling, WINDOW);
    touches.record(Outcome::Reused(ReuseDistance(10)), WINDOW);
    accesses.record(Outcome::Reused(ReuseDistance(10)), WINDOW);
    let ahead = ProfiledWindow::new(&touches, cpi.clone()).unwrap().asking_for(&accesses).unwrap();
    let stream = |window: &ProfiledWindow| {
        let windows = (0..WINDOWS).map(|_| window.clone()).collect();
        WindowedProgram::new(1.0, WINDOW, WINDOW * WINDOWS, even(), windows, Vec::new()).unwrap()
    };
    let cache = SetAssociativeCache::new(64, 16).unwrap();
    let target = loops(900, 130.0);
    let beside = |other: &WindowedProgram, cpi_error: f64| {
        let programs = [&target, other];
        walk(&programs, cache, Replacement::Lru, Until::Ended(0), &[1.0, cpi_error]).unwrap()
    };
    let prefetched = beside(&stream(&ahead), 1.0);
    assert!(prefetched[1].miss_ratio() < 1e-3, "{:?}", prefetched[1]);
    // It pushes out as many lines as one that misses them all and is as fast.
    let mut missing = ReuseProfile::new(LineSize::B64);
    missing.record(Outcome::Dangling, WINDOW);
    let missing = ProfiledWindow::new(&missing, cpi).unwrap();
    let missed = beside(&stream(&missing), 11.0 / 131.0);
    let (one, other) = (prefetched[0].miss_ratio(), missed[0].miss_ratio());
    assert!(one > 0.5 && (one / other - 1.0).abs() < 0.02, "{one} {other}");
}

/// Lines of different sizes share no cache.
#[test]
fn line_sizes_do_not_mix() {
    let window = |bytes: u32| {
        let mut profile = ReuseProfile::new(LineSize::new(bytes).unwrap());
        profile.record(Outcome::Reused(ReuseDistance(10)), WINDOW);
        ProfiledWindow::new(&profile, LinearLatency::new(1.0, 1.0, &[], 10.0, 130.0).unwrap()).unwrap()
    };
    let program = |bytes: [u32; 2]| {
        WindowedProgram::new(1.0, WINDOW, 2 * WINDOW, even(), bytes.map(window).to_vec(), Vec::new())
    };
    let mixed = Error::MixedLineSizes { left: 64, right: 128 };
    assert_eq!(program([64, 128]).unwrap_err(), mixed);
    let programs = [program([64, 64]).unwrap(), program([128, 128]).unwrap()];
    let (programs, cache) = ([&programs[0], &programs[1]], SetAssociativeCache::new(64, 16).unwrap());
    assert_eq!(walk(&programs, cache, Replacement::Lru, Until::FirstEnded, &[]).unwrap_err(), mixed);
    assert_eq!(outlook(&programs, cache, Replacement::Lru, Until::FirstEnded, &[]).unwrap_err(), mixed);
    assert!(walk(&programs[..1], cache, Replacement::Lru, Until::FirstEnded, &[]).is_ok());
}
