//! Which of a row of equal time slots are taken.
//!
//! Instructions are gone through in program order, but what they do happens in another. A bit per slot lets a
//! later instruction take an earlier slot that is still free.

/// Slots with numbers of their own: further ahead than any instruction of a reorder buffer reaches.
const SLOTS: u64 = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct Slots {
    words: Vec<u64>,
    begin: u64, // slots before are past and cleared, multiple of 64
    taken: u64,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { words: vec![0; (SLOTS / 64) as usize], begin: 0, taken: 0 }
    }

    /// Nothing before `slot` will be asked for any more.
    #[inline]
    pub(super) fn advance(&mut self, slot: u64) {
        let end = slot & !63;
        if end <= self.begin {
            return;
        }
        if end - self.begin >= SLOTS {
            self.words.fill(0);
        } else {
            for at in (self.begin..end).step_by(64) {
                self.words[(at / 64 % (SLOTS / 64)) as usize] = 0;
            }
        }
        self.begin = end;
    }

    /// Takes `slot`, which may have been taken before.
    #[inline]
    pub(super) fn take(&mut self, slot: u64) {
        let slot = self.inside(slot);
        let word = &mut self.words[(slot / 64 % (SLOTS / 64)) as usize];
        let bit = 1 << (slot % 64);
        self.taken += u64::from(*word & bit == 0);
        *word |= bit;
    }

    /// Takes the first free slot from `slot` on.
    #[inline]
    pub(super) fn take_free(&mut self, slot: u64) -> u64 {
        let mut slot = self.inside(slot);
        loop {
            let word = self.words[(slot / 64 % (SLOTS / 64)) as usize] >> (slot % 64);
            let skip = u64::from((!word).trailing_zeros());
            if slot % 64 + skip < 64 {
                slot += skip;
                self.take(slot);
                return slot;
            }
            slot = (slot & !63) + 64;
        }
    }

    /// How many have been taken, ever.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    fn inside(&self, slot: u64) -> u64 {
        slot.clamp(self.begin, self.begin + SLOTS - 65)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn slots_are_a_set_that_forgets_the_past() {
        let mut slots = Slots::new();
        let mut expected = BTreeSet::new();
        let (mut state, mut now) = (1_u64, 0);
        for _ in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let ahead = now + (state >> 33) % 300;
            if state >> 63 == 0 {
                slots.take(ahead);
                expected.insert(ahead);
            } else {
                let free = (ahead..ahead + SLOTS).find(|slot| !expected.contains(slot)).unwrap();
                assert_eq!(slots.take_free(ahead), free);
                expected.insert(free);
            }
            now += (state >> 20) % 3;
            slots.advance(now);
            // Slots in the word of the present are still there.
            assert_eq!(slots.taken(), expected.len() as u64);
        }
    }

    #[test]
    fn a_long_pause_clears_everything() {
        let mut slots = Slots::new();
        slots.take(5);
        slots.advance(10 * SLOTS + 3);
        assert_eq!(slots.take_free(10 * SLOTS + 5), 10 * SLOTS + 5);
    }
}
