//! Readers of recorded traces: each turns a byte stream into [events](crate::replay::Event) for a
//! [`ReplaySampler`](crate::replay::ReplaySampler).
//!
//! | format | reader | records |
//! |---|---|---|
//! | table, text | [`CsvReader`] | a row per access, a header that names the columns |
//! | `din`, text | [`DinReader`] | `0 7ffe10` load, `1 7ffe10` store, `2 400123` instruction fetch |
//! | SimPoint's `.bb`, text | [`BbWindows`] | `T:block:instructions ...`: windows of executed code, no accesses |
//! | `perf.data`, binary | [`PerfDataReader`], [`PerfWindows`] | samples of instructions, branches or accesses, with time and thread |
//! | libCacheSim's `oracleGeneral`, binary | [`OracleGeneralReader`] | time, object, size, next request |
//! | valgrind's `lackey`, text | [`LackeyReader`] | `I  04001000,3`, ` L 1ffe8,8`, ` S 1ffe8,8`, ` M 1ffe8,8` |
//! | Uppsala Sample Format, binary | [`UsfReader`], [`UsfSamples`] | accesses with program counter, time, thread |
//!
//! All of them stream: they keep one buffer of 256 KiB, whatever the length of the trace, and read from any
//! [`Read`], which need not be buffered. They work on bytes: a record is never a `String`.
//! Lines may end in CR LF, the last one need not end at all, and blank lines are skipped. A line that is not
//! a record is an error that names its number and content, a binary record one that names its offset; a trace
//! without a single access is an error, too. After an
//! error or the end, a reader answers that the trace has ended.
//!
//! [`TraceReader`] is whichever of them a [`TraceFormat`] names; its [`content`](TraceReader::content) distinguishes the USF
//! files that hold samples from those that hold every access. [`DinWriter`] writes the simplest format, [`CsvWriter`] the one
//! that loses nothing, [`BbWriter`] the executed code of windows.

mod bb;
mod csv;
mod digits;
mod din;
mod input;
mod lackey;
mod lines;
mod oracle;
mod perf_data;
mod source;
mod usf;

pub use bb::{BbWindows, BbWriter};
pub use csv::{CsvReader, CsvWriter};
pub use din::{DinReader, DinWriter};
pub use lackey::LackeyReader;
pub use oracle::{ObjectRequest, OracleGeneralReader};
pub use perf_data::{PerfDataReader, PerfSample, PerfWindowOptions, PerfWindows};
pub use usf::{UsfReader, UsfSamples};

use std::fmt;
use std::io::Read;
use std::ops::ControlFlow;

use crate::replay::{Event, EventSource};
use crate::{LineSize, SamplerError};

/// A trace format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceFormat {
    /// A table with a header that names its columns.
    Csv,
    /// Dinero's text format: a label and a hexadecimal address per line.
    Din,
    /// The text of `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// libCacheSim's binary format: requests for objects, named by number.
    OracleGeneral,
    /// The Uppsala Sample Format: a trace, or samples.
    Usf,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: &'static [Self] = &[Self::Csv, Self::Din, Self::Lackey, Self::OracleGeneral, Self::Usf];

    /// The format's name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Din => "din",
            Self::Lackey => "lackey",
            Self::OracleGeneral => "oracle-general",
            Self::Usf => "usf",
        }
    }

    /// Whether addresses are numbers of objects instead of places in memory: observe them at a line size of 1.
    #[must_use]
    pub const fn names_objects(self) -> bool {
        matches!(self, Self::OracleGeneral)
    }

    /// The format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a trace is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Side {
    /// Loads and stores.
    #[default]
    Data,
    /// Instruction fetches, each a load of the instruction's bytes by itself: for instruction caches. Misses are then counted
    /// per instruction.
    Instruction,
}

/// A reader of any of the formats.
#[derive(Debug)]
pub struct TraceReader<R>(Kind<R>);

#[derive(Debug)]
enum Kind<R> {
    Csv(CsvReader<R>),
    Din(DinReader<R>),
    Lackey(LackeyReader<R>),
    OracleGeneral(OracleGeneralReader<R>),
    Usf(UsfReader<R>),
}

impl<R: Read> TraceReader<R> {
    /// Reads `input` as `format`. Nothing is read yet.
    pub fn new(format: TraceFormat, input: R) -> Self {
        Self(match format {
            TraceFormat::Csv => Kind::Csv(CsvReader::new(input)),
            TraceFormat::Din => Kind::Din(DinReader::new(input)),
            TraceFormat::Lackey => Kind::Lackey(LackeyReader::new(input)),
            TraceFormat::OracleGeneral => Kind::OracleGeneral(OracleGeneralReader::new(input)),
            TraceFormat::Usf => Kind::Usf(UsfReader::new(input)),
        })
    }

