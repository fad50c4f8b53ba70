//! Exact miss counts of LRU caches of all sizes, whole and by window.

use crate::Line;

use super::{LruStack, StackHistogram};

/// LRU caches of all sizes at once, with the misses of each window apart.
///
/// # Cost
/// Some tens of nanoseconds per access; memory for 8 bytes per slot of four times the lines touched, and a
/// histogram as long as the largest stack distance.
///
/// ```
/// use reuse_sampler::reference::ExactLru;
/// use reuse_sampler::{CacheLines, Line};
///
/// let mut lru = ExactLru::new();
/// for i in 0..30 {
///     lru.access(Line(i % 3)); // a cyclic scan over three lines
/// }
/// assert_eq!(lru.total().misses(&[CacheLines(2), CacheLines(3)]), [30, 3]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExactLru {
    stack: LruStack,
    window: StackHistogram,
    before: StackHistogram, // windows already taken
}

impl ExactLru {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Accesses `line`.
    #[inline]
    pub fn access(&mut self, line: Line) {
        let distance = self.stack.access(line);
        self.window.record(distance);
    }

    /// Ends a window: its accesses by stack distance. The stack stays as it is.
    pub fn take_window(&mut self) -> StackHistogram {
        let window = std::mem::take(&mut self.window);
        self.before.merge(&window);
        window
    }

    /// All accesses so far.
    #[must_use]
    pub fn total(&self) -> StackHistogram {
        let mut total = self.before.clone();
        total.merge(&self.window);
        total
    }
}
