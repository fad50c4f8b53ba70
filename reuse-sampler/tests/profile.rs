//! Laws and known answers of `ReuseProfile`.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ciborium::Value as Cbor;
use quickcheck::{Arbitrary, Gen, quickcheck};
use reuse_sampler::{
    Clock, Error, LineSize, Outcome, ReuseDistance, ReuseDistribution, ReuseOverlap, ReuseProfile,
    WindowIndex,
};

#[derive(Clone, Debug)]
struct Profile(ReuseProfile);

impl Arbitrary for Profile {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for _ in 0..usize::arbitrary(g) % 30 {
            let distance = u64::arbitrary(g) >> (u8::arbitrary(g) % 64);
            let outcome = match u8::arbitrary(g) % 5 {
                0 => Outcome::Dangling,
                2 => Outcome::Invalidated(ReuseDistance(distance)),
                1 => Outcome::Censored { at_least: distance },
                _ => Outcome::Reused(ReuseDistance(distance)),
            };
            profile.record_many(outcome, u64::from(u8::arbitrary(g)), u64::from(u16::arbitrary(g)));
        }
        profile.add_accesses(u64::from(u32::arbitrary(g)));
        for _ in 0..usize::arbitrary(g) % 5 {
            let (distance, open) = (u64::arbitrary(g) >> (u8::arbitrary(g) % 64), u64::arbitrary(g));
            profile.record_overlap(&ReuseOverlap {
                started_in: WindowIndex(0),
                shortest: ReuseDistance(distance),
                longest: ReuseDistance(distance),
                weight: u64::from(u16::arbitrary(g)),
                samples: u64::from(u16::arbitrary(g)),
                open,
                pairs: open / 2,
            });
        }
        Self(profile)
    }
}

fn merged(parts: &[&ReuseProfile]) -> ReuseProfile {
    let mut all = ReuseProfile::new(LineSize::B64);
    for part in parts {
        all.merge(part).unwrap();
    }
    all
}

quickcheck! {
    fn merging_is_associative_and_commutative_with_the_empty_profile_as_unit(a: Profile, b: Profile, c: Profile) -> bool {
        let (a, b, c) = (&a.0, &b.0, &c.0);
        merged(&[a, b]) == merged(&[b, a])
            && merged(&[&merged(&[a, b]), c]) == merged(&[a, &merged(&[b, c])])
            && merged(&[a]) == *a
    }

    fn a_distribution_adds_up_to_one_and_never_rises(p: Profile) -> bool {
        let d = p.0.distribution();
        if p.0.is_empty() {
            return d.masses().is_empty() && d.beyond(0) == 1.0;
        }
        let total: f64 = d.masses().iter().map(|m| m.probability).sum::<f64>() + d.dangling() + d.unresolved();
        let mut last = 1.0;
        let falling = d.masses().iter().all(|m| {
            let ok = d.beyond(m.low) <= last && d.beyond(m.high) <= d.beyond(m.low);
            last = d.beyond(m.high);
            ok
        });
        (total - 1.0).abs() < 1e-9 && falling
    }

    fn distances_are_kept_within_0_4_percent(distance: u64) -> bool {
        let mut p = ReuseProfile::new(LineSize::B64);
        p.record(Outcome::Reused(ReuseDistance(distance)), 1);
        let kept = p.distribution().masses()[0].middle();
        kept.abs_diff(distance) as f64 <= 0.004 * distance as f64
    }

    fn storing_loses_nothing(p: Profile) -> bool {
        let text = serde_json::to_string(&p.0).unwrap();
        serde_json::from_str::<ReuseProfile>(&text).unwrap() == p.0
    }
}

/// The textbook estimate, one individual at a time: (time, event?) pairs with weight 1; infinite time for
/// dangling ones.
fn kaplan_meier(individuals: &[(u64, bool)], at: u64) -> f64 {
    let mut times: Vec<u64> = individuals.iter().filter(|i| i.1 && i.0 <= at).map(|i| i.0).collect();
    times.sort_unstable();
    times.dedup();
    times.iter().fold(1.0, |survival, &t| {
        let events = individuals.iter().filter(|i| i.1 && i.0 == t).count() as f64;
        // Censored with at_least = a: known to be at risk of an event at distances below a.
        let at_risk = individuals.iter().filter(|i| if i.1 { i.0 >= t } else { i.0 > t }).count() as f64;
        survival * (1.0 - events / at_risk)
    })
}

