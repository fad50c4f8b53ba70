//! Where there is no `perf_event`: a run cannot come to be, so that nothing need be said of one.

use std::ffi::{OsStr, OsString};

use super::{Answer, Command, Interrupter, PerfOptions, PerfSampler};
use crate::{CodeLocation, ProcessRecord, SamplerError};

/// A program under observation, of which there is none.
#[derive(Debug)]
pub(super) enum Run {}

impl Run {
    pub fn spawn(_: &OsStr, _: Vec<OsString>, _: &PerfOptions) -> Result<PerfSampler, SamplerError> {
        Err(SamplerError::Unsupported { backend: "perf", missing: "Linux, whose perf_event this is".into() })
    }

    pub fn attach(_: u32, options: &PerfOptions) -> Result<PerfSampler, SamplerError> {
        Self::spawn("".as_ref(), Vec::new(), options)
    }

    pub fn ask(&mut self, _: Command, _: &Interrupter) -> Result<Answer, SamplerError> {
        match *self {}
    }

    pub fn locate(&mut self, _: u64) -> Option<CodeLocation> {
        match *self {}
    }

    pub fn processes(&self) -> Vec<ProcessRecord> {
        match *self {}
    }
}
