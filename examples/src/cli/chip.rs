//! The reference chip as command lines describe it.

use std::str::FromStr;

use clap::Parser;
use reuse_sampler::LineSize;

use super::values::{line_size, not_negative, positive};
use super::{Failure, parse_bytes};
use crate::machines::chip::{
    CacheSettings, ChipSettings, CoreTiming, Inclusion, Index, Latencies, Policy, PrefetcherSettings,
};

/// The simulated chip: the machine of the StatCC paper unless options change it.
///
/// It has no simultaneous multithreading, no translation of addresses and one memory node; nothing is said of them.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Simulated chip")]
pub struct ChipArgs {
    /// Size of each core's private cache [default: 32KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    l1_size: Option<u64>,
    /// Ways of each core's private cache
    #[arg(long, value_name = "N", default_value_t = 8)]
    l1_ways: u64,
    /// Size of a second private cache between the first and the shared one [default: there is none]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    l2: Option<u64>,
    /// Ways of the second private cache
    #[arg(long, value_name = "N", default_value_t = 8, requires = "l2")]
    l2_ways: u64,
    /// Size of the shared cache [default: 2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    llc_size: Option<u64>,
    /// Ways of the shared cache
    #[arg(long, value_name = "N", default_value_t = 16)]
    llc_ways: u64,
    /// Cache line size in bytes, a power of two from 2
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = line_size)]
    line_size: LineSize,
    /// Cycles that an access takes in the private cache, in the shared cache and in memory; with --l2 four numbers, its own
    /// the second (4 where three are given)
    #[arg(long, value_name = "L1,LLC,MEMORY", default_value = "1,10,130")]
    latency: LatencyList,
    /// How cores execute
    #[arg(long, value_enum, default_value_t = CoreName::InOrder)]
    core: CoreName,
    /// Instructions in the reorder buffer of an out-of-order core [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reorder_buffer: Option<u32>,
    /// Lines that an out-of-order core waits for at a time [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    outstanding: Option<u32>,
    /// Cycles per instruction without its memory accesses [default: 1; 0.25 with --core ooo]
    #[arg(long, value_name = "CPI", value_parser = not_negative)]
    base_cpi: Option<f64>,
    /// Give each core a stream prefetcher before the shared cache: streams followed, and lines fetched ahead
    #[arg(long, value_name = "STREAMS,AHEAD", num_args = 0..=1, require_equals = true, default_missing_value = "16,4")]
    prefetch: Option<PrefetcherSettings>,
    /// Bytes per unit of time that memory delivers to all programs together [default: without limit]
    #[arg(long, value_name = "B", value_parser = positive)]
    bandwidth: Option<f64>,
    /// Replacement policy of the shared cache
    #[arg(long, value_enum, default_value_t = Replacement::Lru)]
    policy: Replacement,
    /// Which set of the shared cache a line belongs in
    #[arg(long, value_enum, default_value_t = Index::Modulo)]
    index: Index,
    /// Whether what the shared cache evicts leaves the private caches too
    #[arg(long, value_enum, default_value_t = Inclusion::None)]
    inclusion: Inclusion,
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
    #[value(alias = "plru")]
    TreePlru,
    /// The line goes that is predicted to be used last: two bits a line, scans displace themselves
    Srrip,
}

