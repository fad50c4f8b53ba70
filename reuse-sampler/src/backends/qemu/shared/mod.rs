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

/// The option that says which processor is emulated; if given, the last.
pub const CPU: &str = "-cpu";

/// What is added to the environment of the emulator, and hidden from the program. Emulators from version 10 on place the
/// program between their own mappings, of which the C library makes one for each thread that allocates, whenever that
/// happens to be: with one for all, the program has the same addresses in each run.
pub const ONE_ARENA: [(&str, &str); 2] =
    [("MALLOC_ARENA_MAX", "1"), ("QEMU_UNSET_ENV", "MALLOC_ARENA_MAX,QEMU_UNSET_ENV")];
