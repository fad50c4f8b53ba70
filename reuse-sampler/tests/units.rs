//! What was observed in different units is never put together in silence.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use quickcheck::quickcheck;
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, AccessKind, Bootstrap, CacheLines, CacheModel, Clock, Error, Evaluator, Grouped, GroupedProfiles,
    HotSpots, LineSize, OpenSamples, Outcome, ReuseDistance, ReusePlan, ReuseProfile, ReuseSample, Sampler,
    SamplerError, Scope, SetAssociative, Site, Stratum, ThreadId, Window, WindowIndex, WindowPlan,
    differences_within_phase, merge_alike,
};

fn line_size(log: u8) -> LineSize {
    LineSize::new(1 << (log % 8)).unwrap()
}

fn windows(options: ReplayOptions, accesses: u64) -> Result<Vec<Window>, SamplerError> {
    let events = (0..accesses).map(|i| Event::Access(Access::load(24 * (i % 50), 8)));
    let mut sampler = ReplaySampler::new(events, options).unwrap();
    let mut windows = Vec::new();
    while let Some(window) = sampler.next_window(&WindowPlan::new(ReusePlan::Every))? {
        windows.push(window);
    }
    Ok(windows)
}

quickcheck! {
    /// Windows, profiles, groups and merged profiles, each of a line size and clock of its own.
    fn line_sizes_and_clocks_do_not_mix(observed: u8, recorded: u8, merged: u8, time: bool) -> bool {
        let (observed, recorded, merged) = (line_size(observed), line_size(recorded), line_size(merged));
        let options = ReplayOptions::windows_of(WindowLength::Accesses(100)).line_size(observed);
        let windows = windows(options, 300).unwrap();
        let clock = if time { Clock::Instructions } else { Clock::Accesses };
        let mut profile = ReuseProfile::with_clock(recorded, clock);
        let mut groups = GroupedProfiles::new(recorded);
        for window in &windows {
            assert_eq!(window.line_size, observed);
            let before = profile.clone();
            match profile.record_window(window) {
                Ok(()) => assert!(recorded == observed && !time),
                Err(Error::MixedLineSizes { left, right }) => {
                    assert!(left == recorded.bytes() && right == observed.bytes() && left != right);
                    assert_eq!(profile, before);
                }
                Err(Error::MixedClocks { left, right }) => {
                    assert!(recorded == observed && (left, right) == (clock, Clock::Accesses));
                    assert_eq!(profile, before);
                }
                Err(other) => panic!("{other}"),
            }
            let added = groups.add(window, window.index);
            assert_eq!(added.is_ok(), recorded == observed);
            assert!(added.is_ok() || groups.iter().next().is_none());
        }
        let added = profile.merge(&ReuseProfile::new(merged));
        added.is_ok() == (merged == recorded && !time)
    }
}

/// What each thread does by itself, and what all do together, of the same run.
#[test]
fn threads_and_the_process_do_not_mix() {
    let events = (0..4_000).flat_map(|i: u64| {
        let access = Event::Access(Access::load(64 * (i * i % 97), 8));
        [Event::Thread(ThreadId((i / 10 % 2) as u32)), access]
    });
    let options = ReplayOptions::windows_of(WindowLength::Accesses(500)).coherent();
    let mut sampler = ReplaySampler::new(events, options).unwrap();
    let (own, all) = (Scope::Private, Scope::Shared);
    let empty = |scope| ReuseProfile::with_units(LineSize::B64, Clock::Accesses, scope);
    let mut profiles = [empty(own), empty(all)];
    let mut groups = [own, all].map(|scope| GroupedProfiles::with_scope(LineSize::B64, scope));
    let mut seen = 0;
    while let Some(window) = sampler.next_window(&WindowPlan::new(ReusePlan::Every)).unwrap() {
        for window in [Some(&window), window.process.as_deref()].into_iter().flatten() {
            seen += usize::from(window.scope == all);
            for arrivals in window.arrivals.iter().flat_map(|arrivals| [&arrivals.loads, &arrivals.stores]) {
                assert_eq!(arrivals.scope(), window.scope);
            }
            for (profile, group) in profiles.iter_mut().zip(&mut groups) {
                let (left, right) = (profile.scope(), window.scope);
                let expected = if left == right { Ok(()) } else { Err(Error::MixedScopes { left, right }) };
                let before = profile.clone();
                assert_eq!(profile.record_window(window), expected);
                assert!(expected.is_ok() || *profile == before);
                assert_eq!(group.add(window, ()), expected);
            }
        }
    }
    assert!(seen > 1, "no window of the process");
    let [mut private, shared] = profiles;
    let error = private.merge(&shared).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot put together what was observed of each thread by itself and of all threads together: keep them apart"
    );
    assert_eq!(groups[1].all().scope(), all);
}

/// What something was observed in.
type Units = (LineSize, Clock, Scope);

/// A model that knows nothing but what it was fitted to.
#[derive(Clone)]
struct Fitted(Units);

impl CacheModel for Fitted {
    fn line_size(&self) -> LineSize {
        self.0.0
    }
    fn scope(&self) -> Scope {
        self.0.2
    }
    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        Evaluator::step(ReuseDistance(size.0))
    }
    fn miss_ratio(&self, _: CacheLines) -> f64 {
        0.5
    }
}

