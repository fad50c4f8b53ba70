//! One set-associative cache: who is in it, and who leaves when a line comes in.
//!
//! A cache holds tags: line numbers with the owner's number in the bits that no line number uses (see
//! the module `owner`), so that programs with equal addresses do not share data but do share sets. It
//! knows no time, no other level and no contents.

use super::geometry::{Geometry, Policy};
use crate::machines::random;

/// No line: never a tag, because owners are numbered below the all-ones pattern.
const EMPTY: u64 = u64::MAX;

/// A set-associative cache of tags.
///
/// # Cost
/// 8 bytes per line. A touch costs 1 ns where the line is the set's most recent one, up to 10 ns where all of
/// 16 ways are searched.
#[derive(Clone, Debug)]
pub struct Cache {
    geometry: Geometry,
    index_mask: u64, // bits of a tag that are the line number
    // LRU and FIFO: by age, youngest first, empty slots last. The others: by way.
    tags: Vec<u64>,
    ways: Vec<u8>, // which way each of the tags by age is in, once that matters; empty before
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Lru,
    Fifo,
    Random { state: u64 },
    Nehalem { accessed: Vec<u64>, full: u64, spare_touched: bool },
    Srrip { ages: Vec<u8> },      // of each line, up to OLD
    TreePlru { nodes: Vec<u64> }, // bit n of a set's word: node n of its tree (root 1) points right
}

/// Re-reference prediction of two bits: a line of this age gives way; one that comes in is a year younger, one that is
/// touched has age 0.
const OLD: u8 = 3;

impl Cache {
    /// An empty cache.
    pub fn new(geometry: Geometry, policy: Policy) -> Self {
        let state = match policy {
            Policy::Lru => State::Lru,
            Policy::Fifo => State::Fifo,
            Policy::Random { seed } => State::Random { state: seed },
            Policy::Nehalem | Policy::NehalemWorstCase => State::Nehalem {
                accessed: vec![0; geometry.sets() as usize],
                full: u64::MAX >> (64 - geometry.ways()),
                spare_touched: policy == Policy::Nehalem,
            },
            Policy::Srrip => State::Srrip { ages: vec![OLD; geometry.lines().0 as usize] },
            Policy::TreePlru => State::TreePlru { nodes: vec![0; geometry.sets() as usize] },
        };
        Self {
            geometry,
            index_mask: u64::MAX >> geometry.line_size().shift(),
            tags: vec![EMPTY; geometry.lines().0 as usize],
            ways: Vec::new(),
            state,
        }
    }

    /// Size and shape.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Looks `tag` up, and if it is here marks it as used. Returns whether it is here.
    #[inline]
    pub fn touch(&mut self, tag: u64) -> bool {
        let index = self.set_of(tag);
        // Nothing changes where the youngest of a set is touched.
        if self.is_by_age() && self.tags[index * self.geometry.ways() as usize] == tag {
            return true;
        }
        self.touch_any(index, tag)
    }

    /// The same for any line of set number `index`.
    fn touch_any(&mut self, index: usize, tag: u64) -> bool {
        let ways = self.geometry.ways() as usize;
        let set = &mut self.tags[index * ways..(index + 1) * ways];
        let Some(way) = set.iter().position(|&t| t == tag) else { return false };
        match &mut self.state {
            State::Lru => {
                set.copy_within(..way, 1);
                set[0] = tag;
                if let Some(numbers) = self.ways.get_mut(index * ways..=index * ways + way) {
                    numbers.rotate_right(1);
                }
            }
            State::Fifo | State::Random { .. } => {}
            State::Nehalem { accessed, full, spare_touched } => {
                mark(&mut accessed[index], way, *full, *spare_touched);
            }
            State::Srrip { ages } => ages[index * ways + way] = 0,
            State::TreePlru { nodes } => point_away(&mut nodes[index], way, ways),
        }
        true
    }

    /// Brings in `tag`, which must not be here, and returns the tag that leaves for it, if the set was full.
    #[inline]
    pub fn insert(&mut self, tag: u64) -> Option<u64> {
        if !self.ways.is_empty() || !self.is_by_age() {
            return self.insert_within(tag, u64::MAX);
        }
        let index = self.set_of(tag);
        let ways = self.geometry.ways() as usize;
        let set = &mut self.tags[index * ways..(index + 1) * ways];
        let victim = set[ways - 1];
        set.copy_within(0..ways - 1, 1);
        set[0] = tag;
        (victim != EMPTY).then_some(victim)
    }

