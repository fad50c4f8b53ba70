//! Accesses as a table: one row each, a header that names the columns.

mod header;
mod write;

pub use write::CsvWriter;

use std::io::Read;

use super::lines::{Lines, after_blanks, hexadecimal};
use crate::replay::{Event, EventSource};
use crate::{Access, AccessKind, SamplerError, ThreadId};
use header::{Column, Header};

const FORMAT: &str = "csv";

/// Reads accesses from a table with a header.
///
/// | column | also called | value | where it is missing |
/// |---|---|---|---|
/// | `address` | `addr` | first byte touched, or the block's address | refused |
/// | `kind` | `type`, `op` | `load` (`l`, `r`, `read`), `store` (`s`, `w`, `write`), `block`, `exit` | `load` |
/// | `bytes` | `size`, `length` | bytes touched | 0, which counts as 1 |
/// | `pc` | `ip` | instruction that makes the access | 0, unknown |
/// | `thread` | `tid` | who makes it | 0 |
/// | `instructions` | | of a row of kind `block`: how many are executed | 1 |
///
/// Columns may come in any order and others are ignored; names and kinds in any case. Fields are separated by commas, or by
/// the semicolons or tabs that the header has instead, and may stand in double quotes. Numbers are decimal, or
/// hexadecimal after `0x`; an empty field counts as missing. Blank lines and lines that begin with `#` are skipped.
/// A row of kind `exit` says that its thread has ended. [`CsvWriter`] writes all columns: of the text formats, it is
/// the one that loses nothing.
///
/// # Errors
/// [`SamplerError::Trace`] for a header without addresses and for any row that is not as above,
/// [`SamplerError::EmptyTrace`] for a table without a load or store, [`SamplerError::Io`] if the input cannot be
/// read.
///
/// ```
/// use reuse_sampler::Access;
/// use reuse_sampler::replay::{Event, EventSource};
/// use reuse_sampler::trace::CsvReader;
///
/// let mut trace = CsvReader::new(&b"time,op,addr,size\n17,w,0x1ffe8,8\n"[..]);
/// assert_eq!(trace.next_event()?, Some(Event::Access(Access::store(0x1_ffe8, 8))));
/// assert_eq!(trace.next_event()?, None);
/// # Ok::<(), reuse_sampler::SamplerError>(())
/// ```
#[derive(Debug)]
pub struct CsvReader<R> {
    lines: Lines<R>,
    header: Option<Header>,
    thread: ThreadId,
    held: Option<Event>, // returned after the switch of threads
    empty: bool,         // no access so far
}

impl<R: Read> CsvReader<R> {
    /// A reader that has read nothing yet.
    pub const fn new(input: R) -> Self {
        Self { lines: Lines::new(FORMAT, input), header: None, thread: ThreadId(0), held: None, empty: true }
    }

    fn next_row(&mut self) -> Result<Option<Row>, SamplerError> {
        let header = match self.header {
            Some(header) => header,
            None => match self.lines.next(Header::parse)? {
                Some(header) => *self.header.insert(header),
                None => return Ok(None),
            },
        };
        self.lines.next(|line| Row::parse(&header, line))
    }
}

impl<R: Read> EventSource for CsvReader<R> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        if let Some(event) = self.held.take() {
            return Ok(Some(event));
        }
        let Some(row) = self.next_row().inspect_err(|_| self.empty = false)? else {
            return if std::mem::take(&mut self.empty) {
                Err(SamplerError::EmptyTrace { format: FORMAT })
            } else {
                Ok(None)
            };
        };
        self.empty &= !matches!(row.kind, Kind::Access(_));
        if row.thread == self.thread {
            return Ok(Some(row.event()));
        }
        if !matches!(row.kind, Kind::Exit) {
            self.thread = row.thread;
            self.held = Some(row.event());
            return Ok(Some(Event::Thread(row.thread)));
        }
        Ok(Some(row.event()))
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Access(AccessKind),
    Block,
    Exit,
}

impl Kind {
    fn named(name: &[u8]) -> Option<Self> {
        const NAMES: [(&str, Kind); 8] = [
            ("load", Kind::Access(AccessKind::Load)),
            ("store", Kind::Access(AccessKind::Store)),
            ("l", Kind::Access(AccessKind::Load)),
            ("s", Kind::Access(AccessKind::Store)),
            ("r", Kind::Access(AccessKind::Load)),
            ("w", Kind::Access(AccessKind::Store)),
            ("read", Kind::Access(AccessKind::Load)),
            ("write", Kind::Access(AccessKind::Store)),
        ];
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match NAMES.iter().find(|(name, _)| is(name)) {
            Some(&(_, kind)) => Some(kind),
            None if is("block") => Some(Self::Block),
            None if is("exit") => Some(Self::Exit),
            None => None,
        }
    }
}

/// The fields of a row.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: Kind,
    address: u64,
    bytes: u32,
    pc: u64,
    thread: ThreadId,
    instructions: u32,
}

impl Row {
    fn parse(header: &Header, line: &[u8]) -> Result<Option<Self>, &'static str> {
        if header::is_skipped(line) {
            return Ok(None);
        }
        let mut row = Self {
            kind: Kind::Access(AccessKind::Load),
            address: 0,
            bytes: 0,
            pc: 0,
            thread: ThreadId(0),
            instructions: 1,
        };
        let mut seen = 0;
        let mut addressed = false;
        for (place, field) in header.fields(line).enumerate() {
            seen = place + 1;
            let Some(column) = header.column(place) else { continue };
            let text = header::unquoted(field)?;
            if text.is_empty() {
                continue;
            }
            match column {
                Column::Address => {
                    row.address =
                        number(text).ok_or("expected an address: decimal, or hexadecimal after 0x")?;
                    addressed = true;
                }
                Column::Kind => {
                    row.kind = Kind::named(text).ok_or("expected a kind: load, store, block or exit")?;
                }
                Column::Bytes => row.bytes = small(text).ok_or("expected a number of bytes below 2^32")?,
                Column::Pc => {
                    row.pc = number(text).ok_or("expected a pc: decimal, or hexadecimal after 0x")?;
                }
                Column::Thread => {
                    row.thread = ThreadId(small(text).ok_or("expected a thread number below 2^32")?);
                }
                Column::Instructions => {
                    row.instructions = small(text).ok_or("expected a number of instructions below 2^32")?;
                }
            }
        }
        if seen != header.columns() {
            return Err("this row has not as many fields as the header");
        }
        if !addressed && !matches!(row.kind, Kind::Exit) {
            return Err("this row has no address");
        }
        Ok(Some(row))
    }

    const fn event(&self) -> Event {
        match self.kind {
            Kind::Access(kind) => {
                Event::Access(Access { address: self.address, bytes: self.bytes, kind, pc: self.pc })
            }
            Kind::Block => Event::Block { address: self.address, instructions: self.instructions },
            Kind::Exit => Event::Exit(self.thread),
        }
    }
}

/// A number that fills the field.
fn number(text: &[u8]) -> Option<u64> {
    if let [b'0', b'x' | b'X', ..] = text {
        return hexadecimal(text).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value);
    }
    text.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn small(text: &[u8]) -> Option<u32> {
    number(text).and_then(|value| u32::try_from(value).ok())
}

/// `text` without blanks at its ends.
fn trimmed(text: &[u8]) -> &[u8] {
    after_blanks(text).trim_ascii_end()
}

#[cfg(test)]
mod tests;
