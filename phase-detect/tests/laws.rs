//! The laws of clusterers and predictors: every implementation here keeps them, and each catches who breaks it.
#![cfg(feature = "laws")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;

use phase_detect::predict::{AnyPredictor, ScoredPredictors};
use phase_detect::simpoint::SimPointConfig;
use phase_detect::{
    Classification, Clusterer, Error, KMeans, LastValue, LeaderFollower, LeaderFollowerConfig, PhaseId, Pop,
    PopConfig, Ppm, Prediction, Predictor, RunLengthMarkov, Signature, SignatureKind, laws,
};

#[test]
fn clusterers_keep_them() {
    use SignatureKind::{Frequency, Raw};
    let training: Vec<Signature> = (0..20)
        .map(|w| Signature::frequency((0..8).map(|e| f64::from(1 + w * e % 7)).collect::<Vec<_>>()).unwrap())
        .collect();
    let simpoint = SimPointConfig::default().fit(&training).unwrap();
    let k_means = KMeans { clusters: 3, ..KMeans::default() }.fit(&training).unwrap().clusterer;
    for seed in 0..20 {
        for capacity in [None, Some(1), Some(3)] {
            let follower = LeaderFollowerConfig { capacity, ..LeaderFollowerConfig::default() };
            laws::clusterer(|| LeaderFollower::new(follower).unwrap(), Frequency, seed).unwrap();
            let pop = PopConfig { capacity, ..PopConfig::default() };
            laws::clusterer(|| Pop::new(pop).unwrap(), Raw, seed).unwrap();
        }
        laws::clusterer(|| k_means.clone(), Frequency, seed).unwrap();
        laws::clusterer(|| Box::new(simpoint.clone()) as Box<dyn Clusterer>, Frequency, seed).unwrap();
    }
}

#[test]
fn predictors_keep_them() {
    for seed in 0..50 {
        laws::predictor(LastValue::new, seed).unwrap();
        laws::predictor(RunLengthMarkov::default, seed).unwrap();
        laws::predictor(Ppm::default, seed).unwrap();
        let all = || -> Vec<AnyPredictor> {
            vec![LastValue::new().into(), RunLengthMarkov::default().into(), Ppm::default().into()]
        };
        laws::predictor(|| ScoredPredictors::new(all(), 16).unwrap(), seed).unwrap();
    }
}

/// Counts how often it was asked, and founds a phase each time.
struct Restless(Cell<u32>);

impl Clusterer for Restless {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        let (phase, distance) = self.nearest(signature)?.unwrap();
        Ok(Classification::new(phase, distance))
    }

    fn nearest(&self, _: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        self.0.set(self.0.get() + 1);
        Ok(Some((PhaseId::new(self.0.get()), 0.0)))
    }
}

/// Predicts a phase that nobody has seen.
struct Prophet(bool);

impl Predictor for Prophet {
    fn observe(&mut self, _: PhaseId) {
        self.0 = true;
    }

    fn predict(&self) -> Option<Prediction> {
        self.0.then(|| Prediction { phase: PhaseId::new(99), confidence: 1.0 })
    }
}

#[test]
fn those_who_break_them_are_caught() {
    let caught = laws::clusterer(|| Restless(Cell::new(0)), SignatureKind::Frequency, 1).unwrap_err();
    assert_eq!(caught.law, "nearest changes nothing");
    assert_eq!(laws::predictor(|| Prophet(true), 1).unwrap_err().window, 0);
    let caught = laws::predictor(|| Prophet(false), 1).unwrap_err();
    assert_eq!(caught.law, "only observed phases are predicted");
}
