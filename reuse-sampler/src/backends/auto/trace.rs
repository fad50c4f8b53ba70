//! Every access of a program, by whichever backend can hand them out.

use std::ffi::{OsStr, OsString};

#[cfg(feature = "dbi")]
use super::dbi_options;
#[cfg(feature = "qemu")]
use super::qemu_options;
use super::{AutoOptions, Choice};
#[cfg(feature = "dbi")]
use crate::dbi::{DbiOptions, DbiTrace};
#[cfg(feature = "qemu")]
use crate::qemu::{QemuOptions, QemuTrace};
use crate::replay::{Event, EventSource};
use crate::{CodeLocation, ProcessRecord, SamplerError, TargetExit, ThreadId};

/// A program as a stream of [events](Event), under whichever backend was found.
#[derive(Debug)]
pub struct AutoTrace {
    source: Source,
}

#[derive(Debug)]
enum Source {
    #[cfg(feature = "dbi")]
    Dbi(Box<DbiTrace>),
    #[cfg(feature = "qemu")]
    Qemu(Box<QemuTrace>),
}

/// Starts `program` (found as a shell finds it) with `arguments`, to hand out every block and access: by the `dbi` backend,
/// else `qemu`. Threads are handed out in stretches of about `stretch` events, and `dbi` hands out those of children, too, with
/// addresses of their own (see `DbiTrace`).
///
/// # Errors
/// As [`spawn`](super::spawn), and [`SamplerError::Unsupported`] where counters are asked for, which do not see every access.
///
/// ```no_run
/// use reuse_sampler::auto::{self, AutoOptions};
/// use reuse_sampler::replay::EventSource;
///
/// let mut trace = auto::trace("sort", ["words.txt"], &AutoOptions::default(), 8192)?;
/// while let Some(event) = trace.next_event()? {
///     println!("{event:?}");
/// }
/// # Ok::<(), reuse_sampler::SamplerError>(())
/// ```
pub fn trace<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
    options: &AutoOptions,
    stretch: u32,
) -> Result<AutoTrace, SamplerError> {
    start(program.as_ref(), arguments, options, stretch, false)
}

/// The same for instruction caches: each instruction executed is a load of its bytes, made by itself, and loads and stores are
/// left out. `qemu` hands out the program alone, without its children.
///
/// # Errors
/// As [`trace`].
pub fn fetches<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
    options: &AutoOptions,
    stretch: u32,
) -> Result<AutoTrace, SamplerError> {
    start(program.as_ref(), arguments, options, stretch, true)
}

fn start<A: AsRef<OsStr>>(
    program: &OsStr,
    arguments: impl IntoIterator<Item = A>,
    options: &AutoOptions,
    stretch: u32,
    fetches: bool,
) -> Result<AutoTrace, SamplerError> {
    let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
    let mut missing: Vec<String> = Vec::new();
    if matches!(options.backend, Choice::Perf | Choice::Counters) {
        missing.push("perf: counters do not see every access".to_owned());
    }
    #[cfg(feature = "dbi")]
    if matches!(options.backend, Choice::Best | Choice::Exact | Choice::Dbi) {
        let asked = DbiOptions { stretch, ..dbi_options(options) };
        let traced = if fetches { DbiTrace::fetches } else { DbiTrace::spawn };
        match traced(program, &arguments, &asked) {
            Ok(trace) => return Ok(AutoTrace { source: Source::Dbi(Box::new(trace)) }),
            Err(error) if options.backend == Choice::Dbi => return Err(error),
            Err(error) => missing.push(format!("dbi: {error}")),
        }
    }
    #[cfg(feature = "qemu")]
    if matches!(options.backend, Choice::Best | Choice::Exact | Choice::Qemu) {
        let asked = QemuOptions { stretch, ..qemu_options(options) };
        let traced = if fetches { QemuTrace::fetches } else { QemuTrace::spawn };
        match traced(program, &arguments, &asked) {
            Ok(trace) => return Ok(AutoTrace { source: Source::Qemu(Box::new(trace)) }),
            Err(SamplerError::Unsupported { missing: what, .. }) => missing.push(format!("qemu: {what}")),
            Err(error) => return Err(error),
        }
    }
    if missing.is_empty() {
        missing.push("the backend asked for is not built in: enable its feature".to_owned());
    }
    Err(SamplerError::Unsupported { backend: "auto", missing: missing.join("\n") })
}

/// Asks whichever backend there is.
macro_rules! ask {
    ($source:expr, $trace:ident => $answer:expr) => {
        match $source {
            #[cfg(feature = "dbi")]
            Source::Dbi($trace) => $answer,
            #[cfg(feature = "qemu")]
            Source::Qemu($trace) => $answer,
        }
    };
}

impl AutoTrace {
    /// Where the code at `address` comes from, if it belongs to a file. Known once the program has ended.
    pub fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        ask!(&mut self.source, trace => trace.locate(address))
    }

    /// The global variable at `address` and the offset in it, if the program or a library names it (feature `symbols`).
    /// Known when [`locate`](Self::locate) is.
    pub fn variable(&mut self, address: u64) -> Option<(String, u64)> {
        ask!(&mut self.source, trace => trace.variable(address))
    }

    /// How the program ended, once all events were handed out.
    pub fn exit_status(&self) -> Option<TargetExit> {
        ask!(&self.source, trace => trace.exit_status())
    }

    /// Operands accessed so far, what cachegrind calls data references: a read-modify-write is one (two accesses), and so is
    /// an operand that straddles lines. Complete once all events were handed out.
    pub fn operands(&self) -> u64 {
        ask!(&self.source, trace => trace.operands())
    }

    /// The program, and whether it ran on unobserved before its end. Complete after the end.
    pub fn processes(&self) -> Vec<ProcessRecord> {
        ask!(&self.source, trace => trace.processes())
    }

    /// The place among [`processes`](Self::processes) of the one that a thread belongs to, once an event of it was handed out.
    pub fn process_of(&self, thread: ThreadId) -> Option<usize> {
        ask!(&self.source, trace => trace.process_of(thread))
    }

    /// What the user should know about the run: parts that went unobserved. Complete after the end.
    pub fn warnings(&self) -> &[String] {
        ask!(&self.source, trace => trace.warnings())
    }
}

impl EventSource for AutoTrace {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        ask!(&mut self.source, trace => trace.next_event())
    }
}
