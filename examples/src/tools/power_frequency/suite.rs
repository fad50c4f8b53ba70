//! The programs that models are fitted on and judged by.

use crate::workloads::{Kernel, Segment, Workload};

/// Programs of one phase each, from computing to waiting: to fit a power model on.
pub fn training(seed: u64) -> Vec<(String, Workload)> {
    let kernels = [
        Kernel::Quicksort { keys: 8 << 10 },
        Kernel::Quicksort { keys: 256 << 10 },
        Kernel::Mergesort { keys: 4 << 10 },
        Kernel::Mergesort { keys: 256 << 10 },
        Kernel::HashJoin { build: 2 << 10, probe: 64 << 10 },
        Kernel::HashJoin { build: 96 << 10, probe: 192 << 10 },
        Kernel::MatmulNaive { n: 64 },
        Kernel::MatmulNaive { n: 160 },
        Kernel::MatmulBlocked { n: 64, tile: 8 },
        Kernel::MatmulBlocked { n: 128, tile: 32 },
        Kernel::BTree { keys: 4 << 10, lookups: 16 << 10 },
        Kernel::BTree { keys: 64 << 10, lookups: 64 << 10 },
        Kernel::Bfs { vertices: 4 << 10, degree: 16 },
        Kernel::Bfs { vertices: 96 << 10, degree: 6 },
        Kernel::PageRank { vertices: 8 << 10, degree: 6, iterations: 4 },
        Kernel::PageRank { vertices: 96 << 10, degree: 8, iterations: 1 },
        Kernel::KeyValue { keys: 2 << 10, requests: 64 << 10, skew_percent: 80 },
        Kernel::KeyValue { keys: 96 << 10, requests: 64 << 10, skew_percent: 60 },
        Kernel::Stream { length: 1 << 10, passes: 64 },
        Kernel::Stream { length: 192 << 10, passes: 1 },
        Kernel::PointerChase { nodes: 2 << 10, hops: 256 << 10 },
        Kernel::PointerChase { nodes: 96 << 10, hops: 256 << 10 },
        Kernel::Gather { length: 8 << 10, picks: 256 << 10 },
        Kernel::Gather { length: 1 << 20, picks: 256 << 10 },
    ];
    kernels
        .into_iter()
        .enumerate()
        .map(|(i, kernel)| {
            (format!("{} {i}", kernel.name()), Workload::kernel(kernel, 64, seed.wrapping_add(i as u64)))
        })
        .collect()
}

/// Programs with phases, from computing to waiting, none of which the training set has in the same sizes: to
/// judge predictions by; each kernel is run `scale` times at a time.
pub fn evaluation(seed: u64, scale: u32) -> Vec<(&'static str, Workload)> {
    let quicksort = Kernel::Quicksort { keys: 10 << 10 };
    let mergesort = Kernel::Mergesort { keys: 12 << 10 };
    let small_join = Kernel::HashJoin { build: 8 << 10, probe: 24 << 10 };
    let join = Kernel::HashJoin { build: 64 << 10, probe: 16 << 10 };
    let naive = Kernel::MatmulNaive { n: 40 };
    let blocked = Kernel::MatmulBlocked { n: 48, tile: 16 };
    let tree = Kernel::BTree { keys: 6 << 10, lookups: 6 << 10 };
    let search = Kernel::Bfs { vertices: 48 << 10, degree: 4 };
    let rank = Kernel::PageRank { vertices: 40 << 10, degree: 3, iterations: 1 };
    let store = Kernel::KeyValue { keys: 48 << 10, requests: 24 << 10, skew_percent: 80 };
    let stream = Kernel::Stream { length: 96 << 10, passes: 1 };
    let chase = Kernel::PointerChase { nodes: 256 << 10, hops: 192 << 10 };
    let gather = |length| Kernel::Gather { length, picks: 64 << 10 };
    let sequence = |kernels: &[Kernel], order: &[usize]| {
        let segment = |&k: &usize| Segment { kernel: kernels[k], region: k as u16, repeat: scale };
        Workload::new(order.iter().map(segment).collect(), seed)
    };
    vec![
        ("compute", sequence(&[blocked, naive], &[1, 0, 1, 1, 0, 1, 0, 1, 1, 0])),
        ("sorting", sequence(&[quicksort, mergesort], &[0, 1, 0, 0, 1, 0, 1, 0])),
        ("database", sequence(&[small_join, join, tree, store], &[0, 3, 2, 0, 3, 1, 3, 0, 1, 3, 0, 3])),
        ("graph", sequence(&[search, rank], &[1, 0, 1, 1, 0, 1])),
        ("streaming", sequence(&[stream, blocked], &[1, 0, 1, 0, 1, 0, 1])),
        ("memory", sequence(&[chase, gather(4 << 20)], &[0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1])),
        (
            "same code",
            sequence(
                &[gather(2 << 10), gather(128 << 10), gather(2 << 20)],
                &[0, 1, 2, 0, 2, 1, 0, 1, 2, 1, 0],
            ),
        ),
        (
            "mixed",
            sequence(
                &[blocked, chase, quicksort, stream, rank, store],
                &[0, 1, 0, 2, 5, 0, 4, 1, 0, 5, 2, 0, 3, 1, 5],
            ),
        ),
    ]
}
