//! Whose line a tag is: the owner's number in the bits above the line number.
//!
//! A line number has as many unused high bits as the line size has low bits, so no address space of a real
//! program is too large, and the number of owners is limited by the line size instead (63 with 64-byte lines).

use reuse_sampler::LineSize;

/// Packs and unpacks owners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    shift: u32, // in [1, 64): position of the owner's bits
}

impl Owners {
    /// Largest number of owners; the all-ones pattern stays free for empty slots.
    pub(super) const fn limit(line_size: LineSize) -> usize {
        (1 << line_size.shift()) - 1
    }

    /// For lines of more than one byte.
    pub(super) const fn new(line_size: LineSize) -> Self {
        Self { shift: 64 - line_size.shift() }
    }

    /// The tag of `owner`'s line. Line numbers beyond the address space lose their high bits.
    #[inline]
    pub(super) const fn tag(self, owner: usize, line: u64) -> u64 {
        (line & (u64::MAX >> (64 - self.shift))) | (owner as u64) << self.shift
    }

    /// The owner of a tag.
    #[inline]
    pub(super) const fn owner(self, tag: u64) -> usize {
        (tag >> self.shift) as usize
    }

    /// The line of a tag.
    #[inline]
    pub(super) const fn line(self, tag: u64) -> u64 {
        tag & (u64::MAX >> (64 - self.shift))
    }
}
