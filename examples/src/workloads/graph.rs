//! A random graph in compressed sparse rows, breadth-first search of it and PageRank on it.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tracer::{Block, Sink, Tracer};

const VISIT: Block = Block::new(6, 0, "bfs::visit", 8);
const EDGE: Block = Block::new(6, 1, "bfs::edge", 5);
const DISCOVER: Block = Block::new(6, 2, "bfs::discover", 5);

const VERTEX: Block = Block::new(7, 0, "pagerank::vertex", 6);
const GATHER: Block = Block::new(7, 1, "pagerank::gather", 5);
const UPDATE: Block = Block::new(7, 2, "pagerank::update", 6);
const SCALE: Block = Block::new(7, 3, "pagerank::scale", 7);

pub(super) const CODE: &[Block] = &[VISIT, EDGE, DISCOVER, VERTEX, GATHER, UPDATE, SCALE];

/// Level of a vertex that cannot be reached.
pub const UNREACHED: u32 = u32::MAX;
/// Probability of following a link, as in the original PageRank.
const DAMPING: f64 = 0.85;

/// Edges of vertex v are `targets[offsets[v]..offsets[v + 1]]`.
#[derive(Clone, Debug)]
pub struct Graph {
    offsets: Vec<u32>, // ascending, one more than vertices
    targets: Vec<u32>,
}

impl Graph {
    /// `vertices` vertices (at least 1) with `degree` edges each, to targets that are drawn with a skew: a few
    /// vertices have very many incoming edges, as in real networks.
    pub fn random(vertices: usize, degree: usize, seed: u64) -> Self {
        let vertices = vertices.max(1);
        let mut random = StdRng::seed_from_u64(seed);
        let mut target = || {
            let skewed = random.random::<f64>().powi(3) * vertices as f64;
            // An odd multiplier scatters the popular vertices over the numbers.
            ((skewed as u64).wrapping_mul(0x9e37_79b1) % vertices as u64) as u32
        };
        let targets = (0..vertices * degree).map(|_| target()).collect();
        let offsets = (0..=vertices).map(|v| (v * degree) as u32).collect();
        Self { offsets, targets }
    }

    fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    fn edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let of = |v: usize| self.offsets[v] as usize..self.offsets[v + 1] as usize;
        (0..self.vertices()).flat_map(move |v| self.targets[of(v)].iter().map(move |&to| (v as u32, to)))
    }

    /// The graph with all edges turned round.
    fn reversed(&self) -> Self {
        let mut offsets = vec![0; self.offsets.len()];
        for &to in &self.targets {
            offsets[to as usize + 1] += 1;
        }
        for v in 1..offsets.len() {
            offsets[v] += offsets[v - 1];
        }
        let mut place = offsets.clone();
        let mut targets = vec![0; self.targets.len()];
        for (from, to) in self.edges() {
            targets[place[to as usize] as usize] = from;
            place[to as usize] += 1;
        }
        Self { offsets, targets }
    }
}

/// Levels of all vertices in breadth-first order from vertex 0.
pub fn bfs<S: Sink>(t: &mut Tracer<'_, S>, graph: Graph) -> Vec<u32> {
    let vertices = graph.vertices();
    let (offsets, targets) = (t.place(graph.offsets), t.place(graph.targets));
    let mut levels = t.place(vec![UNREACHED; vertices]);
    let mut queue = t.zeros::<u32>(vertices);
    t.block(DISCOVER);
    t.store(&mut levels, 0, 0);
    t.store(&mut queue, 0, 0);
    let (mut head, mut tail) = (0, 1);
    while head < tail {
        t.block(VISIT);
        let vertex = t.load(&queue, head) as usize;
        head += 1;
        let level = t.load(&levels, vertex);
        let (first, end) = (t.load(&offsets, vertex), t.load(&offsets, vertex + 1));
        for edge in first..end {
            t.block(EDGE);
            let target = t.load(&targets, edge as usize);
            if t.load(&levels, target as usize) == UNREACHED {
                t.block(DISCOVER);
                t.store(&mut levels, target as usize, level + 1);
                t.store(&mut queue, tail, target);
                tail += 1;
            }
        }
    }
    levels.into_values()
}

