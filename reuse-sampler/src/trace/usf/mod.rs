//! The Uppsala Sample Format: accesses of a program, either all of them or those that a sampler chose.
//!
//! A file is a magic word, a header and records. Accesses are stored as they are (29 bytes) or as differences from
//! the one before. The format is defined by its library (Sandberg and Eklöv, *uart/usf*); numbers have the byte
//! order of the machine that wrote them, of which only little-endian is read. Records may be compressed with bzip2
//! behind the plain header, which the feature `bzip2` reads.

mod header;
mod record;
mod samples;
#[cfg(test)]
mod writing;

pub use samples::UsfSamples;

use std::io::Read;

use super::input::Input;
use crate::replay::{Event, EventSource};
use crate::{Access, AccessKind, SamplerError, ThreadId};
use header::Header;
use record::{Record, StoredAccess};

const FORMAT: &str = "usf";

/// Reads a USF trace: every access of a program.
///
/// Loads, stores and modifications (a load, then a store) become accesses with their size, program counter and
/// thread; an access of unknown type counts as a load. Prefetches and instructions are skipped. Times are not used.
/// A file of samples is not a trace: see [`UsfSamples`].
///
/// # Errors
/// [`SamplerError::BinaryTrace`] for a file that is not USF, of the other byte order, compressed (without the
/// feature `bzip2`), truncated, or of samples; [`SamplerError::EmptyTrace`] without an access; [`SamplerError::Io`] if the input cannot be read.
///
/// # References
/// Sandberg and Eklöv, *uart/usf*, version 0.2 of the format.
#[derive(Debug)]
pub struct UsfReader<R> {
    file: UsfFile<R>,
    ready: Vec<Event>, // next one last, at most 3
    thread: Option<ThreadId>,
    empty: bool, // no access so far
}

impl<R: Read> UsfReader<R> {
    /// A reader that has read nothing yet.
    pub fn new(input: R) -> Self {
        Self { file: UsfFile::new(input), ready: Vec::new(), thread: None, empty: true }
    }

    /// Whether the file holds samples instead of a trace, as its header says.
    ///
    /// # Errors
    /// As for reading an event.
    pub fn holds_samples(&mut self) -> Result<bool, SamplerError> {
        Ok(!self.file.header()?.is_trace())
    }

    fn next_ready(&mut self) -> Result<Option<Event>, SamplerError> {
        loop {
            if let Some(event) = self.ready.pop() {
                return Ok(Some(event));
            }
            match self.file.next_record()? {
                Some(Record::Trace(stored)) => self.convert(&stored),
                Some(_) => {
                    return Err(self
                        .file
                        .input
                        .malformed("a sample, not an access: the file is not a trace"));
                }
                None => return Ok(None),
            }
        }
    }

    fn convert(&mut self, stored: &StoredAccess) {
        let Some((kind, modifies)) = stored.kind() else { return };
        let thread = stored.thread();
        let access = |kind| {
            Event::Access(Access { address: stored.address, bytes: stored.bytes(), kind, pc: stored.pc })
        };
        if modifies {
            self.ready.push(access(AccessKind::Store));
        }
        self.ready.push(access(kind));
        if self.thread.replace(thread) != Some(thread) {
            self.ready.push(Event::Thread(thread));
        }
        self.empty = false;
    }
}

impl<R: Read> EventSource for UsfReader<R> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        if let Some(event) = self.ready.pop() {
            return Ok(Some(event));
        }
        match self.next_ready() {
            Ok(None) if std::mem::take(&mut self.empty) => Err(SamplerError::EmptyTrace { format: FORMAT }),
            Err(error) => {
                self.empty = false;
                Err(error)
            }
            event => event,
        }
    }
}

/// The records of a file, behind its header.
#[derive(Debug)]
struct UsfFile<R> {
    input: Input<R>,
    header: Option<Header>,
    last: StoredAccess, // what differences are taken from
}

impl<R: Read> UsfFile<R> {
    fn new(input: R) -> Self {
        Self { input: Input::new(FORMAT, input), header: None, last: StoredAccess::default() }
    }

    fn header(&mut self) -> Result<Header, SamplerError> {
        if let Some(header) = self.header {
            return Ok(header);
        }
        let header = Header::read(&mut self.input)?;
        self.header = Some(header);
        Ok(header)
    }

