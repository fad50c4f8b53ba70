//! When each line was touched last: exact reuse distances of every access.
//!
//! Lines are kept in pages of 64, because programs touch neighbours: one look-up of the page serves all of
//! them. The page found last is not tried first: whether it is the one again is harder to predict than a look-up.
//! Where few lines of many pages are touched, as by keys that are hashes, pages become smaller.

use super::near;

/// Binary logarithm of the lines of a page at first.
const LARGE: u32 = 6;
const FREE: u64 = u64::MAX;
/// Pages that are not too many, however few of their lines are touched: data that is touched here and there fills its
/// pages in time.
const FEW: usize = 1 << 16;

/// Seats that stay near by themselves: half a megabyte of them.
const NEAR: usize = 1 << 15;

/// Set in what is kept of a line that was lost: it is not open, but not untouched either.
pub const LOST: u64 = 2;

/// Where a line is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(usize); // index into `last`

impl Place {
    /// Where it is among all [`entries`](Touches::entries).
    #[inline]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// Number of the access that touched each line last; 0 for lines not touched.
#[derive(Clone, Debug)]
pub struct Touches {
    // Page numbers (FREE where empty) with the places of their first lines; length a power of two, at most a
    // quarter used (a second probe is hard to predict), or half of it where pages are smaller.
    seats: Vec<(u64, usize)>,
    last: Vec<u64>, // by page and line
    shift: u32,     // 64 - binary logarithm of seats.len()
    open: u64,      // lines with a touch, but for lost ones
    bits: u32, // binary logarithm of the lines of a page: LARGE, 3 or 1; not 0, so that no page has number FREE
    sparse: bool, // pages are too large
}

impl Default for Touches {
    fn default() -> Self {
        Self {
            seats: vec![(FREE, 0); 1 << 10],
            last: Vec::new(),
            shift: 64 - 10,
            open: 0,
            bits: LARGE,
            sparse: false,
        }
    }
}

impl Touches {
    /// Number of lines with a touch.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// Whether there was no touch yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Where `line` is kept, until [`places_of`](Self::places_of) is called or everything is forgotten.
    #[inline]
    pub fn place_of(&mut self, line: u64) -> Place {
        let place = match self.find(line) {
            Some(first) => first,
            None => self.add(line),
        };
        Place(place + self.within(line))
    }