    /// The same, but it comes in at one of the ways in `allowed`, of which there must be one: what cache allocation
    /// does. Lines are found in all ways.
    pub fn insert_within(&mut self, tag: u64, allowed: u64) -> Option<u64> {
        let index = self.set_of(tag);
        let ways = self.geometry.ways() as usize;
        if self.ways.is_empty() && self.is_by_age() {
            // Nobody has asked so far, so any numbers will do.
            self.ways = (0..self.tags.len()).map(|slot| (slot % ways) as u8).collect();
        }
        let set = &mut self.tags[index * ways..(index + 1) * ways];
        let may = |way: usize| allowed >> way & 1 == 1;
        let empty = |set: &[u64]| (0..ways).find(|&way| may(way) && set[way] == EMPTY);
        let victim = match &mut self.state {
            State::Lru | State::Fifo => {
                let numbers = &mut self.ways[index * ways..(index + 1) * ways];
                let at = numbers.iter().rposition(|&way| may(usize::from(way))).unwrap_or(ways - 1);
                let victim = set[at];
                set[..=at].rotate_right(1);
                numbers[..=at].rotate_right(1);
                set[0] = tag;
                victim
            }
            State::Random { state } => {
                let way = empty(set).unwrap_or_else(|| {
                    let nth = below(state, u64::from((allowed & (u64::MAX >> (64 - ways))).count_ones()));
                    (0..ways).filter(|&way| may(way)).nth(nth as usize).unwrap_or(0)
                });
                std::mem::replace(&mut set[way], tag)
            }
            State::Nehalem { accessed, full, spare_touched } => {
                let bits = &mut accessed[index];
                let unset = (0..ways).find(|&way| may(way) && *bits >> way & 1 == 0);
                let first = (0..ways).find(|&way| may(way));
                let way = empty(set).or(unset).or(first).unwrap_or(0);
                mark(bits, way, *full, *spare_touched);
                std::mem::replace(&mut set[way], tag)
            }
            State::Srrip { ages } => {
                let ages = &mut ages[index * ways..(index + 1) * ways];
                let way = empty(set).unwrap_or_else(|| {
                    let most = (0..ways).filter(|&way| may(way)).map(|way| ages[way]).max().unwrap_or(OLD);
                    (0..ways).filter(|&way| may(way)).for_each(|way| ages[way] += OLD - most);
                    (0..ways).find(|&way| may(way) && ages[way] == OLD).unwrap_or(0)
                });
                ages[way] = OLD - 1;
                std::mem::replace(&mut set[way], tag)
            }
            State::TreePlru { nodes } => {
                let way = empty(set).unwrap_or_else(|| pointed_to(nodes[index], ways, allowed));
                point_away(&mut nodes[index], way, ways);
                std::mem::replace(&mut set[way], tag)
            }
        };
        (victim != EMPTY).then_some(victim)
    }

    /// Takes `tag` out, as an inclusive outer cache does when it evicts the line. Returns whether it was here.
    #[inline]
    pub fn remove(&mut self, tag: u64) -> bool {
        let index = self.set_of(tag);
        let ways = self.geometry.ways() as usize;
        let set = &mut self.tags[index * ways..(index + 1) * ways];
        let Some(way) = set.iter().position(|&t| t == tag) else { return false };
        match &mut self.state {
            State::Lru | State::Fifo => {
                set.copy_within(way + 1.., way);
                set[ways - 1] = EMPTY;
                if let Some(numbers) = self.ways.get_mut(index * ways..(index + 1) * ways) {
                    numbers[way..].rotate_left(1);
                }
            }
            State::Random { .. } | State::Srrip { .. } | State::TreePlru { .. } => set[way] = EMPTY,
            State::Nehalem { accessed, .. } => {
                set[way] = EMPTY;
                accessed[index] &= !(1 << way);
            }
        }
        true
    }

    /// Whether `tag` is here; marks nothing.
    pub fn contains(&self, tag: u64) -> bool {
        let (index, ways) = (self.set_of(tag), self.geometry.ways() as usize);
        self.tags[index * ways..(index + 1) * ways].contains(&tag)
    }

    /// Whether a set's tags lie by age, not by way.
    #[inline]
    const fn is_by_age(&self) -> bool {
        matches!(self.state, State::Lru | State::Fifo)
    }

    #[inline]
    fn set_of(&self, tag: u64) -> usize {
        self.geometry.index().set(tag & self.index_mask, self.geometry.sets()) as usize
    }
}

/// Sets the accessed bit of `way`; when none is left unset, clears the others (or all).
#[inline]
fn mark(bits: &mut u64, way: usize, full: u64, spare_touched: bool) {
    *bits |= 1 << way;
    if *bits == full {
        *bits = if spare_touched && full != 1 { 1 << way } else { 0 };
    }
}

/// Makes the nodes above `way` point to their other halves.
#[inline]
fn point_away(nodes: &mut u64, way: usize, ways: usize) {
    let mut node = 1;
    for level in (0..ways.next_power_of_two().trailing_zeros()).rev() {
        let right = way >> level & 1;
        *nodes = *nodes & !(1 << node) | ((right as u64 ^ 1) << node);
        node = 2 * node + right;
    }
}

/// The way of those `allowed` that the nodes lead to: halves without one are passed over.
#[inline]
fn pointed_to(nodes: u64, ways: usize, allowed: u64) -> usize {
    let allowed = allowed & (u64::MAX >> (64 - ways));
    let has = |first: usize, ways: usize| allowed >> first & ((1 << ways) - 1) != 0;
    let (mut node, mut way) = (1, 0);
    for level in (0..ways.next_power_of_two().trailing_zeros()).rev() {
        let half = 1 << level;
        let right =
            if nodes >> node & 1 == 1 { way + half < ways && has(way + half, half) } else { !has(way, half) };
        node = 2 * node + usize::from(right);
        way += if right { half } else { 0 };
    }
    way
}

/// A random number below `limit`.
#[inline]
fn below(state: &mut u64, limit: u64) -> u64 {
    ((u128::from(random::next(state)) * u128::from(limit)) >> 64) as u64
}
