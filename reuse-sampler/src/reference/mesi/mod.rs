//! Private LRU caches of the threads of a program, kept coherent by MESI, of up to 64 sizes in one pass.
//!
//! An invalidation acts on the LRU stacks: the line leaves a hole (see [`LruStack`]), and caches too small to hold it had
//! evicted it before. What the sizes disagree on besides, whether a copy is shared, is a mask with a bit for each of them.
//! Lines of a single thread, which are nearly all, cost one comparison more than [`ExactLru`](super::ExactLru).

mod line;
mod misses;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use thiserror::Error;

use self::line::{Copy, Lost, SharedLine};
pub use self::misses::{MesiLine, MesiMisses};
use super::{LineIds, LruStack};
use crate::{Access, AccessKind, CacheLines, Line, LineSize, ThreadId};

/// Sizes that cannot be simulated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MesiSizesError {
    /// Too many sizes for one pass, or none.
    #[error("{sizes} cache sizes: give from 1 to 64")]
    Count {
        /// Sizes asked for.
        sizes: usize,
    },
    /// A cache that holds nothing.
    #[error("a cache of 0 lines: give at least 1")]
    Empty,
}

/// A private, fully associative LRU cache for each thread, coherent by MESI; all sizes at once.
///
/// A store takes the line from the caches of all other threads. The next access of a thread that lost its copy so misses
/// at every size. It is a *coherence miss* of the sizes that held the copy until then, a capacity miss of those that had
/// evicted it. A coherence miss is *true sharing* if it touches a byte (for lines of more than 64 bytes, a 64th of the line)
/// that another thread wrote since the copy was lost, else *false sharing*: with a line for each byte it would have hit.
/// That judges the access that misses, not those until the line is lost again, which would count a little more as true
/// sharing. A store to a line that the cache holds in state *shared* is an *upgrade*, not a miss. Evictions are silent: a
/// copy stays shared though the others are gone. A cache fills places that invalidations freed before it evicts. The cache
/// of a thread outlives it.
///
/// ```
/// use reuse_sampler::reference::MesiCaches;
/// use reuse_sampler::{Access, CacheLines, LineSize, ThreadId};
///
/// let mut caches = MesiCaches::new(&[CacheLines(512)], LineSize::B64)?;
/// for _ in 0..100 {
///     caches.access(ThreadId(0), &Access::store(0, 8)); // a counter for each of two threads,
///     caches.access(ThreadId(1), &Access::store(8, 8)); // in one line
/// }
/// let all = caches.total()[0];
/// assert_eq!((all.cold, all.true_sharing, all.false_sharing, all.misses()), (2, 0, 198, 200));
/// # Ok::<(), reuse_sampler::reference::MesiSizesError>(())
/// ```
///
/// # References
/// Papamarcos and Patel, *A Low-Overhead Coherence Solution for Multiprocessors with Private Cache Memories*, ISCA 1984.
/// Torrellas, Lam and Hennessy, *False Sharing and Spatial Locality in Multiprocessor Caches*, IEEE Trans. Computers 43,
/// 1994: true and false sharing by the word that misses.
#[derive(Clone, Debug)]
pub struct MesiCaches {
    sizes: Vec<CacheLines>, // in [1, 64] of them, ascending
    asked: Vec<usize>,      // where each size asked for is in `sizes`
    line_size: LineSize,
    ids: LineIds,
    users: Vec<User>, // by line number
    shared: Vec<SharedLine>,
    caches: Vec<Cache>,
    threads: HashMap<ThreadId, u32>, // index into `caches`
    last: Option<(ThreadId, u32)>,   // the thread found last
}

/// Who touched a line.
#[derive(Clone, Copy, Debug)]
enum User {
    Nobody,
    One(u32),
    /// Index into `shared`.
    Many(u32),
}

/// The caches of one thread.
#[derive(Clone, Debug)]
struct Cache {
    thread: ThreadId,
    stack: LruStack,
    accesses: u64,
    cold: u64,
    // By the number of sizes that are too small to hold the line:
    capacity: Vec<u64>,
    lost: [Vec<u64>; 2],
    upgrades: Vec<u64>, // by size
}

