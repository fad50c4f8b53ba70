//! What this process was installed with: its channel to the sampler. A forked child that is observed gets its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{PluginId, getpid, getppid};
use crate::shared::layout::{Header, Region};
use crate::shared::ring::Ring;
use crate::shared::tree;

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
    /// The process whose death ends this one, if it is the one that was started by the sampler.
    pub starter: Option<i32>,
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

/// Whether the sampler lives. A parent that is gone is noticed at once, even if nobody has reaped it; the sampler's own
/// number serves where something else, such as a script, started the emulator for it, and in children.
pub fn is_attended() -> bool {
    let Some(settings) = settings() else { return false };
    let observer = settings.ring.header().observer.load(Ordering::Relaxed) as i32;
    // SAFETY: only returns a number.
    let parent = unsafe { getppid() };
    match settings.starter {
        Some(starter) => parent == starter && (parent == observer || tree::signal(observer, 0)),
        None => tree::lives(observer),
    }
}

/// Locks a mutex, whoever panicked while holding it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
