//! Samples that are still open, found by their line.
//!
//! Nearly every access touches a line that nobody watches, so the question "is this line watched?" must cost
//! next to nothing: it begins with one byte, the number of watches whose lines share it. There are many more such bytes than
//! watches, so that most are zero; lines that follow each other have bytes that do, so that few cache lines hold those in use.

/// An open sample.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The watched line.
    pub line: u64,
    /// Number of the access that started it.
    pub started_at: u64,
    /// The window it was started in.
    pub window: u64,
    /// Instruction of the access that started it.
    pub pc: u64,
    /// Accesses it stands for.
    pub weight: u64,
    /// Whether the access that started it was a store.
    pub store: bool,
    /// Whether another thread stored to the line: the sample has ended, only the thread's next touch is waited for.
    pub lost: bool,
    next: u32, // next of the bucket or of the free list, NONE at the end
}

const NONE: u32 = u32::MAX;
const MIN_BUCKET_BITS: u32 = 14;
/// Counts per bucket.
const COUNTS: usize = 8;

/// Open samples by line.
#[derive(Clone, Debug)]
pub struct Watches {
    counts: Vec<u8>, // of watches, up to 255, from where on none is taken off; length a power of two
    heads: Vec<u32>, // a watch per bucket, NONE if empty; length a power of two
    slab: Vec<Watch>,
    free: u32,
    open: usize,
    lost: usize, // in addition
}

/// Which lines may be watched: see [`Watches::near`].
#[derive(Clone, Copy, Debug)]
pub struct Near<'a>(&'a [u8]);

impl Near<'_> {
    /// How many watches there may be of `line` or of others that are a large power of two away.
    #[inline]
    #[must_use]
    pub fn count(self, line: u64) -> u8 {
        self.0.get(line as usize & self.0.len().wrapping_sub(1)).copied().unwrap_or(1)
    }
}

impl Default for Watches {
    fn default() -> Self {
        Self::with_bits(MIN_BUCKET_BITS)
    }
}

impl Watches {
    fn with_bits(bits: u32) -> Self {
        Self {
            counts: vec![0; COUNTS << bits],
            heads: vec![NONE; 1 << bits],
            slab: Vec::new(),
            free: NONE,
            open: 0,
            lost: 0,
        }
    }

    /// Lines that are a power of two apart, as the rows of many matrices are, do not all share a bucket.
    #[inline]
    fn bucket(&self, line: u64) -> usize {
        (line ^ line >> 15) as usize & (self.heads.len() - 1)
    }

    #[inline]
    fn count(&mut self, line: u64) -> &mut u8 {
        let place = line as usize & (self.counts.len() - 1);
        &mut self.counts[place]
    }

