//! The memory in which the kernel writes an event's records.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;

/// Pages of records; a power of two.
const PAGES: usize = 16;
/// Where the kernel's and the reader's positions are: `data_head` and `data_tail` of `perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A mapped ring.
#[derive(Debug)]
pub(super) struct Ring {
    base: *mut u64,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone, and moves with it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an open event.
    pub fn map(descriptor: RawFd) -> io::Result<Self> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let length = page * (1 + PAGES);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), page })
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page, aligned, and changed by the kernel as an atomic word.
        unsafe { &*self.base.add(offset / 8).cast::<AtomicU64>() }
    }

    /// Appends the records that have come to `out`, and leaves their room to the kernel.
    pub fn drain(&self, out: &mut Vec<u8>) {
        let size = (PAGES * self.page) as u64;
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        while tail < head {
            let at = (tail % size) as usize;
            let length = ((head - tail) as usize).min(PAGES * self.page - at);
            // SAFETY: within the mapping, in a part that the kernel does not write before the tail has passed it.
            let part =
                unsafe { std::slice::from_raw_parts(self.base.cast::<u8>().add(self.page + at), length) };
            out.extend_from_slice(part);
            tail += length as u64;
        }
        self.position(TAIL).store(tail, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing borrows from it any more.
        unsafe { libc::munmap(self.base.cast(), self.page * (1 + PAGES)) };
    }
}
