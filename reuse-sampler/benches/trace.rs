//! How fast trace readers deliver records, from memory. Targets: lackey 10 M records a second, din
//! 20 M, oracle-general 100 M, bb 1 M windows a minute.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write;
use std::hint::black_box;
use std::ops::ControlFlow;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use reuse_sampler::replay::EventSource;
use reuse_sampler::trace::{BbWindows, TraceFormat, TraceReader};
use reuse_sampler::{Sampler, WindowPlan};

const RECORDS: u64 = 1_000_000;
const BB_WINDOWS: u64 = 5_000;

/// Addresses with as many digits as those of real programs.
fn addresses() -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    (0..RECORDS).map(move |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        0x1f_fe00_0000 + (state >> 44)
    })
}

fn din() -> Vec<u8> {
    let mut text = String::new();
    for (i, address) in addresses().enumerate() {
        writeln!(text, "{} {address:x}", i % 2).unwrap();
    }
    text.into_bytes()
}

fn oracle_general() -> Vec<u8> {
    addresses().flat_map(|object| [&[1; 4][..], &object.to_le_bytes(), &[1; 12]].concat()).collect()
}

/// All columns that a trace of accesses has.
fn csv() -> Vec<u8> {
    let mut text = "kind,address,bytes,pc,thread\n".to_owned();
    for (i, address) in addresses().enumerate() {
        writeln!(text, "{},{address:#x},8,{:#x},0", ["load", "store"][i % 2], 0x40_0000 + 4 * (i % 50))
            .unwrap();
    }
    text.into_bytes()
}

/// Windows of as many blocks as exp-bbv writes for windows of a million instructions of xz: 200.
fn bb() -> Vec<u8> {
    let mut text = String::new();
    let mut numbers = addresses().map(|address| address % 10_000);
    for _ in 0..BB_WINDOWS {
        text.push('T');
        for block in 1..=200 {
            write!(text, ":{}:{} ", 17 * block, numbers.next().unwrap() + 1).unwrap();
        }
        text.push('\n');
    }
    text.into_bytes()
}

/// Two instructions to one access, a jump every eight instructions.
fn lackey() -> Vec<u8> {
    let mut text = String::new();
    for (i, address) in addresses().enumerate() {
        match i % 3 {
            0 | 1 => writeln!(text, "I  {:08x},4", 0x40_0000 + 4 * (i % 8) + 64 * (i / 8 % 50)).unwrap(),
            _ => writeln!(text, " {} {address:08x},8", ['L', 'S', 'M'][i / 3 % 3]).unwrap(),
        }
    }
    text.into_bytes()
}

fn readers(c: &mut Criterion) {
    let mut group = c.benchmark_group("trace");
    group.sample_size(20).throughput(Throughput::Elements(RECORDS));
    let traces = [
        (TraceFormat::Csv, csv()),
        (TraceFormat::Din, din()),
        (TraceFormat::Lackey, lackey()),
        (TraceFormat::OracleGeneral, oracle_general()),
    ];
    for (format, trace) in traces {
        group.bench_function(format.name(), |b| {
            b.iter(|| {
                let end = TraceReader::new(format, &trace[..]).drive(|event| {
                    black_box(event);
                    ControlFlow::<()>::Continue(())
                });
                assert!(end.unwrap().is_none());
            });
        });
    }
    let windows = bb();
    group.throughput(Throughput::Elements(BB_WINDOWS));
    group.bench_function("bb", |b| {
        b.iter(|| {
            let mut reader = BbWindows::new(&windows[..]);
            while let Some(window) = reader.next_window(&WindowPlan::count_only()).unwrap() {
                black_box(window);
            }
        });
    });
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
