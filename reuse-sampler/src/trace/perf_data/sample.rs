//! The fields of a sample, in the order in which the kernel puts them.

use super::PerfSample;
use super::attributes::Attributes;
use crate::AccessKind;

// Fields a sample may have, `PERF_SAMPLE_*`.
const IP: u64 = 1 << 0;
const THREAD: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDRESS: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALL_CHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const BRANCHES: u64 = 1 << 11;
const USER_REGISTERS: u64 = 1 << 12;
const USER_STACK: u64 = 1 << 13;
const WEIGHT: u64 = 1 << 14 | 1 << 24;
const DATA_SOURCE: u64 = 1 << 15;
const IDENTIFIER: u64 = 1 << 16;

// What a counter's value comes with, `PERF_FORMAT_*`.
const TIMES: u64 = 1 | 2;
const GROUP: u64 = 8;
const NUMBERED: u64 = 4 | 16; // an identifier, a number of lost samples

// What branches come with, `PERF_SAMPLE_BRANCH_*`.
const INDEX: u64 = 1 << 17;
const COUNTERS: u64 = 1 << 19;

/// The number at the beginning of `bytes`.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Takes fields off the front of a sample.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next(&mut self) -> Option<u64> {
        let value = number(self.0)?;
        self.0 = &self.0[8..];
        Some(value)
    }

    /// Passes over `bytes`.
    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn skip_numbers(&mut self, count: u64) -> Option<()> {
        self.skip(count.checked_mul(8)?)
    }
}

/// Which event a sample with these fields is of.
pub(super) fn identifier(body: &[u8], fields: u64) -> Option<u64> {
    let before = match fields {
        fields if fields & IDENTIFIER != 0 => 0,
        fields if fields & ID != 0 => (fields & (IP | THREAD | TIME | ADDRESS)).count_ones(),
        _ => return None,
    };
    number(body.get(8 * before as usize..)?)
}

/// The sample in `body`; `None` if it is shorter than `attributes` say.
pub(super) fn parse(
    body: &[u8],
    attributes: &Attributes,
    event: usize,
    in_kernel: bool,
) -> Option<PerfSample> {
    let mut rest = Fields(body);
    let has = |field: u64| attributes.fields & field != 0;
    let mut sample = PerfSample {
        time: 0,
        thread: 0,
        pc: 0,
        address: None,
        kind: attributes.access_kind(),
        period: 1,
        event,
        in_kernel,
        branches: Vec::new(),
    };
    if has(IDENTIFIER) {
        rest.next()?;
    }
    if has(IP) {
        sample.pc = rest.next()?;
    }
    if has(THREAD) {
        sample.thread = (rest.next()? >> 32) as u32; // the process comes first
    }
    if has(TIME) {
        sample.time = rest.next()?;
    }
    if has(ADDRESS) {
        // Events that are not of memory say 0.
        sample.address = Some(rest.next()?).filter(|&address| address != 0);
    }
    rest.skip_numbers([ID, STREAM, CPU].into_iter().filter(|&field| has(field)).count() as u64)?;
    if has(PERIOD) {
        sample.period = rest.next()?;
    }
    if has(READ) {
        skip_counters(&mut rest, attributes.read_format)?;
    }
    if has(CALL_CHAIN) {
        let length = rest.next()?;
        rest.skip_numbers(length)?;
    }
    if has(RAW) {
        let size = u32::from_le_bytes(*rest.0.first_chunk()?);
        rest.skip(4 + u64::from(size))?;
    }
    if has(BRANCHES) {
        let count = rest.next()?;
        if attributes.branches & INDEX != 0 {
            rest.next()?;
        }
        // Each is three numbers long, which bounds how many there can be.
        if count > rest.0.len() as u64 / 24 {
            return None;
        }
        for _ in 0..count {
            sample.branches.push((rest.next()?, rest.next()?));
            rest.next()?;
        }
        if attributes.branches & COUNTERS != 0 {
            rest.skip_numbers(count)?;
        }
    }
    if has(USER_REGISTERS) && rest.next()? != 0 {
        rest.skip_numbers(u64::from(attributes.user_registers.count_ones()))?;
    }
    if has(USER_STACK) {
        let size = rest.next()?;
        rest.skip(size)?;
        if size > 0 {
            rest.next()?;
        }
    }
    if has(WEIGHT) {
        rest.next()?;
    }
    if has(DATA_SOURCE) {
        sample.kind = match rest.next()? & 0x1f {
            operation if operation & 4 != 0 => Some(AccessKind::Store),
            operation if operation & 2 != 0 => Some(AccessKind::Load),
            _ => sample.kind,
        };
    }
    Some(sample)
}

/// Passes over the values of the event's counter, or of all those of its group.
fn skip_counters(rest: &mut Fields<'_>, format: u64) -> Option<()> {
    let (times, each) =
        (u64::from((format & TIMES).count_ones()), 1 + u64::from((format & NUMBERED).count_ones()));
    if format & GROUP == 0 {
        return rest.skip_numbers(times + each);
    }
    let count = rest.next()?;
    rest.skip_numbers(times.checked_add(count.checked_mul(each)?)?)
}
