//! Independent pieces of work on all cores.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Windows from which on a clustering is worth threads: to start one takes 20 microseconds, as long as k-means of 100
/// windows or a step of SimPoint's search of 200.
const ENOUGH: usize = 300;

/// What `work` on so many windows makes of each item, in the order of the items; on this thread if that is too little
/// work to share, or none can be started.
pub(crate) fn on_all_cores<I, T: Send>(
    windows: usize,
    items: impl ExactSizeIterator<Item = I> + Send,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    if windows < ENOUGH {
        return items.map(work).collect();
    }
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
        for (items, windows) in [(0_u32, ENOUGH), (1, ENOUGH), (2, ENOUGH), (100, ENOUGH), (100, 1)] {
            let squares = on_all_cores(windows, 0..items, |item| {
                // so that they do not end in their order
                thread::sleep(std::time::Duration::from_micros(u64::from(item % 7) * 20));
                item * item
            });
            assert_eq!(squares, (0..items).map(|item| item * item).collect::<Vec<_>>());
        }
    }
}
