//! A program that profiles its own data structures: no emulator, no counters, no recompilation.
//!
//! The program says which memory accesses it makes. [`Traced`] says it of a vector or slice: reading an element is a
//! load, writing one a store. [`Recorder::record`] says it of anything else. The accesses go through the same engine
//! as those of every backend: a few are chosen as samples, and followed until their line is touched again; the others
//! cost a few nanoseconds. What comes out are [`Window`]s, as from a [`Sampler`](crate::Sampler).
//!
//! ```
//! use reuse_sampler::in_process::{Profiler, ProfilerOptions, Traced};
//! use reuse_sampler::{ReusePlan, SampleGap};
//!
//! let every = ProfilerOptions::new(ReusePlan::Every); // or ReusePlan::Sparse(SampleGap::mean(1000.0)?)
//! let profiler = Profiler::new(every)?;
//! let recorder = profiler.recorder(); // one for each thread
//!
//! let mut table = Traced::new(vec![0_u64; 8 * 100], &recorder);
//! for round in 0..10 {
//!     for line in 0..100 {
//!         table[8 * line] = round; // a store to each of 100 cache lines, again and again
//!     }
//! }
//! drop(table);
//! drop(recorder); // the thread has ended: what was not touched again dangles
//!
//! let distribution = profiler.take_profile().distribution();
//! assert_eq!(distribution.beyond(98), 1.0);
//! assert!((distribution.beyond(99) - 0.1).abs() < 1e-9); // only the last round is never reused
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//! Each thread has a recorder of its own: distances count the accesses of one thread. A `Traced` of a shared slice per
//! thread is how parallel code is followed. Recorders are numbered in the order in which they are made, and a recorder's
//! number and the seed decide which accesses it samples: made in the same order, they give the same profile, however
//! the threads run.
//!
//! # Without passing a recorder around
//! [`start`] begins a session of the whole process; then [`record`] works on every thread, and costs two
//! nanoseconds where there is no session. [`Session::stop`] gives the windows.
//!
//! # What is not seen
//! What the program does not say: the stack, other data structures, the standard library's own accesses, and those of
//! allocation. An element is taken as a whole, whatever field of it is used. The compiler may have kept an element in a
//! register where it is said to be loaded again.
//!
//! # Cost
//! CPU time on one core of a virtual machine that others were using, best of 15 runs over 256 Ki elements in an order
//! that no compiler turns into vector instructions (`cargo bench -p reuse-sampler --bench in_process` measures yours):
//!
//! | what | nanoseconds an access |
//! |---|---|
//! | a sum over a vector, untraced | 1.5 |
//! | the same, said to [`record`] without a session | 3.7 |
//! | traced, nothing sampled ([`ReusePlan::Off`](crate::ReusePlan::Off)) | 5.3 |
//! | traced, one access in 1,000 sampled | 8.4 |
//! | said to [`record`], one access in 1,000 sampled | 8.8 |
//! | traced, every access measured | 21 |

mod global;
mod recorder;
mod traced;

#[cfg(feature = "sancov")]
pub(crate) use global::record_edge;
pub use global::{Session, record, release, start};
pub use recorder::{Profiler, ProfilerOptions, Recorder};
pub use traced::{Traced, TracedIter};

#[cfg(doc)]
use crate::Window;
