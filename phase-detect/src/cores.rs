//! Independent pieces of work on all cores.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What `work` makes of each item, in the order of the items. Where no thread can be started, this one does it all.
pub(crate) fn on_all_cores<I, T: Send>(
    items: impl ExactSizeIterator<Item = I> + Send,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let made = Mutex::new(Vec::with_capacity(items.len()));
    let items = Mutex::new(items.enumerate());
    let take = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let turn = || {
        while let Some((number, item)) = take() {
            let result = work(item);
            made.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..cores {
            if thread::Builder::new().spawn_scoped(scope, turn).is_err() {
                break;
            }
        }
        turn();
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|&(number, _)| number);
    made.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_in_its_place() {
        for items in [0_u32, 1, 2, 100] {
            let squares = on_all_cores(0..items, |item| {
                // so that they do not end in their order
                thread::sleep(std::time::Duration::from_micros(u64::from(item % 7) * 20));
                item * item
            });
            assert_eq!(squares, (0..items).map(|item| item * item).collect::<Vec<_>>());
        }
    }
}
