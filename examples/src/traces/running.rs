//! A running program as a trace: every access, or every instruction, as it happens.

use std::ffi::OsStr;

use reuse_sampler::TargetExit;
use reuse_sampler::auto::{self, AutoOptions, AutoTrace};
use reuse_sampler::trace::Side;

use crate::cli::Failure;
use crate::target::words;

/// Events of a thread that are handed out together where there are several: few enough that threads which pass lines to
/// each other are seen to do so.
pub const STRETCH: u32 = 256;

/// Starts a command: loads and stores with the instructions that make them, or the fetches of instructions. Only translation
/// follows children.
///
/// # Errors
/// [`Failure::Usage`] for a command without words, [`Failure::Run`] if it cannot be run.
pub fn trace_program(
    command: &[impl AsRef<OsStr>],
    side: Side,
    options: &AutoOptions,
) -> Result<AutoTrace, Failure> {
    let (program, arguments) = words(command)?;
    let trace = match side {
        Side::Data => auto::trace(program, arguments, options, STRETCH),
        Side::Instruction => auto::fetches(program, arguments, options, STRETCH),
    };
    trace.map_err(Failure::run)
}

/// What the user should know of a program that was traced: what went unobserved, and an end that is no success.
pub fn notes_on(trace: &AutoTrace) -> Vec<String> {
    let mut notes = trace.warnings().to_vec();
    if let Some(exit) = trace.exit_status().filter(|exit| *exit != TargetExit::Code(0)) {
        notes.push(format!("the program ended with {exit}"));
    }
    notes
}
