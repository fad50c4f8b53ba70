//! Dividing the cache by hardware instead of by a pirate: cache allocation (CAT) through the kernel's `resctrl`.
//!
//! The target gets a control group of its own and `k` ways of the last-level cache; every other group is kept to the
//! remaining ways. No co-runner disturbs the measurement: no bandwidth is taken from the target, and it does not matter
//! where pages lie. In return, sizes are whole numbers of ways.
//!
//! Allocation decides where lines may come in; it evicts nothing. After the target loses ways its old lines stay there
//! and still hit. So a sweeper, the testbed's pirate, walks twice the remaining ways' size while the target stands
//! still, and the kernel's occupancy counter (CMT) shows when the old lines have gone. Without that counter they are
//! taken to be gone after [`UNMONITORED_WALKS`] walks.
//!
//! - [`Confined`]: a testbed whose target is confined;
//! - [`Partition`]: the groups and masks, and how they are put back;
//! - [`ResctrlFiles`]: the files, so that a simulated kernel can stand in.
//!
//! # Never harm
//! What is changed is written to a journal (`run/cache-pirate.resctrl`) before it is changed. It is undone on return
//! and on panic; natively a guardian process undoes it after SIGKILL; and if even that one died, the next measurement
//! undoes what the journal lists, and removes groups named `cache-pirate-PID` of processes that are gone.
//!
//! # Limits
//! What is measured is the program confined to so many ways, which is what an allocation would give it. Where the state
//! of the replacement policy spans all ways of a set, as accessed bits do, a cache that is really so small can behave
//! otherwise.
//!
//! Other groups' masks are narrowed for the duration; groups in mode `exclusive` or `pseudo-locked` are left as they
//! are, and their ways are not part of the cache that is measured. At the full size the others keep the fewest ways that
//! the processor allows, inside the target's. Memory-mapped devices may use the ways in `shareable_bits`
//! ([`Partition::shared_with_hardware`]).
//!
//! # References
//! Linux, `Documentation/filesystems/resctrl.rst`; Herdrich et al., *Cache `QoS`: From Concept to Reality in the Intel
//! Xeon Processor E5-2600 v3 Product Family*, HPCA 2016.

mod confined;
mod partition;
mod undo;
mod ways;

pub use self::confined::{Confined, UNMONITORED_WALKS};
pub use self::partition::Partition;
#[cfg(all(feature = "native", target_os = "linux"))]
pub(crate) use self::undo::{Step, Undo};

use std::io;

/// The files of a machine, by their paths below its root, such as `sys/fs/resctrl/schemata`.
///
/// Errors are those of the operating system, with its numbers.
pub trait ResctrlFiles {
    /// The content of a file.
    ///
    /// # Errors
    /// As the system says.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes to a file that is there, all in one call.
    ///
    /// # Errors
    /// As the system says: the kernel checks what is written.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Names of the folders in a folder.
    ///
    /// # Errors
    /// As the system says.
    fn folders(&self, path: &str) -> io::Result<Vec<String>>;

    /// Makes a folder; below `sys/fs/resctrl`, a control group.
    ///
    /// # Errors
    /// As the system says.
    fn make_folder(&self, path: &str) -> io::Result<()>;

    /// Removes a folder; below `sys/fs/resctrl`, a control group.
    ///
    /// # Errors
    /// As the system says.
    fn remove_folder(&self, path: &str) -> io::Result<()>;

    /// Makes a file that is not there yet.
    ///
    /// # Errors
    /// As the system says; that it is there already is one.
    fn make_file(&self, path: &str, text: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the system says.
    fn remove_file(&self, path: &str) -> io::Result<()>;
}
