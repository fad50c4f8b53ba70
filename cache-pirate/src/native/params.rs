//! How to use the machine: what a caller chooses, the same on every system.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::progress::Progress;

/// Where the pirate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// On other cores than the target, all the time.
    Beside,
    /// On the target's own processor, under `SCHED_FIFO`: once in each period it walks all its lines, for half of
    /// the period at most. For machines where no other core shares the cache; the target's time is its own
    /// processor time. What the target can bring in within a period, it can take from the pirate.
    TimeSliced {
        /// Time from one turn to the next.
        period: Duration,
    },
}

/// What pages the pirate's memory is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pages {
    /// Reserved huge pages (`vm.nr_hugepages`).
    Huge,
    /// Transparent huge pages for at least half of it.
    Transparent,
    /// Pages of the usual size.
    Small,
}

/// How the target is suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suspension {
    /// SIGSTOP and SIGCONT. The target's parent may notice; a target that started in a group of its own is
    /// stopped with all its children.
    #[default]
    Signals,
    /// The cgroup freezer, of either version: a group of its own below this folder (the mount point of the
    /// `freezer` controller, or a folder of the unified hierarchy that may be written). Nobody notices, and
    /// children are frozen too.
    Freezer {
        /// Folder below which the group is made.
        root: PathBuf,
    },
}

/// How to use the machine.
#[derive(Debug)]
pub struct NativeParams {
    /// Processor for the target: the one with the most companions if `None`, the lowest of equals.
    pub target_cpu: Option<usize>,
    /// Processors for the pirate's threads: one of each other core that shares the last-level cache if `None`.
    pub pirate_cpus: Option<Vec<usize>>,
    /// Size of the shared cache in bytes, where the kernel's word is not to be taken for it (a virtual machine
    /// that has a part of a large one).
    pub cache_bytes: Option<u64>,
    /// Where the pirate runs.
    pub placement: Placement,
    /// How the target is suspended.
    pub suspension: Suspension,
    /// What the target's work is counted in.
    pub progress: Progress,
    /// Time in nanoseconds for a line to go to another core and back up to which the two are taken to share a
    /// cache; `None` leaves the probe out.
    pub shared_round_trip: Option<f64>,
    /// Where sysfs and procfs are.
    pub root: PathBuf,
    /// Set by someone else when the measurement is to end: runs then end as if the target had.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for NativeParams {
    /// Pirate beside the target, signals, instructions, the probe at 250 ns.
    fn default() -> Self {
        Self {
            target_cpu: None,
            pirate_cpus: None,
            cache_bytes: None,
            placement: Placement::Beside,
            suspension: Suspension::Signals,
            progress: Progress::Instructions,
            shared_round_trip: Some(250.0),
            root: PathBuf::from("/"),
            stop: None,
        }
    }
}

/// How a started program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Bytes that it and the children that it waited for read and wrote by system calls; `None` if the kernel does not say.
    pub bytes: Option<u64>,
}
