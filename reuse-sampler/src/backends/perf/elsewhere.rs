//! Where there is no `perf_event`: a run cannot come to be, so that nothing need be said of one.

use std::ffi::{OsStr, OsString};

use super::spe::{ProfileLosses, Profiled};
use super::{Interrupter, PerfOptions};
use crate::{Clock, CodeLocation, Losses, ProcessRecord, SamplerError, TargetExit, Window, WindowPlan};

/// A program under observation, of which there is none.
#[derive(Debug)]
pub(super) enum Run {}

impl Run {
    pub fn spawn(_: &OsStr, _: Vec<OsString>, _: &PerfOptions) -> Result<Self, SamplerError> {
        Err(SamplerError::Unsupported { backend: "perf", missing: "Linux, whose perf_event this is".into() })
    }

    pub fn attach(_: u32, _: &PerfOptions) -> Result<Self, SamplerError> {
        Err(SamplerError::Unsupported { backend: "perf", missing: "Linux, whose perf_event this is".into() })
    }

    pub fn next_window(&mut self, _: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        match *self {}
    }

    pub fn stop(&mut self) -> Result<(), SamplerError> {
        match *self {}
    }

    pub fn locate(&mut self, _: u64) -> Option<CodeLocation> {
        match *self {}
    }

    pub fn processes(&self) -> Vec<ProcessRecord> {
        match *self {}
    }

    pub fn process_id(&self) -> u32 {
        match *self {}
    }

    pub fn exit_status(&self) -> Option<TargetExit> {
        match *self {}
    }

    pub fn warnings(&self) -> &[String] {
        match *self {}
    }

    pub fn losses(&self) -> Losses {
        match *self {}
    }

    pub fn profiled(&mut self) -> Vec<Profiled> {
        match *self {}
    }

    pub fn profile_losses(&self) -> ProfileLosses {
        match *self {}
    }

    pub fn counts(&self) -> (u64, u64) {
        match *self {}
    }

    pub fn clocks(&self) -> (Clock, Clock) {
        match *self {}
    }

    pub fn interrupter(&self) -> Interrupter {
        match *self {}
    }
}
