//! The reference chip as command lines describe it.

use std::str::FromStr;

use reuse_sampler::LineSize;

use super::values::{line_size, not_negative};
use super::{Failure, parse_bytes};
use crate::machines::chip::{CacheSettings, ChipSettings, CoreTiming, Inclusion, Index, Latencies, Policy};

/// The simulated chip: the machine of the StatCC paper unless told otherwise.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Simulated chip")]
pub struct ChipArgs {
    /// Size of each core's private cache [default: 32KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    l1_size: Option<u64>,
    /// Ways of each core's private cache
    #[arg(long, value_name = "N", default_value_t = 8)]
    l1_ways: u64,
    /// Size of the shared cache [default: 2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    llc_size: Option<u64>,
    /// Ways of the shared cache
    #[arg(long, value_name = "N", default_value_t = 16)]
    llc_ways: u64,
    /// Cache line size in bytes, a power of two from 2
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = line_size)]
    line_size: LineSize,
    /// Cycles that an access takes in the private cache, in the shared cache and in memory
    #[arg(long, value_name = "L1,LLC,MEMORY", default_value = "1,10,130")]
    latency: LatencyList,
    /// Cycles per instruction without its memory accesses
    #[arg(long, value_name = "CPI", default_value = "1", value_parser = not_negative)]
    base_cpi: f64,
    /// Replacement policy of the shared cache
    #[arg(long, value_enum, default_value_t = Replacement::Lru)]
    policy: Replacement,
    /// Which set of the shared cache a line belongs in
    #[arg(long, value_enum, default_value_t = Indexing::Modulo)]
    index: Indexing,
    /// Whether what the shared cache evicts leaves the private caches too
    #[arg(long, value_enum, default_value_t = Including::None)]
    inclusion: Including,
}

/// A replacement policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Replacement {
    /// The line touched longest ago goes
    Lru,
    /// Any line goes
    Random,
    /// The line that came first goes
    Fifo,
    /// The first line goes whose accessed bit is unset
    Nehalem,
    /// The line goes that a binary tree over the ways points to
    TreePlru,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Including {
    /// The levels evict independently
    None,
    /// The shared cache holds whatever the private ones hold
    Inclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Indexing {
    /// Its number modulo the number of sets
    Modulo,
    /// A hash of its whole number, as in caches made of slices
    Hashed,
}

impl ChipArgs {
    /// The chip; `seed` serves random replacement.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the value that makes no cache.
    pub fn settings(&self, seed: u64) -> Result<ChipSettings, Failure> {
        self.scaled_down(1, seed)
    }

    /// The same with the paper's caches divided by `divisor`, if no size was given: for what must answer in seconds.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub fn scaled_down(&self, divisor: u64, seed: u64) -> Result<ChipSettings, Failure> {
        let cache = |flag: &str, bytes, ways| {
            CacheSettings::lru(bytes, ways, self.line_size)
                .map_err(|error| Failure::Usage(format!("{flag}: {error}")))
        };
        let policy = match self.policy {
            Replacement::Lru => Policy::Lru,
            Replacement::Random => Policy::Random { seed },
            Replacement::Fifo => Policy::Fifo,
            Replacement::Nehalem => Policy::Nehalem,
            Replacement::TreePlru => Policy::TreePlru,
        };
        let LatencyList { l1, shared, memory } = self.latency;
        if l1 == 0.0 && self.base_cpi == 0.0 {
            let remedy = "give --base-cpi or the first of --latency above 0";
            return Err(Failure::Usage(format!("accesses that hit take no time: {remedy}")));
        }
        let mut settings = ChipSettings::paper().map_err(Failure::usage)?;
        let divisor = if self.l1_size.or(self.llc_size).is_none() { divisor } else { 1 };
        let bytes =
            |given: Option<u64>, paper: CacheSettings| given.unwrap_or(paper.geometry.bytes() / divisor);
        settings.l1 = cache("--l1-size", bytes(self.l1_size, settings.l1), self.l1_ways)?;
        settings.shared =
            cache("--llc-size", bytes(self.llc_size, settings.shared), self.llc_ways)?.with_policy(policy);
        let index = match self.index {
            Indexing::Modulo => Index::Modulo,
            Indexing::Hashed => Index::Hashed,
        };
        settings.shared.geometry = settings.shared.geometry.with_index(index);
        settings.latencies = Latencies { l1, shared, memory, ..Latencies::default() };
        settings.inclusion = match self.inclusion {
            Including::None => Inclusion::None,
            Including::Inclusive => Inclusion::Inclusive,
        };
        Ok(settings)
    }

    /// How each core executes.
    #[must_use]
    pub const fn timing(&self) -> CoreTiming {
        CoreTiming::InOrder { base_cpi: self.base_cpi }
    }

    /// Cycles per instruction without memory.
    #[must_use]
    pub const fn base_cpi(&self) -> f64 {
        self.base_cpi
    }

    /// Line size of all caches.
    #[must_use]
    pub const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// How the shared cache chooses victims.
    #[must_use]
    pub const fn policy(&self) -> Replacement {
        self.policy
    }
}

/// `1,10,130`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencyList {
    l1: f64,
    shared: f64,
    memory: f64,
}

impl FromStr for LatencyList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cycles: Result<Vec<f64>, String> =
            text.split(',').map(|part| not_negative(part.trim())).collect();
        match cycles?.as_slice() {
            &[l1, shared, memory] if l1 <= shared && shared <= memory => Ok(Self { l1, shared, memory }),
            [_, _, _] => Err("each level must be at least as slow as the one before it".to_owned()),
            other => Err(format!("{} numbers; give three: private cache, shared cache, memory", other.len())),
        }
    }
}
