//! What models are compared with: exact fully associative caches of many sizes in one pass, and SHARDS.
//!
//! [`ExactLru`] gives the misses of *every* size at once from the LRU stack distances (Mattson, Gecsei, Slutz and
//! Traiger, *Evaluation Techniques for Storage Hierarchies*, IBM Systems Journal 9, 1970). [`ExactRandom`] simulates
//! random replacement, for which no such shortcut exists, at up to 64 combinations of size and seed at once.
//! [`MesiCaches`] gives each thread a private cache that the others' stores invalidate. [`SizedLru`] simulates caches of objects
//! that differ in size. [`Shards`] follows a share of the lines exactly.

mod histogram;
mod lines;
mod lru;
mod mesi;
mod random;
mod shards;
mod sized;
mod stack;

pub use histogram::StackHistogram;
pub use lines::LineIds;
pub use lru::ExactLru;
pub use mesi::{MesiCaches, MesiLine, MesiMisses, MesiSizesError};
pub use random::{ExactRandom, RandomCachesError, RandomWindow};
pub use shards::{Shards, ShardsWindow, SpatialRate, SpatialRateError, spatial_hash};
pub use sized::{SizedLru, SizedMisses};
pub use stack::LruStack;
