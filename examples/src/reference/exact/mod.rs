//! Exact fully associative caches of many sizes in one pass over an access stream.
//!
//! [`ExactLru`] answers for *every* size at once from the LRU stack distances (Mattson, Gecsei, Slutz and
//! Traiger, *Evaluation Techniques for Storage Hierarchies*, IBM Systems Journal 9, 1970).
//! [`ExactRandom`] simulates random replacement, for which no such shortcut exists, at up to 64 combinations
//! of size and seed at once. Set-associative caches are elsewhere.

mod histogram;
mod lines;
mod lru;
mod random;
mod stack;

pub use histogram::StackHistogram;
pub use lines::LineIds;
pub use lru::ExactLru;
pub use random::{ExactRandom, RandomCachesError, RandomWindow};
pub use stack::LruStack;
