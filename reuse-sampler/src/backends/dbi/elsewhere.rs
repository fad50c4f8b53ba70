//! Where programs cannot be translated: a run cannot come to be.

use std::ffi::{OsStr, OsString};

use super::DbiOptions;
use crate::replay::Event;
use crate::{CodeLocation, ProcessRecord, SamplerError, TargetExit, ThreadId, Window, WindowPlan};

/// A program under observation, of which there is none.
#[derive(Debug)]
pub(super) enum Run {}

impl Run {
    pub fn spawn(_: &OsStr, _: &[OsString], _: &DbiOptions) -> Result<Self, SamplerError> {
        let missing = "programs are translated on x86-64 Linux only".into();
        Err(SamplerError::Unsupported { backend: "dbi", missing })
    }

    pub fn trace(
        name: &OsStr,
        arguments: &[OsString],
        options: &DbiOptions,
        _: bool,
    ) -> Result<Self, SamplerError> {
        Self::spawn(name, arguments, options)
    }

    pub fn next_events(&mut self, _: &mut Vec<Event>) -> Result<(), SamplerError> {
        match *self {}
    }

    pub fn variable(&mut self, _: u64) -> Option<(String, u64)> {
        match *self {}
    }

    pub fn operands(&self) -> u64 {
        match *self {}
    }

    pub fn process_of(&self, _: ThreadId) -> Option<usize> {
        match *self {}
    }

    pub fn next_window(&mut self, _: &WindowPlan) -> Result<Option<Window>, SamplerError> {
        match *self {}
    }

    pub fn stop(&mut self) -> Result<(), SamplerError> {
        match *self {}
    }

    pub fn release(&mut self) {
        match *self {}
    }

    pub fn locate(&mut self, _: u64) -> Option<CodeLocation> {
        match *self {}
    }

    pub fn operands_per_access(&self) -> Option<f64> {
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
}