impl MesiCaches {
    /// No caches yet; each thread that turns up gets one of each of `sizes`.
    ///
    /// # Errors
    /// [`MesiSizesError`] unless there are from 1 to 64 sizes, none of them 0.
    pub fn new(sizes: &[CacheLines], line_size: LineSize) -> Result<Self, MesiSizesError> {
        let mut ascending = sizes.to_vec();
        ascending.sort_unstable();
        ascending.dedup();
        match ascending.first() {
            Some(CacheLines(1..)) if ascending.len() <= 64 => {}
            Some(CacheLines(0)) => return Err(MesiSizesError::Empty),
            _ => return Err(MesiSizesError::Count { sizes: ascending.len() }),
        }
        let place = |size: &CacheLines| ascending.partition_point(|other| other < size);
        Ok(Self {
            asked: sizes.iter().map(place).collect(),
            sizes: ascending,
            line_size,
            ids: LineIds::new(),
            users: Vec::new(),
            shared: Vec::new(),
            caches: Vec::new(),
            threads: HashMap::new(),
            last: None,
        })
    }

    /// `thread` accesses memory; one access for each line. Returns how many lines that were.
    #[inline]
    pub fn access(&mut self, thread: ThreadId, access: &Access) -> u64 {
        let (first, last) = self.line_size.span(access);
        let me = match self.last {
            Some((same, me)) if same == thread => me,
            _ => self.find(thread),
        };
        for line in first..=last {
            self.touch(me, Line(line), access);
        }
        last - first + 1
    }

    #[cold]
    fn find(&mut self, thread: ThreadId) -> u32 {
        let sizes = self.sizes.len();
        let caches = &mut self.caches;
        let me = *self.threads.entry(thread).or_insert_with(|| {
            let by_rank = || vec![0; sizes + 1];
            caches.push(Cache {
                thread,
                stack: LruStack::new(),
                accesses: 0,
                cold: 0,
                capacity: by_rank(),
                lost: [by_rank(), by_rank()],
                upgrades: vec![0; sizes],
            });
            (caches.len() - 1) as u32
        });
        self.last = Some((thread, me));
        me
    }

    #[inline]
    fn touch(&mut self, me: u32, line: Line, access: &Access) {
        let (id, first) = self.ids.id(line);
        if first {
            self.users.push(User::Nobody);
        }
        let user = self.users[id as usize];
        match user {
            User::Nobody => self.users[id as usize] = User::One(me),
            User::One(one) if one == me => {}
            _ => return self.touch_shared(me, id, line, access),
        }
        let cache = &mut self.caches[me as usize];
        cache.accesses += 1;
        match cache.stack.access(line) {
            Some(distance) => cache.capacity[rank(&self.sizes, distance.0)] += 1,
            None => cache.cold += 1,
        }
    }

    /// An access of a line that several threads touched.
    fn touch_shared(&mut self, me: u32, id: u32, line: Line, access: &Access) {
        let at = match self.users[id as usize] {
            User::Many(at) => at,
            user => {
                let at = self.shared.len() as u32;
                let before = if let User::One(one) = user { Some(one) } else { None };
                self.shared.push(SharedLine::new(line, before));
                self.users[id as usize] = User::Many(at);
                at
            }
        };
        let (sizes, caches, shared) = (&self.sizes, &mut self.caches, &mut self.shared[at as usize]);
        let bytes = bytes_of(self.line_size, line, access);
        let store = access.kind == AccessKind::Store;

        let cache = &mut caches[me as usize];
        cache.accesses += 1;
        let distance = cache.stack.access(line);
        let all = u64::MAX >> (64 - sizes.len());
        // The sizes that miss, and those of which the copy is in state shared.
        let (missing, mut own) = match (shared.take(me), distance) {
            (Some(Copy::Held { shared }), Some(distance)) => {
                let rank = rank(sizes, distance.0);
                cache.capacity[rank] += 1;
                (below(rank), shared)
            }
            (Some(Copy::Lost(lost)), _) => {
                let is_true = lost.written & bytes != 0;
                cache.lost[usize::from(is_true)][lost.rank] += 1;
                if lost.rank < sizes.len() {
                    shared.missed(is_true, access.pc);
                }
                (all, 0)
            }
            _ => {
                cache.cold += 1;
                (all, 0)
            }
        };
        if store {
            let mut upgraded = own & !missing & all;
            while upgraded != 0 {
                cache.upgrades[upgraded.trailing_zeros() as usize] += 1;
                upgraded &= upgraded - 1;
            }
            for (other, copy) in &mut shared.copies {
                if let Copy::Held { .. } = copy {
                    let distance = caches[*other as usize].stack.invalidate(line);
                    let rank = distance.map_or(sizes.len(), |distance| rank(sizes, distance.0));
                    *copy = Copy::Lost(Lost { rank, written: 0 });
                }
            }
            shared.write(me, bytes, access.pc);
            own = 0;
        } else if missing != 0 {
            // The sizes of which another cache supplies the line.
            let mut supplied = 0;
            for (other, copy) in &mut shared.copies {
                let Copy::Held { shared } = copy else { continue };
                if missing & !(supplied & *shared) == 0 {
                    continue;
                }
                let distance = caches[*other as usize].stack.distance(line);
                let held = all & !below(distance.map_or(64, |distance| rank(sizes, distance.0)));
                supplied |= held;
                *shared |= held & missing;
            }
            own = own & !missing | supplied & missing;
        }
        shared.copies.push((me, Copy::Held { shared: own }));
    }

