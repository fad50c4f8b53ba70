//! Readers keep no more of a trace than they need, however long it is: the peak of what they allocate is held against a
//! bound while a stream of many records, which exists nowhere as a whole, flows through them.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/counting.rs"]
mod counting;

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::{
    BbWindows, PerfDataReader, PerfWindowOptions, PerfWindows, TraceContent, TraceFormat, TraceReader,
};
use reuse_sampler::{LineSize, Sampler, WindowPlan};

use counting::{HELD, PEAK};

/// Bytes of each stream: many times what may be held.
const LENGTH: usize = 64 << 20;
/// The reader's buffer of 256 KiB, what it grows by, the records of one window, and of perf's files those of two rounds.
const MOST: usize = 1 << 20;

/// A head, then records made on the way, until so many bytes have flowed.
struct Stream<F> {
    piece: Vec<u8>,
    read: usize, // of the piece
    flowed: usize,
    number: u64,
    record: F,
}

impl<F: FnMut(u64, &mut Vec<u8>)> Read for Stream<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            if self.flowed > LENGTH {
                return Ok(0);
            }
            self.piece.clear();
            self.read = 0;
            while self.piece.len() < 4096 {
                (self.record)(self.number, &mut self.piece);
                self.number += 1;
            }
        }
        let count = buffer.len().min(self.piece.len() - self.read);
        buffer[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        self.flowed += count;
        Ok(count)
    }
}

fn stream<F: FnMut(u64, &mut Vec<u8>)>(head: &[u8], record: F) -> Stream<F> {
    Stream { piece: head.to_vec(), read: 0, flowed: 0, number: 0, record }
}

/// Most that was held at once, beyond what was held before, while `read` ran.
fn peak(read: impl FnOnce()) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    read();
    PEAK.load(Ordering::Relaxed) - before
}

/// Addresses that jump about, so that differences do not stay small.
fn address(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 17
}

fn text(into: &mut Vec<u8>, line: std::fmt::Arguments<'_>) {
    let mut words = String::new();
    words.write_fmt(line).unwrap();
    into.extend(words.as_bytes());
}

fn accesses(format: TraceFormat, input: impl Read) -> u64 {
    let mut reader = TraceReader::new(format, input);
    let mut accesses = 0;
    while let Some(event) = reader.next_event().unwrap() {
        accesses += u64::from(matches!(event, Event::Access(_)));
    }
    accesses
}

fn windows(mut sampler: impl Sampler) -> u64 {
    let mut windows = 0;
    while sampler.next_window(&WindowPlan::count_only()).unwrap().is_some() {
        windows += 1;
    }
    windows
}

fn usf_header(flags: u32) -> Vec<u8> {
    let arguments = b"program\0";
    let numbers = [
        &2_u16.to_le_bytes()[..],
        &[0; 2],
        &(flags | 1 << 7).to_le_bytes(),
        &[0; 16],
        &(1_u32 << 6).to_le_bytes(),
        &1_u32.to_le_bytes(),
    ];
    let length = 32 + arguments.len() as u32;
    [b"USF1\0", &length.to_le_bytes()[..], &numbers.concat(), arguments].concat()
}

fn usf_access(number: u64, into: &mut Vec<u8>) {
    into.extend([0x400, address(number), number].map(u64::to_le_bytes).concat());
    into.extend([1_u16, 8].map(u16::to_le_bytes).concat());
    into.push((number % 2) as u8);
}

/// Bursts of a thousand samples each.
fn usf_sample(number: u64, into: &mut Vec<u8>) {
    if number % 1000 == 0 {
        into.push(2);
        into.extend((number * 10).to_le_bytes());
    }
    into.push(0);
    usf_access(number * 10, into);
    usf_access(number * 10 + 7, into);
    into.push(6);
}

/// A pipe of `perf record`: one event with instruction, thread, time and period.
fn perf_head() -> Vec<u8> {
    let mut attributes = [1_u32, 112].map(u32::to_le_bytes).concat();
    attributes.extend([0, 4000, 1 | 2 | 4 | 1 << 8, 0].map(u64::to_le_bytes).concat());
    attributes.resize(112, 0);
    let size = 8 + attributes.len() as u16;
    let record = [&64_u32.to_le_bytes()[..], &[0; 2], &size.to_le_bytes(), &attributes].concat();
    [&b"PERFILE2"[..], &16_u64.to_le_bytes(), &record].concat()
}

