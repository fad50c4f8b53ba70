//! Where there is no emulator: a run cannot come to be, so that nothing need be said of one.

use std::ffi::{OsStr, OsString};

use super::{CodeLocation, QemuOptions, TargetExit};
use crate::replay::Event;
use crate::{ProcessRecord, SamplerError, Window, WindowPlan};

fn unsupported<T>() -> Result<T, SamplerError> {
    let missing = "qemu's user-mode emulation runs on 64-bit Linux only".into();
    Err(SamplerError::Unsupported { backend: "qemu", missing })
}

/// A program under observation, of which there is none.
#[derive(Debug)]
pub(super) enum Run {}

impl Run {
    pub fn spawn(_: &OsStr, _: &[OsString], _: &QemuOptions) -> Result<Self, SamplerError> {
        unsupported()
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

    pub fn variable(&mut self, _: u64) -> Option<(String, u64)> {
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

    pub fn operands_per_access(&self) -> Option<f64> {
        match *self {}
    }
}

/// A program as a stream of events, of which there is none.
#[derive(Debug)]
pub(super) enum Stretches {}

impl Stretches {
    pub fn start(_: &OsStr, _: &[OsString], _: &QemuOptions, _: bool) -> Result<(Run, Self), SamplerError> {
        unsupported()
    }

    pub fn next_event(&mut self, _: &mut Run) -> Result<Option<Event>, SamplerError> {
        match *self {}
    }

    pub fn operands(&self, _: &Run) -> u64 {
        match *self {}
    }
}
