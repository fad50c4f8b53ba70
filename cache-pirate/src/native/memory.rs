//! The memory that the pirate walks, in huge pages where there are any.
//!
//! With huge pages consecutive lines lie in consecutive sets, so that the pirate steals evenly, and its walk is
//! not slowed by page-table misses.
#![allow(unsafe_code)]

use std::fs;
use std::ptr::{self, NonNull};
use std::time::Instant;

use nix::libc;

use super::params::Pages;
use super::residency::median;
use crate::error::PirateError;

/// Bytes of a huge page if the kernel does not say: x86-64 and most aarch64 machines.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping of its own, written to once so that every page is there.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    bytes: usize,  // mapped, a multiple of HUGE_PAGE
    offset: usize, // of the first huge-page boundary
    pages: Pages,
}

// SAFETY: the mapping is owned by this value alone and lives as long as it does; after `new` it is only read.
unsafe impl Send for Region {}
// SAFETY: as above; reads from several threads do not conflict.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Result<Self, PirateError> {
        let bytes = bytes.max(1).div_ceil(HUGE_PAGE) * HUGE_PAGE;
        let mut region = if let Ok(start) = map(bytes, libc::MAP_HUGETLB) {
            Self { start, bytes, offset: 0, pages: Pages::Huge }
        } else {
            // One more, to begin on a huge page's boundary.
            let whole = bytes + HUGE_PAGE;
            let refused = |source| {
                PirateError::system(
                    "map memory for the pirate:",
                    format!("{whole} bytes"),
                    source,
                    "steal less",
                )
            };
            let start = map(whole, 0).map_err(refused)?;
            let offset = start.as_ptr().align_offset(HUGE_PAGE);
            // SAFETY: the range is the mapping just made; the advice changes nothing but page sizes, and a
            // kernel without huge pages may refuse it.
            unsafe { libc::madvise(start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
            Self { start, bytes: whole, offset, pages: Pages::Small }
        };
        region.touch();
        if region.pages == Pages::Small && region.huge_bytes() >= bytes / 2 {
            region.pages = Pages::Transparent;
        }
        Ok(region)
    }

    pub(super) const fn pages(&self) -> Pages {
        self.pages
    }

    /// The first byte to walk; at least as many follow as were asked for.
    pub(super) fn first(&self) -> *const u8 {
        // SAFETY: `offset` is below HUGE_PAGE, and the mapping is longer than that by what was asked for.
        unsafe { self.start.as_ptr().add(self.offset) }
    }

    /// Writes to every page, so that none is the shared page of zeros.
    fn touch(&mut self) {
        for at in (0..self.bytes).step_by(4096) {
            // SAFETY: `at` is within the mapping, which is writable and not shared with anyone yet.
            unsafe { self.start.as_ptr().add(at).write_volatile(1) };
        }
    }

    /// Bytes of the mapping in transparent huge pages, as the kernel counts them.
    fn huge_bytes(&self) -> usize {
        let begin = self.start.as_ptr() as usize;
        let end = begin + self.bytes;
        let Ok(maps) = fs::read_to_string("/proc/self/smaps") else { return 0 };
        let mut inside = false;
        let mut kilobytes = 0;
        for line in maps.lines() {
            let word = line.split_whitespace().next().unwrap_or("");
            if let Some((from, to)) = word.split_once('-') {
                let parse = |text| usize::from_str_radix(text, 16);
                // Neighbouring mappings may have been merged into one.
                if let (Ok(from), Ok(to)) = (parse(from), parse(to)) {
                    inside = from < end && to > begin;
                }
            } else if inside && word == "AnonHugePages:" {
                kilobytes +=
                    line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
            }
        }
        kilobytes << 10
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nobody uses it any more: threads that walk it hold the
        // value alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn map(bytes: usize, flags: libc::c_int) -> Result<NonNull<u8>, std::io::Error> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping wherever the kernel likes; no existing memory is touched.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))
}

/// Reads one word of each of `lines` lines of `line` bytes from `start` on, in order.
///
/// The reads do not depend on each other, so that as many are on their way at a time as the core can have.
///
/// # Safety
/// `lines * line` bytes from `start` on must be readable, and `start` and `line` multiples of 8.
#[inline]
#[allow(clippy::cast_ptr_alignment)] // the caller vouches for it
pub(super) unsafe fn walk(start: *const u8, lines: usize, line: usize) {
    let mut sum = 0_u64;
    let mut at = start;
    for _ in 0..lines / 8 {
        for step in 0..8 {
            // SAFETY: within the `lines` lines that the caller vouches for, and aligned.
            sum ^= unsafe { at.add(step * line).cast::<u64>().read_volatile() };
        }
        // SAFETY: at most one past the end.
        at = unsafe { at.add(8 * line) };
    }
    for step in 0..lines % 8 {
        // SAFETY: as above.
        sum ^= unsafe { at.add(step * line).cast::<u64>().read_volatile() };
    }
    std::hint::black_box(sum);
}

/// Nanoseconds per access to the words at `offsets` from `start`, each waiting for the one before: the median over
/// batches, so that interruptions do not count.
///
/// # Safety
/// 8 bytes at each offset must be readable, and `start` and all offsets multiples of 8.
#[allow(clippy::cast_ptr_alignment)] // the caller vouches for it
pub(super) unsafe fn time_per_access(start: *const u8, offsets: &[usize]) -> f64 {
    const BATCH: usize = 64;
    let mut times = Vec::with_capacity(offsets.len() / BATCH);
    // 0, which the compiler cannot know: each address depends on the word before it.
    let zero = std::hint::black_box(0_u64);
    let mut word = 0_u64;
    for batch in offsets.chunks_exact(BATCH) {
        let begin = Instant::now();
        for &offset in batch {
            // SAFETY: the caller vouches for the offset, to which 0 is added.
            word = unsafe { start.add(offset + (word & zero) as usize).cast::<u64>().read_volatile() };
        }
        times.push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    std::hint::black_box(word);
    median(&mut times).unwrap_or(f64::NAN)
}

/// Flushes the lines at `offsets` from `start` from all caches, where the processor has an instruction for it that
/// any program may use. Returns whether it did.
///
/// # Safety
/// As [`time_per_access`].
pub(super) unsafe fn flush(start: *const u8, offsets: impl IntoIterator<Item = usize>) -> bool {
    for offset in offsets {
        // SAFETY: the line is readable, as the caller vouches.
        let line = unsafe { start.add(offset) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the line is readable; every x86-64 processor has the instruction.
        unsafe {
            std::arch::x86_64::_mm_clflush(line);
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: cleans and invalidates a readable line; Linux allows it in user mode.
        unsafe {
            std::arch::asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}
