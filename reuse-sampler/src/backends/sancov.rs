//! Accesses and executed code of a recompiled program, by LLVM's coverage instrumentation.
//!
//! The compiler can put a call before every load and store of a program, and on every edge between its basic blocks. This
//! module defines the functions called, which record in the [session](crate::in_process::start) of the process.
//!
//! # In your own Cargo project
//! 1. Depend on this crate with the feature `sancov`, and have the program say what is to be profiled:
//!
//!    ```no_run
//!    use reuse_sampler::in_process::{ProfilerOptions, start};
//!    use reuse_sampler::{ReuseProfile, ReusePlan, SampleGap, LineSize};
//!
//!    # fn work() {}
//!    let session = start(ProfilerOptions::new(ReusePlan::Sparse(SampleGap::mean(1000.0)?)))?;
//!    work();
//!    let (windows, _) = session.stop();
//!    # Ok::<(), Box<dyn std::error::Error>>(())
//!    ```
//! 2. Compile the program, and it alone, with the pass (stable Rust will do):
//!
//!    ```text
//!    cargo rustc --release --bin PROGRAM -- -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
//!        -Cllvm-args=-sanitizer-coverage-trace-loads -Cllvm-args=-sanitizer-coverage-trace-stores \
//!        -Cllvm-args=-sanitizer-coverage-trace-pc-guard
//!    ```
//!
//!    Without the last argument there is no [code](crate::Window::code) in the windows, and it runs faster. `cargo
//!    rustc` gives the arguments to the named target only; `--lib` and `-p` name others. Do not put them into `RUSTFLAGS`:
//!    this crate would be instrumented too, and its functions would call themselves without end.
//! 3. Run it. Without a session the calls cost about two nanoseconds each.
//!
//! # What is seen
//! Every load and store that is left when the compiler has optimised the crate: of 1, 2, 4, 8 or 16 bytes. What it keeps
//! in registers is no access; vectors wider than 16 bytes, `memcpy` and the like, atomics and all code that was compiled
//! elsewhere (the standard library unless it is generic, other crates, libc) are not seen: a quarter to a half of a
//! typical program's accesses. The code of a window is the number of each edge and how often it was passed.

#![allow(unsafe_code)] // the names are LLVM's, and so is the pointer to the guards

use std::sync::atomic::{AtomicU32, Ordering};

use crate::AccessKind;
use crate::in_process::{record, record_edge};

/// Defines functions that are called before an access of a size.
macro_rules! hooks {
    ($($name:ident: $kind:ident of $bytes:literal;)*) => {$(
        /// Called by instrumented code before an access.
        // SAFETY: the name is reserved for this purpose: nobody else may define it, and a second definition is an
        // error of the linker. The pointer is never followed, only its value is used.
        #[unsafe(no_mangle)]
        extern "C" fn $name(address: *const u8) {
            record(address.addr() as u64, $bytes, AccessKind::$kind);
        }
    )*};
}

hooks! {
    __sanitizer_cov_load1: Load of 1;
    __sanitizer_cov_load2: Load of 2;
    __sanitizer_cov_load4: Load of 4;
    __sanitizer_cov_load8: Load of 8;
    __sanitizer_cov_load16: Load of 16;
    __sanitizer_cov_store1: Store of 1;
    __sanitizer_cov_store2: Store of 2;
    __sanitizer_cov_store4: Store of 4;
    __sanitizer_cov_store8: Store of 8;
    __sanitizer_cov_store16: Store of 16;
}

/// Edges numbered so far, in all instrumented modules.
static EDGES: AtomicU32 = AtomicU32::new(0);

/// Called once or more for each instrumented module, before any of its edges is passed: numbers them, from 1.
///
/// # Safety
/// `start..stop` are the guards of the module: aligned, writable and alive for as long as the module is loaded.
// SAFETY: the name is reserved for this purpose, as those above.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_cov_trace_pc_guard_init(start: *mut u32, stop: *mut u32) {
    let mut guard = start;
    while guard < stop {
        // SAFETY: the caller vouches for every guard from `start` to `stop`; all code that touches them while the
        // module runs does so atomically, here and below.
        let number = unsafe { AtomicU32::from_ptr(guard) };
        if number.load(Ordering::Relaxed) == 0 {
            number.store(EDGES.fetch_add(1, Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        // SAFETY: `guard` is below `stop`, so that the next one is at most there.
        guard = unsafe { guard.add(1) };
    }
}

/// Called whenever an edge is passed.
///
/// # Safety
/// `guard` is one that was given to `__sanitizer_cov_trace_pc_guard_init`.
// SAFETY: the name is reserved for this purpose, as those above.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_cov_trace_pc_guard(guard: *mut u32) {
    // SAFETY: the caller vouches for the guard, which is only ever touched atomically.
    let number = unsafe { AtomicU32::from_ptr(guard) }.load(Ordering::Relaxed);
    if number != 0 {
        record_edge(u64::from(number));
    }
}

/// Number of edges in all instrumented code that was loaded: 0 says that nothing was compiled with edges.
#[must_use]
pub fn edges() -> u32 {
    EDGES.load(Ordering::Relaxed)
}
