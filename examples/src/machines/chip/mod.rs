//! The reference chip: what the sharing models are judged by.
//!
//! Cores with private caches play programs against one shared last-level cache. Each core has its own clock,
//! advanced by its instructions and by the latency of whatever level serves each access; the core that is
//! furthest behind goes next, so the interleaving of the programs follows from their speeds, and their speeds
//! from the interleaving. Nothing here knows any model of sharing.
//!
//! Default parameters are those of the StatCC paper (Eklöv, thesis, Paper II, table 1). Left out: the contents
//! of memory, sharing of data between programs, write-backs, coherence, instruction fetches, translation.
//!
//! - [`cache`]: one set-associative cache with its replacement policy;
//! - [`program`]: recorded or generated streams of references;
//! - [`Chip`]: cores and shared cache; running, suspending, counting;
//! - [`corun`]: whole experiments: alone, together, with a record of which windows ran together.

pub mod cache;
mod config;
mod core;
pub mod corun;
mod counters;
mod error;
mod geometry;
mod machine;
mod owner;
mod prefetch;
mod private;
pub mod program;
mod recording;
mod timing;

pub use self::cache::Cache;
pub use self::config::{CacheSettings, ChipSettings, Frames, Inclusion, Latencies};
pub use self::core::{Activity, CoreSettings};
pub use self::counters::Counters;
pub use self::error::ChipError;
pub use self::geometry::{Geometry, Index, MAX_WAYS, Policy};
pub use self::machine::{Chip, Event};
pub use self::prefetch::PrefetcherSettings;
pub use self::private::{PrivateCaches, Stretch};
pub use self::program::{Driven, Player, Program, Reference};
pub use self::recording::{Recorder, Recording};
pub use self::timing::CoreTiming;
