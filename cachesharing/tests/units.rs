//! Programs that count work, time or lines differently are never put together in silence; phases have any name.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::num::NonZeroUsize;

use cachesharing::partition::{Policy, partition};
use cachesharing::{
    CacheCurve, CoRun, Error, EvictionAge, Offsets, Probes, Program, ReuseTimes, Settings, SharedCache,
    Sharing, TimeUnit, Units, Window, co_schedule, culprits, share, share_from, variability, way_sensitivity,
};
use common::{stream, uniform};
use reuse_sampler::{CacheLines, LineSize, Outcome, ReuseDistance, ReuseProfile};

const CACHE: u64 = 1 << 18;

fn cache() -> SharedCache {
    SharedCache::new(CACHE).unwrap().with_ways(16).unwrap()
}

/// The same curve as of lines of another size.
fn lines_of(curve: &CacheCurve, bytes: u32) -> CacheCurve {
    CacheCurve::new(curve.points().to_vec(), curve.mix(), bytes).unwrap()
}

/// What every way to put programs together says of these two.
fn together(one: &Program<u64>, other: &Program<u64>) -> Vec<Result<(), Error>> {
    let (model, programs) = (EvictionAge::default(), [one, other]);
    let (settings, offsets) = (Settings::default(), Offsets::random(1, 1));
    vec![
        CoRun::new(cache(), &programs, &model, settings).map(|_| ()),
        co_schedule(cache(), &programs, &model, settings, &offsets, NonZeroUsize::MIN).map(|_| ()),
        partition(&cache(), &programs, &model, Policy::Fair).map(|_| ()),
        partition(&cache(), &programs, &model, Policy::Free).map(|_| ()),
    ]
}

#[test]
fn lines_of_different_sizes_do_not_share_a_cache() {
    let curve = uniform(0.2, 0.4, 0.8 * CACHE as f64, CACHE);
    let program = |bytes| Program::steady("p", 0_u64, lines_of(&curve, bytes), 1e5).unwrap();
    for (left, right) in [(64, 64), (64, 128), (1, 64), (128, 1)] {
        let expected = if left == right { Ok(()) } else { Err(Error::MixedLineSizes { left, right }) };
        let curves = [lines_of(&curve, left), lines_of(&curve, right)];
        let mut all = together(&program(left), &program(right));
        let (model, mut sharing) = (EvictionAge::default(), Sharing::default());
        let list = [&curves[0], &curves[1]];
        all.push(share(&model, &cache(), &list, Probes::One, &mut sharing));
        all.push(share_from(&model, &cache(), &list, &[1e5, 1e5], Probes::One, &mut sharing));
        let [first, second] = curves;
        let windows = [Window::of_phase(1e5, 0), Window::measured(1e5, 1, second)];
        all.push(Program::new("p", [(0_u64, first)], windows).map(|_| ()));
        for (number, got) in all.into_iter().enumerate() {
            assert_eq!(got, expected, "way {number} of lines of {left} and {right} bytes");
        }
    }
}

#[test]
fn work_and_time_are_counted_alike() {
    let program = || Program::steady("p", 0_u64, stream(0.1, 0.3, CACHE), 1e5).unwrap();
    for units in [
        Units { work: "request".to_owned(), ..Units::default() },
        Units { time: TimeUnit::Nanosecond, ..Units::default() },
    ] {
        for got in together(&program(), &program().with_units(units.clone())) {
            assert!(matches!(got, Err(Error::MixedUnits { .. })), "{got:?}");
        }
        for got in together(&program().with_units(units.clone()), &program().with_units(units.clone())) {
            assert_eq!(got, Ok(()));
        }
    }
}

#[test]
fn phases_are_named_as_in_the_file_they_come_from() {
    let curves = || {
        let first = uniform(0.2, 0.4, 0.8 * CACHE as f64, CACHE);
        [("A".to_owned(), first), ("B".to_owned(), stream(0.1, 0.3, CACHE))]
    };
    let windows = || ["A", "B", "A"].map(|phase| Window::of_phase(1e5, phase.to_owned()));
    let program = Program::new("p", curves(), windows()).unwrap();
    let settings = Settings { method: cachesharing::Method::Phase, ..Settings::default() };
    let model = EvictionAge::default();
    let run = CoRun::new(cache(), &[&program, &program], &model, settings).unwrap();
    let found = culprits(&run, &Offsets::random(3, 1)).unwrap();
    assert!(found.iter().all(|culprit| ["A", "B"].contains(&culprit.phase.as_str())));
    assert!(run.co_phases().iter().any(|met| met.phases == ["A", "A"]));
    let one = NonZeroUsize::MIN;
    assert!(variability(&run, &Offsets::random(3, 1), one).unwrap().distribution.mean() >= 1.0);
    assert_eq!(way_sensitivity(&program, CACHE as f64 / 2.0, 16_384.0).unwrap().phases.len(), 2);
    let programs = [&program, &program];
    assert_eq!(partition(&cache(), &programs, &model, Policy::Fair).unwrap().slowdowns.len(), 2);
    assert!(co_schedule(cache(), &programs, &model, settings, &Offsets::random(1, 1), one).is_ok());
}

#[test]
fn reuse_times_are_of_the_lines_of_their_curve() {
    let curve = uniform(0.2, 0.4, 0.8 * CACHE as f64, CACHE);
    for (left, right) in [(64, 64), (64, 128), (32, 64)] {
        let mut profile = ReuseProfile::new(LineSize::new(right).unwrap());
        profile.record_many(Outcome::Reused(ReuseDistance(900)), 100, 1);
        let times = ReuseTimes::estimated(CACHE / 16, 16, CacheLines(8), &profile).unwrap();
        let expected = if left == right { None } else { Some(Error::MixedLineSizes { left, right }) };
        assert_eq!(lines_of(&curve, left).with_reuse_times(times).err(), expected);
    }
}
