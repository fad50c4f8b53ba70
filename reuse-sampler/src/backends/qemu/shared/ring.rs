//! A ring of bytes between two processes: one writes, one reads, both can sleep.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::futex;
use super::layout::{Header, RING, RING_AT, Region, region_at};

/// One end of the ring in a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    header: *mut Header, // the start of the mapping
    region: *mut Region,
}

// SAFETY: the mapping is never unmapped while a ring is in use, its header is made of atomics, and bytes of
// the ring are written by the writer and read by the reader only while the positions give them that part.
unsafe impl Send for Ring {}
// SAFETY: as above; a caller that shares one end among threads lets one of them use it at a time.
unsafe impl Sync for Ring {}

/// Longest sleep before the room is looked at again.
const NAP: Duration = Duration::from_millis(500);

impl Ring {
    /// The ring of region `index` in the mapping that starts with `header`.
    ///
    /// # Safety
    /// `header` is the start of a shared mapping of [`SIZE`](super::layout::SIZE) bytes that began as zeroes
    /// and is not unmapped while a copy of the ring is in use; `index` is below [`REGIONS`](super::layout::REGIONS).
    #[must_use]
    pub const unsafe fn new(header: *mut Header, index: usize) -> Self {
        // SAFETY: the region lies in the mapping.
        Self { header, region: unsafe { header.byte_add(region_at(index)) }.cast() }
    }

    /// The header of the mapping.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is there, as promised to `new`; every field of the header is an atomic, for which
        // all bits are valid.
        unsafe { &*self.header }
    }

    /// The start of the region.
    #[must_use]
    pub fn region(&self) -> &Region {
        // SAFETY: as for the header.
        unsafe { &*self.region }
    }

    const fn byte(&self, at: usize) -> *mut u8 {
        // SAFETY: callers keep within the ring, which follows the start of the region.
        unsafe { self.region.cast::<u8>().add(RING_AT + at) }
    }

    /// Writes all of `bytes`, sleeping while there is no room.
    pub fn write(&self, mut bytes: &[u8]) {
        let region = self.region();
        let mut written = region.written.load(Ordering::Relaxed);
        while !bytes.is_empty() {
            let seen = region.drained.load(Ordering::SeqCst);
            let room = RING - (written - region.read.load(Ordering::SeqCst)) as usize;
            if room == 0 {
                futex::wait(&region.drained, seen, NAP);
                continue;
            }
            let at = written as usize % RING;
            let (now, later) = bytes.split_at(bytes.len().min(room).min(RING - at));
            // SAFETY: `now` ends before the ring does, and the reader has read what was there.
            unsafe { self.byte(at).copy_from_nonoverlapping(now.as_ptr(), now.len()) };
            written += now.len() as u64;
            region.written.store(written, Ordering::SeqCst);
            self.header().filled.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.header().filled);
            bytes = later;
        }
    }

    /// Appends what there is to read to `to`; false if there is nothing.
    pub fn read(&self, to: &mut Vec<u8>) -> bool {
        let region = self.region();
        let mut read = region.read.load(Ordering::Relaxed);
        let written = region.written.load(Ordering::SeqCst);
        if read == written {
            return false;
        }
        while read < written {
            let at = read as usize % RING;
            let count = ((written - read) as usize).min(RING - at);
            let start = to.len();
            to.resize(start + count, 0);
            // SAFETY: the writer has written these bytes and leaves them alone until `read` has moved on.
            unsafe { self.byte(at).copy_to_nonoverlapping(to.as_mut_ptr().add(start), count) };
            read += count as u64;
        }
        region.read.store(read, Ordering::SeqCst);
        region.drained.fetch_add(1, Ordering::SeqCst);
        futex::wake(&region.drained);
        true
    }
}
