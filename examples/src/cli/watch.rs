//! How a long run is watched over: progress on a terminal, and Ctrl-C.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use super::progress;
use crate::traces::BytesRead;

/// A line of progress on standard error, if that is a terminal and `--quiet` was not given, and the flag that ends the
/// run early. The line is taken away when this is dropped.
#[derive(Debug)]
pub struct Watch<'a> {
    interrupted: &'a AtomicBool,
    bar: Option<ProgressBar>,
    read: Option<BytesRead>, // of an input of known size
}

impl<'a> Watch<'a> {
    /// Until `interrupted` is set.
    pub fn new(interrupted: &'a AtomicBool) -> Self {
        Self { interrupted, bar: progress::is_shown().then(ProgressBar::new_spinner), read: None }
    }

    /// The same, with a bar that shows how far an input of so many bytes was read.
    pub fn over(interrupted: &'a AtomicBool, bytes: Option<u64>, read: &BytesRead) -> Self {
        let Some(bytes) = bytes else { return Self::new(interrupted) };
        let bar = progress::is_shown().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {msg} ETA {eta}");
            ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { interrupted, bar, read: Some(read.clone()) }
    }

    /// Shows how much of `what` there is so far, and gives whether to go on.
    pub fn goes_on(&self, count: u64, what: &str) -> bool {
        if let Some(bar) = &self.bar {
            bar.set_position(self.read.as_ref().map_or(0, BytesRead::get));
            bar.set_message(format!("{} {what}", crate::report::count(count)));
        }
        !self.is_interrupted()
    }

    /// The flag that ends the run.
    pub const fn flag(&self) -> &'a AtomicBool {
        self.interrupted
    }

    /// Whether the run is to end with what it has.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Shows what is being done.
    pub fn show(&self, what: impl Into<Cow<'static, str>>) {
        self.show_with(|| what.into());
    }

    /// The same where the words are only made if somebody reads them.
    pub fn show_with<S: Into<Cow<'static, str>>>(&self, what: impl FnOnce() -> S) {
        if let Some(bar) = &self.bar {
            bar.set_message(what());
            bar.tick();
        }
    }

    /// Takes the line away before something else is printed.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
