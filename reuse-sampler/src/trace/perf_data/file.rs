//! The file around the records: its header, the descriptions of events, and what ends it.

use std::collections::HashMap;
use std::io::Read;

use super::attributes::Attributes;
use super::sample::{self, number};
use super::{FORMAT, PerfSample};
use crate::SamplerError;
use crate::trace::input::Input;

const MAGIC: &[u8; 8] = b"PERFILE2";
const SWAPPED: &[u8; 8] = b"2ELIFREP";
/// Size of the header of a pipe, and of the shortest one of a file.
const PIPE_HEADER: u64 = 16;
const FILE_HEADER: u64 = 72;
/// Most bytes before the data that are believed: descriptions of events take 200 bytes each, and 8 for each of their
/// identifiers.
const LONGEST_HEAD: u64 = 64 << 20;

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTRIBUTES: u32 = 64;
const FINISHED_ROUND: u32 = 68;
const AUXILIARY_TRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED_ALIGNED: u32 = 83;

/// A record that is of interest.
#[derive(Debug)]
pub(super) enum Record {
    Sample(PerfSample),
    /// So many samples are missing.
    Lost(u64),
    /// All records up to some time are in the file by now.
    RoundFinished,
}

/// A file that is read from its beginning.
#[derive(Debug)]
pub(super) struct File<R> {
    input: Input<R>,
    begun: bool,
    end: u64, // of the records, in bytes from the beginning; u64::MAX in a pipe
    events: Vec<Attributes>,
    by_id: HashMap<u64, usize>,
    body: Vec<u8>, // of the record at hand
}

