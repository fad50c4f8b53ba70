//! What the sampler and its plugin inside the emulator share: a mapping of memory and the messages in it.
//!
//! The folder is compiled twice, into this crate and into the plugin, and uses only the standard library.
//! The channel is memory and not a file descriptor, because the emulated program owns the descriptor table:
//! it may close every descriptor, or get one of ours back for a file of its own.

pub mod codec;
pub mod futex;
pub mod layout;
pub mod message;
pub mod ring;
pub mod script;
pub mod tree;
pub mod word;
