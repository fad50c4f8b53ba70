//! LRU stack distances, one access at a time.
//!
//! Every access takes the next slot of a time line and frees the slot of the line's previous access, so that
//! the taken slots are the lines of the LRU stack, most recent last: the stack distance is the number of
//! taken slots after the line's own. When the time line is used up, the taken slots move together. (Bennett and Kruskal, *LRU Stack Processing*, IBM J. Res. Dev. 19, 1975; Olken 1981.)
//!
//! An invalidated line leaves a hole: its slot stays taken, because in caches that held the line a place is free now. The
//! next access from below the topmost hole, or of a line that is not on the stack, fills it; the lines below the hole do
//! not move, and a line that came from below leaves a hole where it was. (Thompson and Smith, *Efficient (Stack)
//! Algorithms for Analysis of Write-Back and Sector Memories*, ACM TOCS 7, 1989.)

use std::collections::BinaryHeap;

use super::LineIds;
use crate::engine::slots::Slots;
use crate::{Line, StackDistance};

const FIRST_CAPACITY: usize = 1 << 14;
/// Line number of a hole, slot of a line that was invalidated.
const NONE: u32 = u32::MAX;

/// The LRU stack of an unbounded fully associative cache.
#[derive(Clone, Debug)]
pub struct LruStack {
    ids: LineIds,
    slot_of: Vec<u32>,      // by line number; NONE where the line was invalidated
    line_in: Vec<u32>,      // line number by slot, NONE for a hole; valid where the slot is taken
    slots: Slots,           // taken by lines and holes
    holes: BinaryHeap<u32>, // their slots
}

impl Default for LruStack {
    fn default() -> Self {
        Self::new()
    }
}

impl LruStack {
    /// An empty stack.
    #[must_use]
    pub fn new() -> Self {
        let mut stack = Self {
            ids: LineIds::new(),
            slot_of: Vec::new(),
            line_in: Vec::new(),
            slots: Slots::default(),
            holes: BinaryHeap::new(),
        };
        stack.reserve(FIRST_CAPACITY);
        stack
    }

    /// Number of different lines accessed.
    #[must_use]
    pub fn lines(&self) -> u64 {
        u64::from(self.ids.len())
    }

    /// Moves `line` to the top and returns how many places were above it: without invalidations, how many different
    /// lines were touched since its last touch. `None` if it is not on the stack.
    #[inline]
    pub fn access(&mut self, line: Line) -> Option<StackDistance> {
        let (id, first) = self.ids.id(line);
        if first {
            self.slot_of.push(NONE);
        }
        let mut slot = self.slot_of[id as usize];
        if slot as usize + 1 == self.slots.next() {
            return Some(StackDistance(0)); // on top already
        }
        if self.slots.is_full() {
            self.compact();
        }
        slot = self.slot_of[id as usize];
        let distance = (slot != NONE).then(|| StackDistance(self.slots.after(slot as usize)));
        match self.holes.peek() {
            Some(&hole) if slot == NONE || hole > slot => {
                self.holes.pop();
                self.slots.free(hole as usize);
                if slot != NONE {
                    self.dig(slot);
                }
            }
            _ if slot != NONE => self.slots.free(slot as usize),
            _ => {}
        }
        self.slot_of[id as usize] = self.take(id);
        distance
    }

    /// Takes `line` away from all caches and returns how many places were above it. `None` if it is not on the stack.
    pub fn invalidate(&mut self, line: Line) -> Option<StackDistance> {
        let distance = self.distance(line)?;
        let id = self.ids.find_id(line)?;
        let slot = std::mem::replace(&mut self.slot_of[id as usize], NONE);
        self.dig(slot);
        Some(distance)
    }

    /// How many places are above `line`. `None` if it is not on the stack.
    #[must_use]
    pub fn distance(&self, line: Line) -> Option<StackDistance> {
        let slot = self.slot_of[self.ids.find_id(line)? as usize];
        (slot != NONE).then(|| StackDistance(self.slots.after(slot as usize)))
    }

    /// Makes a taken slot a hole.
    fn dig(&mut self, slot: u32) {
        self.line_in[slot as usize] = NONE;
        self.holes.push(slot);
    }

    /// The next slot, taken by the line of this number, or by a hole.
    #[inline]
    fn take(&mut self, id: u32) -> u32 {
        let slot = self.slots.take();
        self.line_in[slot] = id;
        slot as u32
    }

    #[cold]
    fn compact(&mut self) {
        let taken: Vec<u32> = self.slots.iter().map(|slot| self.line_in[slot]).collect();
        // A quarter full afterwards at most, so that moving costs a fraction of the accesses in between.
        self.reserve((4 * taken.len()).next_power_of_two().max(FIRST_CAPACITY));
        self.holes.clear();
        for id in taken {
            let now = self.take(id);
            match self.slot_of.get_mut(id as usize) {
                Some(slot) => *slot = now,
                None => self.holes.push(now),
            }
        }
    }

    fn reserve(&mut self, slots: usize) {
        self.line_in = vec![0; slots];
        self.slots = Slots::with_room(slots);
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    /// The stack as a list, searched from the top; holes are `None`. Lines with `true` are invalidated.
    fn brute_force(steps: &[(Line, bool)]) -> Vec<Option<StackDistance>> {
        let mut list: Vec<Option<Line>> = Vec::new(); // top first
        let step = |&(line, invalidate): &(Line, bool)| {
            let found = list.iter().position(|&other| other == Some(line));
            if let Some(at) = found {
                list[at] = None;
            }
            if !invalidate {
                // Whatever is below the topmost place that is free stays where it is.
                if let Some(hole) = list.iter().position(Option::is_none) {
                    list.remove(hole);
                }
                list.insert(0, Some(line));
            }
            found.map(|at| StackDistance(at as u64))
        };
        steps.iter().map(step).collect()
    }

    fn agrees(steps: &[(Line, bool)]) -> bool {
        let mut stack = LruStack::new();
        let step = |&(line, invalidate): &(Line, bool)| {
            let before = stack.distance(line);
            let found = if invalidate { stack.invalidate(line) } else { stack.access(line) };
            assert_eq!(before, found);
            found
        };
        steps.iter().map(step).collect::<Vec<_>>() == brute_force(steps)
    }

    quickcheck! {
        fn agrees_with_a_list(steps: Vec<(u16, u8)>, footprint: u16, times: u8, invalidated: u8) -> bool {
            let steps: Vec<_> = (0..=times)
                .flat_map(|_| &steps)
                .map(|&(line, chance)| (Line(u64::from(line % footprint.max(1))), chance < invalidated / 2))
                .collect();
            agrees(&steps)
        }
    }

    /// Long enough for words to settle and for several compactions, with near and far reuses.
    #[test]
    fn agrees_with_a_list_over_compactions() {
        for invalidated in [0, 3, 40] {
            let mut state = 1_u64;
            let steps: Vec<_> = (0..120_000_u64)
                .map(|i| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let random = state >> 33;
                    // Mostly a few near lines, sometimes one of 3,000 drifting ones.
                    let near = random % 4 > 0;
                    let line = if near { random % 64 } else { 100 + (random >> 3) % 3000 + i / 100 };
                    (Line(line), (random >> 20) % 100 < invalidated)
                })
                .collect();
            assert!(agrees(&steps));
        }
    }
}
