//! Work that is dealt out to threads and comes back in order.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::cli::Failure;

/// Says whether no more work is to be begun.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The answers of `job` for 0 to below `count`, in that order, whatever the number of threads: those begun before
/// `stop` says so.
///
/// # Errors
/// The first of them.
pub fn in_order<T: Send>(
    count: usize,
    threads: NonZeroUsize,
    stop: Stop<'_>,
    job: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || stop() {
                return done;
            }
            done.push((number, job(number)));
        }
    };
    let threads = threads.get().min(count).max(1);
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, answer)| answer).collect()
}

/// Does `work` on each of `items`, on all processors, as [`in_order`].
///
/// # Errors
/// As [`in_order`].
pub fn on_each<T: Sync, R: Send>(
    items: &[T],
    stop: Stop<'_>,
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    in_order(items.len(), available(), stop, |number| work(&items[number]))
}

/// Processors that this process may use.
pub fn available() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order() {
        for threads in [1, 2, 7] {
            let squares = in_order(20, NonZeroUsize::new(threads).unwrap(), &|| false, |i| Ok(i * i));
            assert_eq!(squares.unwrap(), (0..20).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(in_order(0, NonZeroUsize::MIN, &|| false, Ok).unwrap().is_empty());
        assert!(in_order(9, NonZeroUsize::MIN, &|| true, Ok).unwrap().is_empty());
        assert!(in_order(9, NonZeroUsize::MIN, &|| false, |_| Err::<u8, _>(Failure::run("no"))).is_err());
        assert_eq!(on_each(&[3, 1, 2], &|| false, |n| Ok(n * n)).unwrap(), [9, 1, 4]);
    }
}
