#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::needless_pass_by_value))] // as quickcheck calls properties
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod cluster;
mod cores;
mod error;
#[cfg(feature = "laws")]
#[cfg_attr(docsrs, doc(cfg(feature = "laws")))]
pub mod laws;
pub mod metrics;
pub mod online;
mod phase;
pub mod predict;
mod rng;
pub mod selection;
pub mod signature;
pub mod simpoint;
mod text;
pub mod wavelet;

pub use cluster::{
    Batch, Classification, Clusterer, Distance, Frozen, KMeans, LeaderFollower, LeaderFollowerConfig, Pop,
    PopConfig,
};
pub use error::Error;
pub use online::{Action, Detection, Detector, Guidance, Guide, GuideConfig};
pub use phase::PhaseId;
pub use predict::{LastValue, Ppm, Prediction, Predictor, RunLengthMarkov, RunLengthMarkovConfig};
pub use signature::{CodeVector, Signature, SignatureKind};
pub use simpoint::{SimPoint, SimPointConfig};
pub use wavelet::{Wavelet, WaveletConfig};
