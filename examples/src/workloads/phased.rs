//! Programs with phases: kernels one after another, recurring, on memory they come back to.
//!
//! The shapes follow the ways in which the papers' benchmarks differ: one phase throughout, two in turn, a few
//! that recur in nested loops, many, and one whose memory behaviour changes while its code does not.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::kernel::Kernel;
use super::stream::EventStream;
use super::tracer::Sink;

/// One phase instance: a kernel, run several times in a row in its own memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// What runs.
    pub kernel: Kernel,
    /// The memory region it runs in: instances of equal region touch the same memory.
    pub region: u16,
    /// How often it runs before the next segment begins.
    pub repeat: u32,
}

/// A program made of kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    segments: Vec<Segment>,
    seed: u64,
}

/// The workloads [`Workload::by_name`] knows, with what they are.
pub const NAMES: &[(&str, &str)] = &[
    ("quicksort", "quicksort of 64 Ki keys (512 KiB)"),
    ("mergesort", "merge sort of 64 Ki keys (1 MiB)"),
    ("hash_join", "hash join of 32 Ki with 128 Ki rows (0.9 MiB indexed)"),
    ("matmul_naive", "128 x 128 matrix product by the definition (384 KiB)"),
    ("matmul_blocked", "the same in 16 x 16 tiles (6 KiB at a time)"),
    ("btree", "B-tree of 48 Ki keys, built and searched (1.2 MiB)"),
    ("bfs", "breadth-first search of a graph of 64 Ki vertices (2.8 MiB)"),
    ("pagerank", "PageRank on a graph of 32 Ki vertices (1.8 MiB)"),
    ("key_value", "key-value store of 32 Ki records, Zipf keys (3 MiB)"),
    ("stream", "STREAM over vectors of 64 Ki doubles (1.5 MiB)"),
    ("pointer_chase", "pointer chase through 8 Ki lines (512 KiB)"),
    ("single", "one phase: PageRank throughout"),
    ("dual", "two phases in turn: blocked matrix product, hash join"),
    ("few", "a few phases: A B A C A B A D ..."),
    ("multi", "eight phases of different lengths in a drawn order"),
    ("same_code", "one loop whose table grows and shrinks between 16 KiB and 4 MiB"),
    (
        "layouts",
        "one loop that sweeps tables in different strides: in order, by columns, by lines, and one small",
    ),
    ("phased", "five phases, two of them often: the default of the phase pipelines"),
];

// The sizes below give each run of a kernel 0.7 to 2.5 M accesses and footprints from 6 KiB to 3 MiB, so that
// every level of a cache hierarchy matters to some of them.
const QUICKSORT: Kernel = Kernel::Quicksort { keys: 64 << 10 };
const MERGESORT: Kernel = Kernel::Mergesort { keys: 64 << 10 };
const HASH_JOIN: Kernel = Kernel::HashJoin { build: 32 << 10, probe: 128 << 10 };
const MATMUL_NAIVE: Kernel = Kernel::MatmulNaive { n: 128 };
const MATMUL_BLOCKED: Kernel = Kernel::MatmulBlocked { n: 96, tile: 16 };
const BTREE: Kernel = Kernel::BTree { keys: 48 << 10, lookups: 24 << 10 };
const BFS: Kernel = Kernel::Bfs { vertices: 64 << 10, degree: 8 };
const PAGERANK: Kernel = Kernel::PageRank { vertices: 32 << 10, degree: 8, iterations: 2 };
const KEY_VALUE: Kernel = Kernel::KeyValue { keys: 32 << 10, requests: 128 << 10, skew_percent: 99 };
const STREAM: Kernel = Kernel::Stream { length: 64 << 10, passes: 2 };
const POINTER_CHASE: Kernel = Kernel::PointerChase { nodes: 8 << 10, hops: 1 << 20 };

const fn gather(length: usize) -> Kernel {
    Kernel::Gather { length, picks: 1 << 20 }
}

impl Workload {
    /// Segments in order. Each run of a kernel draws its data anew with a seed derived from `seed`.
    pub fn new(segments: Vec<Segment>, seed: u64) -> Self {
        Self { segments, seed }
    }

    /// One kernel, run `repeat` times on the same memory.
    pub fn kernel(kernel: Kernel, repeat: u32, seed: u64) -> Self {
        Self::new(vec![Segment { kernel, region: 0, repeat }], seed)
    }

