//! Progress is shown on standard error, if that is a terminal and `--quiet` was not given.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by `--quiet`. A process runs one command, so that all its parts agree.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows no progress from now on.
pub(super) fn hide() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// Whether somebody is to see progress.
pub(super) fn is_shown() -> bool {
    !HIDDEN.load(Ordering::Relaxed) && std::io::stderr().is_terminal()
}
