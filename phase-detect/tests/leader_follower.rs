//! Leader-follower and POP clustering against a second, naive implementation, and their promises one by one.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // as quickcheck calls properties

#[path = "support/random.rs"]
mod random;

use phase_detect::cluster::DEFAULT_CAPACITY;
use phase_detect::{
    Classification, Clusterer, Distance, Error, LeaderFollower, LeaderFollowerConfig, PhaseId, Pop,
    PopConfig, Signature,
};
use quickcheck::{QuickCheck, TestResult};
use random::Random;

/// The algorithm as the papers tell it: keeps all members and recomputes every mean.
struct Naive {
    threshold: f64,
    capacity: usize,
    distance: Distance,
    scale: f64,
    // number, members, window last seen in
    phases: Vec<(u32, Vec<Vec<f64>>, usize)>,
    next: u32,
    window: usize,
}

impl Naive {
    /// Phase and distance, or `None` where the answer hangs on less than the stated 1e-6.
    fn classify(&mut self, s: &[f64]) -> Option<(u32, f64, bool)> {
        self.window += 1;
        let mut ranked: Vec<(f64, usize)> = self
            .phases
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let n = p.1.len() as f64;
                let mean: Vec<f64> =
                    (0..s.len()).map(|e| p.1.iter().map(|m| m[e]).sum::<f64>() / n).collect();
                (self.scale * self.distance.between(s, &mean), i)
            })
            .collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let near = |a: f64, b: f64| (a - b).abs() < 2e-6;
        if ranked.len() > 1 && near(ranked[0].0, ranked[1].0) {
            return None;
        }
        if let Some(&(d, i)) = ranked.first() {
            if near(d, self.threshold) {
                return None;
            }
            if d <= self.threshold {
                self.phases[i].1.push(s.to_vec());
                self.phases[i].2 = self.window;
                return Some((self.phases[i].0, d, false));
            }
        }
        if self.phases.len() == self.capacity {
            let oldest = (0..self.phases.len()).min_by_key(|&i| self.phases[i].2).unwrap();
            self.phases.remove(oldest);
        }
        self.phases.push((self.next, vec![s.to_vec()], self.window));
        self.next += 1;
        Some((self.next - 1, 0.0, true))
    }
}

fn agree(
    clusterer: &mut dyn Clusterer,
    mut naive: Naive,
    windows: &[Vec<u8>],
    entries: usize,
    make: fn(Vec<f64>) -> Option<Signature>,
) -> bool {
    for window in windows {
        let mut window: Vec<f64> = window.iter().map(|&v| f64::from(v)).collect();
        window.resize(entries, 0.0);
        let Some(signature) = make(window) else { continue };
        let Some((phase, distance, founded)) = naive.classify(signature.values()) else {
            return true; // undecidable within the stated accuracy: what follows may differ
        };
        let got = clusterer.classify(&signature).unwrap();
        if got.phase != PhaseId::new(phase)
            || (got.distance - distance).abs() > 1e-9
            || got.founded != founded
        {
            return false;
        }
    }
    true
}

#[test]
fn leader_follower_equals_the_naive_one() {
    fn law(windows: Vec<Vec<u8>>, threshold: u8, capacity: u8) -> TestResult {
        let threshold = f64::from(threshold % 101) / 100.0;
        let capacity = 1 + usize::from(capacity % 50);
        let config =
            LeaderFollowerConfig { threshold, capacity: Some(capacity), ..LeaderFollowerConfig::default() };
        let naive = Naive {
            threshold,
            capacity,
            distance: Distance::Manhattan,
            scale: 0.5,
            phases: Vec::new(),
            next: 0,
            window: 0,
        };
        let mut clusterer = LeaderFollower::new(config).unwrap();
        TestResult::from_bool(agree(&mut clusterer, naive, &windows, 7, |v| Signature::frequency(v).ok()))
    }
    QuickCheck::new().tests(400).quickcheck(law as fn(Vec<Vec<u8>>, u8, u8) -> TestResult);
}