    fn next_record(&mut self) -> Result<Option<Record>, SamplerError> {
        let header = match self.header {
            Some(header) => header,
            // After an error in the header there is nothing.
            None if self.input.has_ended() => return Ok(None),
            None => self.header()?,
        };
        Record::read(&mut self.input, header, &mut self.last)
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::writing::{access, delta_access, header};
    use super::*;

    fn read(file: &[u8]) -> Result<Vec<Event>, SamplerError> {
        let mut reader = UsfReader::new(file);
        let mut events = Vec::new();
        while let Some(event) = reader.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    fn expected(stored: &[StoredAccess]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut thread = None;
        for a in stored {
            let access = |kind| Access { address: a.address, bytes: u32::from(a.length), kind, pc: a.pc };
            let kinds: &[AccessKind] = match a.kind {
                0 | 9 => &[AccessKind::Load],
                1 => &[AccessKind::Store],
                2 => &[AccessKind::Load, AccessKind::Store],
                _ => continue,
            };
            if thread.replace(a.thread) != Some(a.thread) {
                events.push(Event::Thread(ThreadId(u32::from(a.thread))));
            }
            events.extend(kinds.iter().map(|&kind| Event::Access(access(kind))));
        }
        events
    }

    #[test]
    fn a_hand_made_trace_reads_as_it_was_meant() {
        // The same two accesses plain and, the second, as differences: pc + 4, address - 8, time + 1, rest alike.
        let plain_second = "0504000000000000 f80f000000000000 0100000000000000 0000 0800 01";
        for (flags, second) in [("81", plain_second), ("85", "77 04 f8 01")] {
            let first_flags = if flags == "85" { "00" } else { "" };
            let text = format!(
                "5553463100 24000000 0200 0000 {flags}000000 7b00000000000000 c801000000000000 40000000 01000000 666f6f00
                 {first_flags} 0104000000000000 0010000000000000 0000000000000000 0000 0800 01 {second}"
            );
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let file: Vec<u8> = digits
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect();
            let store = |address, pc| Event::Access(Access::store(address, 8).at(pc));
            let expected = [Event::Thread(ThreadId(0)), store(0x1000, 0x401), store(0xff8, 0x405)];
            assert_eq!(read(&file).unwrap(), expected, "flags {flags}");
        }
    }

    quickcheck! {
        fn traces_are_read_back(raw: Vec<(u64, i8, u16, u8, bool)>, delta: bool) -> bool {
            let mut stored: Vec<StoredAccess> = Vec::new();
            for (i, (address, step, thread, kind, near)) in raw.into_iter().enumerate() {
                let last = stored.last().copied().unwrap_or_default();
                let address = if near { last.address.wrapping_add_signed(i64::from(step)) } else { address };
                let thread = if near { last.thread } else { thread % 0xffff };
                let length = if near { last.length } else { thread % 64 };
                stored.push(StoredAccess { pc: address / 7, address, time: i as u64, thread, length, kind: kind % 11 });
            }
            let mut file = header(1, delta, 0, 0);
            let mut last = StoredAccess::default();
            for a in &stored {
                file.extend(if delta { delta_access(a, &mut last) } else { access(a) });
            }
            let expected = expected(&stored);
            match read(&file) {
                Ok(events) => events == expected && !events.is_empty(),
                Err(SamplerError::EmptyTrace { .. }) => expected.is_empty(),
                Err(_) => false,
            }
        }
    }

    #[cfg(feature = "bzip2")]
    #[test]
    fn compressed_records_are_the_same_and_truncated_ones_are_not_taken_for_all() {
        use std::io::Write;
        let stored = |i: u64| StoredAccess { address: 64 * i, time: i, length: 8, ..StoredAccess::default() };
        let records: Vec<u8> = (0..50_000).flat_map(|i| access(&stored(i * i % 1013))).collect();
        let plain = [&header(1, false, 0, 0)[..], &records].concat();
        let mut compressed = header(1, false, 0, 0);
        compressed[11] = 1;
        let begin = compressed.len();
        let mut encoder = bzip2::write::BzEncoder::new(compressed, bzip2::Compression::fast());
        encoder.write_all(&records).unwrap();
        let compressed = encoder.finish().unwrap();
        assert_eq!(read(&compressed).unwrap(), read(&plain).unwrap());
        for end in [begin, begin + 1, begin + 100, compressed.len() - 1] {
            let error = read(&compressed[..end]).unwrap_err().to_string();
            let told = error.contains("truncated") || end == begin && error.contains("no memory access");
            assert!(told && error.starts_with("usf trace"), "{end}: {error}");
        }
        let mut damaged = compressed;
        damaged[begin + 5000] ^= 1;
        let error = read(&damaged).unwrap_err().to_string();
        assert!(error.starts_with("usf trace, byte ") && error.ends_with("corrupt bzip2 data"), "{error}");
    }

    #[test]
    fn files_that_are_not_read_say_why() {
        let good = header(1, false, 0, 0);
        let changed = |place: usize, value: u8| {
            let mut file = good.clone();
            file[place] = value;
            file
        };
        for (file, problem) in [
            (b"0 7ffe10\n1 7ffe20\n".to_vec(), "does not begin with USF1"),
            (good[..20].to_vec(), "truncated"),
            #[cfg(not(feature = "bzip2"))]
            (changed(11, 1), "compressed with bzip2"),
            #[cfg(feature = "bzip2")]
            ([&changed(11, 1)[..], b"0 7ffe10"].concat(), "corrupt bzip2 data"),
            (changed(11, 7), "unknown compression"),
            ([&changed(13, 0)[..], &[]].concat(), "byte order"),
            (changed(5, 16), "header shorter"),
            ([&good[..], &[0; 28]].concat(), "truncated"),
            ([&header(0, false, 0, 0)[..], &[0; 59], &[6]].concat(), "not a trace"),
            ([&header(0, false, 0, 0)[..], &[4]].concat(), "unknown event"),
        ] {
            let error = read(&file).unwrap_err().to_string();
            assert!(error.starts_with("usf trace, byte ") && error.contains(problem), "{problem}: {error}");
            let mut reader = UsfReader::new(&file[..]);
            assert!(reader.next_event().is_err() && matches!(reader.next_event(), Ok(None)), "{problem}");
        }
        assert!(matches!(read(&good), Err(SamplerError::EmptyTrace { format: "usf" })));
    }
}
