//! Elementary access patterns: streaming through vectors, chasing pointers through a random cycle, gathering from a
//! table whose size the code does not show, and sweeping through one with a stride that it does not show either.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tracer::{Block, Sink, Tracer};

const COPY: Block = Block::new(9, 0, "stream::copy", 5);
const SCALE: Block = Block::new(9, 1, "stream::scale", 6);
const ADD: Block = Block::new(9, 2, "stream::add", 7);
const TRIAD: Block = Block::new(9, 3, "stream::triad", 8);
const HOP: Block = Block::new(10, 0, "pointer_chase::hop", 3);
const PICK: Block = Block::new(11, 0, "gather::pick", 9);
const VISIT: Block = Block::new(12, 0, "sweep::visit", 6);

pub(super) const CODE: &[Block] = &[COPY, SCALE, ADD, TRIAD, HOP, PICK, VISIT];

/// The factor of the STREAM benchmark.
const FACTOR: f64 = 3.0;

/// The four loops of the STREAM benchmark (copy, scale, add, triad) over vectors of `length` doubles, `passes`
/// times. Gives the three vectors.
pub fn stream<S: Sink>(t: &mut Tracer<'_, S>, length: usize, passes: usize) -> [Vec<f64>; 3] {
    let mut a = t.place(vec![1.0; length]);
    let mut b = t.place(vec![2.0; length]);
    let mut c = t.place(vec![0.0; length]);
    for _ in 0..passes {
        for i in 0..length {
            t.block(COPY);
            let value = t.load(&a, i);
            t.store(&mut c, i, value);
        }
        for i in 0..length {
            t.block(SCALE);
            let value = FACTOR * t.load(&c, i);
            t.store(&mut b, i, value);
        }
        for i in 0..length {
            t.block(ADD);
            let value = t.load(&a, i) + t.load(&b, i);
            t.store(&mut c, i, value);
        }
        for i in 0..length {
            t.block(TRIAD);
            let value = t.load(&b, i) + FACTOR * t.load(&c, i);
            t.store(&mut a, i, value);
        }
    }
    [a, b, c].map(super::tracer::Array::into_values)
}

/// Words of a node of the chain: the number of the next one, and 56 bytes that are not touched.
const NODE: usize = 8;

/// Follows `hops` pointers through one random cycle of `nodes` nodes (at least 1), a cache line each. Gives the
/// node where it ends, having begun at node 0.
pub fn pointer_chase<S: Sink>(t: &mut Tracer<'_, S>, nodes: usize, hops: usize, seed: u64) -> usize {
    let nodes = nodes.max(1);
    let mut random = StdRng::seed_from_u64(seed);
    // Sattolo's algorithm: a uniformly random permutation that is a single cycle.
    let mut next: Vec<u64> = (0..nodes as u64).collect();
    for i in (1..nodes).rev() {
        next.swap(i, random.random_range(0..i));
    }
    let mut chain = vec![0; nodes * NODE];
    for (node, &successor) in next.iter().enumerate() {
        chain[node * NODE] = successor;
    }
    let chain = t.place(chain);
    let mut node = 0;
    for _ in 0..hops {
        t.block(HOP);
        node = t.load(&chain, node * NODE) as usize;
    }
    node
}

/// Adds up `picks` randomly chosen elements of a table of `length` 8-byte elements (at least 1) that holds
/// 0, 1, 2, ... The code is the same whatever the length: phases that differ in it look alike to a code
/// signature and differ in every cache.
pub fn gather<S: Sink>(t: &mut Tracer<'_, S>, length: usize, picks: usize, seed: u64) -> u64 {
    let length = length.max(1);
    let mut random = StdRng::seed_from_u64(seed);
    let table = t.place((0..length as u64).collect());
    let mut sum: u64 = 0;
    for _ in 0..picks {
        t.block(PICK);
        sum = sum.wrapping_add(t.load(&table, random.random_range(0..length)));
    }
    sum
}

/// Adds up `visits` elements of a table of `length` 8-byte elements (at least 1) that holds 0, 1, 2, ..., going on by
/// `stride` elements each time and around at the end. The code is the same whatever length and stride, which decide all
/// that happens in a cache.
pub fn sweep<S: Sink>(t: &mut Tracer<'_, S>, length: usize, stride: usize, visits: usize) -> u64 {
    let length = length.max(1);
    let table = t.place((0..length as u64).collect());
    let (mut at, mut sum) = (0, 0_u64);
    for _ in 0..visits {
        t.block(VISIT);
        sum = sum.wrapping_add(t.load(&table, at));
        at = (at + stride) % length;
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use reuse_sampler::replay::Event;

    use super::*;

    #[test]
    fn stream_multiplies_by_fifteen_per_pass() {
        let mut sink = |_| ();
        let [a, b, c] = stream(&mut Tracer::new(&mut sink, 0), 100, 4);
        // copy: c = a; scale: b = 3a; add: c = a + 3a = 4a; triad: a = 3a + 12a.
        assert_eq!(a, vec![15_f64.powi(4); 100]);
        assert_eq!(b, vec![3.0 * 15_f64.powi(3); 100]);
        assert_eq!(c, vec![4.0 * 15_f64.powi(3); 100]);
    }

    #[test]
    fn chasing_visits_every_node_once_and_comes_back() {
        for nodes in [0, 1, 2, 1000] {
            let mut lines = Vec::new();
            let mut sink = |event| {
                if let Event::Access(access) = event {
                    lines.push(access.address / 64);
                }
            };
            assert_eq!(pointer_chase(&mut Tracer::new(&mut sink, 0), nodes, nodes.max(1), 2), 0);
            assert_eq!(lines.len(), nodes.max(1));
            assert_eq!(lines.iter().collect::<HashSet<_>>().len(), lines.len());
        }
    }

    #[test]
    fn gathering_sums_what_its_addresses_say() {
        let mut expected = 0;
        let mut sink = |event| {
            if let Event::Access(access) = event {
                expected += (access.address - 0x10_0000_0000) / 8;
            }
        };
        let sum = gather(&mut Tracer::new(&mut sink, 0), 500, 2000, 6);
        assert_eq!(sum, expected);
        assert!((sum as f64 / 2000.0 - 249.5).abs() < 5.0 * 144.0 / 2000_f64.sqrt()); // 5 standard errors
    }

    #[test]
    fn sweeping_goes_around_in_strides() {
        let mut addresses = Vec::new();
        let mut sink = |event| {
            if let Event::Access(access) = event {
                addresses.push((access.address - 0x10_0000_0000) / 8);
            }
        };
        let sum = sweep(&mut Tracer::new(&mut sink, 0), 10, 3, 20);
        let expected: Vec<u64> = (0..20).map(|k| 3 * k % 10).collect();
        assert_eq!(addresses, expected);
        assert_eq!(sum, 90); // 3 and 10 have no common factor: each element twice
    }
}
