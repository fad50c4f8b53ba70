//! The records that the kernel writes into an event's ring, parsed from bytes.
//!
//! A record is a header (type, flags, size) and a body whose layout the event's attributes fix; events with
//! different layouts share a ring, so each sample begins with the number of its event. Nothing here touches memory
//! that is shared with the kernel: whoever owns the ring copies whole records out first.
//!
//! Source: `include/uapi/linux/perf_event.h`, `enum perf_event_type`.

use std::fmt;

/// What the samples of an event hold, after the event's number and the instruction pointer that all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // independent flags, each a bit of the kernel's
pub struct Layout {
    /// The address of the access (`PERF_SAMPLE_ADDR`).
    pub address: bool,
    /// The counts of the event's group, by number (`PERF_SAMPLE_READ`).
    pub counts: bool,
    /// The last branches (`PERF_SAMPLE_BRANCH_STACK`).
    pub branches: bool,
    /// Where the program was, also where the kernel was interrupted (`PERF_SAMPLE_REGS_USER`, of one register).
    pub user_ip: bool,
}

impl Layout {
    /// `perf_event_attr.sample_type`.
    #[must_use]
    pub const fn sample_type(self) -> u64 {
        const IDENTIFIER: u64 = 1 << 16;
        const IP: u64 = 1;
        IDENTIFIER
            | IP
            | if self.address { 1 << 3 } else { 0 }
            | if self.counts { 1 << 4 } else { 0 }
            | if self.branches { 1 << 11 } else { 0 }
            | if self.user_ip { 1 << 12 } else { 0 }
    }

    /// `perf_event_attr.read_format`: times, numbers and the whole group.
    pub const READ_FORMAT: u64 = 0b1111;
}

/// One sample of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of the event.
    pub event: u64,
    /// Instruction pointer.
    pub ip: u64,
    /// Whether `ip` is of the kernel: events of programs, too, overflow there where the processor notices late.
    pub kernel: bool,
    /// Whether `ip` is exactly the instruction that is meant (`PERF_RECORD_MISC_EXACT_IP`).
    pub exact: bool,
    /// Address of the access.
    pub address: Option<u64>,
    /// Counts of the group: (event, count).
    pub counts: Vec<(u64, u64)>,
    /// Branches, the latest first: (from, to).
    pub branches: Vec<(u64, u64)>,
    /// The program's instruction, whoever was interrupted; `None` if that is not known.
    pub user_ip: Option<u64>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An overflow.
    Sample(Sample),
    /// This many records found no room (`PERF_RECORD_LOST`, `PERF_RECORD_LOST_SAMPLES`).
    Lost(u64),
    /// An event overflowed too often and was stopped for the rest of the tick.
    Throttled,
    /// It counts again.
    Unthrottled,
    /// The processor has written so much of a trace beside the ring.
    Trace(Traced),
    /// A kind that nobody asked for.
    Other(u32),
}

/// A part of a trace that the processor writes by itself (`PERF_RECORD_AUX`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Where it begins, in bytes since tracing began: the memory of the trace is written round and round.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether there was no room for what came next.
    pub truncated: bool,
    /// Whether something is missing within it.
    pub partial: bool,
    /// Whether something was not followed because something else was.
    pub collided: bool,
}

impl Traced {
    const TRUNCATED: u64 = 1;
    const PARTIAL: u64 = 4;
    const COLLISION: u64 = 8;
}

/// Bytes that are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// Where the record begins, in bytes from the first.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ring buffer, byte {}: {}", self.offset, self.problem)
    }
}

impl std::error::Error for Malformed {}

const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const UNTHROTTLE: u32 = 6;
const SAMPLE: u32 = 9;
const TRACE: u32 = 11;
const LOST_SAMPLES: u32 = 13;
const EXACT_IP: u16 = 1 << 14;
/// What the processor was doing, in the lowest bits of the flags.
const MODE: u16 = 7;
const KERNEL: u16 = 1;
const HEADER: usize = 8;

/// Iterates over the records in `bytes`, which begin with one. `layout` returns the layout of an event's samples, by
/// the event's number; samples of events it does not know come as [`Record::Other`]. After an error there is nothing
/// more.
pub fn records<F>(bytes: &[u8], layout: F) -> Records<'_, F>
where
    F: Fn(u64) -> Option<Layout>,
{
    Records { bytes, at: 0, layout }
}

/// See [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a, F> {
    bytes: &'a [u8],
    at: usize, // <= bytes.len()
    layout: F,
}

impl<F: Fn(u64) -> Option<Layout>> Iterator for Records<'_, F> {
    type Item = Result<Record, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let offset = self.at;
        match record(rest, &self.layout) {
            Ok((record, size)) => {
                self.at += size;
                Some(Ok(record))
            }
            Err(problem) => {
                self.at = self.bytes.len();
                Some(Err(Malformed { offset, problem }))
            }
        }
    }
}

