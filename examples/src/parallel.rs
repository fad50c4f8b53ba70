//! Work that is dealt out to threads and comes back in order.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The answers of `job` for 0 to below `count`, in that order, whatever the number of threads.
pub fn in_order<T: Send>(count: usize, threads: NonZeroUsize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
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

/// Does `work` on each of `items`, on all processors.
pub fn on_each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    in_order(items.len(), available(), |number| work(&items[number]))
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
            let squares = in_order(20, NonZeroUsize::new(threads).unwrap(), |i| i * i);
            assert_eq!(squares, (0..20).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(in_order(0, NonZeroUsize::MIN, |i| i).is_empty());
        assert_eq!(on_each(&[3, 1, 2], |n| n * n), [9, 1, 4]);
    }
}
