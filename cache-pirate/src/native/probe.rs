//! Do two processors share a cache at this moment? Two threads pass a line back and forth and time it.
//!
//! In a virtual machine the kernel repeats what the hypervisor says of caches; where its processors run can change from
//! one minute to the next. A line that is passed within a shared cache takes tens of nanoseconds, across
//! sockets or dies several times that.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::affinity;
use crate::error::PirateError;

/// Exchanges in a batch.
const EXCHANGES: u32 = 1_000;
/// Batches; the quickest counts, because interruptions only ever add.
const BATCHES: usize = 8;
/// When to give up: a thread that does not get to run cannot answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// Nanoseconds for a line to go from `one` to `other` and back, at best; `None` if the two were not both running
/// long enough to measure.
///
/// # Errors
/// [`PirateError::System`] if a thread cannot be pinned to either.
///
/// # Cost
/// A millisecond where both are idle, 0.2 s where one never runs.
pub fn ping_pong(one: usize, other: usize) -> Result<Option<f64>, PirateError> {
    let ball = Line(AtomicU32::new(0));
    let total = EXCHANGES * BATCHES as u32;
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        let answering = scope.spawn(|| -> Result<(), PirateError> {
            affinity::pin_here(other)?;
            for round in 0..total {
                if !wait_for(&ball.0, 2 * round + 1, deadline) {
                    break;
                }
                ball.0.store(2 * round + 2, Ordering::Release);
            }
            Ok(())
        });
        let asking = scope.spawn(|| -> Result<Option<f64>, PirateError> {
            affinity::pin_here(one)?;
            let mut best: Option<f64> = None;
            for batch in 0..BATCHES as u32 {
                let begin = Instant::now();
                for round in batch * EXCHANGES..(batch + 1) * EXCHANGES {
                    ball.0.store(2 * round + 1, Ordering::Release);
                    if !wait_for(&ball.0, 2 * round + 2, deadline) {
                        return Ok(best);
                    }
                }
                let each = begin.elapsed().as_nanos() as f64 / f64::from(EXCHANGES);
                best = Some(best.map_or(each, |b| b.min(each)));
            }
            Ok(best)
        });
        // A panic there is a bug here; it must not hide behind a wrong answer.
        let answered = answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let asked = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        answered.and(asked)
    })
}

/// A cache line of its own, and the one that prefetchers pair it with.
#[repr(align(128))]
struct Line(AtomicU32);

fn wait_for(ball: &AtomicU32, value: u32, deadline: Instant) -> bool {
    let mut spins = 0_u32;
    while ball.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        spins += 1;
        if spins % 4096 == 0 && Instant::now() > deadline {
            return false;
        }
    }
    true
}
