//! What the kernel's refusals mean.

use std::fmt::Display;
use std::io;

use crate::SamplerError;
use crate::perf::kernel::Kernel;

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

/// Events that are open and never counted: a pinned group answers so once it has found no room.
pub(super) fn held(what: &str, remedy: &str) -> SamplerError {
    let missing = format!("{what}, which something else holds ({remedy})");
    SamplerError::Unsupported { backend: "perf", missing }
}

/// Why no event of a thread could be opened.
pub(super) fn refused(kernel: &impl Kernel, error: &io::Error) -> SamplerError {
    SamplerError::Unsupported { backend: "perf", missing: kernel.circumstances(error).event(error, false) }
}
