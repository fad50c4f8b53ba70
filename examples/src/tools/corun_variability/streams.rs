//! Streams of accesses drawn at random: shapes and sizes that no constant was chosen on, many of them near a cliff.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use reuse_sampler::LineSize;

use crate::cli::Failure;
use crate::machines::chip::Recording;
use crate::machines::testbed::programs::Recorded;

/// Accesses of a stream, per line of the shared cache.
const LENGTH: u64 = 24;

/// How lines follow each other.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// In order, over and over.
    Walk,
    /// In an order drawn once, over and over.
    Chase,
    /// Each drawn anew, all alike.
    Uniform,
    /// Each drawn anew, few of them often.
    Skewed,
    /// A part of them four times over, then the next part.
    Tiles,
    /// There and back again.
    Sweep,
}

const SHAPES: [Shape; 6] =
    [Shape::Walk, Shape::Chase, Shape::Uniform, Shape::Skewed, Shape::Tiles, Shape::Sweep];

/// Stream number `number` of `seed`, for a shared cache of `lines` lines.
pub(super) fn stream(number: u64, seed: u64, lines: u64, line_size: LineSize) -> Result<Recorded, Failure> {
    let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number));
    // Every shape once before any comes again.
    let shape = SHAPES[(number % SHAPES.len() as u64) as usize];
    let part = (random.random_range(0.2_f64.ln()..1.3_f64.ln())).exp();
    let main = (lines as f64 * part) as u64;
    let (small, rare) = (random.random_range(1..=lines / 16), random.random_range(0.0..0.5));
    let mix = random.random_range(0.15..0.6);
    let mut order: Vec<u64> = (0..main).collect();
    order.shuffle(&mut random);
    let mut next = 0_u64;
    let accesses = (0..LENGTH * lines).map(|_| {
        if random.random_bool(rare) {
            // Beside it, a small table that private caches hold in part.
            return main + random.random_range(0..small);
        }
        let at = next;
        next += 1;
        match shape {
            Shape::Walk => at % main,
            Shape::Chase => order[(at % main) as usize],
            Shape::Uniform => random.random_range(0..main),
            Shape::Skewed => (main as f64 * random.random::<f64>().powi(3)) as u64,
            Shape::Tiles => {
                let tile = (main / 5).max(1);
                (at / (4 * tile) * tile + at % tile) % main
            }
            Shape::Sweep => {
                let place = at % (2 * main);
                place.min(2 * main - 1 - place)
            }
        }
    });
    let recording = Recording::of_lines(accesses, line_size)?;
    let name = format!("{number}: {shape:?} {part:.2}").to_lowercase();
    Ok(Recorded::new(name, recording, mix)?)
}
