//! What the observer says to the thread that controls the program, and the reverse.
//!
//! That thread may be a [guard](super::guard), which the observer's death must not hold up: it shares this process's memory,
//! and whoever is killed leaves locked what it had locked. So it never waits for a lock but tries, and looks in between
//! whether it is alone. (A channel of the standard library wakes its receiver with a lock held. Of 1,000 observers of a
//! tree of short processes, killed on a busy machine, three were killed there, and their guards waited for ever.)

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use nix::libc;

/// One direction: a value at a time.
pub(in crate::backends::perf) struct Line<T> {
    said: Mutex<Said<T>>,
    bell: OwnedFd, // counts, and wakes whoever listens
}

struct Said<T> {
    value: Option<T>,
    over: bool,
}

/// What there was to hear.
#[derive(Debug)]
pub(in crate::backends::perf) enum Heard<T> {
    Value(T),
    Nothing,
    /// Nothing any more.
    Over,
}

impl<T> fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl<T> Line<T> {
    pub fn new() -> io::Result<Self> {
        // SAFETY: passes numbers.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if bell < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel just made for us and nobody else knows.
        let bell = unsafe { OwnedFd::from_raw_fd(bell) };
        Ok(Self { said: Mutex::new(Said { value: None, over: false }), bell })
    }

    /// Says something, the last thing said having been heard. `waiting` is called again and again while somebody listens to it.
    pub fn say(&self, value: T, waiting: impl FnMut()) {
        patiently(&self.said, waiting).value = Some(value);
        self.ring();
    }

    /// Says that nothing will be said any more.
    pub fn end(&self) {
        patiently(&self.said, || {}).over = true;
        self.ring();
    }

    /// Waits so long for something to be said, or until a signal comes.
    pub fn hear(&self, limit: Duration) -> Heard<T> {
        let mut bell = libc::pollfd { fd: self.bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let limit = limit.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        let mut rung = 0_u64;
        // SAFETY: one structure that lives during the call, and a number that does.
        unsafe {
            if libc::poll(&raw mut bell, 1, limit) > 0 {
                libc::read(bell.fd, (&raw mut rung).cast(), 8);
            }
        }
        let said = self.said.try_lock();
        let mut said = match said {
            Ok(said) => said,
            Err(TryLockError::Poisoned(said)) => said.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.ring(); // it is being said
                thread::sleep(NAP);
                return Heard::Nothing;
            }
        };
        match said.value.take() {
            Some(value) => Heard::Value(value),
            None if said.over => Heard::Over,
            None => Heard::Nothing,
        }
    }

    fn ring(&self) {
        let one = 1_u64;
        // SAFETY: reads a number that lives during the call.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

const NAP: Duration = Duration::from_micros(200);

/// Locks what the observer may have locked when it was killed: `waiting` sees to that.
pub(in crate::backends::perf) fn patiently<T>(
    mutex: &Mutex<T>,
    mut waiting: impl FnMut(),
) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(locked) => return locked,
            Err(TryLockError::Poisoned(locked)) => return locked.into_inner(),
            Err(TryLockError::WouldBlock) => {
                waiting();
                thread::sleep(NAP);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_once_and_in_the_end_nothing() {
        let line = Line::new().unwrap();
        assert!(matches!(line.hear(Duration::ZERO), Heard::Nothing));
        thread::scope(|scope| {
            scope.spawn(|| line.say(7, || {}));
            while !matches!(line.hear(Duration::from_secs(1)), Heard::Value(7)) {}
        });
        assert!(matches!(line.hear(Duration::ZERO), Heard::Nothing));
        line.say(8, || {});
        line.end();
        assert!(matches!(line.hear(Duration::ZERO), Heard::Value(8)));
        assert!(matches!(line.hear(Duration::ZERO), Heard::Over));
    }

    /// Whoever was killed has it locked for ever: nobody waits for that.
    #[test]
    fn a_lock_that_stays_holds_nobody_up() {
        let line: Line<u8> = Line::new().unwrap();
        let _locked = line.said.lock().unwrap();
        assert!(matches!(line.hear(Duration::ZERO), Heard::Nothing));
        let mut looks = 0;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            line.say(1, || {
                looks += 1;
                if looks == 3 {
                    std::panic::resume_unwind(Box::new("alone"));
                }
            });
        }));
        assert!(outcome.is_err() && looks == 3);
    }
}
