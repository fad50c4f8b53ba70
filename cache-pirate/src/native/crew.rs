//! The pirate's threads: pinned, and walking their parts of the stolen lines, probing them, or idle.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::gettid;

use super::affinity;
use super::memory::{self, Region};
use super::params::{Pages, Placement};
use super::residency::{PROBES, Times};
use crate::error::PirateError;

/// Lines walked between two checks of the state: some ten microseconds.
const STRETCH: usize = 4096;
/// The same where the pirate shares the target's processor and its turn is short.
const SHORT_STRETCH: usize = 512;
/// Share of a period that a time-sliced pirate takes at most.
const TURN: f64 = 0.5;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;
const LEAVING: u8 = 3;
/// Probes its part once, then idles.
const PROBING: u8 = 4;
/// The same after it has flushed the probed lines.
const FLUSHING: u8 = 5;

/// What a worker and the crew's owner share.
#[derive(Debug, Default)]
struct Orders {
    state: AtomicU8,
    thread: AtomicI32,
    // The part to walk and the next line in it; the owner changes them only while the worker is idle.
    first: AtomicUsize,
    lines: AtomicUsize,
    next: AtomicUsize,
    touched: AtomicU64,
    probed: AtomicU64, // bits of the last probe's nanoseconds per line; NaN if it cannot flush
    seed: AtomicU64,
}

#[derive(Debug)]
struct Worker {
    orders: Arc<Orders>,
    handle: JoinHandle<()>,
}

/// All pirate threads.
#[derive(Debug)]
pub(super) struct Crew {
    region: Arc<Region>,
    line: usize,
    workers: Vec<Worker>,
    active: usize,
    lines: usize, // assigned
}

impl Crew {
    /// A thread on each of `cpus`, standing still, with `bytes` to steal at most.
    pub(super) fn new(
        cpus: &[usize],
        bytes: u64,
        line: u32,
        placement: Placement,
    ) -> Result<Self, PirateError> {
        let region = Arc::new(Region::new(bytes as usize)?);
        let mut crew = Self { region, line: line as usize, workers: Vec::new(), active: 0, lines: 0 };
        for &cpu in cpus {
            crew.recruit(cpu, placement)?;
        }
        Ok(crew)
    }

