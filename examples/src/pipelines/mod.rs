//! The pipelines behind the example programs, callable from tests.

pub mod phase_guided_cache;
