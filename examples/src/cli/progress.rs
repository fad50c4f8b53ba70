//! A progress bar on standard error, if that is a terminal and `--quiet` was not given.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

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

/// How far reading an input has come, for whoever waits.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Over so many bytes, or of unknown length.
    pub fn over(bytes: Option<u64>) -> Self {
        let bar = is_shown().then(|| match bytes {
            Some(bytes) => {
                let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {msg} ETA {eta}");
                ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            }
            None => ProgressBar::new_spinner(),
        });
        Self(bar)
    }

    /// So many bytes were read, in which there was so much of `what`.
    pub fn show(&self, bytes: u64, count: u64, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
            bar.set_message(format!("{} {what}", crate::report::count(count)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
