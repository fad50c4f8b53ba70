//! What threads with a private cache each take from each other: misses, and the lines they are about.

use std::io::{self, Write};

use reuse_sampler::reference::{MesiCaches, MesiMisses};
use reuse_sampler::{CacheLines, LineSize};
use serde::Serialize;

use crate::report::{Table, bytes, percent};

/// Lines that are reported.
const LINES: usize = 10;
/// Rows and columns of the threads on the terminal; the JSON has more.
const THREADS: usize = 16;
const SIZES: usize = 6;

/// Misses of private caches because of other threads' stores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coherence {
    /// Of all threads together, by size.
    pub points: Vec<ByOthers>,
    /// Each thread's cache.
    pub threads: Vec<ThreadCurve>,
    /// The lines with most false sharing.
    pub falsely_shared: Vec<FalselyShared>,
    /// Events of one thread, at most, that were handed out together; `None` where the order of events is the trace's.
    pub stretch: Option<u32>,
}

/// Shares of the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByOthers {
    /// Misses of lines that another thread's store took away.
    pub coherence: f64,
    /// Of them, those for bytes that another thread wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub true_sharing: Option<f64>,
    /// The others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub false_sharing: Option<f64>,
    /// Stores that hit a line in state shared: no misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrades: Option<f64>,
}

/// The private cache of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadCurve {
    pub thread: u32,
    pub accesses: u64,
    pub points: Vec<ThreadPoint>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadPoint {
    pub bytes: u64,
    pub lines: u64,
    pub miss_ratio: f64,
    #[serde(flatten)]
    pub sharing: ByOthers,
}

/// A line whose bytes belong to different threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FalselyShared {
    pub address: u64,
    pub threads: usize,
    /// Misses in the largest caches.
    pub true_sharing: u64,
    pub false_sharing: u64,
    /// The global variable in which the line begins, or the first that it holds.
    pub variable: Option<String>,
    /// An instruction that missed.
    pub missed_by: Option<String>,
    /// An instruction that stored.
    pub stored_by: Option<String>,
    #[serde(skip)]
    pub instructions: [u64; 2],
}

impl Coherence {
    /// What simulated caches did.
    pub fn of(caches: &MesiCaches, line_size: LineSize) -> Self {
        let points = caches.total().iter().map(ByOthers::of).collect();
        let curve = |misses: Vec<MesiMisses>| -> Vec<ThreadPoint> {
            let point = |of: &MesiMisses| ThreadPoint {
                bytes: of.size.bytes(line_size),
                lines: of.size.0,
                miss_ratio: of.miss_ratio(),
                sharing: ByOthers::of(of),
            };
            misses.iter().map(point).collect()
        };
        let threads = caches.by_thread().into_iter().map(|(thread, misses)| ThreadCurve {
            thread: thread.0,
            accesses: misses.first().map_or(0, |misses| misses.accesses),
            points: curve(misses),
        });
        let shared = caches.lines().into_iter().filter(|line| line.false_sharing > 0).take(LINES);
        let falsely_shared = shared.map(|line| FalselyShared {
            address: CacheLines(line.line.0).bytes(line_size),
            threads: line.threads,
            true_sharing: line.true_sharing,
            false_sharing: line.false_sharing,
            variable: None,
            missed_by: None,
            stored_by: None,
            instructions: [line.missed_at, line.stored_at],
        });
        Self { points, threads: threads.collect(), falsely_shared: falsely_shared.collect(), stretch: None }
    }

    /// Adds names of data and code.
    pub fn describe(
        &mut self,
        line_size: LineSize,
        variable: impl Fn(u64) -> Option<String>,
        code: impl Fn(u64) -> Option<String>,
    ) {
        for line in &mut self.falsely_shared {
            let mut words = (0..u64::from(line_size.bytes())).step_by(8);
            line.variable = words.find_map(|word| variable(line.address + word));
            let [missed, stored] = line.instructions;
            (line.missed_by, line.stored_by) = (code(missed), code(stored));
        }
    }
}

impl Coherence {
    /// Each thread's cache, and the lines that are shared falsely.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let sizes = self.threads.first().map_or(0, |thread| thread.points.len());
        // Spread over all sizes.
        let shown: Vec<usize> = (0..SIZES.min(sizes))
            .map(|k| k * (sizes - 1) / SIZES.min(sizes).max(2).saturating_sub(1))
            .collect();
        if self.threads.len() > 1 {
            let mut by_accesses: Vec<&ThreadCurve> = self.threads.iter().collect();
            by_accesses.sort_by_key(|thread| std::cmp::Reverse(thread.accesses));
            by_accesses.truncate(THREADS);
            let mut rows = vec![vec!["thread".to_owned(), "accesses".to_owned()]];
            rows[0].extend(shown.iter().map(|&k| bytes(self.threads[0].points[k].bytes)));
            for thread in by_accesses {
                let mut row = vec![thread.thread.to_string(), thread.accesses.to_string()];
                let ratio = |&k: &usize| {
                    let point = &thread.points[k];
                    format!("{} ({})", percent(point.miss_ratio), percent(point.sharing.coherence))
                };
                row.extend(shown.iter().map(ratio));
                rows.push(row);
            }
            writeln!(out, "\nMiss ratio of each thread's cache (of it, by sharing):")?;
            write!(out, "{}", Table::from(rows).text())?;
        }
        if !self.falsely_shared.is_empty() {
            let header = ["line", "threads", "false", "true", "variable", "missed by", "stored by"];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            for line in &self.falsely_shared {
                let name = |name: &Option<String>| name.clone().unwrap_or_default();
                rows.push(vec![
                    format!("{:#x}", line.address),
                    line.threads.to_string(),
                    line.false_sharing.to_string(),
                    line.true_sharing.to_string(),
                    name(&line.variable),
                    name(&line.missed_by),
                    name(&line.stored_by),
                ]);
            }
            writeln!(out, "\nLines with most misses by false sharing, in the largest caches:")?;
            write!(out, "{}", Table::from(rows).text())?;
        }
        Ok(())
    }
}

impl ByOthers {
    /// What a model says, which sees no bytes.
    pub const fn modelled(coherence: f64) -> Self {
        Self { coherence, true_sharing: None, false_sharing: None, upgrades: None }
    }

    fn of(misses: &MesiMisses) -> Self {
        let ratio = |count: u64| count as f64 / misses.accesses.max(1) as f64;
        Self {
            coherence: ratio(misses.coherence()),
            true_sharing: Some(ratio(misses.true_sharing)),
            false_sharing: Some(ratio(misses.false_sharing)),
            upgrades: Some(ratio(misses.upgrades)),
        }
    }
}
