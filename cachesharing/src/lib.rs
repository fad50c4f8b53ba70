#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cache;
mod corun;
mod curve;
mod decide;
mod error;
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
pub mod file;
#[cfg(feature = "laws")]
#[cfg_attr(docsrs, doc(cfg(feature = "laws")))]
pub mod laws;
pub mod partition;
mod program;
mod sharing;
mod variability;

pub use cache::{MemoryLimit, SharedCache, Waiting};
pub use corun::{
    BandwidthDistribution, CoPhase, CoRun, Method, Outcome, Settings, Slowdown, Step, Trajectory,
    TrajectoryBin, Until,
};
pub use curve::{CacheCurve, CurvePoint, Rates, ReuseTimes};
pub use decide::{
    CoSchedule, Culprit, Objective, Pairing, WaySensitivity, co_schedule, culprits, way_sensitivity,
};
pub use error::Error;
pub use program::{Program, TimeUnit, Units, Window};
pub use reuse_sampler::{CacheLines, MemoryQueue, ReuseProfile, SetReuse};
pub use sharing::{
    Allocation, EvictionAge, Leaving, LruPartition, Probes, Random, Share, Sharing, SharingModel, Solution,
    Start, share, share_from,
};
pub use variability::{Offsets, SlowdownDistribution, Variability, variability};
