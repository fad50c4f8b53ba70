//! A time line of slots that are taken one after the other and freed in any order: how many taken ones follow a slot.
//!
//! Slots are bits of words. Counts per word and, for words that are not recent, a Fenwick tree over them add up the rest
//! in O(log slots).

/// Slots in a word.
pub const BITS: usize = 64;
/// Words at the end that are not in the tree yet: most slots are freed soon.
const RECENT: usize = 32;

/// The time line.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    words: Vec<u64>, // which slots are taken
    counts: Vec<u8>, // slots taken, by word
    tree: Vec<u32>,  // Fenwick tree over the counts of the words below `settled`; index 0 unused
    settled: usize,  // words below this are in the tree
    next: usize,     // first slot that was never taken
    taken: u64,      // slots taken now
}

impl Slots {
    /// Room for so many slots, a multiple of [`BITS`], none of which is taken.
    #[must_use]
    pub fn with_room(slots: usize) -> Self {
        let words = slots / BITS;
        Self { words: vec![0; words], counts: vec![0; words], tree: vec![0; words + 1], ..Self::default() }
    }

    /// Slots, taken or not.
    #[must_use]
    pub fn room(&self) -> usize {
        self.words.len() * BITS
    }

    /// The slot that is taken next.
    #[cfg_attr(not(feature = "reference"), allow(dead_code))]
    #[inline]
    #[must_use]
    pub const fn next(&self) -> usize {
        self.next
    }

    /// Whether there is no room for another one.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.next == self.room()
    }

    /// The slots that are taken, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.next).filter(|&slot| self.holds(slot))
    }

    /// Whether a slot is taken.
    #[inline]
    #[must_use]
    pub fn holds(&self, slot: usize) -> bool {
        self.words[slot / BITS] >> (slot % BITS) & 1 != 0
    }

    /// Takes the next slot, for which there must be room.
    #[inline]
    pub fn take(&mut self) -> usize {
        let slot = self.next;
        let word = slot / BITS;
        if slot % BITS == 0 {
            self.settle(word);
        }
        self.words[word] |= 1 << (slot % BITS);
        self.counts[word] += 1;
        self.taken += 1;
        self.next += 1;
        slot
    }

    /// How many taken slots follow one that was taken once.
    #[inline]
    #[must_use]
    pub fn after(&self, slot: usize) -> u64 {
        let (word, bit) = (slot / BITS, slot % BITS);
        let in_word = u64::from((self.words[word] >> bit >> 1).count_ones());
        if word >= self.settled {
            let last = (self.next - 1) / BITS;
            let recent: u32 = self.counts[word + 1..=last].iter().map(|&count| u32::from(count)).sum();
            return in_word + u64::from(recent);
        }
        let (mut up_to_word, mut at) = (0, word + 1);
        while at > 0 {
            up_to_word += u64::from(self.tree[at]);
            at &= at - 1;
        }
        in_word + self.taken - up_to_word
    }

    /// Frees a slot that is taken.
    #[inline]
    pub fn free(&mut self, slot: usize) {
        let word = slot / BITS;
        self.taken -= 1;
        self.words[word] &= !(1 << (slot % BITS));
        self.counts[word] -= 1;
        if word < self.settled {
            let mut at = word + 1;
            while at < self.tree.len() {
                self.tree[at] -= 1;
                at += at & at.wrapping_neg();
            }
        }
    }

    /// Before word number `begun` is begun: the oldest recent word enters the tree.
    fn settle(&mut self, begun: usize) {
        while self.settled + RECENT < begun {
            let count = u32::from(self.counts[self.settled]);
            self.settled += 1;
            let mut at = self.settled;
            while at < self.tree.len() && count > 0 {
                self.tree[at] += count;
                at += at & at.wrapping_neg();
            }
        }
    }
}
