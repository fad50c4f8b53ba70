//! What was worked out before, by number, shared by all threads.
//!
//! Whoever needs an entry first works it out. It depends on its number alone, so that it does not matter who that was.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Entries by number.
pub(super) enum Table<T> {
    /// A cell for every number; few numbers.
    Dense(Box<[OnceLock<T>]>),
    /// The entries that were needed, of very many: at most so many, and what comes later is worked out each time.
    Sparse(RwLock<HashMap<usize, Arc<T>>>, usize),
    /// Entries that cannot even be numbered: nothing is remembered.
    Endless,
}

/// A borrowed or shared entry.
pub(super) enum Remembered<'a, T> {
    Cell(&'a T),
    Entry(Arc<T>),
}

impl<T> Deref for Remembered<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Cell(entry) => entry,
            Self::Entry(entry) => entry,
        }
    }
}

impl<T> Table<T> {
    /// A table for `numbers` numbers, if they can be counted: a cell for each of up to `cells`, else no more than `most`
    /// entries.
    pub(super) fn new(numbers: Option<usize>, cells: usize, most: usize) -> Self {
        match numbers {
            Some(numbers) if numbers <= cells => Self::Dense((0..numbers).map(|_| OnceLock::new()).collect()),
            Some(_) => Self::Sparse(RwLock::default(), most),
            None => Self::Endless,
        }
    }

    /// The entry of that number, worked out if it is new.
    #[inline]
    pub(super) fn get(&self, number: usize, new: impl FnOnce() -> T) -> Remembered<'_, T> {
        match self {
            Self::Dense(cells) => Remembered::Cell(cells[number].get_or_init(new)),
            Self::Sparse(map, most) => {
                // The map is whole even if a thread died holding it: entries go in complete.
                let found = map.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
                Remembered::Entry(found.unwrap_or_else(|| {
                    let entry = Arc::new(new());
                    let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
                    if map.len() < *most { map.entry(number).or_insert(entry).clone() } else { entry }
                }))
            }
            Self::Endless => Remembered::Entry(Arc::new(new())),
        }
    }

    /// The entries so far, in order of their numbers.
    pub(super) fn entries(&self) -> Vec<(usize, T)>
    where
        T: Clone,
    {
        match self {
            Self::Dense(cells) => {
                let entry = |(number, cell): (usize, &OnceLock<T>)| Some((number, cell.get()?.clone()));
                cells.iter().enumerate().filter_map(entry).collect()
            }
            Self::Sparse(map, _) => {
                let map = map.read().unwrap_or_else(PoisonError::into_inner);
                let mut entries: Vec<(usize, T)> =
                    map.iter().map(|(&number, entry)| (number, entry.as_ref().clone())).collect();
                entries.sort_unstable_by_key(|&(number, _)| number);
                entries
            }
            Self::Endless => Vec::new(),
        }
    }

    /// How many entries there are so far.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Dense(cells) => cells.iter().filter(|cell| cell.get().is_some()).count(),
            Self::Sparse(map, _) => map.read().unwrap_or_else(PoisonError::into_inner).len(),
            Self::Endless => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn entries_are_worked_out_once_and_no_more_than_asked_for_are_kept() {
        for (numbers, most, kept) in [(Some(9), 9, 9), (Some(9), 4, 4), (None, 4, 0)] {
            let table = Table::new(numbers, most, most);
            let mut made = 0;
            for round in 0..2 {
                for number in (0..9).rev() {
                    let entry = table.get(number, || {
                        made += 1;
                        10 * number
                    });
                    assert_eq!(*entry, 10 * number, "{round}");
                }
            }
            assert_eq!((table.len(), made), (kept, 9 + 9 - kept));
            let entries = table.entries();
            assert_eq!(entries.len(), kept);
            assert!(entries.is_sorted() && entries.iter().all(|&(number, entry)| entry == 10 * number));
        }
    }
}