    /// Which lines may be watched: cheaper to ask of many lines.
    #[inline]
    #[must_use]
    pub fn near(&self) -> Near<'_> {
        Near(&self.counts)
    }

    /// Whether `line` is watched.
    #[inline]
    #[must_use]
    pub fn holds(&self, line: u64) -> bool {
        self.near().count(line) != 0 && self.slot(line).is_some()
    }

    /// Where the watch of `line` is, if there is one.
    fn slot(&self, line: u64) -> Option<usize> {
        let mut slot = self.heads[self.bucket(line)];
        while slot != NONE {
            let watch = &self.slab[slot as usize];
            if watch.line == line {
                return Some(slot as usize);
            }
            slot = watch.next;
        }
        None
    }

    /// Number of open samples.
    #[must_use]
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Watches `line`, which must not be watched yet.
    pub fn insert(&mut self, line: u64, started_at: u64, window: u64, weight: u64, site: (u64, bool)) {
        // At most one bucket in eight is in use, and one count in 64.
        if self.open + self.lost >= self.heads.len() / 8 {
            self.grow();
        }
        let (pc, store) = site;
        self.add(Watch { line, started_at, window, pc, weight, store, lost: false, next: NONE });
    }

    fn add(&mut self, watch: Watch) {
        let bucket = self.bucket(watch.line);
        let watch = Watch { next: self.heads[bucket], ..watch };
        let slot = if self.free == NONE {
            self.slab.push(watch);
            (self.slab.len() - 1) as u32
        } else {
            let slot = self.free;
            self.free = self.slab[slot as usize].next;
            self.slab[slot as usize] = watch;
            slot
        };
        self.heads[bucket] = slot;
        let count = self.count(watch.line);
        *count = count.saturating_add(1);
        *(if watch.lost { &mut self.lost } else { &mut self.open }) += 1;
    }

    /// Ends the sample of `line`, if one is open, because another thread stored to it. The touch after that is watched for.
    pub fn lose(&mut self, line: u64) -> Option<Watch> {
        let slot = self.slot(line)?;
        let watch = &mut self.slab[slot];
        if std::mem::replace(&mut watch.lost, true) {
            return None;
        }
        (self.open, self.lost) = (self.open - 1, self.lost + 1);
        Some(*watch)
    }

    /// Ends the watch of `line`, if there is one.
    pub fn remove(&mut self, line: u64) -> Option<Watch> {
        let bucket = self.bucket(line);
        let mut slot = self.heads[bucket];
        let mut before = NONE;
        while slot != NONE {
            let watch = self.slab[slot as usize];
            if watch.line == line {
                if before == NONE {
                    self.heads[bucket] = watch.next;
                } else {
                    self.slab[before as usize].next = watch.next;
                }
                let count = self.count(line);
                *count -= u8::from(*count < u8::MAX);
                self.slab[slot as usize].next = self.free;
                self.free = slot;
                *(if watch.lost { &mut self.lost } else { &mut self.open }) -= 1;
                return Some(watch);
            }
            before = slot;
            slot = watch.next;
        }
        None
    }

    /// Ends all watches, in the order in which they were started: those of open samples, then those of others.
    pub fn drain(&mut self) -> [Vec<Watch>; 2] {
        if self.open + self.lost == 0 {
            return [Vec::new(), Vec::new()];
        }
        let mut all = Vec::with_capacity(self.open + self.lost);
        for &head in &self.heads {
            let mut slot = head;
            while slot != NONE {
                all.push(self.slab[slot as usize]);
                slot = self.slab[slot as usize].next;
            }
        }
        all.sort_unstable_by_key(|watch| (watch.lost, watch.started_at));
        let lost = all.split_off(self.open);
        *self = Self::default();
        [all, lost]
    }

    #[cold]
    fn grow(&mut self) {
        let bits = self.heads.len().ilog2() + 1;
        let watches = self.drain();
        *self = Self::with_bits(bits);
        for watch in watches.into_iter().flatten() {
            self.add(watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn agrees_with_a_map(steps: Vec<(u16, u8)>, spread: u8) -> bool {
            // Repeated to force growth; lines spread over buckets or crowded into few.
            let mut watches = Watches::default();
            let mut map = BTreeMap::new(); // line: start, and whether it was lost
            let mut at = 0_u64;
            for round in 0..40_u64 {
                for &(line, action) in &steps {
                    let line = (u64::from(line) + round * 977) << (spread % 48);
                    at += 1;
                    let start = |watch: Watch| watch.started_at;
                    match action % 4 {
                        0 | 1 => {
                            map.entry(line).or_insert_with(|| {
                                watches.insert(line, at, round, 1, (at, action % 2 == 0));
                                (at, false)
                            });
                        }
                        2 => {
                            let open = map.get_mut(&line).filter(|(_, lost)| !*lost);
                            let expected = open.map(|(start, lost)| (*start, *lost = true).0);
                            if watches.lose(line).map(start) != expected {
                                return false;
                            }
                        }
                        _ => {
                            let found = watches.remove(line).map(|watch| (watch.started_at, watch.lost));
                            if found != map.remove(&line) {
                                return false;
                            }
                        }
                    }
                }
            }
            let beside = |&line: &u64| [line, line ^ 1 << 47, line ^ 1];
            let all_found = map.keys().flat_map(beside).all(|line| watches.holds(line) == map.contains_key(&line));
            let expected = [false, true].map(|lost| {
                let mut starts: Vec<u64> = map.values().filter(|of| of.1 == lost).map(|of| of.0).collect();
                starts.sort_unstable();
                starts
            });
            let count = watches.open();
            let drained = watches.drain().map(|all| all.iter().map(|w| w.started_at).collect::<Vec<_>>());
            all_found && count == expected[0].len() && drained == expected && watches.open() == 0
        }
    }
}
