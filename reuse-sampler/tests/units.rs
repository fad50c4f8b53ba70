//! What was observed in different units is never put together in silence.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use quickcheck::quickcheck;
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, WindowLength};
use reuse_sampler::{
    Access, Clock, Error, GroupedProfiles, LineSize, ReusePlan, ReuseProfile, Sampler, SamplerError, Scope,
    ThreadId, Window, WindowPlan,
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
