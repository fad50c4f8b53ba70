//! Frequencies, voltages and energy counters as Linux reports them, and setting the frequency.
//!
//! Everything is read below a root that the caller gives, `/` on a live machine and a directory of a test's
//! making elsewhere, or from anything else that implements [`Files`]. Nothing is written unless a
//! [`Pin`] is made.
//!
//! - [`policies`]: the frequencies that each group of cores can run at, [`common_frequencies`] those that all can;
//! - [`Pin`]: sets them, and puts everything back as it was, even if the process is killed;
//! - [`Follower`]: sets the frequencies of a schedule as phases come;
//! - [`voltages`]: voltage of each frequency, where the device tree or debugfs has it;
//! - [`energy_zones`], [`package_zones`], [`EnergyMeter`]: energy counters (RAPL) through powercap;
//! - [`PowerMeter`]: those, else sensors of a processor's supply, else the battery;
//! - [`Thermometer`]: temperature of the processor;
//! - [`machine_name`]: what a fitted model is labelled with.

mod cpufreq;
mod files;
mod follower;
#[cfg(unix)]
mod guard;
mod machine;
mod meter;
mod opp;
mod pin;
mod powercap;
mod rails;
mod temperature;

pub use cpufreq::{Policy, common_frequencies, policies, policies_of_this_process};
pub use files::{Files, Tree};
pub use follower::Follower;
pub use machine::machine_name;
pub use meter::PowerMeter;
pub use opp::voltages;
pub use pin::{Pin, Restorer};
pub use powercap::{EnergyMeter, EnergyZone, energy_zones, package_zones};
pub use temperature::Thermometer;
