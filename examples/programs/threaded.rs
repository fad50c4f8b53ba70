//! A program with threads, to be observed: `threaded data|pipeline THREADS`.
//!
//! Four steps are gone through again and again: streaming, sorting, hashing, following the edges of a graph. Data-
//! parallel: every thread does all steps on its part of the data, and waits for the others after each. Pipeline-
//! parallel: every thread does some of the steps, or shares one with others, and hands the data on. The work is the
//! same whatever the number of threads.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

const STEPS: usize = 4;
const ROUNDS: usize = 8;
const FLOATS: usize = 256 << 10;
const KEYS: usize = 192 << 10;
const VERTICES: usize = 64 << 10;
const DEGREE: usize = 8;

struct Data {
    floats: Vec<f64>,
    keys: Vec<u32>,
    table: Vec<u32>, // a power of two, at least twice the keys; 0 is free
    ranks: Vec<f32>,
    edges: Vec<u32>,
    random: u64,
}

impl Data {
    /// One of `parts` parts.
    fn part(parts: usize, seed: u64) -> Self {
        let vertices = VERTICES / parts;
        let mut data = Self {
            floats: vec![1.0; FLOATS / parts],
            keys: vec![0; KEYS / parts],
            table: vec![0; (2 * KEYS / parts).next_power_of_two()],
            ranks: vec![1.0; vertices],
            edges: Vec::new(),
            random: seed,
        };
        data.edges = (0..vertices * DEGREE).map(|_| data.next() % vertices as u32).collect();
        data
    }

    fn next(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as u32
    }

    fn step(&mut self, step: usize) {
        match step {
            0 => stream(&mut self.floats),
            1 => self.sort(),
            2 => self.hash(),
            _ => rank(&mut self.ranks, &self.edges),
        }
    }

    #[inline(never)]
    fn sort(&mut self) {
        for at in 0..self.keys.len() {
            self.keys[at] = self.next() | 1;
        }
        self.keys.sort_unstable();
    }

    #[inline(never)]
    fn hash(&mut self) {
        let mask = self.table.len() - 1;
        let place = |key: u32| key.wrapping_mul(2_654_435_761) as usize;
        self.table.fill(0);
        for &key in &self.keys {
            let mut at = place(key) & mask;
            while self.table[at] != 0 {
                at = (at + 1) & mask;
            }
            self.table[at] = key | 1;
        }
        let mut found = 0;
        for _ in 0..2 * self.keys.len() {
            let key = self.next() | 1;
            let mut at = place(key) & mask;
            while self.table[at] != 0 && self.table[at] != key {
                at = (at + 1) & mask;
            }
            found += u32::from(self.table[at] == key);
        }
        black_box(found);
    }
}

#[inline(never)]
fn stream(floats: &mut [f64]) {
    for _ in 0..20 {
        for x in floats.iter_mut() {
            *x = *x * 0.5 + 1.0;
        }
        black_box(&floats);
    }
}

#[inline(never)]
fn rank(ranks: &mut Vec<f32>, edges: &[u32]) {
    for _ in 0..6 {
        let next = edges.chunks_exact(DEGREE).map(|to| {
            let sum: f32 = to.iter().map(|&vertex| ranks[vertex as usize]).sum();
            0.15 + 0.85 * sum / DEGREE as f32
        });
        *ranks = next.collect();
    }
}

fn data_parallel(threads: usize) {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for number in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut data = Data::part(threads, number as u64);
                for step in (0..ROUNDS).flat_map(|_| 0..STEPS) {
                    data.step(step);
                    barrier.wait();
                }
                black_box(data.ranks);
            });
        }
    });
}

/// Each thread does the steps of one of `stages` stages, on whatever comes.
fn pipeline_parallel(threads: usize) {
    let stages = threads.min(STEPS);
    // A stage that several threads share goes through more and smaller pieces.
    let parts = threads.div_ceil(STEPS);
    let (first, mut input): (Sender<Data>, Receiver<Data>) = channel();
    let mut running = Vec::new();
    for stage in 0..stages {
        let (output, next) = channel();
        let shared = Arc::new(Mutex::new(input));
        for _ in (stage..threads).step_by(stages) {
            let (shared, output) = (Arc::clone(&shared), output.clone());
            running.push(thread::spawn(move || {
                loop {
                    let piece = shared.lock().unwrap().recv();
                    let Ok(mut piece) = piece else { return };
                    for step in stage * STEPS / stages..(stage + 1) * STEPS / stages {
                        piece.step(step);
                    }
                    if output.send(piece).is_err() {
                        return;
                    }
                }
            }));
        }
        input = next;
    }
    for number in 0..ROUNDS * parts {
        // The pipeline is never empty for long, and never holds all.
        if number >= 2 * threads {
            black_box(input.recv().unwrap().ranks);
        }
        first.send(Data::part(parts, number as u64)).unwrap();
    }
    drop(first);
    while let Ok(piece) = input.recv() {
        black_box(piece.ranks);
    }
    for thread in running {
        thread.join().unwrap();
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.get(2).and_then(|text| text.parse().ok()).filter(|&threads| threads > 0);
    match (arguments.get(1).map(String::as_str), threads) {
        (Some("data"), Some(threads)) => data_parallel(threads),
        (Some("pipeline"), Some(threads)) => pipeline_parallel(threads),
        _ => {
            eprintln!("usage: threaded data|pipeline THREADS");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
