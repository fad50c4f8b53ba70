//! The native testbed where there is no Linux: it can be named, and says that it cannot be had.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;

use super::topology::Warning;
use super::{Ended, NativeParams, Pages, Progress, RootFiles};
use crate::counts::Reading;
use crate::error::PirateError;
use crate::resctrl::Confined;
use crate::testbed::{Evidence, Outcome, SharedCache, Testbed, Until, Who};

/// A program on this machine beside a pirate: on Linux. Here there is none, and making one is refused.
#[derive(Debug)]
pub struct NativeTestbed(Infallible);

impl NativeTestbed {
    /// Refused here.
    ///
    /// # Errors
    /// [`PirateError::Unsupported`].
    pub fn spawn(_: Command, _: NativeParams) -> Result<Self, PirateError> {
        Err(PirateError::Unsupported)
    }

    /// Refused here.
    ///
    /// # Errors
    /// [`PirateError::Unsupported`].
    pub fn attach(_: i32, _: NativeParams) -> Result<Self, PirateError> {
        Err(PirateError::Unsupported)
    }

    /// There is none.
    #[must_use]
    pub const fn ended(&self) -> Option<Ended> {
        match self.0 {}
    }

    /// There is none.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        match self.0 {}
    }

    /// There is none.
    #[must_use]
    pub fn pages(&self) -> Pages {
        match self.0 {}
    }

    /// There is none.
    #[must_use]
    pub fn pid(&self) -> i32 {
        match self.0 {}
    }

    /// There is none.
    #[must_use]
    pub fn processors(&self) -> (usize, &[usize]) {
        match self.0 {}
    }

    /// There is none.
    #[must_use]
    pub const fn fetches_counted_by(&self) -> Option<&str> {
        match self.0 {}
    }

    /// There is none.
    #[must_use]
    pub const fn round_trip(&self) -> Option<f64> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None: it is never called.
    pub fn set_progress(&mut self, _: Progress) -> Result<(), PirateError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None: it is never called.
    pub fn wait(&mut self) -> Result<(), PirateError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None: it is never called.
    pub fn terminate(&mut self) -> Result<(), PirateError> {
        match self.0 {}
    }
}

impl Testbed for NativeTestbed {
    type Error = PirateError;

    fn cache(&self) -> SharedCache {
        match self.0 {}
    }

    fn max_threads(&self) -> usize {
        match self.0 {}
    }

    fn evidence(&self) -> Evidence {
        match self.0 {}
    }

    fn steal(&mut self, _: u64, _: usize) -> Result<(), PirateError> {
        match self.0 {}
    }

    fn run(&mut self, _: Who, _: Until) -> Result<Outcome, PirateError> {
        match self.0 {}
    }

    fn read(&mut self) -> Result<Reading, PirateError> {
        match self.0 {}
    }

    fn shares_cache(&mut self) -> Result<Option<bool>, PirateError> {
        match self.0 {}
    }
}

/// Refused here.
///
/// # Errors
/// None: it is never called.
pub fn confine(testbed: NativeTestbed, _: &Path) -> Result<Confined<NativeTestbed, RootFiles>, PirateError> {
    match testbed.0 {}
}

/// Nobody can be pinned to a processor here.
///
/// # Errors
/// [`PirateError::Unsupported`].
pub fn ping_pong(_: usize, _: usize) -> Result<Option<f64>, PirateError> {
    Err(PirateError::Unsupported)
}