/// Samples a microsecond apart; a round ends after each thousand.
fn perf_sample(number: u64, into: &mut Vec<u8>) {
    into.extend(9_u32.to_le_bytes());
    into.extend([2_u16, 40].map(u16::to_le_bytes).concat());
    into.extend([address(number) % 4096, 7 << 32 | 7, number * 1000, 1].map(u64::to_le_bytes).concat());
    if number % 1000 == 999 {
        into.extend([68, 0, 0, 0, 0, 0, 8, 0]);
    }
}

/// One test, since the allocator counts for all threads.
#[test]
fn readers_hold_little_of_what_flows_through_them() {
    let din = |n, into: &mut Vec<u8>| text(into, format_args!("{} {:x}\n", n % 3, address(n)));
    let lackey = |n: u64, into: &mut Vec<u8>| match n % 3 {
        0 => text(into, format_args!("I  {:08x},4\n", 0x40_0000 + n % 4096 * 4)),
        1 => text(into, format_args!(" L {:x},8\n", address(n))),
        _ => text(into, format_args!(" M {:x},4\n", address(n))),
    };
    let csv = |n: u64, into: &mut Vec<u8>| {
        text(into, format_args!("{},{:#x},{},{}\n", n % 5, address(n), 8, if n % 2 == 0 { "r" } else { "w" }))
    };
    let oracle = |n: u64, into: &mut Vec<u8>| {
        into.extend((n as u32).to_le_bytes());
        into.extend(address(n).to_le_bytes());
        into.extend(64_u32.to_le_bytes());
        into.extend((-1_i64).to_le_bytes());
    };
    let bb = |n: u64, into: &mut Vec<u8>| {
        into.push(b'T');
        for block in 0..200 {
            text(into, format_args!(":{}:{} ", address(n + block) % 10_000, 1 + block));
        }
        into.push(b'\n');
    };
    type Case<'a> = (&'a str, u64, Box<dyn FnOnce() -> u64 + 'a>);
    // At least so many records: what flows, divided by the longest record.
    let cases: [Case<'_>; 9] = [
        ("din", 2_000_000, Box::new(|| accesses(TraceFormat::Din, stream(b"", din)))),
        ("lackey", 1_000_000, Box::new(|| accesses(TraceFormat::Lackey, stream(b"", lackey)))),
        (
            "csv",
            1_000_000,
            Box::new(|| accesses(TraceFormat::Csv, stream(b"thread,address,bytes,kind\n", csv))),
        ),
        ("oracleGeneral", 2_700_000, Box::new(|| accesses(TraceFormat::OracleGeneral, stream(b"", oracle)))),
        ("usf trace", 2_200_000, Box::new(|| accesses(TraceFormat::Usf, stream(&usf_header(1), usf_access)))),
        (
            "usf samples",
            1_000,
            Box::new(|| {
                let reader = TraceReader::new(TraceFormat::Usf, stream(&usf_header(2), usf_sample));
                match reader.content(LineSize::B64).unwrap() {
                    TraceContent::Samples(samples) => windows(samples),
                    TraceContent::Accesses(_) => panic!("the header says samples"),
                }
            }),
        ),
        ("bb", 20_000, Box::new(|| windows(BbWindows::new(stream(b"", bb))))),
        (
            "perf.data, samples",
            1_600_000,
            Box::new(|| {
                let mut reader = PerfDataReader::new(stream(&perf_head(), perf_sample));
                let mut samples = 0;
                while reader.next_sample().unwrap().is_some() {
                    samples += 1;
                }
                samples
            }),
        ),
        (
            "perf.data, windows",
            100,
            Box::new(|| {
                let reader = PerfDataReader::new(stream(&perf_head(), perf_sample));
                windows(
                    PerfWindows::new(reader, PerfWindowOptions::windows_of(Duration::from_millis(10)))
                        .unwrap(),
                )
            }),
        ),
    ];
    for (name, least, read) in cases {
        let mut records = 0;
        let held = peak(|| records = read());
        assert!(records >= least, "{name}: {records} records");
        println!("{name}: {records} records or windows of {LENGTH} bytes, {held} held at most");
        assert!(held > 4096, "{name}: the allocator does not count");
        assert!(held <= MOST, "{name}: {held} bytes of {LENGTH} were held at once");
    }
}
