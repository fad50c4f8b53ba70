//! What this process was installed with: its channel to the sampler. A forked child that is observed gets its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{PluginId, getpid};
use crate::shared::layout::{DEAD, Header, Region};
use crate::shared::ring::Ring;

/// What is fixed for a process.
#[derive(Clone)]
pub struct Settings {
    pub id: PluginId,
    /// The start of the shared mapping.
    pub base: *mut Header,
    pub ring: Ring,
    /// Number of the ring's region.
    pub region: usize,
    /// The process that observes itself: the one that was started by the sampler or claimed the region.
    pub owner: i32,
    /// How programs are executed.
    pub launch: Launch,
}

/// How the emulator was started.
#[derive(Clone)]
pub struct Launch {
    /// The file that holds the plugin.
    pub plugin: String,
    /// The file that holds the shared mapping.
    pub channel: String,
    /// The processor that was chosen, if one was.
    pub cpu: Option<Vec<u8>>,
    /// The emulated program.
    pub program: PathBuf,
}

static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(std::ptr::null_mut());

/// Takes the settings of this process.
pub fn begin(settings: Settings) {
    SETTINGS.store(Box::into_raw(Box::new(settings)), Ordering::SeqCst);
}

/// The settings; none before installation.
pub fn settings() -> Option<&'static Settings> {
    // SAFETY: settings are never freed.
    unsafe { SETTINGS.load(Ordering::SeqCst).as_ref() }
}

/// The start of the memory shared with the sampler; none before installation.
pub fn header() -> Option<&'static Header> {
    settings().map(|settings| settings.ring.header())
}

/// The start of this process's region; none before installation.
pub fn region() -> Option<&'static Region> {
    settings().map(|settings| settings.ring.region())
}

/// Instructions in a window.
pub fn window_length() -> u64 {
    header().map_or(1, |header| header.window.load(Ordering::Relaxed).max(1))
}

/// Whether this process is observed: the settings are its own, not those of the process that forked it.
pub fn is_owner() -> bool {
    // SAFETY: only returns a number.
    settings().is_some_and(|settings| unsafe { getpid() } == settings.owner)
}

/// Whether the sampler lives.
pub fn is_attended() -> bool {
    header().is_some_and(|header| header.alive.load(Ordering::Relaxed) & DEAD == 0)
}

/// Locks a mutex, whoever panicked while holding it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
