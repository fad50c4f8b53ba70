//! Where the program goes next, guessed from where it has been.
//!
//! Two tables remember which block followed: one by the last block, one by the last eight. The longer history
//! is believed where it has been right before. A loop that runs equally often every time is learned, a
//! comparison of random keys is not: mispredictions come out of the program itself.

const ENTRIES: usize = 1 << 12;
const HISTORY: usize = 8;

#[derive(Clone, Copy, Default)]
struct Entry {
    next: u64,
    trust: u8, // 0..=3
}

pub(super) struct NextBlock {
    short: Vec<Entry>,
    long: Vec<Entry>,
    last: [u64; HISTORY], // newest first
}

impl NextBlock {
    pub(super) fn new() -> Self {
        Self {
            short: vec![Entry::default(); ENTRIES],
            long: vec![Entry::default(); ENTRIES],
            last: [0; HISTORY],
        }
    }

    /// The program enters `block`. Returns whether that was expected, and learns.
    pub(super) fn enter(&mut self, block: u64) -> bool {
        let whole = self
            .last
            .iter()
            .fold(0_u64, |hash, &b| hash.rotate_left(7).wrapping_add(b).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let long = (whole >> 52) as usize % ENTRIES;
        let short = (self.last[0] >> 8) as usize % ENTRIES;
        let guess = if self.long[long].trust > 0 { self.long[long].next } else { self.short[short].next };
        learn(&mut self.long[long], block);
        learn(&mut self.short[short], block);
        self.last.copy_within(0..HISTORY - 1, 1);
        self.last[0] = block;
        guess == block
    }
}

fn learn(entry: &mut Entry, block: u64) {
    if entry.next == block {
        entry.trust = (entry.trust + 1).min(3);
    } else if entry.trust > 0 {
        entry.trust -= 1;
    } else {
        entry.next = block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(blocks: impl Iterator<Item = u64>) -> f64 {
        let mut predictor = NextBlock::new();
        let outcomes: Vec<bool> = blocks.map(|block| predictor.enter(block)).collect();
        let learned = &outcomes[outcomes.len() / 2..];
        learned.iter().filter(|right| !**right).count() as f64 / learned.len() as f64
    }

    #[test]
    fn regular_loops_are_learned_and_coins_are_not() {
        // Five rounds of one block, then another, over and over.
        assert_eq!(wrong((0..6000).map(|i| if i % 6 == 5 { 0x200 } else { 0x100 })), 0.0);
        // A fair coin: right half of the time at best; every second block is certain.
        let mut state = 1_u64;
        let coin = (0..20_000).map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if i % 2 == 0 { 0x100 } else { 0x200 + (state >> 63) * 0x100 }
        });
        let wrong = wrong(coin);
        assert!((0.2..0.3).contains(&wrong), "{wrong}");
    }
}
