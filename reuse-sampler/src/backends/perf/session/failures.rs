//! What the kernel's refusals mean.

use std::fmt::Display;
use std::io;

use crate::SamplerError;
use crate::perf::kernel::Tid;

/// Calls again what a signal interrupted.
pub(super) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// `ESRCH`: the thread has ended, which it may at any moment.
pub(super) fn is_gone(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.raw_os_error() == Some(ESRCH)
}

pub(super) fn ok_if_gone(
    result: io::Result<()>,
    operation: &'static str,
    object: impl Display,
) -> Result<(), SamplerError> {
    match result {
        Err(error) if is_gone(&error) => Ok(()),
        other => other.map_err(|source| failed(operation, object, source)),
    }
}

pub(super) fn failed(operation: &'static str, object: impl Display, source: io::Error) -> SamplerError {
    SamplerError::Io { operation, object: object.to_string(), source }
}

/// Why no event could be opened.
pub(super) fn refused(source: io::Error, tid: Tid) -> SamplerError {
    const E2BIG: i32 = 7;
    const EINVAL: i32 = 22;
    let missing = match source.raw_os_error() {
        Some(E2BIG | EINVAL) => {
            "events that stop a thread, which Linux has from version 5.13 on, and counters for all of the group".to_owned()
        }
        _ if source.kind() == io::ErrorKind::NotFound => {
            "hardware counters, which this machine does not have (virtual machines mostly do not)".to_owned()
        }
        _ if source.kind() == io::ErrorKind::PermissionDenied => {
            "permission to observe events: set kernel.perf_event_paranoid to 2 or lower".to_owned()
        }
        _ => {
            return SamplerError::Io {
                operation: "open events of",
                object: format!("thread {tid} (each takes some ten file descriptors: ulimit -n)"),
                source,
            };
        }
    };
    SamplerError::Unsupported { backend: "perf", missing }
}
