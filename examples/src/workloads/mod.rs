//! Embedded workloads: real algorithms on real data whose memory accesses and basic blocks are recorded as they
//! run, alone and composed into programs with phases.
//!
//! They are what every pipeline runs when it is given no program, and the ground truth that models are held
//! against: nothing about their reuse is drawn from a distribution that a model might share. Each kernel's
//! *result* is checked against an independent computation, so what is traced is the algorithm it claims to be.
//! What is left out: instruction fetches, the stack, and whatever a compiler would keep in registers.
//!
//! [`Workload::events`] is a lazy stream for a sampler; [`Workload::run`] hands the events to a closure.

mod btree;
mod graph;
mod join;
mod kernel;
mod kv;
mod matmul;
mod phased;
mod sort;
mod stream;
mod tracer;
mod walks;

pub use btree::btree;
pub use graph::{Graph, UNREACHED, bfs, pagerank};
pub use join::{Row, hash_join};
pub use kernel::Kernel;
pub use kv::{Answer, key_value};
pub use matmul::{blocked as matmul_blocked, naive as matmul_naive};
pub use phased::{NAMES, Segment, Workload};
pub use sort::{mergesort, quicksort};
pub use stream::{ChunkSink, EventStream};
pub use tracer::{Array, Block, Sink, Tracer};
pub use walks::{gather, pointer_chase, stream as stream_loops, sweep};

/// The code of all kernels.
const CODE: [&[Block]; 7] =
    [sort::CODE, join::CODE, matmul::CODE, btree::CODE, graph::CODE, kv::CODE, walks::CODE];

/// Name of the embedded code at `pc`, as `kernel::block`; `None` where no embedded kernel has code.
pub fn locate(pc: u64) -> Option<String> {
    let block = CODE.iter().copied().flatten().find(|block| block.contains(pc))?;
    Some(block.name().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_block_has_an_address_and_a_name_of_its_own() {
        let blocks: Vec<Block> = CODE.iter().copied().flatten().copied().collect();
        let addresses: BTreeSet<u64> = blocks.iter().map(Block::address).collect();
        let names: BTreeSet<&str> = blocks.iter().map(Block::name).collect();
        assert_eq!((addresses.len(), names.len()), (blocks.len(), blocks.len()));
        for block in blocks {
            assert_eq!(locate(block.address()).as_deref(), Some(block.name()));
            assert_eq!(locate(block.address() + 8).as_deref(), Some(block.name()));
        }
        assert_eq!(locate(0), None);
        assert_eq!(locate(u64::MAX), None);
    }
}