    /// Where each of `lines` is kept. Memory is asked for together, that of the places too, so that it is waited for once and
    /// not once for each. Places returned before are no longer valid.
    pub fn places_of(&mut self, lines: &[u64], places: &mut [Place]) {
        if self.sparse {
            self.shrink();
        }
        // Nearly all programs keep to the first size, which the compiler may know.
        if self.bits == LARGE {
            self.locate(lines, places, LARGE);
        } else {
            self.locate(lines, places, self.bits);
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // for the compiler to know `bits`
    fn locate(&mut self, lines: &[u64], places: &mut [Place], bits: u32) {
        if self.seats.len() > NEAR {
            for &line in lines {
                near::fetch(&self.seats[home(line >> bits, self.shift)]);
            }
        }
        let mut rest = lines.iter().zip(places);
        loop {
            let (seats, shift, last) = (self.seats.as_slice(), self.shift, self.last.as_slice());
            let unknown = rest.find_map(|(&line, place)| match seek(seats, shift, line >> bits) {
                Some(first) => {
                    *place = Place(first + (line as usize & ((1 << bits) - 1)));
                    near::fetch(&last[place.0]);
                    None
                }
                None => Some((line, place)),
            });
            let Some((line, place)) = unknown else { break };
            *place = self.place_of(line);
        }
    }

    /// What is kept, by place. What is not 0 may be changed to something else that is not.
    #[inline]
    pub fn entries(&mut self) -> &mut [u64] {
        &mut self.last
    }

    /// Records that the line at `place` is touched by access number `now` (at least 1) and returns the number of the
    /// access that touched it before, 0 if there was none.
    #[inline]
    pub fn touch(&mut self, place: Place, now: u64) -> u64 {
        let before = std::mem::replace(&mut self.last[place.0], now);
        self.open += u64::from(!is_open(before));
        before
    }

    /// Marks `line` as [`LOST`] and returns what was kept of it if it is open, else 0.
    pub fn lose(&mut self, line: u64) -> u64 {
        let Some(first) = self.find(line) else { return 0 };
        let place = first + self.within(line);
        let before = self.last[place];
        if !is_open(before) {
            return 0;
        }
        self.last[place] |= LOST;
        self.open -= 1;
        before
    }

    /// What is kept of `line`, 0 if nothing.
    #[inline]
    #[must_use]
    pub fn get(&self, line: u64) -> u64 {
        self.find(line).map_or(0, |first| self.last[first + self.within(line)])
    }

    /// Forgets the touch of `line` and returns what was kept of it, 0 if nothing.
    #[inline]
    pub fn take(&mut self, line: u64) -> u64 {
        let Some(first) = self.find(line) else { return 0 };
        let place = first + self.within(line);
        let before = std::mem::take(&mut self.last[place]);
        self.open -= u64::from(is_open(before));
        before
    }

    /// Forgets everything, and hands the number of each line's last touch to `each`, in no particular order; returns how many
    /// lines were lost.
    pub fn drain(&mut self, mut each: impl FnMut(u64)) -> u64 {
        let mut lost = 0;
        for &touch in self.last.iter().filter(|&&touch| touch != 0) {
            if is_open(touch) {
                each(touch);
            } else {
                lost += 1;
            }
        }
        *self = Self::default();
        lost
    }

    /// Number of `line` in its page.
    #[inline]
    const fn within(&self, line: u64) -> usize {
        line as usize & ((1 << self.bits) - 1)
    }

    /// The place of the first line in the page of `line`.
    #[inline]
    fn find(&self, line: u64) -> Option<usize> {
        seek(&self.seats, self.shift, line >> self.bits)
    }

    #[cold]
    fn add(&mut self, line: u64) -> usize {
        let pages = (self.last.len() >> self.bits) + 1;
        if pages * if self.bits == LARGE { 4 } else { 2 } > self.seats.len() {
            let doubled = vec![(FREE, 0); self.seats.len() * 2];
            let seats = std::mem::replace(&mut self.seats, doubled);
            self.shift -= 1;
            for seat in seats.into_iter().filter(|seat| seat.0 != FREE) {
                self.place(seat);
            }
            self.sparse = self.bits > 1 && pages > FEW && self.open * 8 <= self.last.len() as u64;
        }
        let first = self.last.len();
        self.last.resize(first + (1 << self.bits), 0);
        self.place((line >> self.bits, first));
        first
    }

    #[cold]
    fn shrink(&mut self) {
        let bits = if self.bits == LARGE { 3 } else { 1 };
        let shift = 64 - (4 * self.open).next_power_of_two().max(1 << 10).ilog2();
        let seats = vec![(FREE, 0); 1 << (64 - shift)];
        let large = std::mem::replace(self, Self { seats, shift, bits, ..Self::default() });
        for (page, first) in large.seats.into_iter().filter(|seat| seat.0 != FREE) {
            let touched = large.last[first..first + (1 << large.bits)].iter().enumerate();
            for (line, &touch) in touched.filter(|(_, touch)| **touch != 0) {
                let place = self.place_of(page << large.bits | line as u64);
                self.touch(place, touch);
                self.open -= u64::from(!is_open(touch));
            }
        }
    }

    fn place(&mut self, seat: (u64, usize)) {
        let mut at = home(seat.0, self.shift);
        while self.seats[at].0 != FREE {
            at = (at + 1) & (self.seats.len() - 1);
        }
        self.seats[at] = seat;
    }
}

const fn is_open(touch: u64) -> bool {
    touch != 0 && touch & LOST == 0
}

#[inline]
const fn home(page: u64, shift: u32) -> usize {
    (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

/// What the seat of `page` holds, if it has one.
#[inline]
fn seek(seats: &[(u64, usize)], shift: u32, page: u64) -> Option<usize> {
    let mut at = home(page, shift);
    loop {
        let (key, first) = seats[at];
        if key == page {
            return Some(first);
        }
        if key == FREE {
            return None;
        }
        at = (at + 1) & (seats.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        fn agrees_with_a_map(steps: Vec<(u32, u8)>, spread: u8) -> bool {
            let mut touches = Touches::default();
            let mut map: BTreeMap<u64, u64> = BTreeMap::new();
            for (i, &(line, action)) in steps.iter().cycle().take(steps.len() * 200).enumerate() {
                // Neighbours, or lines as far apart as hashes are.
                let line = (u64::from(line) + i as u64 / 500) << (spread % 24);
                let now = (i as u64 + 1) << 2;
                if touches.get(line) != map.get(&line).copied().unwrap_or(0) {
                    return false;
                }
                let open = |touch: u64| touch & LOST == 0;
                let (found, expected) = if action % 4 == 0 {
                    (touches.take(line), map.remove(&line))
                } else if action % 4 == 1 {
                    let held = map.get_mut(&line).filter(|touch| open(**touch));
                    (touches.lose(line), held.map(|touch| std::mem::replace(touch, *touch | LOST)))
                } else {
                    let mut place = [Place::default()];
                    touches.places_of(&[line], &mut place);
                    let [place] = place;
                    (touches.touch(place, now), map.insert(line, now))
                };
                if found != expected.unwrap_or(0) || touches.open() != map.values().filter(|&&t| open(t)).count() as u64 {
                    return false;
                }
            }
            let mut left = Vec::new();
            touches.drain(|touch| left.push(touch));
            left.sort_unstable();
            let mut expected: Vec<u64> = map.into_values().filter(|touch| touch & LOST == 0).collect();
            expected.sort_unstable();
            left == expected && touches.open() == 0
        }
    }

    #[test]
    fn hashes_do_not_take_a_page_each() {
        let mut touches = Touches::default();
        let line = |i: u64| u64::MAX - i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let lines: Vec<u64> = (0..300_000).map(line).collect();
        for round in 0..2 {
            for (batch, lines) in lines.chunks(77).enumerate() {
                let mut places = [Place::default(); 77];
                touches.places_of(lines, &mut places);
                for (i, place) in (1 + 77 * batch as u64..).zip(&places[..lines.len()]) {
                    let before = if round == 0 { 0 } else { i << 2 };
                    assert_eq!(touches.touch(*place, i << 2), before);
                }
            }
        }
        assert_eq!((touches.open(), touches.last.len()), (300_000, 600_000));
    }
}
