//! Saved models, online curves and predictions: no panic, and what is accepted answers as a model does.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use reuse_sampler::{CacheLines, CacheModel, Grouped, SetAssociative};
use serde::Serialize;
use serde::de::DeserializeOwned;
use statcache::StatCache;
use statcc::walk::Walked;
use statcc::{CpiModel, LinearLatency, Prediction, Sensitivity, WindowCpi};
use statstack::{OnlineCurve, StatStack};

#[path = "../../../reuse-sampler/fuzz/saved.rs"]
mod saved;
use saved::read;

const SIZES: [CacheLines; 5] =
    [CacheLines(1), CacheLines(100), CacheLines(512), CacheLines(1 << 15), CacheLines(u64::MAX)];

fn model<M: CacheModel + Serialize + DeserializeOwned + Debug>(input: &[u8]) {
    let Some(model) = read::<M>(input) else { return };
    for size in SIZES {
        let ratio = model.miss_ratio(size);
        assert!((0.0..=1.0 + 1e-9).contains(&ratio), "a miss ratio of {ratio} at {size:?}");
        assert!(model.standard_error(size) >= 0.0);
    }
}

fuzz_target!(|input: &[u8]| {
    model::<StatStack>(input);
    model::<StatCache>(input);
    model::<Grouped<StatStack>>(input);
    model::<SetAssociative<StatStack>>(input);
    if let Some(mut curve) = read::<OnlineCurve>(input) {
        (0..200_u64).for_each(|key| curve.observe(&(key % 30)));
        if let Ok(curve) = curve.curve(&SIZES) {
            assert!(curve.points.iter().all(|point| (0.0..=1.0 + 1e-9).contains(&point.1)), "{curve:?}");
        }
        let _ = curve.recent_curve(100, &SIZES);
    }
    if let Some(cpi) = read::<LinearLatency>(input) {
        assert!(cpi.cpi(0.1) > 0.0 && cpi.cpi(0.5) >= (1.0 - 1e-9) * cpi.cpi(0.1));
    }
    if let Some(cpi) = read::<WindowCpi>(input) {
        let (low, high) = (cpi.cpi(0.1), cpi.cpi(0.9));
        assert!(low > 0.0 && high >= (1.0 - 1e-9) * low && high.is_finite(), "{low} {high}");
    }
    if let Some(prediction) = read::<Prediction>(input) {
        let _ = (prediction.is_certain(), prediction.programs());
    }
    let _ = (read::<Vec<Sensitivity>>(input), read::<Walked>(input));
});
