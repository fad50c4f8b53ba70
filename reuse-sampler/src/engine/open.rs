//! The samples that are open, in the order in which they were started.

use super::slots::{BITS, Slots};

/// How many of the latest `firsts` are looked at before the others are searched: most samples end soon.
const RECENT: usize = 4;
const FIRST_CAPACITY: usize = 1 << 12;

/// When the samples that are still open were started: how many of them later than the one that ends now.
///
/// Those are the last touches of so many different lines, touched since the line of the one that ends was: where accesses are
/// chosen with probability 1/m, their number times m estimates the *stack distance* without bias. A sampler of one's own
/// records it with [`ReuseProfile::record_overlap`](crate::ReuseProfile::record_overlap), and models correct the stack
/// distances that they expect by it.
///
/// # Cost
/// O(log n) for a sample, most of the time less; up to 64 bytes for each that is open.
///
/// ```
/// use reuse_sampler::OpenStarts;
///
/// let mut open = OpenStarts::default();
/// for access in [3, 8, 9] {
///     open.start(access);
/// }
/// assert_eq!(open.end(3), Some(2)); // 8 and 9
/// assert_eq!(open.end(9), Some(0));
/// assert_eq!(open.end(9), None); // is not open any more
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenStarts {
    starts: Vec<u64>, // of samples open or ended, ascending
    firsts: Vec<u64>, // every BITS-th of them: what a search looks at is near
    slots: Slots,     // of `starts`: which of them are open
}

impl OpenStarts {
    /// A sample is started by access number `at`. Nothing happens unless that is later than all before.
    pub fn start(&mut self, at: u64) {
        if self.starts.last().is_none_or(|&last| last < at) {
            self.push(at);
        }
    }

    /// The same for an access that is later than all before.
    pub(super) fn push(&mut self, at: u64) {
        if self.slots.is_full() {
            self.make_room();
        }
        if self.slots.take() % BITS == 0 {
            self.firsts.push(at);
        }
        self.starts.push(at);
    }

    /// The sample started by access number `at` ends: how many were started after it and are open. `None` if it is not.
    pub fn end(&mut self, at: u64) -> Option<u64> {
        let recent = self.firsts.len().saturating_sub(RECENT);
        let later = self.firsts[recent..].iter().filter(|&&first| first <= at).count();
        let word = match later {
            0 => self.firsts[..recent].partition_point(|&first| first <= at).checked_sub(1)?,
            later => recent + later - 1,
        };
        let end = self.starts.len().min((word + 1) * BITS);
        let bit = self.starts[word * BITS..end].binary_search(&at).ok()?;
        let slot = word * BITS + bit;
        if !self.slots.holds(slot) {
            return None;
        }
        let later = self.slots.after(slot);
        self.slots.free(slot);
        Some(later)
    }

    /// None is open any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the samples that ended, and leaves at least three places for each that is open.
    #[cold]
    fn make_room(&mut self) {
        let open: Vec<u64> = self.slots.iter().map(|slot| self.starts[slot]).collect();
        let room = (4 * open.len()).next_power_of_two().max(FIRST_CAPACITY);
        self.starts.clear();
        self.firsts.clear();
        self.slots = Slots::with_room(room);
        for at in open {
            self.push(at);
        }
    }
}
