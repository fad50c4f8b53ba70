//! The sampling engine: which accesses become samples, and what becomes of them.
//!
//! Nothing in this folder uses anything but the standard library, because it is compiled twice: into this
//! crate, where every backend drives it, and into the plugin that the `qemu` backend loads into the emulator.
//! Property tests of the one are tests of the other.

#[cfg(feature = "replay")]
pub mod batch;
#[cfg_attr(not(feature = "replay"), allow(dead_code))] // the tracker uses all of it
pub mod bins;
#[cfg(feature = "replay")]
pub mod gaps;
#[cfg(feature = "replay")]
pub mod hash;
#[cfg(feature = "replay")]
mod near;
pub mod open;
#[cfg(feature = "replay")]
pub mod overlap;
pub mod random;
#[cfg(feature = "replay")]
pub mod report;
pub mod slots;
#[cfg(feature = "replay")]
pub mod starts;
#[cfg(feature = "replay")]
pub mod strides;
#[cfg(feature = "replay")]
pub mod tally;
#[cfg(feature = "replay")]
pub mod touches;
#[cfg(feature = "replay")]
pub mod tracker;
#[cfg(feature = "replay")]
pub mod watches;
