//! Real programs on the machine at hand: on Linux. Elsewhere everything is here by name, and making a testbed answers
//! [`PirateError::Unsupported`](crate::PirateError::Unsupported).
//!
//! [`NativeTestbed`] starts a program or attaches to one, pins it, and pins the pirate's threads to other cores
//! that share its last-level cache. Between two runs of the technique everything stands still: the target by
//! SIGSTOP or the cgroup freezer, the pirate by its own accord.
//!
//! Hardware counters are used where the kernel gives them. Without them the target's time is its processor time
//! per unit of [`Progress`], and the pirate judges itself by its time per line.
//!
//! - [`confine`]: the target confined to ways of the cache by the hardware, without a pirate;
//! - [`topology`]: which processors share which caches, and what may spoil a measurement;
//! - [`ping_pong`]: whether two processors share a cache at this moment.
//!
//! # Limits
//! Sets are stolen from evenly only as far as the pirate's pages lie evenly: huge pages see to that. Caches
//! that are not inclusive keep part of the pirate's lines in its private caches ([`topology::Warning`]).

#[cfg(target_os = "linux")]
mod affinity;
#[cfg(target_os = "linux")]
mod crew;
mod divided;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod guardian;
#[cfg(target_os = "linux")]
mod memory;
mod params;
#[cfg(target_os = "linux")]
mod perf;
#[cfg(target_os = "linux")]
mod probe;
mod progress;
#[cfg(target_os = "linux")]
mod residency;
#[cfg(target_os = "linux")]
mod suspend;
#[cfg(target_os = "linux")]
mod target;
#[cfg(target_os = "linux")]
mod testbed;
#[cfg(target_os = "linux")]
mod threads;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub mod topology;

pub use self::divided::RootFiles;
#[cfg(target_os = "linux")]
pub use self::divided::confine;
#[cfg(not(target_os = "linux"))]
pub use self::elsewhere::{NativeTestbed, confine, ping_pong};
pub use self::params::{Ended, NativeParams, Pages, Placement, Suspension};
#[cfg(target_os = "linux")]
pub use self::probe::ping_pong;
pub use self::progress::{FileCounter, IoBytes, Progress, ProgressCounter};
#[cfg(target_os = "linux")]
pub use self::testbed::NativeTestbed;
