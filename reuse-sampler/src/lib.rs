#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod associative;
#[cfg(any(feature = "qemu", feature = "perf"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf"))))]
pub mod auto;
mod confidence;
mod distance;
mod engine;
mod error;
#[cfg(any(feature = "qemu", feature = "perf"))]
mod exit;
mod grouped;
mod hot_spots;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod in_process;
#[cfg(any(qemu_plugin, all(feature = "perf", target_os = "linux")))]
mod locate;
#[cfg(any(feature = "qemu", feature = "perf"))]
mod location;
mod model;
#[cfg(feature = "perf")]
#[cfg_attr(docsrs, doc(cfg(feature = "perf")))]
pub mod perf;
mod plan;
mod profile;
#[cfg(feature = "qemu")]
#[cfg_attr(docsrs, doc(cfg(feature = "qemu")))]
pub mod qemu;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod replay;
mod sample;
mod sampler;
#[cfg(feature = "sancov")]
#[cfg_attr(docsrs, doc(cfg(feature = "sancov")))]
pub mod sancov;
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub mod trace;
mod window;

pub use access::{Access, AccessKind, Line, LineSize};
pub use associative::SetAssociative;
pub use confidence::{Bootstrap, Interval, Redraw, Stratified, Stratum};
pub use distance::{CacheLines, Reuse, ReuseDistance, StackDistance};
pub use error::Error;
#[cfg(any(feature = "qemu", feature = "perf"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf"))))]
pub use exit::TargetExit;
pub use grouped::{Grouped, GroupedProfiles};
pub use hot_spots::{HotSpot, HotSpots};
#[cfg(any(feature = "qemu", feature = "perf"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf"))))]
pub use location::CodeLocation;
pub use model::{CacheModel, Evaluator, MissRatioCurve};
pub use plan::{Hierarchy, ReusePlan, SampleGap, WindowPlan};
pub use profile::{Clock, DistanceMass, ReuseDistribution, ReuseProfile, StackEstimate};
pub use sample::{Outcome, ReuseCount, ReuseOverlap, ReuseSample, Site, ThreadId, WindowIndex};
pub use sampler::{Sampler, SamplerError};
pub use window::{AccessCount, Arrivals, Losses, Window};
