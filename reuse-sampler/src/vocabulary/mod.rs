//! What all rooms of the crate speak about: accesses, lines, distances, samples, windows, plans, profiles and models.

mod access;
mod associative;
mod channel;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
mod cpu;
mod distance;
mod error;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
mod exit;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
mod location;
mod model;
mod plan;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
mod process;
mod profile;
mod sample;
mod sampler;
mod sets;
mod window;

pub use access::{Access, AccessKind, Line, LineSize};
pub use associative::SetAssociative;
pub use channel::{MemoryDemand, MemoryQueue};
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))))]
pub use cpu::Cpu;
pub use distance::{CacheLines, Reuse, ReuseDistance, StackDistance};
pub use error::Error;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))))]
pub use exit::TargetExit;
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))))]
pub use location::CodeLocation;
pub use model::{CacheModel, Evaluator, MissRatioCurve, ModelError};
pub use plan::{Hierarchy, ReusePlan, SampleGap, WindowPlan};
#[cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "qemu", feature = "perf", feature = "dbi"))))]
pub use process::{Children, ProcessRecord};
pub use profile::{Clock, DistanceMass, ReuseDistribution, ReuseProfile, Scope, StackEstimate};
pub use sample::{Outcome, ReuseCount, ReuseOverlap, ReuseSample, Site, ThreadId, WindowIndex};
pub use sampler::{Sampler, SamplerError};
pub use sets::{
    FootprintCounter, SetDispersion, SetDispersionCounter, SetReuse, SetReuseCounter, SetUse,
    probability_of_at_least,
};
pub use window::{AccessCount, Arrivals, Losses, Window};
