//! Files made by hand, whole, wrong and cut short. Files that perf makes are in `tests/perf_data.rs`.

use std::time::Duration;

use quickcheck::quickcheck;

use super::writing::{Event, file, numbers, pipe, record, round, sample};
use super::*;
use crate::{Sampler, ThreadId, Window, WindowPlan};

fn read(bytes: &[u8]) -> Result<Vec<PerfSample>, SamplerError> {
    let mut reader = PerfDataReader::new(bytes);
    let mut samples = Vec::new();
    loop {
        match reader.next_sample() {
            Ok(Some(sample)) => samples.push(sample),
            end => {
                assert!(matches!(reader.next_sample(), Ok(None)));
                return end.map(|_| samples);
            }
        }
    }
}

/// Instruction, thread, time, period.
const PLAIN: u64 = 1 | 2 | 4 | 1 << 8;

fn plain(time: u64, thread: u64, pc: u64, period: u64) -> Vec<u8> {
    sample(&[pc, thread << 32 | 0x4d, time, period])
}

#[test]
fn every_field_is_found_behind_those_before_it() {
    // All fields up to the data source, with a group of two counters, a call chain of three, raw data, two branches,
    // three registers and a stack.
    let mut event = Event::new(0, 1, (1 << 17) - 1);
    event.read_format = 1 | 4 | 8;
    event.branches = 1 << 17;
    event.ids = vec![5];
    let mut other = Event::new(5, 0, 1 << 16 | 1 << 6 | 1 << 3);
    (other.ids, other.breakpoint) = (vec![6, 7], 2);
    let mut body = numbers(&[5, 0x400, 9 << 32 | 0x8, 1234, 0x1ffe8, 5, 1, 0, 1_000]);
    body.extend(numbers(&[2, 10, 100, 5, 200, 6])); // group
    body.extend(numbers(&[3, 1, 2, 3])); // call chain
    body.extend([&12_u32.to_le_bytes()[..], b"hello world!"].concat());
    body.extend(numbers(&[2, 0, 0x410, 0x420, 0, 0x430, 0x440, 0]));
    body.extend(numbers(&[0])); // no registers in this sample
    body.extend(numbers(&[16, 0, 0, 16]));
    body.extend(numbers(&[3, 4])); // weight; a store
    let records = [record(9, 2, &body), sample(&[7, 0x20, 7]), record(2, 0, &numbers(&[5, 40]))].concat();
    let events = [event, other];
    for bytes in [file(&events, &records), pipe(&events, &records)] {
        let mut reader = PerfDataReader::new(&bytes[..]);
        let other = reader.next_sample().unwrap().unwrap();
        let expected = PerfSample {
            time: 0,
            thread: 0,
            pc: 0,
            address: Some(0x20),
            kind: Some(AccessKind::Store),
            period: 1,
            event: 1,
            in_kernel: false,
            branches: vec![],
        };
        assert_eq!(other, expected);
        let first = reader.next_sample().unwrap().unwrap();
        let expected = PerfSample {
            time: 1234,
            thread: 9,
            pc: 0x400,
            address: Some(0x1ffe8),
            kind: Some(AccessKind::Store),
            period: 1_000,
            event: 0,
            in_kernel: false,
            branches: vec![(0x410, 0x420), (0x430, 0x440)],
        };
        assert_eq!(first, expected);
        assert!(reader.next_sample().unwrap().is_none());
        assert_eq!(
            (reader.lost(), reader.events().unwrap()),
            (40, vec!["instructions".into(), "mem".into()])
        );
    }
}

#[test]
fn kernel_samples_and_odd_records_are_distinguished() {
    let records = [
        record(9, 1, &numbers(&[0xffff_ffff_8000_0000, 1 << 32, 10, 1])),
        record(1, 0, b"a mapping, whatever it says"), // MMAP
        record(200, 0, &[]),
        record(71, 0, &numbers(&[20, 0, 0, 0, 0, 0])), // followed by 20 bytes
        vec![0xff; 20],
        record(13, 0, &numbers(&[3])),
        plain(20, 1, 5, 1),
    ]
    .concat();
    let bytes = file(&[Event::new(1, 0, PLAIN)], &records);
    let samples = read(&bytes).unwrap();
    assert_eq!(samples.iter().map(|s| (s.time, s.in_kernel)).collect::<Vec<_>>(), [(10, true), (20, false)]);
    let mut windows =
        PerfWindows::new(PerfDataReader::new(&bytes[..]), PerfWindowOptions::default()).unwrap();
    let window = windows.next_window(&WindowPlan::count_only()).unwrap().unwrap();
    assert_eq!((&window.code[..], windows.lost()), (&[(5, 1)][..], 3));
    let options = PerfWindowOptions::default().with_kernel();
    let mut windows = PerfWindows::new(PerfDataReader::new(&bytes[..]), options).unwrap();
    assert_eq!(windows.next_window(&WindowPlan::count_only()).unwrap().unwrap().code.len(), 2);
}

