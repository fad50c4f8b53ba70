//! One session for the whole process, so that accesses can be recorded from anywhere.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Profiler, ProfilerOptions, Recorder};
use crate::{AccessKind, Error, Window};

/// Number of the session that records, 0 if none does.
static SESSION: AtomicU64 = AtomicU64::new(0);
/// The session that records, and the number of the latest one.
static CURRENT: Mutex<(Option<Profiler>, u64)> = Mutex::new((None, 0));

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local { session: 0, recorder: None }) };
}

/// The recorder of one thread, and the session it is of.
struct Local {
    session: u64,
    recorder: Option<Recorder>,
}

/// A session of the whole process: while it lives, [`record`] records.
#[derive(Debug)]
pub struct Session {
    profiler: Profiler,
}

/// Begins a session.
///
/// # Errors
/// [`Error::SessionRunning`] if there is one; [`Error::WindowLength`] if windows have length 0.
pub fn start(options: ProfilerOptions) -> Result<Session, Error> {
    let profiler = Profiler::new(options)?;
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if current.0.is_some() {
        return Err(Error::SessionRunning);
    }
    current.0 = Some(profiler.clone());
    current.1 += 1;
    SESSION.store(current.1, Ordering::Release);
    Ok(Session { profiler })
}

impl Session {
    /// The session's profiler: its windows can be taken while it records.
    #[must_use]
    pub const fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// Ends the session. Answers the windows not taken yet, and how many other threads still hold their last windows:
    /// those neither ended (and were joined) nor called [`release`]. Theirs come to the
    /// [profiler](Self::profiler) when they do.
    #[must_use]
    pub fn stop(self) -> (Vec<Window>, u32) {
        let profiler = self.profiler.clone();
        drop(self);
        (profiler.take_windows(), profiler.recording())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        SESSION.store(0, Ordering::Release);
        CURRENT.lock().unwrap_or_else(PoisonError::into_inner).0 = None;
        release();
    }
}

/// This thread accesses `bytes` bytes at `address`. Without a session that is a look at one number.
///
/// ```
/// use reuse_sampler::in_process::{ProfilerOptions, record, start};
/// use reuse_sampler::{AccessKind, ReusePlan};
///
/// let session = start(ProfilerOptions::new(ReusePlan::Every))?;
/// for i in 0..100 {
///     record(64 * (i % 10), 8, AccessKind::Load);
/// }
/// let (windows, missing) = session.stop();
/// assert_eq!((windows[0].accesses.get(), missing), (Some(100), 0));
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
#[inline]
pub fn record(address: u64, bytes: u32, kind: AccessKind) {
    let session = SESSION.load(Ordering::Acquire);
    if session != 0 {
        with_recorder(session, |recorder| recorder.record(address, bytes, kind));
    }
}

/// This thread enters code.
#[cfg(feature = "sancov")]
#[inline]
pub(crate) fn record_edge(address: u64) {
    let session = SESSION.load(Ordering::Acquire);
    if session != 0 {
        with_recorder(session, |recorder| recorder.enter(address));
    }
}

/// This thread has made its last access: its last window is finished, as it is when the thread ends. Should it record
/// again, it counts as another thread.
///
/// A scope of threads does not wait for what happens when they end; call this at the end of each, or join it.
pub fn release() {
    // A thread whose local values are gone has released its recorder already.
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut local) = local.try_borrow_mut() {
            local.recorder = None;
            local.session = 0;
        }
    });
}

#[inline]
fn with_recorder(session: u64, act: impl FnOnce(&Recorder)) {
    // Neither what a thread does while its local values are dropped is recorded, nor what the recorder itself does to
    // memory, should the program's allocator say so.
    let _ = LOCAL.try_with(|local| {
        let Ok(mut local) = local.try_borrow_mut() else { return };
        if local.session != session {
            local.join(session);
        }
        if let Some(recorder) = &local.recorder {
            act(recorder);
        }
    });
}

impl Local {
    /// Leaves the session before and takes part in this one.
    #[cold]
    #[inline(never)]
    fn join(&mut self, session: u64) {
        self.recorder = None;
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended since.
        if current.1 == session {
            self.recorder = current.0.as_ref().map(Profiler::recorder);
            self.session = session;
        }
    }
}
