//! Real programs on the machine at hand (Linux).
//!
//! [`NativeTestbed`] starts a program or attaches to one, pins it, and pins the pirate's threads to other cores
//! that share its last-level cache. Between two runs of the technique everything stands still: the target by
//! SIGSTOP or the cgroup freezer, the pirate by its own accord.
//!
//! Hardware counters are used where the kernel gives them. Without them the target's time is its processor time
//! per unit of [`Progress`], and the pirate judges itself by its time per line.
//!
//! - [`topology`]: which processors share which caches, and what may spoil a measurement;
//! - [`ping_pong`]: whether two processors share a cache at this moment;
//! - [`resctrl`]: the hardware's own way of dividing a cache.
//!
//! # Limits
//! Sets are stolen from evenly only as far as the pirate's pages lie evenly: huge pages see to that. Caches
//! that are not inclusive keep part of the pirate's lines in its private caches ([`topology::Warning`]).

mod affinity;
mod crew;
mod guardian;
mod memory;
mod perf;
mod probe;
mod progress;
pub mod resctrl;
mod self_check;
mod suspend;
mod target;
mod testbed;
pub mod topology;

pub use self::crew::Placement;
pub use self::memory::Pages;
pub use self::probe::ping_pong;
pub use self::progress::{FileCounter, IoBytes, Progress, ProgressCounter};
pub use self::self_check::LineTimes;
pub use self::suspend::Suspension;
pub use self::testbed::{NativeParams, NativeTestbed};