impl<R: Read> File<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: Input::new(FORMAT, input),
            begun: false,
            end: u64::MAX,
            events: Vec::new(),
            by_id: HashMap::new(),
            body: Vec::new(),
        }
    }

    pub(super) fn events(&self) -> &[Attributes] {
        &self.events
    }

    /// Reads what comes before the records, unless that was done.
    pub(super) fn begin(&mut self) -> Result<(), SamplerError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        match self.input.take::<8>()? {
            Some(magic) if &magic == MAGIC => {}
            Some(magic) if &magic == SWAPPED => {
                return Err(self
                    .input
                    .malformed("numbers of the other byte order: read it on a machine like it"));
            }
            _ => return Err(self.input.malformed("the file does not begin with PERFILE2")),
        }
        match u64::from_le_bytes(self.input.need()?) {
            PIPE_HEADER => Ok(()),
            FILE_HEADER.. => self.head(),
            _ => Err(self.input.malformed("a header shorter than its fixed part")),
        }
    }

    /// The header of a file, and the descriptions of its events, which lie between it and the records.
    fn head(&mut self) -> Result<(), SamplerError> {
        let mut numbers = [0; 5]; // size of a description; descriptions: offset, size; records: offset, size
        for value in &mut numbers {
            *value = u64::from_le_bytes(self.input.need()?);
        }
        let [entry, offset, size, data, length] = numbers;
        let Some(end) = data.checked_add(length) else {
            return Err(self.input.malformed("records beyond the end of any file"));
        };
        let begin = self.input.offset();
        if !(begin..=LONGEST_HEAD).contains(&data) {
            return Err(self.input.malformed("records that begin where none can"));
        }
        self.end = end;
        let mut head = vec![0; begin as usize];
        self.read_into(&mut head, data)?;
        let section = |offset: u64, size: u64| {
            if size == 0 {
                return Some(&[][..]);
            }
            let (from, to) = (offset, offset.checked_add(size)?);
            (begin..=data).contains(&from).then(|| head.get(from as usize..to as usize)).flatten()
        };
        let mut events = Vec::new();
        let (Some(descriptions), true) = (section(offset, size), (80..=4096).contains(&entry)) else {
            return Err(self
                .input
                .malformed("descriptions of events that are not between header and records"));
        };
        for description in descriptions.chunks_exact(entry as usize) {
            let (attributes, ids) = description.split_at(description.len() - 16);
            let ids = number(ids).zip(number(&ids[8..])).and_then(|(offset, size)| section(offset, size));
            match (Attributes::parse(attributes), ids) {
                (Some((attributes, _)), Some(ids)) => events.push((attributes, ids.to_vec())),
                _ => return Err(self.input.malformed("a description of an event that makes no sense")),
            }
        }
        for (attributes, ids) in events {
            self.add_event(attributes, &ids);
        }
        if self.events.is_empty() {
            return Err(self.input.malformed("no description of an event"));
        }
        Ok(())
    }

    /// Appends to `into` what there is up to `end`, in bytes from the beginning of the file.
    fn read_into(&mut self, into: &mut Vec<u8>, end: u64) -> Result<(), SamplerError> {
        while self.input.offset() < end {
            if self.input.unread().is_empty() && !self.input.refill()? {
                return Err(self.input.malformed("the file ends before its records begin: it is truncated"));
            }
            let unread = self.input.unread();
            let wanted = usize::try_from(end - self.input.offset()).unwrap_or(usize::MAX).min(unread.len());
            into.extend(&unread[..wanted]);
            self.input.consume(wanted);
        }
        Ok(())
    }

    fn add_event(&mut self, mut attributes: Attributes, ids: &[u8]) {
        attributes.ids = ids.chunks_exact(8).filter_map(number).collect();
        self.by_id.extend(attributes.ids.iter().map(|&id| (id, self.events.len())));
        self.events.push(attributes);
    }

    /// The next record that is of interest, or `None` at the end of the records.
    pub(super) fn next_record(&mut self) -> Result<Option<Record>, SamplerError> {
        self.begin()?;
        loop {
            if self.input.offset() >= self.end {
                self.input.stop();
                return Ok(None);
            }
            let Some(header) = self.input.take::<8>()? else {
                return match self.end {
                    u64::MAX => Ok(None),
                    // perf writes the size at the very end: an interrupted one has written 0.
                    _ => Err(self.input.malformed("the file ends before its records do: it is truncated")),
                };
            };
            let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            let size = u16::from_le_bytes([header[6], header[7]]);
            let Some(length) = usize::from(size).checked_sub(8) else {
                return Err(self.input.malformed("a record shorter than its header"));
            };
            while self.input.unread().len() < length {
                if !self.input.refill()? {
                    return Err(self.input.malformed("the file ends within a record: it is truncated"));
                }
            }
            self.body.clear();
            self.body.extend(&self.input.unread()[..length]);
            let in_kernel = !matches!(header[4] & 7, 2 | 5); // user mode, of the guest too
            let record = self.interpret(kind, in_kernel);
            if let Some(problem) = record.as_ref().err() {
                let problem = *problem;
                return Err(self.input.malformed(problem));
            }
            self.input.consume(length);
            if kind == AUXILIARY_TRACE {
                // Its data follow the record and are not of interest.
                self.skip(number(&self.body).unwrap_or(0))?;
            }
            if let Ok(Some(record)) = record {
                return Ok(Some(record));
            }
        }
    }

    fn skip(&mut self, mut bytes: u64) -> Result<(), SamplerError> {
        while bytes > 0 {
            if self.input.unread().is_empty() && !self.input.refill()? {
                return Err(self.input.malformed("the file ends within a trace beside its records"));
            }
            let count = self.input.unread().len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            self.input.consume(count);
            bytes -= count as u64;
        }
        Ok(())
    }

    /// What the record in `body` says.
    fn interpret(&mut self, kind: u32, in_kernel: bool) -> Result<Option<Record>, &'static str> {
        let record = match kind {
            SAMPLE => {
                let event = self.event()?;
                let attributes = &self.events[event];
                let sample = sample::parse(&self.body, attributes, event, in_kernel);
                Record::Sample(sample.ok_or("a sample shorter than what its event records")?)
            }
            LOST => {
                Record::Lost(self.body.get(8..).and_then(number).ok_or("a record of loss without a number")?)
            }
            LOST_SAMPLES => Record::Lost(number(&self.body).ok_or("a record of loss without a number")?),
            FINISHED_ROUND => Record::RoundFinished,
            HEADER_ATTRIBUTES if self.end == u64::MAX => {
                let parsed = Attributes::parse(&self.body);
                let (attributes, size) = parsed.ok_or("a description of an event that makes no sense")?;
                let ids = self.body[size..].to_vec();
                self.add_event(attributes, &ids);
                return Ok(None);
            }
            COMPRESSED | COMPRESSED_ALIGNED => {
                return Err("compressed records: record without -z");
            }
            _ => return Ok(None),
        };
        Ok(Some(record))
    }

    /// The event that the sample in `body` is of.
    fn event(&self) -> Result<usize, &'static str> {
        match self.events.as_slice() {
            [] => Err("a sample before any description of an event"),
            [_] => Ok(0),
            // The place of the identifier is the same for all events, or the file could not be read by anyone.
            [first, ..] => {
                let id = sample::identifier(&self.body, first.fields);
                let id = id.ok_or("a sample without the number of its event, of which there are several")?;
                self.by_id.get(&id).copied().ok_or("a sample of an event that is not described")
            }
        }
    }
}
