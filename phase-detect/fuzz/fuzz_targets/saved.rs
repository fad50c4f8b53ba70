//! Saved detectors, clusterers and predictors: no panic, and what is accepted goes on as such a thing does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phase_detect::online::SharedHistories;
use phase_detect::predict::{AnyPredictor, ScoredPredictors};
use phase_detect::signature::{AddressHash, BlockTable};
use phase_detect::simpoint::SimPoint;
use phase_detect::{
    Batch, Clusterer, CodeVector, Detector, Frozen, LeaderFollower, PhaseId, Pop, Ppm, Predictor,
    RunLengthMarkov, Signature,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "../../../reuse-sampler/fuzz/saved.rs"]
mod saved;
use saved::read;

/// Windows of two kinds, of both kinds of signature.
fn windows() -> impl Iterator<Item = Signature> {
    (0..60_u32).map(|t| {
        let first = if t / 7 % 2 == 0 { 3.0 } else { 0.5 };
        let values = [first, 1.0, f64::from(t % 3)];
        if t % 11 == 10 { Signature::raw(values) } else { Signature::frequency(values) }.expect("finite")
    })
}

fn cluster<C: Clusterer + Serialize + DeserializeOwned>(input: &[u8]) {
    let Some(mut clusterer) = read::<C>(input) else { return };
    for window in windows() {
        let nearest = clusterer.nearest(&window);
        assert!(nearest.ok().flatten().is_none_or(|(_, distance)| distance >= 0.0));
        if let Ok(classification) = clusterer.classify(&window) {
            clusterer.note_match(classification.phase);
        }
    }
    read::<C>(&serde_json::to_vec(&clusterer).expect("can be written")).expect("goes on and is saved again");
}

fn predict<P: Predictor + Serialize + DeserializeOwned>(input: &[u8]) {
    let Some(mut predictor) = read::<P>(input) else { return };
    for t in 0..200 {
        predictor.observe(PhaseId::new(t / 3 % 4));
        let confidence = predictor.predict().map(|prediction| prediction.confidence);
        assert!(confidence.is_none_or(|confidence| (0.0..=1.0).contains(&confidence)), "{confidence:?}");
    }
    read::<P>(&serde_json::to_vec(&predictor).expect("can be written")).expect("goes on and is saved again");
}

fuzz_target!(|input: &[u8]| {
    if let Some(mut detector) = read::<Detector>(input) {
        for (t, window) in windows().enumerate() {
            let _ = detector.observe(t as u64 % 2, &window);
        }
        let _ = detector.continue_phase(0);
        detector.forget(1);
        read::<Detector>(&serde_json::to_vec(&detector).expect("can be written"))
            .expect("goes on and is saved again");
    }
    cluster::<LeaderFollower>(input);
    cluster::<Pop>(input);
    cluster::<Frozen>(input);
    predict::<Ppm>(input);
    predict::<RunLengthMarkov>(input);
    predict::<AnyPredictor>(input);
    predict::<ScoredPredictors>(input);
    if let Some(mut code) = read::<CodeVector>(input) {
        (0..20).for_each(|address| code.add(address * 16, 1.0));
        let _ = code.finish();
    }
    let _ = (read::<SharedHistories>(input), read::<Signature>(input), read::<BlockTable>(input));
    let _ = (read::<AddressHash>(input), read::<SimPoint>(input), read::<Batch>(input));
});