fn profile((line_size, clock, scope): Units) -> ReuseProfile {
    let mut profile = ReuseProfile::with_units(line_size, clock, scope);
    profile.record_many(Outcome::Reused(ReuseDistance(9)), 60, 1);
    profile.add_accesses(60);
    profile
}

fn window(index: u64, (line_size, clock, scope): Units) -> Window {
    let mut window = Window::new(WindowIndex(index), ThreadId(0), line_size);
    (window.clock, window.scope) = (clock, scope);
    let site = Site { pc: 7, kind: AccessKind::Load };
    window.samples.push(ReuseSample {
        outcome: Outcome::Reused(ReuseDistance(9)),
        started_in: window.index,
        thread: window.thread,
        begin: site,
        end: Some(site),
        weight: 1,
    });
    window
}

/// The error that names the units of both; `None` if they are the same.
fn mixed(left: Units, right: Units) -> Option<Error> {
    if left.0 != right.0 {
        Some(Error::MixedLineSizes { left: left.0.bytes(), right: right.0.bytes() })
    } else if left.1 != right.1 {
        Some(Error::MixedClocks { left: left.1, right: right.1 })
    } else {
        (left.2 != right.2).then_some(Error::MixedScopes { left: left.2, right: right.2 })
    }
}

quickcheck! {
    /// Every public function that takes two things with units, by units of each.
    fn nothing_public_mixes(left: (bool, bool, bool), right: (bool, bool, bool)) -> bool {
        let units = |(small, time, all): (bool, bool, bool)| -> Units {
            let line_size = if small { LineSize::new(32).unwrap() } else { LineSize::B64 };
            let clock = if time { Clock::Instructions } else { Clock::Accesses };
            (line_size, clock, if all { Scope::Shared } else { Scope::Private })
        };
        let (left, right) = (units(left), units(right));
        let expected = mixed(left, right);
        let (one, other) = (profile(left), profile(right));
        let size = CacheLines(100);
        assert_eq!(one.clone().merge(&other).err(), expected);
        assert_eq!(one.clone().record_window(&window(1, right)).err(), expected);
        assert_eq!(merge_alike(&[one.clone(), other.clone()]).err(), expected);
        let strata = [&one, &other].map(Stratum::sampled);
        let fit = |_: &ReuseProfile| Ok::<_, Error>(Fitted(left));
        assert_eq!(Bootstrap::new(0.95, 100, 1).unwrap().stratified(&strata, fit, &[size]).err(), expected);
        // Whatever comes first says what they are in.
        let mut spots = HotSpots::new();
        spots.add(&window(0, left), |site| site.pc).unwrap();
        assert_eq!(spots.add(&window(1, right), |site| site.pc).err(), expected);
        assert_eq!(spots.samples(), if expected.is_none() { 2 } else { 1 });
        let mut open = OpenSamples::default();
        open.take(&window(0, left)).unwrap();
        assert_eq!(open.take(&window(1, right)).err(), expected);
        // Groups leave distances by another clock out, one by one.
        let mut groups = GroupedProfiles::with_scope(left.0, left.2);
        let by_accesses = |units: Units| (units.0, Clock::Accesses, units.2);
        assert_eq!(groups.add(&window(0, right), ()).err(), mixed(by_accesses(left), by_accesses(right)));
        // Models are of accesses.
        let expected = mixed(by_accesses(left), right);
        let model = Fitted(left);
        assert_eq!(model.miss_ratio_of(&other, size).err(), expected);
        assert_eq!(differences_within_phase(&[&other], &model, &[size]).err(), expected);
        let arrivals = spots.arrivals(&7).unwrap();
        assert_eq!(model.miss_ratio_of(&arrivals, size).err(), mixed(by_accesses(left), left));
        let mut others = HotSpots::new();
        others.add(&window(0, right), |site| site.pc).unwrap();
        assert_eq!(others.advise(&model, &[size], |_| None).err(), expected);
        let models = [left, right].map(|units| (0.5, Fitted(units)));
        let together = Grouped::new(models);
        assert_eq!(together.as_ref().err().cloned(), mixed(by_accesses(left), by_accesses(right)));
        // And what is made of a model is of its units.
        let sets = SetAssociative::new(Fitted(left), 8).unwrap();
        let curves = [Some(sets.curve(&[size])), together.ok().map(|together| together.curve(&[size]))];
        curves.into_iter().flatten().all(|curve| (curve.line_size, curve.scope) == (left.0, left.2))
    }
}

#[test]
fn windows_of_instructions_are_not_made_of_accesses() {
    // Shorter than a window: one window whatever its length counts.
    assert_eq!(windows(ReplayOptions::default(), 1000).unwrap().len(), 1);
    let options = ReplayOptions::windows_of(WindowLength::Instructions(999));
    let error = windows(options, 1000).unwrap_err();
    assert_eq!(
        error.to_string(),
        "windows of 999 instructions, and 1000 accesses without one: give WindowLength::Accesses, or a source that reports \
         executed blocks"
    );
}
