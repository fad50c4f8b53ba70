//! The online detector: its parts put together give what they give apart, and its promises one by one.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // as quickcheck calls properties

use std::sync::{Arc, Mutex};

use phase_detect::online::{DynamicRateConfig, Histories, PrivateHistories, SharedHistories};
use phase_detect::{
    Classification, Clusterer, Detection, Detector, Error, LastValue, LeaderFollower, LeaderFollowerConfig,
    PhaseId, Ppm, Predictor, Signature,
};

/// A window that is all in one of 8 entries.
fn corner(entry: u8) -> Signature {
    blend(entry, entry, 0.0)
}

/// A share of one corner, the rest of another.
fn blend(from: u8, to: u8, share: f64) -> Signature {
    let mut values = [0.0; 8];
    values[usize::from(from)] += 1.0 - share;
    values[usize::from(to)] += share;
    Signature::frequency(values).unwrap()
}

/// Every cluster is a phase from its first window on.
fn without_transitions(threshold: f64) -> Detector {
    let config = LeaderFollowerConfig { threshold, transition_threshold: 0, ..Default::default() };
    Detector::new(LeaderFollower::new(config).unwrap(), PrivateHistories::new(Ppm::default()))
}

#[test]
fn equals_a_shared_clusterer_and_a_predictor_per_thread() {
    fn law(windows: Vec<(u8, u8)>) -> bool {
        let mut detector = Detector::default();
        let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
        let mut predictors = [(); 3].map(|()| Ppm::default());
        let mut last = [None; 3];
        let mut counts = [0; 3];
        windows.into_iter().all(|(thread, entry)| {
            let (thread, signature) = (usize::from(thread % 3), corner(entry % 4));
            let got = detector.observe(thread as u64, &signature).unwrap();
            let want = clusterer.classify(&signature).unwrap();
            let mut changed = false;
            if let Some(settled) = want.settled() {
                predictors[thread].observe(settled);
                changed = last[thread].replace(settled).is_some_and(|p| p != settled);
            }
            counts[thread] += 1;
            got.classification == Some(want)
                && got.phase == Some(want.phase)
                && got.settled() == want.settled()
                && got.prediction == predictors[thread].predict()
                && got.changed == changed
                && got.window == counts[thread] - 1
                && got.sample_factor == 1
        })
    }
    quickcheck::quickcheck(law as fn(Vec<(u8, u8)>) -> bool);
}

#[test]
fn callbacks_come_at_changes_and_at_every_window() {
    let (changes, windows) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let mut detector = without_transitions(0.1);
    let (to, count) = (Arc::clone(&changes), Arc::clone(&windows));
    detector.on_phase_change(move |d: &Detection| to.lock().unwrap().push((d.thread, d.window)));
    detector.on_window(move |_| *count.lock().unwrap() += 1);
    for (thread, entry) in [(1, 0), (1, 0), (2, 0), (1, 1), (2, 0), (1, 1), (2, 1), (1, 0)] {
        detector.observe(thread, &corner(entry)).unwrap();
    }
    assert_eq!(*changes.lock().unwrap(), [(1, 2), (2, 2), (1, 4)]);
    assert_eq!(*windows.lock().unwrap(), 8);
}

/// A stable phase: the rate falls to an eighth. Then a window that fits nothing is unclassified, is not learned, and
/// brings the full rate back; the next one founds the phase.
#[test]
fn a_reduced_rate_matches_and_does_not_learn() {
    let mut detector = without_transitions(0.4).with_dynamic_rate(DynamicRateConfig::default()).unwrap();
    let factors: Vec<u32> = (0..6).map(|_| detector.observe(0, &corner(0)).unwrap().sample_factor).collect();
    assert_eq!(factors, [1, 2, 4, 8, 8, 8]);
    let (_, members, _) = detector.clusterer().phases().next().unwrap();
    assert_eq!(members, 2, "two windows came at the full rate");

    // half way to another corner: beyond the clusterer's 0.4, within the matching 0.5
    let near = detector.observe(0, &blend(0, 1, 0.5)).unwrap();
    assert_eq!((near.phase, near.classification, near.changed), (Some(PhaseId::new(0)), None, false));
    let far = detector.observe(0, &corner(1)).unwrap();
    assert_eq!((far.phase, far.changed, far.sample_factor), (None, false, 1));
    assert_eq!(detector.clusterer().phases().count(), 1);
    let founded = detector.observe(0, &corner(1)).unwrap();
    assert!(founded.changed && founded.classification.unwrap().founded);
    // another thread starts at the full rate
    assert!(detector.observe(1, &corner(0)).unwrap().classification.is_some());
}

