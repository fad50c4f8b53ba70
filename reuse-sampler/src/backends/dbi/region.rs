//! The observer's view of the shared region, and sleeping on its words.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::layout::{ALIVE, DOORBELL, FILE, HUB, OBSERVER};
use crate::SamplerError;
use crate::backends::alive::Alive;
use crate::backends::processes::lengthen;

/// The region, full of zeroes at first.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<c_void>,
    file: OwnedFd,
    /// That of the first process of the tree, in one of another process.
    first: Option<Arc<Self>>,
    /// In the first one.
    alive: Option<Alive>,
}

// SAFETY: all access is by atomics or, for bytes that the program only executes, by copying.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// For the first process of a tree.
    pub(super) fn new() -> Result<Self, SamplerError> {
        let mut region = Self::map()?;
        // SAFETY: the region stays mapped until it is dropped, and gives up the word before.
        let alive = unsafe { Alive::own(region.half(HUB + ALIVE)) };
        region.alive = Some(alive.map_err(|source| SamplerError::Io {
            operation: "make",
            object: "a sign that the observer lives".into(),
            source,
        })?);
        Ok(region)
    }

    /// Without a word that says whether the observer lives.
    fn map() -> Result<Self, SamplerError> {
        let failed = |source: io::Error| SamplerError::Io {
            operation: "map",
            object: "memory to share with the program".into(),
            source,
        };
        let file = memfd_create(c"reuse-sampler", MFdFlags::MFD_CLOEXEC).map_err(|e| failed(e.into()))?;
        let file = File::from(file);
        lengthen(&file, FILE).map_err(failed)?;
        let length =
            NonZeroUsize::new(FILE as usize).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let base = unsafe {
            mmap(None, length, protection, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE, &file, 0)
        }
        .map_err(|errno| failed(errno.into()))?;
        let region = Self { base, file: file.into(), first: None, alive: None };
        region.set_half(HUB + OBSERVER, std::process::id());
        Ok(region)
    }

    /// For a process of the same tree, which rings the same bell.
    pub(super) fn beside(other: &Arc<Self>) -> Result<Self, SamplerError> {
        let mut region = Self::map()?;
        region.first = Some(Arc::clone(other.first.as_ref().unwrap_or(other)));
        Ok(region)
    }

    /// The region with the page that is common to the tree, unless it is this one.
    pub(super) fn first(&self) -> Option<&Self> {
        self.first.as_deref()
    }

    /// Counts requests of all processes of the tree.
    pub(super) fn bell(&self) -> &AtomicU32 {
        self.first.as_ref().map_or(self, |first| first).half(HUB + DOORBELL)
    }

    /// Where other processes find the file, as the kernel takes it.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}\0", std::process::id(), self.file.as_raw_fd())
    }

    /// The file, for the program to map.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A word.
    pub(super) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset < FILE, "an offset outside the region");
        // SAFETY: aligned, within the mapping, which lives as long as `self`; all bits are valid.
        unsafe { &*self.base.as_ptr().cast::<AtomicU64>().add(offset as usize / 8) }
    }

    /// Half a word.
    pub(super) fn half(&self, offset: u64) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset < FILE, "an offset outside the region");
        // SAFETY: as in `word`.
        unsafe { &*self.base.as_ptr().cast::<AtomicU32>().add(offset as usize / 4) }
    }

    pub(super) fn get(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    pub(super) fn set(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    pub(super) fn get_half(&self, offset: u64) -> u32 {
        self.half(offset).load(Ordering::Acquire)
    }

    pub(super) fn set_half(&self, offset: u64, value: u32) {
        self.half(offset).store(value, Ordering::Release);
    }

    /// The words at `start..end`.
    pub(super) fn words(&self, start: u64, end: u64) -> &[AtomicU64] {
        assert!(start % 8 == 0 && start <= end && end <= FILE, "words outside the region");
        // SAFETY: as in `word`, for each of them.
        unsafe {
            let first = self.base.as_ptr().cast::<AtomicU64>().add(start as usize / 8);
            std::slice::from_raw_parts(first, ((end - start) / 8) as usize)
        }
    }

    /// The halves of words at `start..end`.
    pub(super) fn halves(&self, start: u64, end: u64) -> &[AtomicU32] {
        assert!(start % 4 == 0 && start <= end && end <= FILE, "halves of words outside the region");
        // SAFETY: as in `half`, for each of them.
        unsafe {
            let first = self.base.as_ptr().cast::<AtomicU32>().add(start as usize / 4);
            std::slice::from_raw_parts(first, ((end - start) / 4) as usize)
        }
    }

    /// Copies `bytes` to where no thread executes or reads now.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset <= FILE && bytes.len() as u64 <= FILE - offset, "bytes outside the region");
        // SAFETY: within the mapping, and nobody refers to these bytes while this runs.
        unsafe {
            let to = self.base.as_ptr().cast::<u8>().add(offset as usize);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        drop(self.alive.take());
        // SAFETY: mapped in `new` with this size; nothing borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.base, FILE as usize) };
    }
}

/// Sleeps while `word` holds `expected`, at most for `timeout`. May return early for no reason.
pub(super) fn sleep(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: the word and the timeout outlive the call, and the kernel only reads both.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const timeout) };
}

/// Wakes whoever sleeps on `word`.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the kernel takes the address of a live word and does not write to it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
