//! How far the cache models are from exact simulation, on recorded traces and embedded workloads.
//!
//! A trace is held in memory as the lines it touches, played once to the exact caches and once to the sampler,
//! at the rate asked for; the models are fitted to the samples, to all of them, phase by phase or window by window, and
//! their curves compared with the exact ones. What is compared is the miss ratio of the whole run at each size, in
//! percentage points.

mod command;
mod evaluate;
mod fits;
mod sets;

pub use command::{Args, run};
pub use evaluate::{Exact, PHASE_WINDOW, Settings, Stream, exact, samples};
pub use fits::{Fit, Samples, fits, intervals};
pub use sets::{Sets, sets};