#[test]
fn a_matched_phase_is_not_replaced_as_unused() {
    let config = LeaderFollowerConfig { capacity: Some(2), transition_threshold: 0, ..Default::default() };
    let histories = PrivateHistories::new(Ppm::default());
    let mut detector: Detector = Detector::new(LeaderFollower::new(config).unwrap(), histories)
        .with_dynamic_rate(DynamicRateConfig::default())
        .unwrap();
    for _ in 0..3 {
        detector.observe(0, &corner(0)).unwrap();
    }
    detector.observe(1, &corner(1)).unwrap();
    detector.observe(0, &corner(0)).unwrap(); // thread 0 is at a reduced rate: a match
    let third = detector.observe(2, &corner(2)).unwrap().classification.unwrap();
    assert_eq!(third.replaced, Some(PhaseId::new(1)));
}

/// Two loops take turns, and each change begins with a window of its own: the predictor sees only the loops.
#[test]
fn transitions_are_neither_learned_nor_changes() {
    let mut detector = Detector::default();
    let mut changes = 0;
    for window in 0..80_u8 {
        let (turn, at) = (window / 8, window % 8);
        // the first window of a turn is code of its own
        let entry = if at == 0 { 2 + turn % 6 } else { turn % 2 };
        let seen = detector.observe(0, &corner(entry)).unwrap();
        // the windows between are seen at most twice each, and so are the first two of each loop
        assert_eq!(seen.in_transition, at == 0 || (turn < 2 && at < 3), "window {window}");
        assert_eq!(seen.settled().is_none(), seen.in_transition);
        assert_eq!(seen.changed, turn > 0 && at == if turn < 2 { 3 } else { 1 }, "window {window}");
        changes += u32::from(seen.changed);
        if turn > 7 && at == 0 {
            // each history of two runs of 7 has been right once: after the last comes the other loop
            let other = detector.clusterer().nearest(&corner(turn % 2)).unwrap().unwrap().0;
            assert_eq!(seen.prediction.unwrap().phase, other);
        }
    }
    assert_eq!(changes, 9);
}

#[test]
fn detectors_can_be_sent_to_another_thread() {
    fn send<T: Send>(_: &T) {}
    send(&Detector::default());
    send(&phase_detect::Guide::default());
}

#[test]
fn refused_windows_change_nothing() {
    let mut detector = Detector::default();
    detector.observe(0, &corner(0)).unwrap();
    let before = format!("{detector:?}");
    let raw = Signature::raw([1.0; 8]).unwrap();
    assert!(matches!(detector.observe(0, &raw), Err(Error::Kind { .. })));
    assert!(matches!(detector.observe(0, &Signature::frequency([1.0]).unwrap()), Err(Error::Length { .. })));
    assert_eq!(format!("{detector:?}"), before);
}

#[test]
fn a_forgotten_thread_starts_anew() {
    let mut detector = Detector::default();
    detector.observe(5, &corner(0)).unwrap();
    detector.forget(5);
    let again = detector.observe(5, &corner(1)).unwrap();
    assert_eq!((again.window, again.changed), (0, false));
}

/// The paper's example: thread 1 has gone through A A A B; thread 2, after A A A, is predicted to go to B only if the
/// threads learn together.
#[test]
fn threads_learn_together_or_alone() {
    let [a, b] = [0, 1].map(PhaseId::new);
    let mut shared: SharedHistories = SharedHistories::default();
    let mut private: PrivateHistories<Ppm> = PrivateHistories::new(Ppm::default());
    let mut all: [&mut dyn Histories<u64>; 2] = [&mut shared, &mut private];
    for histories in &mut all {
        for phase in [a, a, a, b, a, a, a, b, a, a, a, b, a, a, a] {
            histories.observe(1, phase);
        }
        for phase in [b, a, a, a] {
            histories.observe(2, phase);
        }
    }
    let next = |h: &dyn Histories<u64>| h.predict(2).map(|p| p.phase);
    assert_eq!(next(all[0]), Some(b));
    assert_eq!(next(all[1]), Some(a));
    all[0].forget(2);
    assert_eq!(all[0].predict(2), None);
}

/// A clusterer from outside the crate: whatever is largest is the phase.
struct LargestEntry;

impl Clusterer for LargestEntry {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        let (phase, distance) = self.nearest(signature)?.unwrap();
        Ok(Classification::new(phase, distance))
    }

    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        let values = signature.values().iter().zip(0..);
        let (value, entry) = values.max_by(|a, b| a.0.total_cmp(b.0)).unwrap();
        Ok(Some((PhaseId::new(entry), 1.0 - value)))
    }
}

#[test]
fn clusterers_and_predictors_from_elsewhere_fit_in() {
    let clusterer: Box<dyn Clusterer> = Box::new(LargestEntry);
    let mut detector: Detector<_, _, &str> =
        Detector::new(clusterer, PrivateHistories::new(LastValue::new()));
    assert_eq!(detector.observe("main", &corner(3)).unwrap().phase, Some(PhaseId::new(3)));
    let next = detector.observe("worker", &blend(1, 2, 0.25)).unwrap();
    assert_eq!((next.phase, next.changed), (Some(PhaseId::new(1)), false));
    assert_eq!(next.classification.unwrap().distance, 0.25);
}
