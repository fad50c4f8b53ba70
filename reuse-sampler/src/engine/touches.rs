//! When each line was touched last: exact reuse distances of every access.
//!
//! Lines are kept in pages of 64, because programs touch neighbours: one look-up of the page serves all of
//! them. The page found last is not tried first: whether it is the one again is harder to predict than a look-up.

use super::near;

const LINES: usize = 64;
const LINE_BITS: u32 = 6;
const FREE: u64 = u64::MAX;

/// Where a line is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(usize); // index into `last`

/// Number of the access that touched each line last; 0 for lines not touched.
#[derive(Clone, Debug)]
pub struct Touches {
    // Page numbers (FREE where empty) with the places of their first lines; length a power of two, at most a
    // quarter used: a second probe is hard to predict.
    seats: Vec<(u64, usize)>,
    last: Vec<u64>, // by page and line
    shift: u32,     // 64 - binary logarithm of seats.len()
    open: u64,      // lines with a touch
}

impl Default for Touches {
    fn default() -> Self {
        Self { seats: vec![(FREE, 0); 1 << 10], last: Vec::new(), shift: 64 - 10, open: 0 }
    }
}

impl Touches {
    /// Number of lines with a touch.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// Where `line` is kept, until everything is forgotten.
    #[inline]
    pub fn place_of(&mut self, line: u64) -> Place {
        Place(self.page(line >> LINE_BITS) + line as usize % LINES)
    }

    /// Has brought near what [`place_of`](Self::place_of) needs.
    #[inline]
    pub fn fetch_place(&self, line: u64) {
        near::fetch(&self.seats[self.home(line >> LINE_BITS)]);
    }

    /// Has brought near what is kept at `place`.
    #[inline]
    pub fn fetch(&self, place: Place) {
        near::fetch(&self.last[place.0]);
    }

    /// What is kept at `place`. If it is not 0, it may be changed to another that is not.
    #[inline]
    pub fn entry(&mut self, place: Place) -> &mut u64 {
        &mut self.last[place.0]
    }

    /// Records that the line at `place` is touched by access number `now` (at least 1) and returns the number of the
    /// access that touched it before, 0 if there was none.
    #[inline]
    pub fn touch(&mut self, place: Place, now: u64) -> u64 {
        let before = std::mem::replace(self.entry(place), now);
        self.open += u64::from(before == 0);
        before
    }

    /// Forgets the touch of `line` and returns its number, 0 if there was none.
    #[inline]
    pub fn take(&mut self, line: u64) -> u64 {
        let page = line >> LINE_BITS;
        let Some(first) = self.find(page) else { return 0 };
        let before = std::mem::take(&mut self.last[first + line as usize % LINES]);
        self.open -= u64::from(before != 0);
        before
    }

    /// Forgets everything, telling the number of each line's last touch in no particular order.
    pub fn drain(&mut self, mut each: impl FnMut(u64)) {
        for &touch in self.last.iter().filter(|&&touch| touch != 0) {
            each(touch);
        }
        *self = Self::default();
    }

    #[inline]
    fn page(&mut self, page: u64) -> usize {
        match self.find(page) {
            Some(first) => first,
            None => self.add(page),
        }
    }

    #[inline]
    fn home(&self, page: u64) -> usize {
        (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    fn find(&self, page: u64) -> Option<usize> {
        let mut at = self.home(page);
        loop {
            let (key, first) = self.seats[at];
            if key == page {
                return Some(first);
            }
            if key == FREE {
                return None;
            }
            at = (at + 1) & (self.seats.len() - 1);
        }
    }

    #[cold]
    fn add(&mut self, page: u64) -> usize {
        if (self.last.len() / LINES + 1) * 4 > self.seats.len() {
            let doubled = vec![(FREE, 0); self.seats.len() * 2];
            let seats = std::mem::replace(&mut self.seats, doubled);
            self.shift -= 1;
            for seat in seats.into_iter().filter(|seat| seat.0 != FREE) {
                self.place(seat);
            }
        }
        let first = self.last.len();
        self.last.resize(first + LINES, 0);
        self.place((page, first));
        first
    }

    fn place(&mut self, seat: (u64, usize)) {
        let mut at = self.home(seat.0);
        while self.seats[at].0 != FREE {
            at = (at + 1) & (self.seats.len() - 1);
        }
        self.seats[at] = seat;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn agrees_with_a_map(steps: Vec<(u32, bool)>, spread: u8) -> bool {
            let mut touches = Touches::default();
            let mut map: BTreeMap<u64, u64> = BTreeMap::new();
            for (i, &(line, take)) in steps.iter().cycle().take(steps.len() * 20).enumerate() {
                let (line, now) = (u64::from(line) << (spread % 24), i as u64 + 1);
                let (found, expected) = if take {
                    (touches.take(line), map.remove(&line))
                } else {
                    ({let place = touches.place_of(line); touches.touch(place, now)}, map.insert(line, now))
                };
                if found != expected.unwrap_or(0) || touches.open() != map.len() as u64 {
                    return false;
                }
            }
            let mut left = Vec::new();
            touches.drain(|touch| left.push(touch));
            left.sort_unstable();
            let mut expected: Vec<u64> = map.into_values().collect();
            expected.sort_unstable();
            left == expected && touches.open() == 0
        }
    }
}
