//! The part of the `qemu` backend that runs inside the emulator.
//!
//! `build.rs` compiles this folder into a shared library that the crate carries inside itself. It uses only
//! the standard library, and shares the sampling engine and the channel with the crate by source: one
//! [`Tracker`](engine::tracker::Tracker) per emulated thread sees the accesses, and what it reports at each
//! window boundary goes through a mapping of memory to the sampler.
//!
//! The emulator calls in from the threads of the program: [`translate`] once for each block it translates,
//! [`hot`] for each block executed and each access made, [`system_calls`] around system calls. [`boundary`]
//! ends and begins windows, by plans that come through [`channel`], and has the code translated anew by
//! [`instrumentation`]; [`trace`] takes the place of both where everything is handed out. [`threads`] holds the states of
//! all threads, [`halt`] stops them, and [`ending`] reports them for the last time. [`fork`] gives
//! a forked child a region of its own to report in, and [`execute`] starts the emulator anew for a program that is executed. No two modules need each other.

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(dead_code)] // each side of the shared sources uses its half

#[path = "../src/engine/mod.rs"]
mod engine;
#[path = "../src/backends/qemu/shared/mod.rs"]
mod shared;

mod api;
mod blocks;
mod boundary;
mod callbacks;
mod channel;
mod code;
mod ending;
mod execute;
mod fork;
mod guest;
mod halt;
mod hot;
mod install;
mod instrumentation;
mod operand;
mod settings;
mod stale;
mod system_calls;
mod thread;
mod threads;
mod trace;
mod translate;
mod x86;
