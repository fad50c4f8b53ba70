//! Memory accesses and the cache lines they touch.

use crate::Error;

/// Whether an access reads or writes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AccessKind {
    /// The access reads memory.
    Load,
    /// The access writes memory. A read-modify-write is one load and one store.
    Store,
}

/// One memory access of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Access {
    /// Address of the first byte touched.
    pub address: u64,
    /// Number of bytes touched; 0 is treated as 1 (traces without a size column write 0).
    pub bytes: u32,
    /// Load or store.
    pub kind: AccessKind,
    /// Address of the instruction that made the access, 0 where it is not known.
    pub pc: u64,
}

impl Access {
    /// A load of `bytes` bytes at `address`, from an unknown instruction.
    #[must_use]
    pub const fn load(address: u64, bytes: u32) -> Self {
        Self { address, bytes, kind: AccessKind::Load, pc: 0 }
    }

    /// A store of `bytes` bytes at `address`, from an unknown instruction.
    #[must_use]
    pub const fn store(address: u64, bytes: u32) -> Self {
        Self { address, bytes, kind: AccessKind::Store, pc: 0 }
    }

    /// The same access made by the instruction at `pc`.
    #[must_use]
    pub const fn at(mut self, pc: u64) -> Self {
        self.pc = pc;
        self
    }
}

/// Number of a cache line: the address divided by the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Line(pub u64);

/// Size of a cache line in bytes: a power of two from 1 to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u32", into = "u32"))]
pub struct LineSize {
    shift: u32, // in [0, 20]
}

impl LineSize {
    /// 64 bytes, the line size of nearly every x86-64 and aarch64 processor.
    pub const B64: Self = Self { shift: 6 };

    /// Checks a line size given in bytes.
    ///
    /// # Errors
    /// [`Error::LineSize`] unless `bytes` is a power of two from 1 to 1,048,576.
    pub const fn new(bytes: u32) -> Result<Self, Error> {
        if bytes.is_power_of_two() && bytes <= 1 << 20 {
            Ok(Self { shift: bytes.trailing_zeros() })
        } else {
            Err(Error::LineSize { bytes })
        }
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        1 << self.shift
    }

    /// Binary logarithm of the size: how far an address is shifted to give its line.
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.shift
    }

    /// The line that holds the byte at `address`.
    #[must_use]
    pub const fn line_of(self, address: u64) -> Line {
        Line(address >> self.shift)
    }

    /// The lines an access touches, first to last; an access that straddles lines counts as one access per
    /// line. An access that would run past the end of the address space ends with its last line.
    pub fn lines(self, access: &Access) -> impl Iterator<Item = Line> + use<> {
        let (first, last) = self.span(access);
        (first..=last).map(Line)
    }

    /// First and last line number that `access` touches.
    #[must_use]
    pub const fn span(self, access: &Access) -> (u64, u64) {
        let extra = if access.bytes == 0 { 0 } else { access.bytes - 1 };
        (access.address >> self.shift, access.address.saturating_add(extra as u64) >> self.shift)
    }
}

impl Default for LineSize {
    fn default() -> Self {
        Self::B64
    }
}

impl TryFrom<u32> for LineSize {
    type Error = Error;

    fn try_from(bytes: u32) -> Result<Self, Error> {
        Self::new(bytes)
    }
}

impl From<LineSize> for u32 {
    fn from(size: LineSize) -> Self {
        size.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straddling_access_is_one_access_per_line() {
        let lines = |address, bytes| -> Vec<u64> {
            LineSize::B64.lines(&Access::load(address, bytes)).map(|l| l.0).collect()
        };
        assert_eq!(lines(60, 4), [0]);
        assert_eq!(lines(60, 5), [0, 1]);
        assert_eq!(lines(0, 0), [0]);
        assert_eq!(lines(32, 200), [0, 1, 2, 3]);
        assert_eq!(lines(u64::MAX - 3, 64), [u64::MAX >> 6]);
    }

    #[test]
    fn line_sizes_are_powers_of_two_within_the_limit() {
        for bytes in [0, 3, 48, 1 << 21] {
            assert_eq!(LineSize::new(bytes), Err(Error::LineSize { bytes }));
        }
        for shift in 0..=20 {
            assert_eq!(LineSize::new(1 << shift).unwrap().bytes(), 1 << shift);
        }
    }
}
