//! Lines numbered in the order of first touch, so that what is kept per line can be kept in arrays.

use crate::Line;

const LINES: usize = 64;
const LINE_BITS: u32 = 6;
const NONE: u32 = u32::MAX;
const FREE: u64 = u64::MAX;

/// Gives every line a number: 0, 1, 2, ... in the order of first touch.
///
/// Lines are kept in pages of 64 in an open-addressing table: programs touch neighbours, and the page found
/// last is tried first.
#[derive(Clone, Debug)]
pub struct LineIds {
    keys: Vec<u64>,  // page numbers, FREE where empty; length a power of two, at most half used
    slots: Vec<u32>, // index into `pages`, by position of the key
    pages: Vec<[u32; LINES]>,
    last: (u64, u32),
    lines: u32,
}

impl Default for LineIds {
    fn default() -> Self {
        Self::new()
    }
}

impl LineIds {
    /// No lines yet.
    #[must_use]
    pub fn new() -> Self {
        Self { keys: vec![FREE; 1024], slots: vec![0; 1024], pages: Vec::new(), last: (FREE, 0), lines: 0 }
    }

    /// Number of different lines touched: the next line will get this number.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.lines
    }

    /// Whether no line was touched.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// The number of `line`, and whether this is its first touch.
    #[inline]
    pub fn id(&mut self, line: Line) -> (u32, bool) {
        let page = line.0 >> LINE_BITS;
        let slot = if self.last.0 == page { self.last.1 } else { self.page(page) };
        self.last = (page, slot);
        let id = &mut self.pages[slot as usize][line.0 as usize % LINES];
        if *id == NONE {
            *id = self.lines;
            self.lines += 1;
            (*id, true)
        } else {
            (*id, false)
        }
    }

    /// The number of `line`, if it was touched.
    #[inline]
    #[must_use]
    pub fn find_id(&self, line: Line) -> Option<u32> {
        let page = line.0 >> LINE_BITS;
        let slot = if self.last.0 == page {
            self.last.1
        } else {
            let at = self.find(page);
            if self.keys[at] == FREE {
                return None;
            }
            self.slots[at]
        };
        Some(self.pages[slot as usize][line.0 as usize % LINES]).filter(|&id| id != NONE)
    }

    fn home(&self, page: u64) -> usize {
        let bits = self.keys.len().trailing_zeros();
        (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
    }

    /// Position of `page` in the table, or of the free place where it belongs.
    #[inline]
    fn find(&self, page: u64) -> usize {
        let mut at = self.home(page);
        while self.keys[at] != page && self.keys[at] != FREE {
            at = (at + 1) & (self.keys.len() - 1);
        }
        at
    }

    #[inline]
    fn page(&mut self, page: u64) -> u32 {
        let at = self.find(page);
        if self.keys[at] == page { self.slots[at] } else { self.add(page) }
    }

    #[cold]
    fn add(&mut self, page: u64) -> u32 {
        if (self.pages.len() + 1) * 2 > self.keys.len() {
            let length = self.keys.len() * 2;
            let keys = std::mem::replace(&mut self.keys, vec![FREE; length]);
            let slots = std::mem::replace(&mut self.slots, vec![0; length]);
            for (key, slot) in keys.into_iter().zip(slots).filter(|&(key, _)| key != FREE) {
                let at = self.find(key);
                (self.keys[at], self.slots[at]) = (key, slot);
            }
        }
        let slot = self.pages.len() as u32;
        self.pages.push([NONE; LINES]);
        let at = self.find(page);
        (self.keys[at], self.slots[at]) = (page, slot);
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn agrees_with_a_map(lines: Vec<u32>, spread: u8) -> bool {
            let mut ids = LineIds::new();
            let mut map = HashMap::new();
            (0..20).flat_map(|_| &lines).all(|&line| {
                let line = Line(u64::from(line) << (spread % 32));
                let next = map.len() as u32;
                let first = !map.contains_key(&line);
                let expected = *map.entry(line).or_insert(next);
                let known = ids.find_id(line) == (!first).then_some(expected);
                known && ids.id(line) == (expected, first) && ids.len() == map.len() as u32
            })
        }
    }
}
