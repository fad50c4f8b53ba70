//! The records of a USF file.

use std::io::Read;

use super::header::Header;
use crate::trace::input::Input;
use crate::{AccessKind, SamplerError, ThreadId};

/// A thread or length that is not known.
const UNKNOWN: u16 = u16::MAX;

/// An access as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredAccess {
    pub(super) pc: u64,
    pub(super) address: u64,
    pub(super) time: u64,
    pub(super) thread: u16,
    pub(super) length: u16,
    pub(super) kind: u8,
}

impl StoredAccess {
    /// The kind of its first access and whether a store follows; `None` if it is no access to data.
    pub(super) const fn kind(&self) -> Option<(AccessKind, bool)> {
        match self.kind {
            0 | 9 => Some((AccessKind::Load, false)), // read, unknown
            1 => Some((AccessKind::Store, false)),
            2 => Some((AccessKind::Load, true)),
            _ => None, // prefetches, instructions
        }
    }

    pub(super) const fn thread(&self) -> ThreadId {
        ThreadId(if self.thread == UNKNOWN { 0 } else { self.thread as u32 })
    }

    pub(super) const fn bytes(&self) -> u32 {
        if self.length == UNKNOWN { 0 } else { self.length as u32 }
    }
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record {
    /// An access and the next one to its line of 2^`line` bytes.
    Sample { begin: StoredAccess, end: StoredAccess, line: u8 },
    /// An access whose line was not touched again.
    Dangling { begin: StoredAccess, line: u8 },
    /// What was sampled from this time on belongs together.
    Burst { begin: u64 },
    /// An access of a trace.
    Trace(StoredAccess),
}

impl Record {
    /// The next record, or `None` at the end. `last` is the access stored before, for differences.
    #[inline]
    pub(super) fn read<R: Read>(
        input: &mut Input<R>,
        header: Header,
        last: &mut StoredAccess,
    ) -> Result<Option<Self>, SamplerError> {
        if header.is_trace() {
            return if header.is_delta() {
                let Some([flags]) = input.take()? else { return Ok(None) };
                differing(input, flags, last).map(|access| Some(Self::Trace(access)))
            } else {
                Ok(input.take()?.map(|bytes| Self::Trace(plain(&bytes))))
            };
        }
        let Some([kind]) = input.take()? else { return Ok(None) };
        let mut access = |input: &mut Input<R>| {
            if header.is_delta() {
                let [flags] = input.need()?;
                differing(input, flags, last)
            } else {
                Ok(plain(&input.need()?))
            }
        };
        Ok(Some(match kind {
            0 => {
                let (begin, end) = (access(input)?, access(input)?);
                let [line] = input.need()?;
                Self::Sample { begin, end, line }
            }
            1 => {
                let begin = access(input)?;
                let [line] = input.need()?;
                Self::Dangling { begin, line }
            }
            2 => Self::Burst { begin: u64::from_le_bytes(input.need()?) },
            3 => Self::Trace(access(input)?),
            _ => return Err(input.malformed("an unknown event")),
        }))
    }
}

/// Bytes of an access that is stored as it is.
const PLAIN: usize = 29;

fn plain(bytes: &[u8; PLAIN]) -> StoredAccess {
    let number = |place: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[place..place + 8]);
        u64::from_le_bytes(number)
    };
    StoredAccess {
        pc: number(0),
        address: number(8),
        time: number(16),
        thread: u16::from_le_bytes([bytes[24], bytes[25]]),
        length: u16::from_le_bytes([bytes[26], bytes[27]]),
        kind: bytes[28],
    }
}

/// An access that is stored by what differs from `last`. Each of `flags` says that a field is a small difference
/// (program counter, address, time) or the same (thread, length, kind).
fn differing<R: Read>(
    input: &mut Input<R>,
    flags: u8,
    last: &mut StoredAccess,
) -> Result<StoredAccess, SamplerError> {
    for (bit, field) in [(0, &mut last.pc), (1, &mut last.address), (2, &mut last.time)] {
        *field = if flags >> bit & 1 == 1 {
            field.wrapping_add_signed(i64::from(i8::from_le_bytes(input.need()?)))
        } else {
            u64::from_le_bytes(input.need()?)
        };
    }
    for (bit, field) in [(4, &mut last.thread), (5, &mut last.length)] {
        if flags >> bit & 1 == 0 {
            *field = u16::from_le_bytes(input.need()?);
        }
    }
    if flags >> 6 & 1 == 0 {
        [last.kind] = input.need()?;
    }
    Ok(*last)
}