    /// A sequence of kernels by number; those of one number share their memory region.
    fn sequence(kernels: &[Kernel], order: impl IntoIterator<Item = usize>, repeat: u32, seed: u64) -> Self {
        let segments = order
            .into_iter()
            .filter_map(|k| Some(Segment { kernel: *kernels.get(k)?, region: k as u16, repeat }))
            .collect();
        Self::new(segments, seed)
    }

    /// One of [`NAMES`]. `scale` (0 is taken as 1) makes every phase that many times as long, without changing
    /// its working set: at 1, single kernels make 1 to 7 M accesses, compositions 20 to 60 M.
    pub fn by_name(name: &str, seed: u64, scale: u32) -> Option<Self> {
        let scale = scale.max(1);
        let kernel = match name {
            "quicksort" => QUICKSORT,
            "mergesort" => MERGESORT,
            "hash_join" => HASH_JOIN,
            "matmul_naive" => MATMUL_NAIVE,
            "matmul_blocked" => Kernel::MatmulBlocked { n: 128, tile: 16 },
            "btree" => BTREE,
            "bfs" => BFS,
            "pagerank" => PAGERANK,
            "key_value" => KEY_VALUE,
            "stream" => STREAM,
            "pointer_chase" => POINTER_CHASE,
            "single" => return Some(Self::single(seed, scale)),
            "dual" => return Some(Self::dual(seed, scale)),
            "few" => return Some(Self::few(seed, scale)),
            "multi" => return Some(Self::multi(seed, scale)),
            "same_code" => return Some(Self::same_code(seed, scale)),
            "layouts" => return Some(Self::layouts(seed, scale)),
            "phased" => return Some(Self::phased(seed, scale)),
            _ => return None,
        };
        Some(Self::kernel(kernel, scale, seed))
    }

    /// One phase throughout.
    pub fn single(seed: u64, scale: u32) -> Self {
        Self::kernel(PAGERANK, scale.saturating_mul(16), seed)
    }

    /// Two phases in turn, eight times.
    pub fn dual(seed: u64, scale: u32) -> Self {
        Self::sequence(&[MATMUL_BLOCKED, HASH_JOIN], [0, 1].repeat(8), scale, seed)
    }

    /// Four phases, one of which returns between any two others.
    pub fn few(seed: u64, scale: u32) -> Self {
        let kernels = [KEY_VALUE, MERGESORT, POINTER_CHASE, STREAM];
        Self::sequence(&kernels, [0, 1, 0, 2, 0, 1, 0, 3].repeat(2), scale, seed)
    }

    /// Eight phases; which comes next, and for how long, is drawn.
    pub fn multi(seed: u64, scale: u32) -> Self {
        let kernels = [QUICKSORT, HASH_JOIN, MATMUL_BLOCKED, BTREE, BFS, PAGERANK, KEY_VALUE, POINTER_CHASE];
        let mut random = StdRng::seed_from_u64(seed);
        let mut segments: Vec<Segment> = Vec::new();
        // Every phase once, so that none is missing, and then 16 at random.
        for step in 0..kernels.len() + 16 {
            let k = if step < kernels.len() { step } else { random.random_range(0..kernels.len()) };
            let repeat = scale.saturating_mul(random.random_range(1..=2));
            segments.push(Segment { kernel: kernels[k], region: k as u16, repeat });
        }
        Self::new(segments, seed)
    }

    /// Phases that differ in memory only: the same loop over tables of 16 KiB, 256 KiB and 4 MiB.
    pub fn same_code(seed: u64, scale: u32) -> Self {
        let kernels = [gather(2 << 10), gather(32 << 10), gather(512 << 10)];
        Self::sequence(&kernels, [0, 1, 0, 2].repeat(6), scale, seed)
    }

    /// Phases that differ in the order of addresses only: the same loop over a table of 4 MiB element by element, over
    /// one of 4 MiB column by column (of 516 rows) and line by line, and over one of 16 KiB. Misses differ by orders of
    /// magnitude, code not at all.
    pub fn layouts(seed: u64, scale: u32) -> Self {
        let sweep = |length, stride| Kernel::Sweep { length, stride, visits: 1 << 20 };
        let large = (512 << 10) + 1; // odd, so that every stride comes to every element
        let kernels = [sweep(large, 1), sweep(large, 1032), sweep(large, 9), sweep(2 << 10, 1)];
        Self::sequence(&kernels, [0, 1, 0, 2, 0, 3].repeat(4), scale, seed)
    }