    /// The same for one side of the caches.
    ///
    /// # Errors
    /// [`SamplerError::NoFetches`] for the instruction side of a format that records no fetches.
    pub fn side(self, side: Side) -> Result<Self, SamplerError> {
        Ok(Self(match self.0 {
            Kind::Din(reader) => Kind::Din(reader.side(side)),
            Kind::Lackey(reader) => Kind::Lackey(reader.side(side)),
            other if side == Side::Data => other,
            Kind::Csv(_) => return Err(SamplerError::NoFetches { format: TraceFormat::Csv.name() }),
            Kind::OracleGeneral(_) => {
                return Err(SamplerError::NoFetches { format: TraceFormat::OracleGeneral.name() });
            }
            Kind::Usf(_) => return Err(SamplerError::NoFetches { format: TraceFormat::Usf.name() }),
        }))
    }

    /// What the input holds: accesses or, in some USF files, samples (at lines of `line_size`).
    ///
    /// # Errors
    /// [`SamplerError`] if the header cannot be read.
    pub fn content(self, line_size: LineSize) -> Result<TraceContent<R>, SamplerError> {
        match self.0 {
            Kind::Usf(mut reader) => Ok(if reader.holds_samples()? {
                TraceContent::Samples(Box::new(UsfSamples::new(reader, line_size)))
            } else {
                TraceContent::Accesses(Self(Kind::Usf(reader)))
            }),
            accesses => Ok(TraceContent::Accesses(Self(accesses))),
        }
    }
}

/// What a trace file turned out to hold.
#[derive(Debug)]
pub enum TraceContent<R> {
    /// Every access: replay it.
    Accesses(TraceReader<R>),
    /// What a sampler chose: it is a sampler itself.
    Samples(Box<UsfSamples<R>>),
}

impl<R: Read> EventSource for TraceReader<R> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        match &mut self.0 {
            Kind::Csv(reader) => reader.next_event(),
            Kind::Din(reader) => reader.next_event(),
            Kind::Lackey(reader) => reader.next_event(),
            Kind::OracleGeneral(reader) => reader.next_event(),
            Kind::Usf(reader) => reader.next_event(),
        }
    }

    fn drive<B>(&mut self, take: impl FnMut(Event) -> ControlFlow<B>) -> Result<Option<B>, SamplerError> {
        match &mut self.0 {
            Kind::Csv(reader) => reader.drive(take),
            Kind::Din(reader) => reader.drive(take),
            Kind::Lackey(reader) => reader.drive(take),
            Kind::OracleGeneral(reader) => reader.drive(take),
            Kind::Usf(reader) => reader.drive(take),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn every_format_is_found_by_its_name() {
        for &format in TraceFormat::ALL {
            assert_eq!(TraceFormat::named(&format.to_string()), Some(format));
        }
        assert_eq!(TraceFormat::named("DIN"), None);
    }

    #[test]
    fn fetches_are_read_where_they_are_recorded() {
        let reader = |format, text: &'static str| TraceReader::new(format, text.as_bytes());
        let mut din = reader(TraceFormat::Din, "2 100\n0 7\n2 104\n").side(Side::Instruction).unwrap();
        for address in [0x100, 0x104] {
            let block = Event::Block { address, instructions: 1 };
            assert_eq!(din.next_event().unwrap(), Some(block));
            assert_eq!(din.next_event().unwrap(), Some(Event::Access(Access::load(address, 0).at(address))));
        }
        assert_eq!(din.next_event().unwrap(), None);
        let mut no_code = reader(TraceFormat::Din, "0 7\n").side(Side::Instruction).unwrap();
        assert!(matches!(no_code.next_event(), Err(SamplerError::EmptyTrace { .. })));
        for format in [TraceFormat::OracleGeneral, TraceFormat::Usf] {
            let refused = reader(format, "").side(Side::Instruction).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|error| error.contains("give a din or lackey trace")));
            assert!(reader(format, "").side(Side::Data).is_ok());
        }
    }

    #[test]
    fn a_format_chooses_its_reader() {
        let first = |format, text: &'static str| TraceReader::new(format, text.as_bytes()).next_event();
        assert!(matches!(first(TraceFormat::Din, "1 10\n"), Ok(Some(Event::Access(a))) if a.address == 16));
        assert!(
            matches!(first(TraceFormat::Lackey, " L 10,4\n"), Ok(Some(Event::Access(a))) if a.bytes == 4)
        );
        assert!(first(TraceFormat::Lackey, "1 10\n").is_err());
    }
}
