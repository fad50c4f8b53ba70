//! The memory in which the kernel writes an event's records, and the processor its trace.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;

use crate::perf::ring::Traced;

/// Pages of records; a power of two.
const PAGES: usize = 16;
/// Where the kernel's and the reader's positions are: `data_head` and `data_tail` of `perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// The same of the trace beside the ring, and where that is in the file: `aux_tail`, `aux_offset`, `aux_size`.
const TRACE_TAIL: usize = 1064;
const TRACE_OFFSET: usize = 1072;
const TRACE_SIZE: usize = 1080;

/// A mapped ring.
#[derive(Debug)]
pub(super) struct Ring {
    base: *mut u64,
    page: usize,
    trace: Option<Trace>,
}

/// Memory that the processor writes round and round.
#[derive(Debug)]
struct Trace {
    base: *mut u8,
    size: usize, // above 0
}

// SAFETY: the mapping belongs to this value alone, and moves with it.
unsafe impl Send for Ring {}

/// Bytes in a page.
fn page() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

impl Ring {
    /// Memory that a ring takes.
    pub fn bytes() -> usize {
        page() * (1 + PAGES)
    }

    /// Maps the ring of an open event.
    pub fn map(descriptor: RawFd) -> io::Result<Self> {
        let page = page();
        let length = Self::bytes();
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
        Ok(Self { base: base.cast(), page, trace: None })
    }

    /// Maps memory of `bytes` bytes, a power of two of pages, for the trace of the ring's event.
    pub fn map_trace(&mut self, descriptor: RawFd, bytes: usize) -> io::Result<()> {
        let behind = self.page * (1 + PAGES);
        self.position(TRACE_OFFSET).store(behind as u64, Ordering::Relaxed);
        self.position(TRACE_SIZE).store(bytes as u64, Ordering::Release);
        // Written to by its reader, or the kernel would overwrite what was not read.
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (anywhere, offset) = (std::ptr::null_mut(), behind as libc::off_t);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(anywhere, bytes, protection, libc::MAP_SHARED, descriptor, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.trace = Some(Trace { base: base.cast(), size: bytes });
        Ok(())
    }

    /// Appends a part of the trace to `out`, and leaves its room to the processor.
    pub fn drain_trace(&self, part: &Traced, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        if part.bytes > trace.size as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (at, length) = ((part.offset % trace.size as u64) as usize, part.bytes as usize);
        let first = length.min(trace.size - at);
        for (at, length) in [(at, first), (0, length - first)] {
            // SAFETY: within the mapping, in a part that is not written again before the tail has passed it.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(trace.base.add(at), length) });
        }
        self.position(TRACE_TAIL).store(part.offset.wrapping_add(part.bytes), Ordering::Release);
        Ok(())
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
        if let Some(trace) = &self.trace {
            // SAFETY: mapped by `map_trace` with this length; nothing borrows from it any more.
            unsafe { libc::munmap(trace.base.cast(), trace.size) };
        }
        // SAFETY: mapped by `map` with this length; nothing borrows from it any more.
        unsafe { libc::munmap(self.base.cast(), self.page * (1 + PAGES)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory as a mapping of an event would be, of nobody else.
    fn memory(bytes: usize) -> *mut u8 {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        base.cast()
    }

    /// The kernel's part is played by the test: every part comes out as it was written, around the end of the memory too,
    /// and its room is given back.
    #[test]
    fn parts_of_a_trace_come_out_as_they_were_written() {
        const SIZE: usize = 8192;
        let page = 4096;
        let trace = memory(SIZE);
        for at in 0..SIZE {
            // SAFETY: within the mapping.
            unsafe { trace.add(at).write((at % 251) as u8) };
        }
        let base = memory(page * (1 + PAGES)).cast();
        let ring = Ring { base, page, trace: Some(Trace { base: trace, size: SIZE }) };
        for (offset, bytes) in
            [(0, 64), (64, 128), (SIZE as u64 - 64, 64), (3 * SIZE as u64 - 100, 300), (5, 0)]
        {
            let mut out = vec![7];
            ring.drain_trace(&Traced { offset, bytes, ..Traced::default() }, &mut out).unwrap();
            let expected = (offset..offset + bytes).map(|at| (at % SIZE as u64 % 251) as u8);
            assert!(out.iter().copied().eq([7].into_iter().chain(expected)), "{offset} {bytes}");
            assert_eq!(ring.position(TRACE_TAIL).load(Ordering::Relaxed), offset + bytes);
        }
        let more = Traced { bytes: SIZE as u64 + 1, ..Traced::default() };
        assert_eq!(ring.drain_trace(&more, &mut Vec::new()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
