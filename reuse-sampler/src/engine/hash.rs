//! A hash of one multiplication, for maps keyed by addresses and small numbers that nobody attacks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with [`OneMultiplication`].
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<OneMultiplication>>;

/// Multiplies by a constant and folds the well-mixed upper half onto the lower.
#[derive(Clone, Default)]
pub struct OneMultiplication(u64);

impl Hasher for OneMultiplication {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