    fn recruit(&mut self, cpu: usize, placement: Placement) -> Result<(), PirateError> {
        let (probed, seed) =
            (AtomicU64::new(f64::NAN.to_bits()), AtomicU64::new(self.workers.len() as u64 + 1));
        let orders = Arc::new(Orders { probed, seed, ..Orders::default() });
        let (report, ready) = mpsc::channel();
        let (mine, region, line) = (Arc::clone(&orders), Arc::clone(&self.region), self.line);
        let work = move || {
            let prepared = affinity::pin_here(cpu).and_then(|()| match placement {
                Placement::Beside => Ok(()),
                Placement::TimeSliced { .. } => affinity::real_time_here(),
            });
            mine.thread.store(gettid().as_raw(), Ordering::Release);
            let able = prepared.is_ok();
            if report.send(prepared).is_ok() && able {
                serve(&mine, &region, line, placement);
            }
        };
        let refused = |source| PirateError::system("start", "a pirate thread", source, "");
        let handle = thread::Builder::new().name(format!("pirate-{cpu}")).spawn(work).map_err(refused)?;
        // The sender lives until the thread has reported.
        ready.recv().map_err(|_| refused(std::io::Error::from(std::io::ErrorKind::BrokenPipe)))??;
        self.workers.push(Worker { orders, handle });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn pages(&self) -> Pages {
        self.region.pages()
    }

    /// Kernel's numbers of the threads.
    pub(super) fn threads(&self) -> Vec<i32> {
        self.workers.iter().map(|worker| worker.orders.thread.load(Ordering::Acquire)).collect()
    }

    /// Divides `bytes` between `threads` threads, and flushes what was assigned before and is no more. Everybody must
    /// stand still.
    pub(super) fn assign(&mut self, bytes: u64, threads: usize) {
        let lines = bytes as usize / self.line;
        let given_up = (lines..self.lines).map(|number| number * self.line);
        // SAFETY: those lines were assigned, so that they lie within the region.
        unsafe { memory::flush(self.region.first(), given_up) };
        self.lines = lines;
        self.active = threads.clamp(1, self.workers.len().max(1)).min(lines);
        for (number, worker) in self.workers.iter().take(self.active).enumerate() {
            let part = |number| lines * number / self.active;
            worker.orders.first.store(part(number), Ordering::Relaxed);
            worker.orders.lines.store(part(number + 1) - part(number), Ordering::Relaxed);
            worker.orders.next.store(0, Ordering::Relaxed);
        }
    }

    /// Sets those with a part to work.
    pub(super) fn start(&self) {
        for worker in self.workers.iter().take(self.active) {
            worker.orders.state.store(RUNNING, Ordering::Release);
            worker.handle.thread().unpark();
        }
    }

    /// Asks everybody to stop, without waiting: within a stretch they do.
    pub(super) fn ask_to_stop(&self) {
        for worker in &self.workers {
            let state = &worker.orders.state;
            // Only those that walk; the others are idle or stopping already.
            let _ = state.compare_exchange(RUNNING, STOPPING, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Stops everybody and waits until they have.
    pub(super) fn stop(&self) {
        self.ask_to_stop();
        self.wait_while(STOPPING, Duration::from_micros(20));
    }

    fn wait_while(&self, state: u8, pause: Duration) {
        for worker in &self.workers {
            while worker.orders.state.load(Ordering::Acquire) == state && !worker.handle.is_finished() {
                thread::sleep(pause);
            }
        }
    }

    /// Lets them walk alone until each has touched its part `walks` times.
    pub(super) fn walk(&self, walks: u32) {
        let goals: Vec<u64> = self
            .workers
            .iter()
            .take(self.active)
            .map(|worker| {
                let lines = worker.orders.lines.load(Ordering::Relaxed) as u64;
                worker.orders.touched.load(Ordering::Relaxed) + lines * u64::from(walks)
            })
            .collect();
        self.start();
        for (worker, goal) in self.workers.iter().zip(goals) {
            while worker.orders.touched.load(Ordering::Relaxed) < goal && !worker.handle.is_finished() {
                thread::sleep(Duration::from_micros(50));
            }
        }
        self.stop();
    }

    /// Time of a dependent access to random lines of what is stolen, the mean over the threads. Everybody must be
    /// idle. `None` if nothing is stolen, or if the processor cannot flush lines where that is asked for.
    ///
    /// No prefetcher foresees these accesses, so that lines in memory stand out clearly. What is probed is in the
    /// private caches afterwards: a few lines in a thousand of what is stolen.
    pub(super) fn probe(&self, flushed: bool) -> Option<f64> {
        let state = if flushed { FLUSHING } else { PROBING };
        let probing = &self.workers[..self.active.min(self.workers.len())];
        for worker in probing {
            worker.orders.state.store(state, Ordering::Release);
            worker.handle.thread().unpark();
        }
        self.wait_while(state, Duration::from_micros(50));
        let times = probing.iter().map(|w| f64::from_bits(w.orders.probed.load(Ordering::Acquire)));
        let time = times.sum::<f64>() / probing.len() as f64;
        time.is_finite().then_some(time)
    }

    /// What a line of `bytes` bytes costs that is in the cache, and one that is in memory: the best of a few tries, since
    /// whatever disturbs them takes time. Leaves everybody without a part.
    pub(super) fn calibrate(&mut self, bytes: u64) -> Option<Times> {
        const TRIES: usize = 5;
        self.assign(bytes, 1);
        let (mut held, mut lost) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TRIES {
            self.walk(2);
            held = self.probe(false).map_or(held, |time| held.min(time));
            lost = self.probe(true).map_or(lost, |time| lost.min(time));
        }
        self.assign(0, 1);
        lost.is_finite().then_some(Times { held, lost })
    }

    /// Lines touched by all.
    pub(super) fn touched(&self) -> u64 {
        self.workers.iter().map(|worker| worker.orders.touched.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in self.workers.drain(..) {
            worker.orders.state.store(LEAVING, Ordering::Release);
            worker.handle.thread().unpark();
            // A panic in a worker has been reported on stderr; there is nothing left to do for it here.
            drop(worker.handle.join());
        }
    }
}

/// A worker's life.
fn serve(orders: &Orders, region: &Region, line: usize, placement: Placement) {
    let stretch = match placement {
        Placement::Beside => STRETCH,
        Placement::TimeSliced { .. } => SHORT_STRETCH,
    };
    loop {
        match orders.state.load(Ordering::Acquire) {
            IDLE => thread::park(),
            STOPPING => {
                // Leaving overrides it.
                let _ = orders.state.compare_exchange(STOPPING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            }
            RUNNING => match placement {
                Placement::Beside => {
                    advance(orders, region, line, stretch);
                }
                Placement::TimeSliced { period } => {
                    let begin = Instant::now();
                    let end = begin + period.mul_f64(TURN);
                    let mut left = orders.lines.load(Ordering::Relaxed);
                    while left > 0 && orders.state.load(Ordering::Acquire) == RUNNING && Instant::now() < end
                    {
                        left = left.saturating_sub(advance(orders, region, line, stretch));
                    }
                    thread::sleep(period.saturating_sub(begin.elapsed()));
                }
            },
            state @ (PROBING | FLUSHING) => {
                let time = probe(orders, region, line, state == FLUSHING);
                orders.probed.store(time.to_bits(), Ordering::Release);
                // Leaving overrides it.
                let _ = orders.state.compare_exchange(state, IDLE, Ordering::AcqRel, Ordering::Acquire);
            }
            _ => return,
        }
    }
}

/// Nanoseconds per random line of the part; not a number if the lines should be flushed and cannot be.
fn probe(orders: &Orders, region: &Region, line: usize, flushed: bool) -> f64 {
    let first = orders.first.load(Ordering::Relaxed);
    let lines = orders.lines.load(Ordering::Relaxed).max(1);
    let mut seed = orders.seed.load(Ordering::Relaxed);
    let mut chosen = vec![0_usize; PROBES];
    for offset in &mut chosen {
        // SplitMix64's increment and a multiplication: enough to outwit a prefetcher.
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let high = (u128::from(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9)) * lines as u128) >> 64;
        *offset = (first + high as usize) * line;
    }
    orders.seed.store(seed, Ordering::Relaxed);
    // SAFETY: the offsets are of lines of the part, which lies within the region.
    unsafe {
        if flushed && !memory::flush(region.first(), chosen.iter().copied()) {
            return f64::NAN;
        }
        memory::time_per_access(region.first(), &chosen)
    }
}

/// Walks the next lines of the part, up to its end; returns how many.
fn advance(orders: &Orders, region: &Region, line: usize, stretch: usize) -> usize {
    let first = orders.first.load(Ordering::Relaxed);
    let lines = orders.lines.load(Ordering::Relaxed);
    let next = orders.next.load(Ordering::Relaxed);
    let count = stretch.min(lines - next);
    // SAFETY: parts lie within the region: `assign` divides what is stolen, which is at most what the region
    // was made for, and `next + count` is at most the part's lines.
    unsafe { memory::walk(region.first().add((first + next) * line), count, line) };
    orders.touched.fetch_add(count as u64, Ordering::Relaxed);
    orders.next.store(if next + count == lines { 0 } else { next + count }, Ordering::Relaxed);
    count
}
