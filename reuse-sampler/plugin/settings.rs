//! What is fixed at installation, and who is asked to observe: the process that the sampler started.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::api::{PluginId, getpid, getppid};
use crate::shared::layout::Header;
use crate::shared::ring::Ring;
use crate::shared::tree;

/// What is fixed at installation.
pub struct Settings {
    pub id: PluginId,
    pub ring: Ring,
    pub window: u64,
    pub line_shift: u32,
    pub seed: u64,
    owner: i32,
    parent: i32,
}

impl Settings {
    /// Settings of this process.
    pub fn new(id: PluginId, ring: Ring, window: u64, line_shift: u32, seed: u64) -> Self {
        // SAFETY: both only answer a number.
        let (owner, parent) = unsafe { (getpid(), getppid()) };
        Self { id, ring, window, line_shift, seed, owner, parent }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Takes the settings; called once.
pub fn begin(settings: Settings) {
    let _ = SETTINGS.set(settings);
}

/// The settings; none before installation.
pub fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// The start of the memory shared with the sampler; none before installation.
pub fn header() -> Option<&'static Header> {
    settings().map(|settings| settings.ring.header())
}

/// Instructions in a window.
pub fn window_length() -> u64 {
    settings().map_or(1, |settings| settings.window.max(1))
}

/// Whether this is the process that the sampler started, not a child it forked.
pub fn is_owner() -> bool {
    // SAFETY: only answers a number.
    settings().is_some_and(|settings| unsafe { getpid() } == settings.owner)
}

/// Whether the sampler lives. A parent that is gone is noticed at once, even if nobody has reaped it; the sampler's own
/// number serves where something else, such as a script, started the emulator for it.
pub fn is_attended() -> bool {
    let Some(settings) = settings() else { return false };
    let observer = settings.ring.header().observer.load(Ordering::Relaxed) as i32;
    // SAFETY: only returns a number.
    let parent = unsafe { getppid() };
    parent == settings.parent && (parent == observer || tree::signal(observer, 0))
}

/// Locks a mutex, whoever panicked while holding it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