/// Programs that stay in a phase, or change it at every other window, drift there, leave it for one nearby or far away, and
/// come back: where the search is cut short it must have found the nearest.
#[test]
fn staying_in_a_phase_equals_the_naive_one() {
    for seed in 1..=24_u64 {
        let mut random = Random(seed);
        let mut below = move |limit: u64| random.below(limit as usize) as u64;
        let (entries, stay) = if seed > 12 { (19, 2) } else { (7, 20) }; // no multiples of any vector length
        let phases: Vec<Vec<u64>> =
            (0..3 + seed % 6).map(|_| (0..entries).map(|_| below(200)).collect()).collect();
        let (mut now, mut drift, mut windows) = (0, 0, Vec::new());
        for window in 0..1500_u64 {
            if below(stay) == 0 {
                now = below(phases.len() as u64) as usize;
                drift = below(3);
            }
            let moved = drift * (window % 100) / 3;
            let noise = 1 + seed * 3;
            windows
                .push(phases[now].iter().map(|&v| (v / 2 + moved + below(noise)).min(255) as u8).collect());
        }
        let threshold = [0.05, 0.15, 0.4][seed as usize % 3];
        let capacity = if seed % 2 == 0 { 3 } else { 1000 };
        let config =
            LeaderFollowerConfig { threshold, capacity: Some(capacity), ..LeaderFollowerConfig::default() };
        let (distance, scale, phases) = (Distance::Manhattan, 0.5, Vec::new());
        let naive = Naive { threshold, capacity, distance, scale, phases, next: 0, window: 0 };
        let mut clusterer = LeaderFollower::new(config).unwrap();
        let make = |values: Vec<f64>| Signature::frequency(values).ok();
        assert!(agree(&mut clusterer, naive, &windows, entries, make), "seed {seed}");
    }
}

/// The centre of a new phase moves far with its second window, perhaps towards one that was known to be on its own.
#[test]
fn a_new_phase_that_has_come_nearer_is_not_overlooked() {
    let config = LeaderFollowerConfig { threshold: 0.2, ..LeaderFollowerConfig::default() };
    let mut clusterer = LeaderFollower::new(config).unwrap();
    let mut phase = |share: f64| {
        let window = Signature::frequency([share, 1.0 - share]).unwrap();
        clusterer.classify(&window).unwrap().phase.number()
    };
    assert!((0..64).all(|_| phase(0.5) == 0));
    assert_eq!([0.71, 0.61, 0.5, 0.5].map(&mut phase), [1, 1, 0, 0]);
    // The new centre is at 0.66, and 0.075 away.
    assert_eq!(phase(0.585), 1);
}

#[test]
fn pop_equals_the_naive_one() {
    fn law(windows: Vec<Vec<u8>>, threshold: u8, capacity: u8) -> TestResult {
        let threshold = f64::from(threshold % 201) / 100.0;
        let capacity = 1 + usize::from(capacity % 50);
        let config = PopConfig { threshold, capacity: Some(capacity), ..PopConfig::default() };
        let naive = Naive {
            threshold,
            capacity,
            distance: Distance::AveragePercentage,
            scale: 1.0,
            phases: Vec::new(),
            next: 0,
            window: 0,
        };
        let mut clusterer = Pop::new(config).unwrap();
        TestResult::from_bool(agree(&mut clusterer, naive, &windows, 7, |v| Signature::raw(v).ok()))
    }
    QuickCheck::new().tests(400).quickcheck(law as fn(Vec<Vec<u8>>, u8, u8) -> TestResult);
}

/// A window that is all in entry `i` of `n`.
fn corner(i: usize, n: usize) -> Signature {
    let mut values = vec![0.0; n];
    values[i] = 1.0;
    Signature::frequency(values).unwrap()
}

fn phases(clusterer: &mut LeaderFollower, corners: &[usize]) -> Vec<Classification> {
    corners.iter().map(|&i| clusterer.classify(&corner(i, 128)).unwrap()).collect()
}

/// More phases than one block of lanes holds, each found again.
/// A program that never repeats itself: memory does not grow with its windows, and each window has a phase of its own.
#[test]
fn by_default_phases_are_bounded() {
    let mut phases = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    let mut windows = 0;
    for a in 0..40 {
        for b in 0..a {
            for c in 0..b {
                let values: Vec<f64> =
                    (0..40).map(|k| if [a, b, c].contains(&k) { 1.0 } else { 0.0 }).collect();
                let seen = phases.classify(&Signature::frequency(values).unwrap()).unwrap();
                assert_eq!((seen.founded, seen.phase), (true, PhaseId::new(windows)));
                let full = windows as usize >= DEFAULT_CAPACITY;
                // the one seen longest ago makes room
                assert_eq!(seen.replaced, full.then(|| PhaseId::new(windows - DEFAULT_CAPACITY as u32)));
                windows += 1;
            }
        }
    }
    assert_eq!(windows, 9_880);
    assert_eq!(phases.phases().count(), DEFAULT_CAPACITY);
}

#[test]
fn phases_are_kept_and_found_again() {
    let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    let all: Vec<usize> = (0..128).collect();
    for (i, c) in phases(&mut clusterer, &all).iter().enumerate() {
        assert!(c.founded && c.phase.index() == i);
    }
    for (i, c) in phases(&mut clusterer, &all).iter().enumerate() {
        assert!(!c.founded && c.phase.index() == i && c.distance == 0.0 && c.members == 2);
    }
}

