//! A forked child observes itself: it claims a region of the shared mapping and starts over.
//!
//! Only the thread that forked lives in the child, so that what another thread had locked would stay locked: forks wait
//! until nobody holds the locks that the child needs.

use std::cell::UnsafeCell;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use crate::api::{PluginId, getpid, pthread_atfork};
use crate::blocks::{self, Blocks};
use crate::settings::{self, Settings, locked, settings};
use crate::shared::layout::Reported;
use crate::shared::ring::Ring;
use crate::shared::tree;
use crate::threads::{self, Handle};
use crate::{channel, halt, install, instrumentation, trace};

type Guards = (MutexGuard<'static, Vec<Handle>>, MutexGuard<'static, Option<Blocks>>, MutexGuard<'static, Vec<u8>>);

/// The locks, while a thread forks.
struct Held(UnsafeCell<Option<Guards>>);
// SAFETY: written and read by the thread that holds all the locks only.
unsafe impl Sync for Held {}
static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn lock() {
    let guards = (threads::alive(), blocks::lock(), locked(&channel::WRITER));
    // SAFETY: this thread holds the locks.
    unsafe { *HELD.0.get() = Some(guards) };
}

extern "C" fn unlock() {
    // SAFETY: this thread holds the locks; the place is empty again before it lets go of them.
    drop(unsafe { (*HELD.0.get()).take() });
}

/// Makes forks wait for the locks. Called once.
pub fn prepare() {
    // SAFETY: the three functions live as long as the process, because the emulator does not unload the plugin.
    unsafe { pthread_atfork(lock, unlock, unlock) };
}

/// Whether processes are observed that this one forks and programs that it executes.
pub fn follows() -> bool {
    trace::reported() == Reported::Windows
        && settings::header().is_some_and(|header| header.follows.load(Ordering::Relaxed) != 0)
}

/// This process was just forked. It observes itself if it is to and there is a region left. Otherwise it runs on at the
/// emulator's own speed.
pub fn become_child(id: PluginId) {
    end_if_asked();
    let Some(parent) = settings() else { return };
    if follows() && !halt::is_finished() && observe(parent).is_some() {
        return;
    }
    parent.ring.header().forks.fetch_add(1, Ordering::Relaxed);
    instrumentation::drop_translations(id);
}

fn observe(parent: &Settings) -> Option<()> {
    let header = parent.ring.header();
    // SAFETY: only returns a number.
    let owner = unsafe { getpid() };
    let region = header.claim(owner as u32, parent.owner as u32)?;
    // SAFETY: the mapping is the parent's, and a claimed region is one of it.
    let ring = unsafe { Ring::new(parent.base, region) };
    let base = parent.ring.region().guest_base.load(Ordering::Relaxed);
    ring.region().guest_base.store(base, Ordering::Relaxed);
    threads::forget_all();
    instrumentation::start_over();
    halt::start_over();
    settings::begin(Settings { ring, region, owner, ..parent.clone() });
    install::start_listener(settings::header()?);
    Some(())
}

/// Ends this forked child if the sampler has died or wants the program's processes gone.
pub fn end_if_asked() {
    if settings::header().is_some_and(|header| header.ending.load(Ordering::SeqCst) != 0) {
        tree::kill_own();
    }
}
