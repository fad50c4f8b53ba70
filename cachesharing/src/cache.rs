//! What is shared: a cache of so many bytes, and the memory behind it.

use reuse_sampler::MemoryQueue;

use crate::error::{Error, above_zero};

/// A shared cache and, if it matters, the limit of the memory behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedCache {
    bytes: f64, // > 0
    memory: Option<MemoryLimit>,
    ways: Option<f64>, // >= 1
}

impl SharedCache {
    /// A cache of `bytes` bytes before a memory without limit.
    ///
    /// # Errors
    /// [`Error::Value`] for 0 bytes.
    pub fn new(bytes: u64) -> Result<Self, Error> {
        Ok(Self { bytes: above_zero("a shared cache in bytes", bytes as f64)?, memory: None, ways: None })
    }

    /// The same before a memory of limited bandwidth.
    #[must_use]
    pub const fn with_memory(mut self, limit: MemoryLimit) -> Self {
        self.memory = Some(limit);
        self
    }

    /// The same with `ways` lines in a set; without, any line may lie anywhere.
    ///
    /// In a set, by chance, now more and now fewer lines of others come in before a line is used again, which costs a
    /// program that just fits some of what it holds. Only [`EvictionAge`](crate::EvictionAge) and the search for
    /// [cliffs](crate::Probes::Cliffs) use it.
    ///
    /// # Errors
    /// [`Error::Count`] for 0.
    pub fn with_ways(mut self, ways: u32) -> Result<Self, Error> {
        if ways == 0 {
            return Err(Error::Count { what: "ways", count: 0, remedy: "at least one" });
        }
        self.ways = Some(f64::from(ways));
        Ok(self)
    }

    /// Lines in a set, if there are sets.
    #[must_use]
    pub const fn ways(&self) -> Option<f64> {
        self.ways
    }

    /// Bytes of a way, if there are sets: a line for each.
    pub(crate) fn way(&self) -> Option<f64> {
        self.ways.map(|ways| self.bytes / ways)
    }

    /// Size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> f64 {
        self.bytes
    }

    /// The memory's limit, if it has one.
    #[must_use]
    pub const fn memory(&self) -> Option<MemoryLimit> {
        self.memory
    }

    /// The same with `factor` times the size. Its ways are not those that reuse times were counted in, so that
    /// only curves are used.
    pub(crate) const fn scaled(mut self, factor: f64) -> Self {
        self.bytes *= factor;
        self
    }

    /// The same with `factor` times the size in as many sets.
    pub(crate) fn resized(self, factor: f64) -> Self {
        Self { ways: self.ways.map(|ways| ways * factor), ..self.scaled(factor) }
    }
}

/// Bytes per unit of time that memory delivers, and how programs wait if they ask for more, or at the same time.
///
/// Curves are taken to be measured with the limit: what a program waits for itself is in them.
///
/// # Accuracy
/// See the crate's front page. How long lines wait is less certain than what a cache holds: ranges of
/// [`Slowdown`](crate::Slowdown) are wider by a part of the time that is waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLimit {
    bytes_per_time: f64, // > 0
    waiting: Waiting,
    queue: MemoryQueue,
}

/// How programs wait for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Lines pass one after the other in order of arrival, and each waits for what others have asked for before it,
    /// also where memory could deliver more. A program that fetches nothing is not slowed down.
    #[default]
    PerLine,
    /// All programs are stretched by demand / limit where more is asked for than memory delivers: the paper's formula
    /// (section IV.4.6) with the limit in place of the bandwidth measured in the very co-run that is to be predicted,
    /// c + (demand - limit) * c / limit.
    PerProgram,
}

impl MemoryLimit {
    /// Memory that delivers `bytes_per_time` bytes per unit of time to all programs together, in which lines wait for each
    /// other, and programs for each line.
    ///
    /// # Errors
    /// [`Error::Value`] unless it is finite and above 0.
    pub fn new(bytes_per_time: f64) -> Result<Self, Error> {
        let bytes_per_time = above_zero("a memory bandwidth", bytes_per_time)?;
        Ok(Self { bytes_per_time, waiting: Waiting::PerLine, queue: MemoryQueue::new() })
    }

    /// The same with another rule for who waits.
    #[must_use]
    pub const fn with_waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// The same where lines wait in `queue`: with its latency it is known how many of a program's misses overlap, as those of
    /// a core that executes out of order do, by what a miss costs on the program's curve; with its prefetch backlog, for
    /// which lines programs do not wait.
    ///
    /// # Errors
    /// [`Error::Value`] unless its times are finite and above 0.
    pub fn with_queue(self, queue: MemoryQueue) -> Result<Self, Error> {
        if let Some(time) = queue.unusable() {
            above_zero("a latency or prefetch backlog of memory", time)?;
        }
        Ok(Self { queue, ..self })
    }

    /// How lines pass.
    pub(crate) const fn queue(&self) -> MemoryQueue {
        self.queue
    }

    /// Bytes per unit of time.
    #[must_use]
    pub const fn bytes_per_time(&self) -> f64 {
        self.bytes_per_time
    }

    /// Who waits.
    #[must_use]
    pub const fn waiting(&self) -> Waiting {
        self.waiting
    }
}
