//! The kernels with their sizes, as values that can be listed, compared and run.

use super::tracer::{Sink, Tracer};
use super::{
    Graph, bfs, btree, gather, hash_join, key_value, matmul_blocked, matmul_naive, mergesort, pagerank,
    pointer_chase, quicksort, stream_loops, sweep,
};

/// A kernel and its sizes. Memory footprints below are those of the data it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Quicksort of `keys` random 8-byte keys: 8 bytes a key.
    Quicksort {
        /// Number of keys.
        keys: usize,
    },
    /// Bottom-up merge sort of `keys` random 8-byte keys: 16 bytes a key.
    Mergesort {
        /// Number of keys.
        keys: usize,
    },
    /// Hash join: 24 to 28 bytes a row of the build table with its index, 16 bytes a row streamed through it.
    HashJoin {
        /// Rows of the table that is indexed.
        build: usize,
        /// Rows looked up in it.
        probe: usize,
    },
    /// Three-loop matrix product: 24 n^2 bytes.
    MatmulNaive {
        /// Rows and columns.
        n: usize,
    },
    /// The same in tiles.
    MatmulBlocked {
        /// Rows and columns.
        n: usize,
        /// Rows and columns of a tile.
        tile: usize,
    },
    /// Insertions into a B-tree and lookups in it: about 25 bytes a key.
    BTree {
        /// Keys inserted.
        keys: usize,
        /// Keys looked up.
        lookups: usize,
    },
    /// Breadth-first search: 12 + 4 * degree bytes a vertex.
    Bfs {
        /// Number of vertices.
        vertices: usize,
        /// Edges out of each.
        degree: usize,
    },
    /// PageRank: 24 + 4 * degree bytes a vertex.
    PageRank {
        /// Number of vertices.
        vertices: usize,
        /// Edges out of each.
        degree: usize,
        /// Rounds.
        iterations: usize,
    },
    /// A key-value store under Zipf-distributed requests: 96 to 128 bytes a key.
    KeyValue {
        /// Number of keys.
        keys: u64,
        /// Number of requests, nine reads to one write.
        requests: usize,
        /// Exponent of Zipf's law in hundredths.
        skew_percent: u32,
    },
    /// The four loops of STREAM: 24 bytes an element.
    Stream {
        /// Elements of each of the three vectors.
        length: usize,
        /// How often the four loops run.
        passes: usize,
    },
    /// Pointer chase through one random cycle: 64 bytes a node.
    PointerChase {
        /// Nodes in the cycle.
        nodes: usize,
        /// Pointers followed.
        hops: usize,
    },
    /// Random reads of a table: 8 bytes an element.
    Gather {
        /// Elements of the table.
        length: usize,
        /// Number of reads.
        picks: usize,
    },
    /// Reads of a table at equal distances, around and around: 8 bytes an element.
    Sweep {
        /// Elements of the table.
        length: usize,
        /// Elements from one read to the next.
        stride: usize,
        /// Number of reads.
        visits: usize,
    },
}

impl Kernel {
    /// Name of the kernel, without its sizes: the first part of its blocks' names.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Quicksort { .. } => "quicksort",
            Self::Mergesort { .. } => "mergesort",
            Self::HashJoin { .. } => "hash_join",
            Self::MatmulNaive { .. } => "matmul_naive",
            Self::MatmulBlocked { .. } => "matmul_blocked",
            Self::BTree { .. } => "btree",
            Self::Bfs { .. } => "bfs",
            Self::PageRank { .. } => "pagerank",
            Self::KeyValue { .. } => "key_value",
            Self::Stream { .. } => "stream",
            Self::PointerChase { .. } => "pointer_chase",
            Self::Gather { .. } => "gather",
            Self::Sweep { .. } => "sweep",
        }
    }

    /// Runs it once in memory region `region`, on data drawn with `seed`.
    pub fn run<S: Sink>(&self, sink: &mut S, region: u16, seed: u64) {
        let t = &mut Tracer::new(sink, region);
        match *self {
            Self::Quicksort { keys } => drop(quicksort(t, keys, seed)),
            Self::Mergesort { keys } => drop(mergesort(t, keys, seed)),
            Self::HashJoin { build, probe } => drop(hash_join(t, build, probe, seed)),
            Self::MatmulNaive { n } => drop(matmul_naive(t, n, seed)),
            Self::MatmulBlocked { n, tile } => drop(matmul_blocked(t, n, tile, seed)),
            Self::BTree { keys, lookups } => drop(btree(t, keys, lookups, seed)),
            Self::Bfs { vertices, degree } => {
                drop(bfs(t, Graph::random(vertices, degree, seed)));
            }
            Self::PageRank { vertices, degree, iterations } => {
                drop(pagerank(t, &Graph::random(vertices, degree, seed), iterations));
            }
            Self::KeyValue { keys, requests, skew_percent } => {
                drop(key_value(t, keys, requests, skew_percent, seed));
            }
            Self::Stream { length, passes } => drop(stream_loops(t, length, passes)),
            Self::PointerChase { nodes, hops } => {
                pointer_chase(t, nodes, hops, seed);
            }
            Self::Gather { length, picks } => {
                gather(t, length, picks, seed);
            }
            Self::Sweep { length, stride, visits } => {
                sweep(t, length, stride, visits);
            }
        }
    }
}
