//! The embedded programs, and which of them are worth predicting: as the paper chooses from SPEC, those whose
//! miss ratio rises most when they lose half of the cache, and some that do not care.

use reuse_sampler::CacheLines;
use reuse_sampler::CacheModel;
use reuse_sampler::LineSize;
use reuse_sampler::replay::Event;
use statstack::StatStack;

use super::distances::{Distances, Pass};
use crate::cli::Failure;
use crate::machines::chip::Recorder;
use crate::machines::testbed::programs::Recorded;
use crate::parallel::on_each;
use crate::workloads::{Kernel, Workload};

/// Programs chosen for the rise of their miss ratio.
pub const SENSITIVE: usize = 7;
/// Programs chosen for the want of it.
pub const INSENSITIVE: usize = 3;
/// Accesses that decide: several runs of most kernels.
const TRIAL: u64 = 10_000_000;

/// A program to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its name, with what its data takes.
    pub name: &'static str,
    kernel: Kernel,
}

/// A candidate with the miss ratios that decide, by StatStack.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The program.
    pub candidate: Candidate,
    /// Misses per access with the whole cache.
    pub whole: f64,
    /// And with half of it.
    pub half: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

const fn candidate(name: &'static str, kernel: Kernel) -> Candidate {
    Candidate { name, kernel }
}

const KI: usize = 1024;

/// Every embedded algorithm in two sizes, below and above 2 MiB; micro-benchmarks left out, as SPEC has none.
pub const CANDIDATES: [Candidate; 18] = [
    candidate("quicksort 0.8M", Kernel::Quicksort { keys: 96 * KI }),
    candidate("quicksort 3M", Kernel::Quicksort { keys: 400 * KI }),
    candidate("mergesort 1.7M", Kernel::Mergesort { keys: 110 * KI }),
    candidate("mergesort 5M", Kernel::Mergesort { keys: 300 * KI }),
    candidate("hash_join 1M", Kernel::HashJoin { build: 40 * KI, probe: 300 * KI }),
    candidate("hash_join 2.5M", Kernel::HashJoin { build: 90 * KI, probe: 400 * KI }),
    candidate("matmul 0.7M", Kernel::MatmulNaive { n: 180 }),
    candidate("matmul 2M", Kernel::MatmulNaive { n: 300 }),
    candidate("matmul_tiled 1M", Kernel::MatmulBlocked { n: 220, tile: 20 }),
    candidate("matmul_tiled 3.7M", Kernel::MatmulBlocked { n: 400, tile: 32 }),
    candidate("btree 2M", Kernel::BTree { keys: 80 * KI, lookups: 200 * KI }),
    candidate("btree 5M", Kernel::BTree { keys: 200 * KI, lookups: 400 * KI }),
    candidate("bfs 1.7M", Kernel::Bfs { vertices: 40 * KI, degree: 8 }),
    candidate("bfs 5M", Kernel::Bfs { vertices: 120 * KI, degree: 8 }),
    candidate("pagerank 1.9M", Kernel::PageRank { vertices: 34 * KI, degree: 8, iterations: 4 }),
    candidate("pagerank 5.5M", Kernel::PageRank { vertices: 100 * KI, degree: 8, iterations: 4 }),
    candidate("key_value 4M", Kernel::KeyValue { keys: 40 << 10, requests: 300 * KI, skew_percent: 99 }),
    candidate("key_value 20M", Kernel::KeyValue { keys: 200 << 10, requests: 400 * KI, skew_percent: 99 }),
];

impl Candidate {
    /// Runs it again and again on the same memory, each time with data of its own, until it has made `accesses`
    /// accesses.
    ///
    /// # Errors
    /// [`Failure::Run`] if it makes none.
    pub fn record(&self, accesses: u64, line_size: LineSize, seed: u64) -> Result<Recorded, Failure> {
        let mut recorder = Recorder::new(line_size);
        let mut instructions = 0_u64;
        let mut run = seed;
        loop {
            let before = recorder.references();
            Workload::kernel(self.kernel, 1, run).run(&mut |event| {
                if recorder.references() < accesses {
                    match event {
                        Event::Access(access) => recorder.access(&access),
                        Event::Block { instructions: more, .. } => instructions += u64::from(more),
                        _ => {}
                    }
                }
            });
            if recorder.references() >= accesses || recorder.references() == before {
                break;
            }
            run = run.wrapping_add(1);
        }
        let recording = recorder.finish()?;
        let mix = recording.references() as f64 / instructions.max(1) as f64;
        Ok(Recorded::new(self.name.to_owned(), recording, mix)?)
    }
}

/// Ranks all candidates by how much their miss ratio rises from a cache of `size` to half of it, and marks the
/// [`SENSITIVE`] first and the [`INSENSITIVE`] last.
///
/// # Errors
/// [`Failure::Run`] if one cannot be recorded.
pub fn choose(
    size: CacheLines,
    accesses: u64,
    line_size: LineSize,
    seed: u64,
) -> Result<Vec<Choice>, Failure> {
    let mut choices = on_each(&CANDIDATES, &|| false, |&candidate| {
        let recorded = candidate.record(accesses.min(TRIAL), line_size, seed)?;
        let distances = Distances::of(&recorded.recording, None);
        let profiles = distances.profiles(distances.references(), Pass::First);
        let profile = profiles.first().ok_or_else(|| Failure::run("a program without accesses"))?;
        let model = StatStack::fit(&profile.uses)?;
        let (whole, half) = (model.miss_ratio(size), model.miss_ratio(CacheLines(size.0 / 2)));
        Ok(Choice { candidate, whole, half, chosen: false })
    })?;
    choices.sort_by(|a, b| (b.half - b.whole).total_cmp(&(a.half - a.whole)));
    let count = choices.len();
    for (rank, choice) in choices.iter_mut().enumerate() {
        choice.chosen = rank < SENSITIVE || rank + INSENSITIVE >= count;
    }
    Ok(choices)
}