#[test]
fn replacement_takes_the_least_recently_used_and_never_reuses_its_number() {
    let config = LeaderFollowerConfig { capacity: Some(3), ..LeaderFollowerConfig::default() };
    let mut clusterer = LeaderFollower::new(config).unwrap();
    let got = phases(&mut clusterer, &[10, 11, 12, 10, 13, 11]);
    let ids: Vec<usize> = got.iter().map(|c| c.phase.index()).collect();
    // 13 pushes out 11 (phase 1), so that 11 comes back as phase 4 and pushes out 12 (phase 2)
    assert_eq!(ids, [0, 1, 2, 0, 3, 4]);
    let replaced: Vec<Option<usize>> = got.iter().map(|c| c.replaced.map(PhaseId::index)).collect();
    assert_eq!(replaced, [None, None, None, None, Some(1), Some(2)]);
    // a match without learning counts as use: 10 (phase 0) survives, 13 (phase 3) goes
    clusterer.note_match(PhaseId::new(0));
    assert_eq!(phases(&mut clusterer, &[14])[0].replaced, Some(PhaseId::new(3)));
}

#[test]
fn a_phase_settles_at_the_transition_threshold() {
    let config = LeaderFollowerConfig { transition_threshold: 3, ..LeaderFollowerConfig::default() };
    let mut clusterer = LeaderFollower::new(config).unwrap();
    let got = phases(&mut clusterer, &[0, 0, 1, 0, 0]);
    let transition: Vec<bool> = got.iter().map(|c| c.in_transition).collect();
    assert_eq!(transition, [true, true, true, false, false]);
    assert_eq!(got[3].settled(), Some(PhaseId::new(0)));
    assert_eq!(got[2].settled(), None);
}

#[test]
fn the_threshold_is_a_fraction_of_the_largest_distance() {
    for (threshold, joins) in [(1.0, true), (0.999, false)] {
        let config = LeaderFollowerConfig { threshold, ..LeaderFollowerConfig::default() };
        let mut clusterer = LeaderFollower::new(config).unwrap();
        let got = phases(&mut clusterer, &[0, 1]);
        assert_eq!(got[1].founded, !joins, "disjoint windows at threshold {threshold}");
    }
}

#[test]
fn frozen_clusterers_stop_learning() {
    let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    assert!(matches!(clusterer.freeze(), Err(Error::NoPhases)));
    phases(&mut clusterer, &[0, 1]);
    let mut frozen = clusterer.freeze().unwrap();
    let before = frozen.clone();
    let far = frozen.classify(&corner(5, 128)).unwrap();
    assert!(!far.founded && far.distance == 1.0);
    assert_eq!(frozen, before);
    assert_eq!(frozen.nearest(&corner(1, 128)).unwrap(), Some((PhaseId::new(1), 0.0)));
}

#[test]
fn misfits_are_refused_and_change_nothing() {
    let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    let raw = Signature::raw([1.0; 32]).unwrap();
    assert!(matches!(clusterer.classify(&raw), Err(Error::Kind { .. })));
    assert!(clusterer.nearest(&corner(0, 32)).unwrap().is_none());
    clusterer.classify(&corner(0, 32)).unwrap();
    assert!(matches!(clusterer.classify(&corner(0, 64)), Err(Error::Length { expected: 32, got: 64 })));
    assert!(matches!(clusterer.nearest(&corner(0, 16)), Err(Error::Length { .. })));
    assert_eq!(clusterer.phases().count(), 1);
    let mut frozen = clusterer.freeze().unwrap();
    assert!(matches!(frozen.classify(&raw), Err(Error::Kind { .. })));

    let mut pop = Pop::new(PopConfig::default()).unwrap();
    assert!(matches!(pop.classify(&corner(0, 8)), Err(Error::Kind { .. })));
    for bad in [-1.0, 1e31, 1e-31] {
        let signature = Signature::raw([1.0, bad]).unwrap();
        assert!(matches!(pop.classify(&signature), Err(Error::BadEntry { index: 1, .. })));
    }
}

#[test]
fn parameters_are_checked() {
    for threshold in [-0.1, 1.1, f64::NAN] {
        let config = LeaderFollowerConfig { threshold, ..LeaderFollowerConfig::default() };
        assert!(matches!(LeaderFollower::new(config), Err(Error::Parameter { name: "threshold", .. })));
    }
    let config = LeaderFollowerConfig { capacity: Some(0), ..LeaderFollowerConfig::default() };
    assert!(matches!(LeaderFollower::new(config), Err(Error::Parameter { name: "capacity", .. })));
    let config = PopConfig { threshold: 2.5, ..PopConfig::default() };
    assert!(matches!(Pop::new(config), Err(Error::Parameter { name: "threshold", .. })));
}