fn record(bytes: &[u8], layout: impl Fn(u64) -> Option<Layout>) -> Result<(Record, usize), &'static str> {
    let (Some(header), true) = (bytes.first_chunk::<HEADER>(), bytes.len() >= HEADER) else {
        return Err("ends within a header");
    };
    let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
    let misc = u16::from_ne_bytes([header[4], header[5]]);
    let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
    if size < HEADER || size % 8 != 0 {
        return Err("a record's size is not a multiple of 8 from 8 on");
    }
    let mut body = Words(bytes.get(HEADER..size).ok_or("ends within a record")?);
    let record = match kind {
        LOST => {
            body.next()?;
            Record::Lost(body.next()?)
        }
        LOST_SAMPLES => Record::Lost(body.next()?),
        TRACE => {
            let (offset, bytes, flags) = (body.next()?, body.next()?, body.next()?);
            let has = |flag| flags & flag != 0;
            Record::Trace(Traced {
                offset,
                bytes,
                truncated: has(Traced::TRUNCATED),
                partial: has(Traced::PARTIAL),
                collided: has(Traced::COLLISION),
            })
        }
        THROTTLE => Record::Throttled,
        UNTHROTTLE => Record::Unthrottled,
        SAMPLE => {
            let event = body.next()?;
            match layout(event) {
                Some(layout) => Record::Sample(sample(event, misc, layout, &mut body)?),
                None => Record::Other(SAMPLE),
            }
        }
        other => Record::Other(other),
    };
    Ok((record, size))
}

fn sample(event: u64, flags: u16, layout: Layout, body: &mut Words<'_>) -> Result<Sample, &'static str> {
    let (exact, kernel) = (flags & EXACT_IP != 0, flags & MODE == KERNEL);
    let mut sample = Sample { event, exact, kernel, ip: body.next()?, ..Sample::default() };
    if layout.address {
        sample.address = Some(body.next()?);
    }
    if layout.counts {
        let events = body.length(2, 2)?; // and two times
        body.next()?;
        body.next()?;
        sample.counts.reserve_exact(events as usize);
        for _ in 0..events {
            let count = body.next()?;
            sample.counts.push((body.next()?, count));
        }
    }
    if layout.branches {
        for _ in 0..body.length(3, 0)? {
            sample.branches.push((body.next()?, body.next()?));
            body.next()?; // flags
        }
    }
    // Which form the registers have; 0 where there are none, as in a thread of the kernel.
    if layout.user_ip && body.next()? != 0 {
        sample.user_ip = Some(body.next()?);
    }
    Ok(sample)
}

/// The words of a record's body.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Result<u64, &'static str> {
        let (word, rest) = self.0.split_first_chunk().ok_or("a record is shorter than its layout")?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*word))
    }

    /// A number of items of `words` words each, for which there is room after `before` words.
    fn length(&mut self, words: u64, before: u64) -> Result<u64, &'static str> {
        let items = self.next()?;
        let room = (self.0.len() as u64 / 8).saturating_sub(before) / words;
        if items > room { Err("a record counts more items than it has room for") } else { Ok(items) }
    }
}

/// Writes records, for whoever plays the kernel.
#[cfg(test)]
pub(super) mod write {
    use super::{EXACT_IP, HEADER, KERNEL, LOST, Layout, SAMPLE, Sample, THROTTLE, TRACE, Traced};

    pub fn sample(out: &mut Vec<u8>, sample: &Sample, layout: Layout) {
        let mut words = vec![sample.event, sample.ip];
        if layout.address {
            words.push(sample.address.unwrap_or(0));
        }
        if layout.counts {
            words.extend([sample.counts.len() as u64, 1000, 1000]);
            words.extend(sample.counts.iter().flat_map(|&(event, count)| [count, event]));
        }
        if layout.branches {
            words.push(sample.branches.len() as u64);
            words.extend(sample.branches.iter().flat_map(|&(from, to)| [from, to, 0]));
        }
        if layout.user_ip {
            words.push(u64::from(sample.user_ip.is_some()));
            words.extend(sample.user_ip);
        }
        let exact = if sample.exact { EXACT_IP } else { 0 };
        record(out, SAMPLE, exact | if sample.kernel { KERNEL } else { 2 }, &words);
    }

    pub fn lost(out: &mut Vec<u8>, records: u64) {
        record(out, LOST, 0, &[1, records]);
    }

    pub fn trace(out: &mut Vec<u8>, traced: &Traced) {
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(traced.truncated, Traced::TRUNCATED)
            | flag(traced.partial, Traced::PARTIAL)
            | flag(traced.collided, Traced::COLLISION);
        record(out, TRACE, 0, &[traced.offset, traced.bytes, flags]);
    }

    pub fn throttled(out: &mut Vec<u8>) {
        record(out, THROTTLE, 0, &[0, 1, 1]);
    }