#[test]
fn files_that_are_not_read_say_why_and_where() {
    let good = file(&[Event::new(1, 0, PLAIN)], &plain(1, 2, 3, 4));
    let changed = |place: usize, value: &[u8]| {
        let mut file = good.clone();
        file[place..place + value.len()].copy_from_slice(value);
        file
    };
    let with = |records: &[u8]| file(&[Event::new(1, 0, PLAIN)], records);
    let several = || {
        let mut events = [Event::new(0, 0, PLAIN | 1 << 16), Event::new(0, 1, PLAIN | 1 << 16)];
        (events[0].ids, events[1].ids) = (vec![1], vec![2]);
        events
    };
    let huge = u64::MAX.to_le_bytes();
    for (bytes, problem) in [
        (b"".to_vec(), "does not begin with PERFILE2"),
        (b"0 7ffe10\n1 10\n".to_vec(), "does not begin with PERFILE2"),
        (changed(0, b"2ELIFREP"), "other byte order"),
        (changed(8, &[8]), "header shorter"),
        (changed(16, &huge), "not between header and records"),
        (changed(16, &[1]), "not between header and records"),
        (changed(24, &huge), "not between header and records"),
        (changed(32, &huge), "not between header and records"),
        (changed(40, &huge), "beyond the end of any file"),
        (changed(40, &(1_u64 << 40).to_le_bytes()), "begin where none can"),
        (changed(40, &[3, 0, 0, 0, 0, 0, 0, 0]), "begin where none can"),
        (changed(40, &(1_u64 << 20).to_le_bytes()), "before its records begin"),
        (changed(48, &(1_u64 << 40).to_le_bytes()), "truncated"),
        (changed(48, &500_u64.to_le_bytes()), "truncated"),
        (changed(108, &[10]), "makes no sense"),
        (changed(108, &[0xff, 0xff]), "makes no sense"),
        (changed(224, &huge), "makes no sense"),
        (good[..50].to_vec(), "truncated"),
        (good[..200].to_vec(), "truncated"),
        (good[..240].to_vec(), "truncated"),
        (file(&[], &plain(1, 2, 3, 4)), "no description of an event"),
        (pipe(&[], &plain(1, 2, 3, 4)), "a sample before any description"),
        (with(&record(9, 2, &[0; 20])), "a sample shorter"),
        (with(&[9, 0, 0, 0, 0, 0, 7, 0]), "a record shorter than its header"),
        (with(&record(81, 0, &[0; 20])), "record without -z"),
        (with(&record(2, 0, &[0; 9])), "without a number"),
        (with(&record(71, 0, &huge)), "trace beside its records"),
        (file(&several(), &sample(&[3, 0, 0, 0, 0])), "not described"),
        (
            file(&[Event::new(1, 0, PLAIN), Event::new(1, 1, PLAIN)], &plain(1, 2, 3, 4)),
            "of which there are several",
        ),
        (file(&[Event::new(0, 0, 1 << 11)], &sample(&[1 << 61, 0, 0, 0])), "a sample shorter"),
        (file(&[Event::new(0, 0, 1 << 5)], &sample(&[u64::MAX, 0])), "a sample shorter"),
    ] {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("perf-data trace, byte ") && error.contains(problem), "{problem}: {error}");
    }
}