/// Ranks of all vertices after `iterations` rounds of PageRank, each vertex gathering from the vertices that
/// link to it. What vertices without links hold is lost, as in the original definition.
pub fn pagerank<S: Sink>(t: &mut Tracer<'_, S>, graph: &Graph, iterations: usize) -> Vec<f64> {
    let vertices = graph.vertices();
    let incoming = graph.reversed();
    let degrees = graph.offsets.windows(2).map(|o| o[1] - o[0]).collect();
    let (offsets, sources) = (t.place(incoming.offsets), t.place(incoming.targets));
    let degrees = t.place(degrees);
    let mut ranks = t.place(vec![1.0 / vertices as f64; vertices]);
    let mut shares = t.zeros::<f64>(vertices); // what each vertex gives to each vertex it links to
    for _ in 0..iterations {
        for vertex in 0..vertices {
            t.block(SCALE);
            let (rank, degree) = (t.load(&ranks, vertex), t.load(&degrees, vertex));
            t.store(&mut shares, vertex, rank / f64::from(degree.max(1)));
        }
        for vertex in 0..vertices {
            t.block(VERTEX);
            let (first, end) = (t.load(&offsets, vertex), t.load(&offsets, vertex + 1));
            let mut sum = 0.0;
            for edge in first..end {
                t.block(GATHER);
                let source = t.load(&sources, edge as usize);
                sum += t.load(&shares, source as usize);
            }
            t.block(UPDATE);
            t.store(&mut ranks, vertex, (1.0 - DAMPING) / vertices as f64 + DAMPING * sum);
        }
    }
    ranks.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_relaxing_every_edge_until_nothing_changes() {
        for (vertices, degree) in [(0, 0), (1, 3), (50, 1), (300, 2), (1000, 5)] {
            for seed in 0..3 {
                let graph = Graph::random(vertices, degree, seed);
                let mut expected = vec![UNREACHED; graph.vertices()];
                expected[0] = 0;
                let mut changed = true;
                while changed {
                    changed = false;
                    for (from, to) in graph.edges() {
                        let through = expected[from as usize].saturating_add(1);
                        if through < expected[to as usize] {
                            expected[to as usize] = through;
                            changed = true;
                        }
                    }
                }
                let mut sink = |_| ();
                assert_eq!(bfs(&mut Tracer::new(&mut sink, 0), graph), expected);
            }
        }
    }

    #[test]
    fn ranks_are_those_of_the_transition_matrix() {
        let graph = Graph::random(40, 3, 5);
        let n = graph.vertices();
        let mut expected = vec![1.0 / n as f64; n];
        for _ in 0..20 {
            let mut next = vec![0.15 / n as f64; n];
            for (from, to) in graph.edges() {
                next[to as usize] += 0.85 * expected[from as usize] / 3.0;
            }
            expected = next;
        }
        let mut sink = |_| ();
        let ranks = pagerank(&mut Tracer::new(&mut sink, 0), &graph, 20);
        // The two add the same 120 terms in different orders: a few roundings of 1e-16.
        assert!(ranks.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14));
        assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-12); // every vertex has links: nothing is lost
    }

    #[test]
    fn targets_are_skewed() {
        let graph = Graph::random(1000, 10, 1).reversed();
        let mut degrees: Vec<u32> = graph.offsets.windows(2).map(|o| o[1] - o[0]).collect();
        degrees.sort_unstable();
        // P(u^3 n < n / 100) = 0.01^(1/3) = 0.215: a hundredth of the vertices has a fifth of the edges.
        let popular: u32 = degrees.iter().rev().take(10).sum();
        assert!((1900..2500).contains(&popular), "{popular}");
    }
}