    /// What the cache of each thread did at each of the sizes, in their order; threads by number.
    #[must_use]
    pub fn by_thread(&self) -> Vec<(ThreadId, Vec<MesiMisses>)> {
        let mut threads: Vec<_> =
            self.caches.iter().map(|cache| (cache.thread, self.misses_of(cache))).collect();
        threads.sort_unstable_by_key(|(thread, _)| *thread);
        threads
    }

    /// The same of all threads together.
    #[must_use]
    pub fn total(&self) -> Vec<MesiMisses> {
        let none = self.asked.iter().map(|&at| MesiMisses::new(self.sizes[at])).collect();
        self.caches.iter().fold(none, |mut total: Vec<MesiMisses>, cache| {
            total.iter_mut().zip(self.misses_of(cache)).for_each(|(sum, misses)| sum.add(&misses));
            total
        })
    }

    /// The lines with coherence misses in the largest caches, those with most false sharing first.
    #[must_use]
    pub fn lines(&self) -> Vec<MesiLine> {
        let lines = self.shared.iter().map(SharedLine::report);
        let mut lines: Vec<_> = lines.filter(|line| line.true_sharing + line.false_sharing > 0).collect();
        lines.sort_unstable_by_key(|line| {
            (std::cmp::Reverse((line.false_sharing, line.true_sharing)), line.line)
        });
        lines
    }

    fn misses_of(&self, cache: &Cache) -> Vec<MesiMisses> {
        let misses = |&at: &usize| {
            let of = |by_rank: &[u64]| {
                let (hit, missed) = by_rank.split_at(at + 1);
                (hit.iter().sum::<u64>(), missed.iter().sum::<u64>())
            };
            let [(false_sharing, not_false), (true_sharing, not_true)] =
                cache.lost.each_ref().map(|lost| of(lost));
            MesiMisses {
                accesses: cache.accesses,
                cold: cache.cold,
                capacity: of(&cache.capacity).1 + not_false + not_true,
                true_sharing,
                false_sharing,
                upgrades: cache.upgrades[at],
                ..MesiMisses::new(self.sizes[at])
            }
        };
        self.asked.iter().map(misses).collect()
    }
}

/// How many of `sizes` are too small for a line with so many places above it.
#[inline]
fn rank(sizes: &[CacheLines], above: u64) -> usize {
    // Most reuses are near.
    if above < sizes[0].0 { 0 } else { sizes.partition_point(|size| size.0 <= above) }
}

/// The mask of the first `rank` sizes.
const fn below(rank: usize) -> u64 {
    if rank >= 64 { u64::MAX } else { (1 << rank) - 1 }
}

/// The bytes of `line` that `access` touches, or 64ths of a longer line.
fn bytes_of(line_size: LineSize, line: Line, access: &Access) -> u64 {
    let start = line.0 << line_size.shift();
    let end = access.address.saturating_add(u64::from(access.bytes.max(1)) - 1);
    let coarse = line_size.shift().saturating_sub(6);
    let first = access.address.saturating_sub(start) >> coarse;
    let last = (end - start).min(u64::from(line_size.bytes()) - 1) >> coarse;
    (u64::MAX >> (63 - (last - first))) << first
}