quickcheck! {
    /// Counts of 64 bits, censored and not: no probability is lost in differences of large numbers.
    fn probabilities_add_up_however_large_the_weights(outcomes: Vec<(u8, u8, u64, u8)>) -> bool {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for (kind, distance, weight, magnitude) in outcomes {
            let distance = u64::from(distance % 16);
            let outcome = match kind % 4 {
                0 => Outcome::Dangling,
                1 => Outcome::Censored { at_least: distance },
                2 => Outcome::Invalidated(ReuseDistance(distance)),
                _ => Outcome::Reused(ReuseDistance(distance)),
            };
            profile.record(outcome, weight >> (magnitude % 64));
        }
        let distribution = profile.distribution();
        let reused: f64 = distribution.masses().iter().map(|mass| mass.probability).sum();
        let sum = reused + distribution.dangling() + distribution.unresolved();
        let kept = distribution.masses().iter().all(|mass| (0.0..=mass.probability).contains(&mass.invalidated));
        kept && (profile.is_empty() || (sum - 1.0).abs() < 1e-12)
    }
}

quickcheck! {
    fn censored_samples_give_the_product_limit_estimate(individuals: Vec<(u16, bool)>, endless: u8) -> bool {
        // Below 1,024, where distances are exact.
        let mut list: Vec<(u64, bool)> = individuals.iter().map(|&(t, e)| (u64::from(t % 1000), e)).collect();
        let mut p = ReuseProfile::new(LineSize::B64);
        for &(t, event) in &list {
            let outcome =
                if event { Outcome::Reused(ReuseDistance(t)) } else { Outcome::Censored { at_least: t } };
            p.record(outcome, 3);
        }
        for _ in 0..endless {
            p.record(Outcome::Dangling, 3);
            list.push((u64::MAX, false));
        }
        let d = p.distribution();
        (0..1000).step_by(37).all(|t| list.is_empty() || (d.beyond(t) - kaplan_meier(&list, t)).abs() < 1e-9)
    }
}

#[test]
fn profiles_stored_before_threads_were_followed_are_read() {
    let text = r#"{"version":1,"line_size":64,"clock":"Accesses","samples":3,"accesses":9,"reused":[[5,2]],"censored":[],"dangling":1}"#;
    let read: ReuseProfile = serde_json::from_str(text).unwrap();
    let mut expected = ReuseProfile::new(LineSize::B64);
    expected.record_many(Outcome::Reused(ReuseDistance(5)), 2, 1);
    expected.record(Outcome::Dangling, 1);
    expected.add_accesses(9);
    assert_eq!(read, expected);
    assert!(!serde_json::to_string(&read).unwrap().contains("invalidated"), "others read it as before");
}

#[test]
fn weights_undo_different_sampling_rates() {
    // Half of the accesses at distance 1 sampled 1:1, the other half at distance 100 sampled 1:10.
    let mut p = ReuseProfile::new(LineSize::B64);
    p.record_many(Outcome::Reused(ReuseDistance(1)), 1_000, 1);
    p.record_many(Outcome::Reused(ReuseDistance(100)), 100, 10);
    assert_eq!(p.samples(), 1_100);
    assert_eq!(p.distribution().beyond(1), 0.5);
}

#[test]
fn samples_of_some_windows_may_stand_for_those_of_all() {
    let profile = |weight: u64| {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for distance in [3, 50, 1_000, 1_000_000] {
            profile.record_many(Outcome::Reused(ReuseDistance(distance)), 2, weight);
        }
        profile.record(Outcome::Censored { at_least: 40 }, weight);
        profile.record(Outcome::Dangling, weight);
        profile
    };
    // Twice as many accesses each, as many samples.
    let mut weighed = profile(100);
    weighed.merge_weighted(&profile(100), 2.0).unwrap();
    let twice = merged(&[&profile(100), &profile(200)]);
    assert_eq!(weighed.total_weight(), twice.total_weight());
    assert_eq!(weighed.distribution(), twice.distribution());
    assert_eq!(weighed.samples(), twice.samples());
    // A part of an access is left to the next distance: in all, none is lost.
    let mut thinned = profile(100);
    thinned.merge_weighted(&profile(1), 0.25).unwrap();
    assert_eq!(thinned.total_weight(), 1_000 + 2);
    for nothing in [0.0, -1.0, f64::NAN] {
        let mut same = profile(100);
        same.merge_weighted(&profile(100), nothing).unwrap();
        assert_eq!(same.total_weight(), 1_000, "{nothing}");
    }
}

