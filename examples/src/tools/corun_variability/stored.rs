//! What a recorded program's file says beside its reuse: the sections `cache-curve`, `machine` and `remarks` of a phase
//! profile.

use cachesharing::SharedCache;
use cachesharing::file::ProgramFile;
use clap::ValueEnum;
use reuse_sampler::file::PhaseProfile;
use serde::{Deserialize, Serialize};

use super::args::Model;
use super::ground::{Ground, shared_cache};
use crate::cli::{ByName, ChipArgs, Failure, Replacement};
use crate::machines::chip::{CacheSettings, CoreTiming, Latencies};

/// Section with the curves by window and phase: a cache-curve file.
const CURVES: &str = "cache-curve";
/// Section with what they were measured on.
const MACHINE: &str = "machine";
/// Section with what whoever predicts from them should know.
const REMARKS: &str = "remarks";

/// What curves were measured on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(in crate::tools) enum Machine {
    /// The simulated chip.
    Simulated(Box<Chip>),
    /// Whatever was there, with a shared cache of so many bytes.
    Measured { cache_bytes: Option<u64> },
}

/// The simulated chip as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::tools) struct Chip {
    core: Core,
    line_size: u32,
    l1: Level,
    #[serde(default)]
    l2: Option<Level>,
    shared: Level,
    policy: String,
    index: String,
    inclusion: String,
    latencies: [f64; 4], // L1, L2, shared cache, memory: cycles
    #[serde(default)]
    prefetch: Option<(usize, u64)>, // streams, lines ahead
    #[serde(default)]
    bandwidth: Option<f64>, // bytes per cycle
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "execution", rename_all = "kebab-case")]
enum Core {
    InOrder { base_cpi: f64 },
    OutOfOrder { base_cpi: f64, reorder_buffer: u32, outstanding: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Level {
    bytes: u64,
    ways: u64,
}

impl From<CacheSettings> for Level {
    fn from(cache: CacheSettings) -> Self {
        Self { bytes: cache.geometry.bytes(), ways: cache.geometry.ways() }
    }
}

impl Machine {
    /// The chip of a command line.
    pub(super) fn simulated(ground: &Ground, chip: &ChipArgs) -> Self {
        let settings = &ground.settings;
        let core = match ground.timing {
            CoreTiming::InOrder { base_cpi } => Core::InOrder { base_cpi },
            CoreTiming::OutOfOrder { base_cpi, reorder_buffer, outstanding } => {
                Core::OutOfOrder { base_cpi, reorder_buffer, outstanding }
            }
        };
        let latencies = settings.latencies;
        Self::Simulated(Box::new(Chip {
            core,
            line_size: settings.line_size().bytes(),
            l1: settings.l1.into(),
            l2: settings.l2.map(Level::from),
            shared: settings.shared.into(),
            policy: chip.policy().name(),
            index: settings.shared.geometry.index().name(),
            inclusion: settings.inclusion.name(),
            latencies: [latencies.l1, latencies.l2, latencies.shared, latencies.memory],
            prefetch: settings.prefetcher.map(|p| (p.streams, p.ahead)),
            bandwidth: chip.bandwidth(),
        }))
    }

    /// Bytes of its shared cache, where they are known.
    pub fn cache_bytes(&self) -> Option<u64> {
        match self {
            Self::Simulated(chip) => Some(chip.shared.bytes),
            Self::Measured { cache_bytes } => *cache_bytes,
        }
    }
}

impl Chip {
    /// Its shared cache and memory.
    pub fn cache(&self) -> Result<SharedCache, Failure> {
        let [l1, l2, shared, memory] = self.latencies;
        let latencies = Latencies { l1, l2, shared, memory };
        let Level { bytes, ways } = self.shared;
        Ok(shared_cache((bytes, ways), self.bandwidth, latencies, self.prefetch.is_some())?)
    }

    /// The model of how its shared cache is divided.
    pub fn model(&self) -> Result<Model, Failure> {
        let policy = Replacement::from_str(&self.policy, false).map_err(|_| {
            Failure::Run(format!(
                "replacement {:?}: this program does not know it; use a newer one",
                self.policy
            ))
        })?;
        Ok(Model::of(policy))
    }
}

/// A program in a phase profile, with curves.
pub(in crate::tools) struct Stored {
    pub curves: ProgramFile,
    pub machine: Machine,
    pub remarks: Vec<String>,
}

impl Stored {
    /// Curves of `cache_pirate`.
    pub fn measured(curves: ProgramFile) -> Self {
        let machine = Machine::Measured { cache_bytes: curves.cache_bytes };
        let remark = "curves were measured beside a pirate: no reuse times, which counters cannot measure, so that all \
                      sets of the cache are taken to evict alike";
        Self { curves, machine, remarks: vec![remark.to_owned()] }
    }

    /// What a profile holds, if it holds curves.
    pub fn read(profile: &PhaseProfile) -> Result<Option<Self>, Failure> {
        let Some(curves) = profile.section(CURVES)? else { return Ok(None) };
        let machine = profile.section(MACHINE)?;
        let machine = machine.unwrap_or(Machine::Measured { cache_bytes: None });
        let remarks = profile.section(REMARKS)?.unwrap_or_default();
        Ok(Some(Self { curves, machine, remarks }))
    }

    /// Adds it to a profile.
    pub fn write(&self, profile: &mut PhaseProfile) -> Result<(), Failure> {
        profile
            .set_section(CURVES, &self.curves)
            .and_then(|()| profile.set_section(MACHINE, &self.machine))
            .and_then(|()| profile.set_section(REMARKS, &self.remarks))
            .map_err(Failure::run)
    }
}