    /// Five phases with nested recurrence: A B A C A B A D A B A C A B A E, twice.
    pub fn phased(seed: u64, scale: u32) -> Self {
        let kernels = [MATMUL_BLOCKED, PAGERANK, QUICKSORT, KEY_VALUE, BTREE];
        let order = [0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4].repeat(2);
        Self::sequence(&kernels, order, scale, seed)
    }

    /// The phase instances in order: the truth that a phase detector is held against.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Runs all of it, handing each event to `sink`.
    pub fn run<S: Sink>(&self, sink: &mut S) {
        let mut seeds = StdRng::seed_from_u64(self.seed);
        for segment in &self.segments {
            for _ in 0..segment.repeat {
                segment.kernel.run(sink, segment.region, seeds.random());
            }
        }
    }

    /// The events as a lazy stream. The program runs a few thousand events ahead on a thread of its own.
    ///
    /// # Errors
    /// What the operating system answers if it has no thread to give.
    pub fn events(&self) -> std::io::Result<EventStream> {
        let workload = self.clone();
        EventStream::start(move |sink| workload.run(sink))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use reuse_sampler::replay::Event;

    use super::*;
    use crate::workloads::locate;

    fn events(workload: &Workload) -> Vec<Event> {
        let mut events = Vec::new();
        workload.run(&mut events);
        events
    }

    #[test]
    fn every_name_is_known_and_reaches_its_stated_length() {
        for (name, _) in NAMES {
            let mut accesses = 0_u64;
            let workload = Workload::by_name(name, 1, 1).expect("listed");
            workload.run(&mut |event| accesses += u64::from(matches!(event, Event::Access(_))));
            let range = if workload.segments().len() == 1 && *name != "single" {
                700_000..8_000_000
            } else {
                15_000_000..80_000_000
            };
            assert!(range.contains(&accesses), "{name}: {accesses}");
        }
        assert_eq!(Workload::by_name("nonesuch", 1, 1), None);
    }

    #[test]
    fn the_stream_is_what_running_gives_and_what_the_seed_says() {
        let workload = |seed| {
            let kernels = [Kernel::Quicksort { keys: 3000 }, Kernel::Stream { length: 500, passes: 1 }];
            Workload::sequence(&kernels, [0, 1, 0], 2, seed)
        };
        let all = events(&workload(5));
        assert!(all.len() > 20_000); // several chunks
        assert!(workload(5).events().unwrap().eq(all.iter().copied()));
        assert_ne!(events(&workload(6)), all);
    }

    #[test]
    fn a_phase_that_recurs_touches_the_memory_it_touched_before() {
        let kernels = [Kernel::Stream { length: 100, passes: 1 }, Kernel::Gather { length: 64, picks: 4000 }];
        let lines = |order: &[usize]| -> HashSet<u64> {
            let workload = Workload::sequence(&kernels, order.iter().copied(), 1, 2);
            let address = |event: &Event| match event {
                Event::Access(access) => Some(access.address / 64),
                _ => None,
            };
            events(&workload).iter().filter_map(address).collect()
        };
        assert_eq!(lines(&[0, 1, 0, 1]), lines(&[0, 1]));
        assert!(lines(&[0]).is_disjoint(&lines(&[9, 1]).difference(&lines(&[0])).copied().collect()));
        assert_eq!(lines(&[0, 1]).len(), lines(&[0]).len() + 8); // 64 elements of 8 bytes: 8 lines more
    }

    #[test]
    fn same_code_shows_one_block_whatever_the_memory_does() {
        let mut blocks = BTreeSet::new();
        let mut regions = BTreeSet::new();
        Workload::same_code(1, 1).run(&mut |event| match event {
            Event::Block { address, .. } => drop(blocks.insert(locate(address))),
            Event::Access(access) => drop(regions.insert(access.address >> 36)),
            _ => {}
        });
        assert_eq!(blocks, BTreeSet::from([Some("gather::pick".to_owned())]));
        assert_eq!(regions.len(), 3);
    }
}