    pub fn record(out: &mut Vec<u8>, kind: u32, misc: u16, words: &[u64]) {
        out.extend(kind.to_ne_bytes());
        out.extend(misc.to_ne_bytes());
        out.extend(((HEADER + 8 * words.len()) as u16).to_ne_bytes());
        out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::{TestResult, quickcheck};

    use super::*;

    fn any_layout(flags: u8) -> Layout {
        let has = |bit: u8| flags >> bit & 1 == 1;
        Layout { address: has(0), counts: has(1), branches: has(2), user_ip: has(3) }
    }

    fn all(bytes: &[u8], layout: Layout) -> Vec<Result<Record, Malformed>> {
        records(bytes, |event| (event < 10).then_some(layout)).collect()
    }

    /// A record as the kernel wrote it on a real machine: a watchpoint with the counts of its group of two.
    #[test]
    fn a_real_watchpoint_record() {
        let mut bytes = Vec::new();
        let words = [7, 0x561a_2fe3_627c, 0x561a_2fe3_91e0, 2, 900, 900, 10_241_776, 3, 1, 7];
        write::record(&mut bytes, 9, 0x4002, &words);
        assert_eq!(bytes.len(), 88);
        let layout = Layout { address: true, counts: true, ..Layout::default() };
        let sample = Sample {
            event: 7,
            ip: 0x561a_2fe3_627c,
            exact: true,
            address: Some(0x561a_2fe3_91e0),
            counts: vec![(3, 10_241_776), (7, 1)],
            ..Sample::default()
        };
        assert_eq!(all(&bytes, layout), [Ok(Record::Sample(sample))]);
    }

    #[test]
    fn what_is_cut_off_or_contradicts_itself_is_refused() {
        let layout = Layout { address: true, counts: true, branches: true, user_ip: true };
        let mut whole = Vec::new();
        let sample = Sample {
            event: 1,
            counts: vec![(1, 2)],
            branches: vec![(3, 4)],
            address: Some(0),
            user_ip: Some(5),
            ..Sample::default()
        };
        write::sample(&mut whole, &sample, layout);
        assert_eq!(all(&whole, layout), [Ok(Record::Sample(sample))]);
        for cut in 1..whole.len() {
            assert!(all(&whole[..cut], layout)[0].is_err(), "{cut}");
        }
        // Every word of the body in turn claims to be a huge number of items.
        for at in [32, 72] {
            let mut wrong = whole.clone();
            wrong[at..at + 8].copy_from_slice(&u64::MAX.to_ne_bytes());
            assert!(all(&wrong, layout)[0].is_err(), "{at}");
        }
        for size in [0_u16, 4, 9] {
            let mut wrong = whole.clone();
            wrong[6..8].copy_from_slice(&size.to_ne_bytes());
            assert!(all(&wrong, layout)[0].is_err(), "{size}");
        }
    }

    /// Offset, size and flags, as in `include/uapi/linux/perf_event.h`.
    #[test]
    fn a_part_of_a_trace() {
        let mut bytes = Vec::new();
        write::record(&mut bytes, 11, 0, &[0x1_0000, 128, 1 | 8]);
        write::record(&mut bytes, 11, 0, &[0x1_0080, 64, 2 | 4]);
        let traced = |offset, bytes| Traced { offset, bytes, ..Traced::default() };
        let first = Traced { truncated: true, collided: true, ..traced(0x1_0000, 128) };
        let second = Traced { partial: true, ..traced(0x1_0080, 64) };
        let mut written = Vec::new();
        write::trace(&mut written, &first);
        assert_eq!(written, bytes[..written.len()]);
        assert_eq!(all(&bytes, Layout::default()), [Ok(Record::Trace(first)), Ok(Record::Trace(second))]);
        bytes.truncate(bytes.len() - 8);
        bytes[written.len() + 6] -= 8;
        assert!(all(&bytes, Layout::default())[1].is_err());
    }

    /// Event, instruction pointer, items, exact.
    type Written = (u64, u64, Vec<(u64, u64)>, bool);

    quickcheck! {
        fn what_is_written_is_read(samples: Vec<Written>, flags: u8, losses: u8) -> TestResult {
            let layout = any_layout(flags);
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for (event, ip, items, exact) in samples {
                let sample = Sample {
                    event: event % 10,
                    ip,
                    exact,
                    kernel: flags & 16 != 0,
                    user_ip: (layout.user_ip && ip % 2 == 0).then_some(!ip),
                    address: layout.address.then_some(!ip),
                    counts: if layout.counts { items.clone() } else { Vec::new() },
                    branches: if layout.branches { items } else { Vec::new() },
                };
                write::sample(&mut bytes, &sample, layout);
                expected.push(Ok(Record::Sample(sample)));
                if losses % 3 == 0 {
                    write::lost(&mut bytes, u64::from(losses));
                    expected.push(Ok(Record::Lost(u64::from(losses))));
                }
            }
            TestResult::from_bool(all(&bytes, layout) == expected)
        }

        fn any_bytes_are_read_to_an_end(bytes: Vec<u8>, flags: u8) -> bool {
            let layout = any_layout(flags);
            let found = all(&bytes, layout);
            // At most one error, and the last.
            found.len() <= bytes.len() / 8 + 1 && found.iter().rev().skip(1).all(Result::is_ok)
        }
    }
}