/// What executes instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CoreName {
    /// Every access is waited for
    InOrder,
    /// Accesses overlap as far as the reorder buffer reaches; each is taken to be independent of those before it
    Ooo,
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
            Replacement::Srrip => Policy::Srrip,
        };
        let mut settings = ChipSettings::paper().map_err(Failure::usage)?;
        settings.latencies = self.latencies()?;
        let divisor = if self.l1_size.or(self.llc_size).is_none() { divisor } else { 1 };
        let bytes =
            |given: Option<u64>, paper: CacheSettings| given.unwrap_or(paper.geometry.bytes() / divisor);
        settings.l1 = cache("--l1-size", bytes(self.l1_size, settings.l1), self.l1_ways)?;
        settings.l2 = self.l2.map(|bytes| cache("--l2", bytes, self.l2_ways)).transpose()?;
        settings.shared =
            cache("--llc-size", bytes(self.llc_size, settings.shared), self.llc_ways)?.with_policy(policy);
        settings.shared.geometry = settings.shared.geometry.with_index(self.index);
        settings.inclusion = self.inclusion;
        settings.prefetcher = self.prefetch;
        settings.lines_per_cycle = self.bandwidth.map(|bytes| bytes / f64::from(self.line_size.bytes()));
        self.fits_together(&settings)?;
        Ok(settings)
    }

    /// Refuses what no chip can be, or what nothing would come of.
    fn fits_together(&self, settings: &ChipSettings) -> Result<(), Failure> {
        let refused = |problem: String| Err(Failure::Usage(problem));
        let l1 = settings.l1.geometry.bytes();
        let shared = settings.shared.geometry.bytes();
        let private = settings.l2.map_or(l1, |l2| l2.geometry.bytes());
        if private < l1 {
            return refused(format!(
                "--l2 of {private} bytes behind --l1-size of {l1}: give a second private cache as large as the first, \
                 or larger"
            ));
        }
        if settings.inclusion == Inclusion::Inclusive && shared < private {
            return refused(format!(
                "--inclusion inclusive with --llc-size of {shared} bytes before private caches of {private}: a cache \
                 that holds what they hold is as large as they are, or larger"
            ));
        }
        match self.core {
            CoreName::InOrder if settings.latencies.l1 == 0.0 && self.base_cpi() == 0.0 => refused(
                "accesses that hit take no time: give --base-cpi or the first of --latency above 0".to_owned(),
            ),
            CoreName::InOrder if self.reorder_buffer.or(self.outstanding).is_some() => {
                refused("--reorder-buffer and --outstanding are of --core ooo: give it, too".to_owned())
            }
            CoreName::Ooo if self.base_cpi() == 0.0 => refused(
                "--base-cpi 0 with --core ooo: give at least 1 / (instructions issued in a cycle), for example 0.25"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn latencies(&self) -> Result<Latencies, Failure> {
        let LatencyList { l1, l2, shared, memory } = self.latency;
        let Some(_) = self.l2 else {
            if l2.is_some() {
                let problem =
                    "--latency of four numbers without --l2: give three, or the size of the second cache";
                return Err(Failure::usage(problem));
            }
            return Ok(Latencies { l1, shared, memory, ..Latencies::default() });
        };
        let l2 = l2.unwrap_or(Latencies::default().l2);
        if l1 <= l2 && l2 <= shared {
            return Ok(Latencies { l1, l2, shared, memory });
        }
        Err(Failure::Usage(format!(
            "the second private cache takes {l2} cycles, the first {l1} and the shared one {shared}: give four numbers \
             to --latency that do not fall"
        )))
    }

    /// How each core executes.
    pub fn timing(&self) -> CoreTiming {
        let base_cpi = self.base_cpi();
        match self.core {
            CoreName::InOrder => CoreTiming::InOrder { base_cpi },
            CoreName::Ooo => CoreTiming::OutOfOrder {
                base_cpi,
                reorder_buffer: self.reorder_buffer.unwrap_or(128),
                outstanding: self.outstanding.unwrap_or(10),
            },
        }
    }

    /// Bytes per cycle that memory delivers, if that is limited.
    pub const fn bandwidth(&self) -> Option<f64> {
        self.bandwidth
    }

    /// Whether the shared cache holds only what private ones do not.
    pub fn is_exclusive(&self) -> bool {
        self.inclusion == Inclusion::Victim
    }

    /// Whether nothing is said of the chip.
    pub fn is_default(&self) -> bool {
        #[derive(clap::Parser)]
        struct Nothing {
            #[command(flatten)]
            chip: ChipArgs,
        }
        Nothing::try_parse_from([""]).is_ok_and(|nothing| nothing.chip == *self)
    }

    /// What a model of in-order cores with independent caches and unlimited memory leaves out of this chip, by its flag.
    pub fn beyond_in_order(&self) -> Option<&'static str> {
        match () {
            () if self.core == CoreName::Ooo => Some("--core ooo"),
            () if self.prefetch.is_some() => Some("--prefetch"),
            () if self.bandwidth.is_some() => Some("--bandwidth"),
            () if self.l2.is_some() => Some("--l2"),
            () if self.inclusion == Inclusion::Victim => Some("--inclusion exclusive"),
            () => None,
        }
    }

    /// Cycles per instruction without memory.
    pub fn base_cpi(&self) -> f64 {
        self.base_cpi.unwrap_or(match self.core {
            CoreName::InOrder => 1.0,
            CoreName::Ooo => 0.25,
        })
    }

    /// Line size of all caches.
    pub const fn line_size(&self) -> LineSize {
        self.line_size
    }

    /// How the shared cache chooses victims.
    pub const fn policy(&self) -> Replacement {
        self.policy
    }
}

/// `1,10,130`, or `1,4,10,130` with a second private cache.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencyList {
    l1: f64,
    l2: Option<f64>,
    shared: f64,
    memory: f64,
}

impl FromStr for LatencyList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cycles: Result<Vec<f64>, String> =
            text.split(',').map(|part| not_negative(part.trim())).collect();
        let cycles = cycles?;
        if !cycles.is_sorted() {
            return Err("each level must be at least as slow as the one before it".to_owned());
        }
        match *cycles.as_slice() {
            [l1, shared, memory] => Ok(Self { l1, l2: None, shared, memory }),
            [l1, l2, shared, memory] => Ok(Self { l1, l2: Some(l2), shared, memory }),
            _ => Err(format!(
                "{} numbers; give three: private cache, shared cache, memory; or four with --l2",
                cycles.len()
            )),
        }
    }
}

impl FromStr for PrefetcherSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[streams @ 1..=64, ahead @ 1..=64]) => Ok(Self { streams: streams as usize, ahead }),
            _ => Err("give two numbers from 1 to 64, for example 16,4: streams and lines ahead".to_owned()),
        }
    }
}