quickcheck! {
    fn rounds_put_samples_in_order(rounds: Vec<Vec<(u8, u8)>>) -> bool {
        // In each round every processor's own samples are in order, and none is older than the round before.
        let mut records = Vec::new();
        let mut times = Vec::new();
        for (number, round_of) in rounds.iter().enumerate() {
            let mut by_processor = round_of.clone();
            by_processor.sort_by_key(|&(processor, time)| (processor % 4, time));
            for &(_, time) in &by_processor {
                // Samples may be up to one round late.
                let time = 200 * number as u64 + u64::from(time);
                times.push(time);
                records.extend(plain(time, 1, 2, 3));
            }
            records.extend(round());
        }
        times.sort_unstable();
        let read = read(&file(&[Event::new(1, 0, PLAIN)], &records)).unwrap();
        read.iter().map(|sample| sample.time).eq(times)
    }

    fn no_sample_is_lost_or_counted_twice_in_windows(samples: Vec<(u16, u8, u8, u8)>, length: u16) -> bool {
        let mut samples = samples;
        samples.sort_by_key(|sample| sample.0);
        let records: Vec<u8> = samples
            .iter()
            .flat_map(|&(time, thread, pc, period)| {
                plain(u64::from(time), u64::from(thread % 3), u64::from(pc), u64::from(period) + 1)
            })
            .collect();
        let bytes = file(&[Event::new(0, 1, PLAIN)], &records);
        let length = Duration::from_nanos(u64::from(length) + 1);
        let reader = PerfDataReader::new(&bytes[..]);
        let mut windows = PerfWindows::new(reader, PerfWindowOptions::windows_of(length)).unwrap();
        let mut all: Vec<Window> = Vec::new();
        while let Some(window) = windows.next_window(&WindowPlan::count_only()).unwrap() {
            all.push(window);
        }
        let total: u64 = samples.iter().map(|sample| u64::from(sample.3) + 1).sum();
        let code: u64 = all.iter().flat_map(|window| &window.code).map(|(_, weight)| weight).sum();
        let instructions: u64 = all.iter().map(|window| window.instructions).sum();
        let counted: u64 = all.iter().flat_map(|window| &window.counters).map(|(_, count)| count).sum();
        let mut indices: Vec<u64> = all.iter().map(|window| window.index.0).collect();
        indices.sort_unstable();
        (code, instructions, counted) == (total, total, total)
            && indices.iter().copied().eq(0..all.len() as u64)
            && all.iter().all(|window| !window.code.is_empty() && window.thread < ThreadId(3))
    }
}

#[test]
fn windows_are_of_time_and_of_threads_and_branches_come_before_instructions() {
    let mut records = Vec::new();
    for (time, thread, pc) in [(0, 5, 1), (9, 5, 2), (10, 5, 3), (12, 6, 4), (55, 5, 5)] {
        records.extend(plain(time, thread, pc, 7));
    }
    let bytes = file(&[Event::new(1, 1, PLAIN)], &records);
    let windows = |bytes: &[u8]| {
        let options = PerfWindowOptions::windows_of(Duration::from_nanos(10));
        let mut windows = PerfWindows::new(PerfDataReader::new(bytes), options).unwrap();
        let mut all = Vec::new();
        while let Some(window) = windows.next_window(&WindowPlan::count_only()).unwrap() {
            all.push((window.index.0, window.thread.0, window.code));
        }
        all
    };
    let expected =
        [(0, 0, vec![(1, 7), (2, 7)]), (1, 0, vec![(3, 7)]), (2, 1, vec![(4, 7)]), (3, 0, vec![(5, 7)])];
    assert_eq!(windows(&bytes), expected);
    let branches = sample(&[0x99, 3, 10, 20, 0, 30, 40, 0, 10, 50, 0]);
    let bytes = file(&[Event::new(0, 4, 1 | 1 << 11)], &branches);
    assert_eq!(windows(&bytes), [(0, 0, vec![(10, 2), (30, 1)])]);
    let no_length = PerfWindowOptions::windows_of(Duration::ZERO);
    assert!(PerfWindows::new(PerfDataReader::new(&bytes[..]), no_length).is_err());
}

/// Whatever byte is damaged and wherever the file is cut, reading ends, and with an error that names a place or with
/// samples that are no more than the file had room for.
#[test]
fn damaged_files_never_panic_or_pass_for_longer_ones() {
    let mut events =
        [Event::new(0, 1, PLAIN | 1 << 16 | 1 << 11 | 1 << 4), Event::new(5, 0, PLAIN | 1 << 16 | 8)];
    (events[0].ids, events[1].ids, events[0].read_format) = (vec![3, 4], vec![5], 8);
    let records: Vec<u8> = (0..8)
        .flat_map(|i| match i % 2 {
            0 => sample(&[3, 0x400, 1 << 32, i, 9, 1, 2, 2, 10, 20, 0, 30, 40, 0]),
            _ => [sample(&[5, 0x410, 2 << 32, i, 0x1000, 1]), round()].concat(),
        })
        .collect();
    for whole in [file(&events, &records), pipe(&events, &records)] {
        assert_eq!(read(&whole).unwrap().len(), 8);
        for place in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff, whole[place] ^ 0x80] {
                let mut damaged = whole.clone();
                damaged[place] = value;
                match read(&damaged) {
                    Ok(samples) => assert!(samples.len() <= 8 + whole.len() / 8, "byte {place}"),
                    Err(error) => assert!(error.to_string().contains("byte "), "byte {place}: {error}"),
                }
            }
            let samples = read(&whole[..place]).map_or(0, |samples| samples.len());
            assert!(samples <= 8, "{place} bytes");
        }
    }
}
