//! How a program knows whether its observer lives: by a word in shared memory that the kernel marks when it does not.
//!
//! A thread of ours owns the word as it would own a robust mutex. However this process ends, the kernel then sets the
//! word's bit for a dead owner. So the program asks nobody: whatever its user, its root directory and its namespaces
//! are by then, and whoever has the number of this process.

#![allow(unsafe_code)]

use std::io;
use std::ptr::{from_mut, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use nix::libc;

/// In the word: nobody observes.
pub(super) const DEAD: u32 = 0x4000_0000;

/// Owns the word until it is dropped, after which nobody observes either.
#[derive(Debug)]
pub(super) struct Alive(Option<(Sender<()>, JoinHandle<()>)>);

impl Alive {
    /// # Safety
    /// `word` outlives what is returned.
    ///
    /// # Errors
    /// Those of starting a thread, and of a kernel without robust mutexes.
    pub(super) unsafe fn own(word: *const AtomicU32) -> io::Result<Self> {
        let address = word as usize;
        let (end, ended) = channel();
        let (begin, begun) = channel();
        let owner = move || {
            // SAFETY: as the caller promises: this thread is joined before.
            let word = unsafe { &*(address as *const AtomicU32) };
            own(word, &begin, &ended);
        };
        let thread = thread::Builder::new().name("observer-lives".into()).spawn(owner)?;
        let own = Self(Some((end, thread)));
        begun.recv().unwrap_or_else(|_| Err(io::Error::other("it ended at once")))?;
        Ok(own)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Owns the word until `ended` is closed.
fn own(word: &AtomicU32, begin: &Sender<io::Result<()>>, ended: &Receiver<()>) {
    /// As the kernel knows a thread's robust mutexes: a ring of nodes through `first`, a word at a distance from each.
    #[repr(C)]
    struct Robust {
        first: *mut libc::c_void,
        distance: libc::c_long,
        pending: *mut libc::c_void,
        node: *mut libc::c_void, // the only one, which leads back
    }
    let mut robust = Robust { first: null_mut(), distance: 0, pending: null_mut(), node: null_mut() };
    let node = &raw mut robust.node;
    robust.node = from_mut(&mut robust).cast();
    robust.first = node.cast();
    robust.distance = (word.as_ptr() as libc::c_long).wrapping_sub(node as libc::c_long);
    // SAFETY: asks for a number.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    word.store(tid as u32, Ordering::SeqCst);
    // SAFETY: the list lives until it is taken back below, or this process ends. This thread locks no robust mutex of the
    // C library's, which has put an empty list there.
    let set = unsafe { libc::syscall(libc::SYS_set_robust_list, &raw mut robust, 24) };
    let _ = begin.send(if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) });
    let _ = ended.recv();
    // SAFETY: the kernel takes no list for an empty one.
    unsafe { libc::syscall(libc::SYS_set_robust_list, null_mut::<libc::c_void>(), 24) };
    word.store(DEAD, Ordering::SeqCst);
}
