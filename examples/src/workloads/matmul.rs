//! Matrix multiplication: the textbook's three loops, which walk down the columns of B, and the blocked
//! version, which does the same arithmetic in tiles that fit a small cache.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tracer::{Array, Block, Sink, Tracer};

const NAIVE_ELEMENT: Block = Block::new(3, 0, "matmul_naive::element", 5);
const NAIVE_INNER: Block = Block::new(3, 1, "matmul_naive::inner", 6);
const NAIVE_STORE: Block = Block::new(3, 2, "matmul_naive::store", 3);
const TILE: Block = Block::new(4, 0, "matmul_blocked::tile", 7);
const TILE_ROW: Block = Block::new(4, 1, "matmul_blocked::row", 5);
const TILE_INNER: Block = Block::new(4, 2, "matmul_blocked::inner", 7);

pub(super) const CODE: &[Block] = &[NAIVE_ELEMENT, NAIVE_INNER, NAIVE_STORE, TILE, TILE_ROW, TILE_INNER];

/// Small whole numbers, so that the sums are exact in whatever order they are formed.
fn matrices(n: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut matrix = || (0..n * n).map(|_| f64::from(random.random_range(0..64_u32))).collect();
    (matrix(), matrix())
}

/// C = A B of random `n` by `n` matrices, row-major, by the definition.
pub fn naive<S: Sink>(t: &mut Tracer<'_, S>, n: usize, seed: u64) -> Vec<f64> {
    let (a, b) = matrices(n, seed);
    let (a, b) = (t.place(a), t.place(b));
    let mut c = t.zeros::<f64>(n * n);
    for i in 0..n {
        for j in 0..n {
            t.block(NAIVE_ELEMENT);
            let mut sum = 0.0;
            for k in 0..n {
                t.block(NAIVE_INNER);
                sum += t.load(&a, i * n + k) * t.load(&b, k * n + j);
            }
            t.block(NAIVE_STORE);
            t.store(&mut c, i * n + j, sum);
        }
    }
    c.into_values()
}

/// The same product in tiles of `tile` by `tile` elements (0 is taken as 1).
pub fn blocked<S: Sink>(t: &mut Tracer<'_, S>, n: usize, tile: usize, seed: u64) -> Vec<f64> {
    let (a, b) = matrices(n, seed);
    let (a, b) = (t.place(a), t.place(b));
    let mut c = t.zeros::<f64>(n * n);
    let tile = tile.max(1);
    for rows in (0..n).step_by(tile) {
        for inner in (0..n).step_by(tile) {
            for columns in (0..n).step_by(tile) {
                t.block(TILE);
                multiply_tile(t, (&a, &b, &mut c), n, (rows, inner, columns), tile);
            }
        }
    }
    c.into_values()
}

fn multiply_tile<S: Sink>(
    t: &mut Tracer<'_, S>,
    (a, b, c): (&Array<f64>, &Array<f64>, &mut Array<f64>),
    n: usize,
    (rows, inner, columns): (usize, usize, usize),
    tile: usize,
) {
    for i in rows..(rows + tile).min(n) {
        for k in inner..(inner + tile).min(n) {
            t.block(TILE_ROW);
            let factor = t.load(a, i * n + k);
            for j in columns..(columns + tile).min(n) {
                t.block(TILE_INNER);
                let sum = t.load(c, i * n + j) + factor * t.load(b, k * n + j);
                t.store(c, i * n + j, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_give_the_product() {
        for (n, tile) in [(0, 4), (1, 1), (5, 0), (7, 3), (16, 8), (33, 16)] {
            let (a, b) = matrices(n, 9);
            let expected: Vec<f64> =
                (0..n * n).map(|e| (0..n).map(|k| a[e / n * n + k] * b[k * n + e % n]).sum()).collect();
            let mut sink = |_| ();
            assert_eq!(naive(&mut Tracer::new(&mut sink, 0), n, 9), expected);
            assert_eq!(blocked(&mut Tracer::new(&mut sink, 0), n, tile, 9), expected);
        }
    }

    #[test]
    fn naive_makes_two_accesses_per_product_and_one_per_element() {
        let mut events = Vec::new();
        naive(&mut Tracer::new(&mut events, 0), 10, 1);
        let accesses = events.iter().filter(|e| matches!(e, reuse_sampler::replay::Event::Access(_))).count();
        assert_eq!(accesses, 2 * 1000 + 100);
    }
}