#[test]
fn profiles_recorded_differently_do_not_mix() {
    let mut a = ReuseProfile::new(LineSize::B64);
    a.record(Outcome::Dangling, 1);
    let before = a.clone();
    let other = ReuseProfile::new(LineSize::new(32).unwrap());
    assert_eq!(a.merge(&other), Err(Error::MixedLineSizes { left: 64, right: 32 }));
    let other = ReuseProfile::with_clock(LineSize::B64, Clock::Instructions);
    let mixed = Error::MixedClocks { left: Clock::Accesses, right: Clock::Instructions };
    assert_eq!(a.merge(&other), Err(mixed));
    assert_eq!(a, before);
}

#[test]
fn a_stored_profile_is_checked() {
    let good = r#"{"version":1,"line_size":64,"clock":"Accesses","samples":2,"accesses":9,
        "reused":[[5,1]],"censored":[],"dangling":1}"#;
    assert!(serde_json::from_str::<ReuseProfile>(good).is_ok());
    for (from, to, message) in [
        ("\"version\":1", "\"version\":2", "version 2"),
        ("\"line_size\":64", "\"line_size\":65", "65 bytes"),
        ("[[5,1]]", "[[5,0]]", "weight 0"),
        ("[[5,1]]", "[[5,1],[4,1]]", "out of order"),
        ("\"samples\":2", "\"samples\":0", "0 samples"),
        ("\"samples\":2", "\"samples\":7", "7 samples"),
    ] {
        let error = serde_json::from_str::<ReuseProfile>(&good.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_stored_distribution_is_checked() {
    let mut p = ReuseProfile::new(LineSize::B64);
    p.record_many(Outcome::Reused(ReuseDistance(5)), 3, 1);
    p.record(Outcome::Dangling, 1);
    let distribution = p.distribution();
    let good = serde_json::to_string(&distribution).unwrap();
    assert_eq!(serde_json::from_str::<ReuseDistribution>(&good).unwrap(), distribution);
    for (from, to, message) in [
        ("\"low\":5", "\"low\":6", "from distance 6 to 5"),
        ("\"probability\":0.75", "\"probability\":0.5", "add up to 0.75"),
        ("\"probability\":0.75", "\"probability\":0", "probability 0"),
        ("\"probability\":0.75", "\"probability\":1.75", "probability 1.75"),
        ("\"invalidated\":0.0", "\"invalidated\":0.8", "0.8 invalidated"),
        ("\"unresolved\":0.0", "\"unresolved\":-0.1", "unresolved of probability -0.1"),
        // No number: as JSON writes what is not finite.
        ("\"dangling\":0.25", "\"dangling\":null", "invalid type: null"),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        let error =
            serde_json::from_str::<ReuseDistribution>(&good.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// Formats other than JSON carry numbers that are none.
#[test]
fn what_is_not_a_number_is_no_probability() {
    let mut p = ReuseProfile::new(LineSize::B64);
    p.record_many(Outcome::Reused(ReuseDistance(5)), 3, 1);
    p.record(Outcome::Dangling, 1);
    let saved = Cbor::serialized(&p.distribution()).unwrap();
    assert_eq!(saved.deserialized::<ReuseDistribution>().unwrap(), p.distribution());
    for (field, value) in [("dangling", f64::NAN), ("unresolved", f64::NAN), ("dangling", f64::INFINITY)] {
        let mut damaged = saved.clone();
        let fields = damaged.as_map_mut().unwrap();
        fields.iter_mut().find(|(name, _)| name.as_text() == Some(field)).unwrap().1 = Cbor::Float(value);
        let error = damaged.deserialized::<ReuseDistribution>().unwrap_err().to_string();
        assert!(error.contains(&format!("{field} of probability {value}")), "{error}");
    }
}
