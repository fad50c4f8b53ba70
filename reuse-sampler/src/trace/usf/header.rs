//! The magic word and the header of a USF file.

use std::io::Read;

use crate::SamplerError;
use crate::trace::input::Input;

const MAGIC: &[u8; 5] = b"USF1\0";
/// Bytes of the header's numbers; the command line follows, each argument ended by a zero.
const NUMBERS: u32 = 32;
/// Longest header that is believed: the longest command line a Linux kernel takes, and room.
const LONGEST: u32 = 4 << 20;

const TRACE: u32 = 1 << 0;
const DELTA: u32 = 1 << 2;
const TIME_BASE: u32 = 3 << 4;
const LITTLE_ENDIAN: u32 = 1 << 7;

/// What the header says about the records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    flags: u32,
    line_sizes: u32, // bit n: samples at lines of 2^n bytes
}

impl Header {
    pub(super) fn read<R: Read>(input: &mut Input<R>) -> Result<Self, SamplerError> {
        if input.take::<5>()?.is_none_or(|magic| &magic != MAGIC) {
            return Err(input.malformed("the file does not begin with USF1"));
        }
        let length = u32::from_le_bytes(input.need()?);
        if length < NUMBERS {
            return Err(input.malformed("a header shorter than its fixed part"));
        }
        if length > LONGEST {
            return Err(input.malformed("a header of more than 4 MiB"));
        }
        let _version: [u8; 2] = input.need()?;
        let compression = u16::from_le_bytes(input.need()?);
        let flags = u32::from_le_bytes(input.need()?);
        let _times: [u8; 16] = input.need()?;
        let line_sizes = u32::from_le_bytes(input.need()?);
        let _arguments: [u8; 4] = input.need()?;
        if flags & LITTLE_ENDIAN == 0 {
            return Err(
                input.malformed("numbers of the other byte order: rewrite it on the machine it is from")
            );
        }
        match compression {
            0 => {}
            #[cfg(feature = "bzip2")]
            1 => {}
            #[cfg(not(feature = "bzip2"))]
            1 => {
                return Err(input.malformed(
                    "records compressed with bzip2: build with the feature bzip2, or rewrite it with usf2usf",
                ));
            }
            _ => return Err(input.malformed("an unknown compression")),
        }
        for _ in NUMBERS..length {
            let _argument: [u8; 1] = input.need()?;
        }
        #[cfg(feature = "bzip2")]
        if compression == 1 {
            input.decompress();
        }
        Ok(Self { flags, line_sizes })
    }

    /// Whether all records are accesses.
    pub(super) const fn is_trace(self) -> bool {
        self.flags & TRACE != 0
    }

    /// Whether accesses are stored as differences.
    pub(super) const fn is_delta(self) -> bool {
        self.flags & DELTA != 0
    }

    /// Whether times count accesses.
    pub(super) const fn counts_accesses(self) -> bool {
        self.flags & TIME_BASE == 0
    }

    /// Whether there may be samples at lines of 2^`shift` bytes: a mask of 0 says nothing.
    pub(super) const fn has_line_size(self, shift: u32) -> bool {
        self.line_sizes == 0 || self.line_sizes >> shift & 1 == 1
    }
}
