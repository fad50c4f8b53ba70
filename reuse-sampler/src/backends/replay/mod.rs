//! Replays a stream of events (a recorded trace, a generator, an instrumented kernel) as a
//! [`Sampler`](crate::Sampler).

mod coherence;
mod convert;
mod event;
mod sampler;
mod strides;
pub(crate) mod threads;

pub(crate) use convert::{mode_of, window_from};
pub use event::{Event, EventSource};
pub use sampler::{ReplayOptions, ReplaySampler, WindowLength};
pub use strides::{Stride, Strides};
