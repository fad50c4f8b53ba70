//! Embedded programs with the phase behaviours of the paper's benchmarks (section IV.4.2), made of real kernels whose
//! data is in proportion to the shared cache.
//!
//! Lengths differ by a factor of up to four, so that some targets see all of an interferer and some only part of it.

use reuse_sampler::LineSize;

use crate::cli::Failure;
use crate::machines::testbed::programs::Recorded;
use crate::workloads::{Kernel, Segment, Workload};

/// The programs: name, what it is, whether it interferes in an evaluation.
pub(super) const NAMES: [(&str, &str, bool); 6] = [
    ("store", "one phase: a key-value store", true),
    ("solver", "two phases of like length: blocked matrix products, then vectors beyond any cache", true),
    ("paths", "a few phases: A B C A", true),
    ("mixed", "many short phases that come back in a drawn order", true),
    ("sorter", "two sorts in turn, many times", false),
    ("joiner", "a hash join, then searches", false),
];

/// Kernels that do the same throughout: single windows.
pub(super) const STEADY: [(&str, &str); 10] = [
    ("store", "a key-value store, a little larger than the cache, with few popular keys"),
    ("vectors", "vectors beyond any cache"),
    ("table", "random reads of two thirds of the cache"),
    ("heap", "random reads of three times the cache"),
    ("chase", "a cycle through half of the cache"),
    ("scan", "a walk through nine tenths of the cache, in order"),
    ("products", "blocked matrix products: a third of the cache, a small part at a time"),
    ("ranks", "PageRank on a graph that fills half of the cache"),
    ("join", "a hash join: half of the cache, and rows streamed through it"),
    ("tree", "searches of a B-tree of half the cache"),
];

/// The target and the interferer of a run that names no program.
pub(super) const DEFAULT: [&str; 2] = ["paths", "solver"];

/// The program of that name, for a shared cache of `bytes`.
pub(super) fn program(name: &str, bytes: u64, line_size: LineSize, seed: u64) -> Result<Recorded, Failure> {
    let segments = segments(name, bytes).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
        Failure::Usage(format!("no embedded program {name:?}: there are {}", names.join(", ")))
    })?;
    Ok(Recorded::workload(name, &Workload::new(segments, seed), line_size)?)
}

/// The steady program of that name, for a shared cache of `bytes`.
pub(super) fn steady(name: &str, bytes: u64, line_size: LineSize, seed: u64) -> Result<Recorded, Failure> {
    let items = |each: u64| (bytes / each).max(16) as usize;
    // Small caches settle soon: enough accesses for chance to even out.
    let visits = items(1).max(1 << 16);
    let (kernel, repeat) = match name {
        "store" => (Kernel::KeyValue { keys: bytes / 80, requests: visits / 4, skew_percent: 99 }, 1),
        "vectors" => (Kernel::Stream { length: items(6), passes: 2 }, 1),
        "table" => (Kernel::Gather { length: items(12), picks: visits }, 1),
        "heap" => (Kernel::Gather { length: 3 * items(8), picks: visits }, 1),
        "chase" => (Kernel::PointerChase { nodes: items(128), hops: visits }, 1),
        "scan" => (Kernel::Sweep { length: 9 * items(80), stride: 8, visits }, 1),
        "products" => (Kernel::MatmulBlocked { n: ((bytes / 72) as f64).sqrt() as usize, tile: 8 }, 2),
        "ranks" => (Kernel::PageRank { vertices: items(112), degree: 8, iterations: 8 }, 1),
        "join" => (Kernel::HashJoin { build: items(56), probe: visits / 8 }, 1),
        _ => (Kernel::BTree { keys: items(50), lookups: visits / 8 }, 1),
    };
    Ok(Recorded::workload(name, &Workload::kernel(kernel, repeat, seed), line_size)?)
}

/// Kernels whose working sets lie between a small part and several times a cache of `bytes`.
fn segments(name: &str, bytes: u64) -> Option<Vec<Segment>> {
    let items = |each: u64| (bytes / each).max(16) as usize;
    let side = ((bytes / 80) as f64).sqrt() as usize;
    let store = Kernel::KeyValue { keys: bytes / 100, requests: items(4), skew_percent: 99 };
    let products = Kernel::MatmulBlocked { n: side, tile: 8 };
    let vectors = Kernel::Stream { length: items(6), passes: 1 };
    let search = Kernel::Bfs { vertices: items(80), degree: 8 };
    let gather = Kernel::Gather { length: items(12), picks: items(2) };
    let ranks = Kernel::PageRank { vertices: items(120), degree: 8, iterations: 3 };
    let sort = Kernel::Quicksort { keys: items(16) };
    let merge = Kernel::Mergesort { keys: items(48) };
    let join = Kernel::HashJoin { build: items(56), probe: items(7) };
    let tree = Kernel::BTree { keys: items(80), lookups: items(20) };
    // Kernels of one number share their memory.
    let sequence = |parts: &[(u16, Kernel, u32)]| {
        parts.iter().map(|&(region, kernel, repeat)| Segment { kernel, region, repeat }).collect()
    };
    Some(match name {
        "store" => sequence(&[(0, store, 6)]),
        "solver" => sequence(&[(0, products, 8), (1, vectors, 6)]),
        "paths" => sequence(&[(0, search, 4), (1, gather, 6), (2, products, 3), (0, search, 4)]),
        "mixed" => sequence(&[
            (0, ranks, 2),
            (1, gather, 2),
            (2, sort, 1),
            (0, ranks, 2),
            (3, vectors, 1),
            (1, gather, 2),
            (0, ranks, 2),
            (2, sort, 1),
            (1, gather, 3),
            (3, vectors, 1),
            (2, sort, 1),
            (0, ranks, 2),
        ]),
        "sorter" => sequence(&[(0, sort, 1), (1, merge, 2)].repeat(3)),
        "joiner" => sequence(&[(0, join, 3), (1, tree, 2)]),
        _ => return None,
    })
}
