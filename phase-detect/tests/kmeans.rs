//! k-means on data with a known answer, and its refusals.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/random.rs"]
mod random;

use phase_detect::metrics::adjusted_rand_index;
use phase_detect::{Clusterer, Error, KMeans, PhaseId, Signature};
use random::Random;

/// 200 windows around 4 corners, 10 apart and disturbed by at most 1.
fn corners() -> (Vec<Signature>, Vec<usize>) {
    let mut random = Random(7);
    let truth: Vec<usize> = (0..200).map(|w| w * 7 / 3 % 4).collect();
    let windows = truth
        .iter()
        .map(|&c| {
            let corner = [[0.0, 0.0, 0.0], [10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 10.0]][c];
            Signature::raw(corner.map(|v| v + random.next()).to_vec()).unwrap()
        })
        .collect();
    (windows, truth)
}

#[test]
fn finds_separate_clusters_from_any_seed() {
    let (windows, truth) = corners();
    for seed in 0..10 {
        let mut found = KMeans { clusters: 4, seed, ..KMeans::default() }.fit(&windows).unwrap();
        assert_eq!(adjusted_rand_index(&found.labels, &truth).unwrap(), 1.0, "seed {seed}");
        assert_eq!(found.labels[0], PhaseId::new(0), "phases are numbered as they appear");
        for (window, &label) in windows.iter().zip(&found.labels) {
            assert_eq!(found.clusterer.classify(window).unwrap().phase, label);
        }
        // the inertia is what the reported centres give
        let sum: f64 = windows.iter().map(|w| found.clusterer.nearest(w).unwrap().unwrap().1.powi(2)).sum();
        assert!((sum - found.inertia).abs() < 1e-9 * sum);
    }
}

#[test]
fn one_cluster_is_the_mean_and_one_per_window_is_exact() {
    let (windows, _) = corners();
    let one = KMeans { clusters: 1, ..KMeans::default() }.fit(&windows).unwrap();
    let (_, members, centre) = one.clusterer.phases().next().unwrap();
    assert_eq!(members, 200);
    for (entry, value) in centre.iter().enumerate() {
        let mean = windows.iter().map(|w| w.values()[entry]).sum::<f64>() / 200.0;
        assert!((value - mean).abs() < 1e-12);
    }
    let all = KMeans { clusters: 200, restarts: 1, ..KMeans::default() }.fit(&windows).unwrap();
    assert_eq!((all.clusterer.phases().count(), all.inertia), (200, 0.0));
}

/// Three different signatures cannot make more than three phases.
#[test]
fn repeated_signatures_make_fewer_phases() {
    let windows: Vec<Signature> = (0..12).map(|w| Signature::raw([f64::from(w % 3)]).unwrap()).collect();
    let found = KMeans { clusters: 10, ..KMeans::default() }.fit(&windows).unwrap();
    assert_eq!((found.clusterer.phases().count(), found.inertia), (3, 0.0));
}

#[test]
fn bad_input_is_refused() {
    let windows: Vec<Signature> = (0..5).map(|w| Signature::raw([f64::from(w)]).unwrap()).collect();
    let good = KMeans { clusters: 5, ..KMeans::default() };
    assert!(good.fit(&windows).is_ok());
    assert!(matches!(good.fit(&[]), Err(Error::NoWindows)));
    assert!(matches!(
        KMeans { clusters: 6, ..good }.fit(&windows),
        Err(Error::TooFewWindows { clusters: 6, windows: 5 })
    ));
    for bad in
        [KMeans { clusters: 0, ..good }, KMeans { restarts: 0, ..good }, KMeans { max_iterations: 0, ..good }]
    {
        assert!(matches!(bad.fit(&windows), Err(Error::Parameter { .. })));
    }
    let with = |odd: Signature| -> Vec<Signature> { windows.iter().cloned().chain([odd]).collect() };
    assert!(matches!(good.fit(&with(Signature::raw([1.0, 2.0]).unwrap())), Err(Error::Length { .. })));
    assert!(matches!(good.fit(&with(Signature::frequency([1.0]).unwrap())), Err(Error::Kind { .. })));
    assert!(matches!(good.fit(&with(Signature::raw([1e200]).unwrap())), Err(Error::TooLarge { .. })));
}
