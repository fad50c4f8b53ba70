//! Which processors share which caches, read from sysfs below a root that tests can replace.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::PirateError;

/// A data cache as one processor sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheInfo {
    /// 1 for the first level.
    pub level: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes in a line.
    pub line_size: u32,
    /// Ways, if the kernel reports them.
    pub ways: Option<u32>,
    /// Processors that share it, this one among them.
    pub shared_by: Vec<usize>,
}

/// One processor (hardware thread) that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// Number.
    pub id: usize,
    /// Processors of the same core, this one among them.
    pub core: Vec<usize>,
    /// Data and unified caches, first level first.
    pub caches: Vec<CacheInfo>,
    /// Frequency governor, and the lowest and highest frequency in kHz, where the kernel sets frequencies.
    pub scaling: Option<(String, u64, u64)>,
}

/// The processors of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>, // by number
    model: Model,
}

/// What `/proc/cpuinfo` says of the first processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    vendor: String,
    family: u32,
    avx512: bool,
    hypervisor: bool,
}

/// Something about the machine that may spoil a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The target's core runs other hardware threads, which share its private caches and its pipeline.
    CoreShared {
        /// The other hardware threads of the core.
        siblings: Vec<usize>,
    },
    /// The frequency may change during the measurement, and with it the meaning of time.
    FrequencyVaries {
        /// Governor in force.
        governor: String,
        /// Lowest frequency in kHz.
        lowest: u64,
        /// Highest frequency in kHz.
        highest: u64,
    },
    /// The shared cache does not include the private ones: what a thread holds privately is not taken from the
    /// target, so the pirate steals less than its size, up to its private caches.
    NotInclusive {
        /// Largest private cache of a pirate thread.
        private_bytes: u64,
    },
    /// A virtual machine: what it reports of caches and cores need not be true, and may change.
    Virtual,
    /// A line in memory takes hardly longer than one in the cache, so that the pirate cannot notice lines it loses
    /// without counters: no size is trusted.
    Blind,
    /// No huge pages: the pirate walks through its own page-table misses, and which sets it steals from is up
    /// to the kernel.
    SmallPages,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CoreShared { siblings } => write!(
                f,
                "the target's core also runs processors {siblings:?}: keep them idle or turn SMT off"
            ),
            Self::FrequencyVaries { governor, lowest, highest } => write!(
                f,
                "frequency may vary from {lowest} to {highest} kHz under governor {governor}: fix it"
            ),
            Self::NotInclusive { private_bytes } => write!(
                f,
                "the shared cache does not include private ones: up to {private_bytes} bytes per pirate thread \
                 may be held privately instead of stolen"
            ),
            Self::Virtual => {
                write!(f, "a virtual machine: cache sizes and sharing may differ from what the kernel says")
            }
            Self::Blind => write!(
                f,
                "the pirate cannot distinguish lines in the cache from lines in memory by their time: no size is \
                 trusted; run where hardware counters are available"
            ),
            Self::SmallPages => write!(
                f,
                "no huge pages for the pirate: set vm.nr_hugepages, or transparent_hugepage to madvise"
            ),
        }
    }
}

impl Topology {
    /// The machine at hand.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of_this_machine() -> Result<Self, PirateError> {
        Self::read(Path::new("/"))
    }

    /// Reads `sys/devices/system/cpu` and `proc/cpuinfo` below `root`.
    ///
    /// # Errors
    /// [`PirateError::System`] if no processor is listed there.
    pub fn read(root: &Path) -> Result<Self, PirateError> {
        let folder = root.join("sys/devices/system/cpu");
        let refused = |source| PirateError::System {
            operation: "list the processors in",
            object: folder.display().to_string(),
            source,
            remedy: "is sysfs mounted?",
        };
        let mut cpus: Vec<Cpu> = fs::read_dir(&folder)
            .map_err(refused)?
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let id = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
                read_cpu(id, &entry.path())
            })
            .collect();
        if cpus.is_empty() {
            return Err(refused(std::io::Error::from(std::io::ErrorKind::NotFound)));
        }
        cpus.sort_by_key(|cpu| cpu.id);
        let model =
            fs::read_to_string(root.join("proc/cpuinfo")).map_or_else(|_| Model::default(), |t| model(&t));
        Ok(Self { cpus, model })
    }

    /// Removes all processors but those `allowed`; what is known of the others' caches stays as it is.
    pub(super) fn keep(&mut self, allowed: &[usize]) {
        self.cpus.retain(|cpu| allowed.contains(&cpu.id));
    }

    /// All processors online.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// One of them.
    #[must_use]
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// The last-level cache of a processor.
    #[must_use]
    pub fn last_level(&self, id: usize) -> Option<&CacheInfo> {
        self.cpu(id)?.caches.last()
    }

    /// The largest cache that a processor's core has for itself; 0 if none.
    #[must_use]
    pub fn private_bytes(&self, id: usize) -> u64 {
        let Some(cpu) = self.cpu(id) else { return 0 };
        let private = cpu.caches.iter().filter(|c| c.shared_by.iter().all(|other| cpu.core.contains(other)));
        private.map(|cache| cache.bytes).max().unwrap_or(0)
    }

    /// Processors for the pirate: of each other core that shares the last-level cache, the first.
    #[must_use]
    pub fn companions(&self, id: usize) -> Vec<usize> {
        let (Some(target), Some(cache)) = (self.cpu(id), self.last_level(id)) else { return Vec::new() };
        let mut cores: Vec<&[usize]> = vec![&target.core];
        let mut companions = Vec::new();
        for cpu in self.cpus.iter().filter(|cpu| cache.shared_by.contains(&cpu.id)) {
            if cores.iter().all(|core| !core.contains(&cpu.id)) {
                cores.push(&cpu.core);
                companions.push(cpu.id);
            }
        }
        companions
    }

    /// What may spoil a measurement of a target on this processor.
    ///
    /// Whether the last level includes the others is known by make: AMD since family 17h and Intel's server
    /// processors since Skylake-SP (those with AVX-512) do not; for others it is suspected where the private
    /// caches together are more than half its size.
    #[must_use]
    pub fn warnings(&self, id: usize) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let Some(cpu) = self.cpu(id) else { return warnings };
        let siblings: Vec<usize> = cpu.core.iter().copied().filter(|&other| other != id).collect();
        if !siblings.is_empty() {
            warnings.push(Warning::CoreShared { siblings });
        }
        if let Some((governor, lowest, highest)) = &cpu.scaling {
            if governor != "performance" && lowest < highest {
                let governor = governor.clone();
                warnings.push(Warning::FrequencyVaries { governor, lowest: *lowest, highest: *highest });
            }
        }
        let private_bytes = self.private_bytes(id);
        if let Some(cache) = self.last_level(id).filter(|_| private_bytes > 0) {
            let cores = cache.shared_by.len() / cpu.core.len().max(1);
            let Model { vendor, family, avx512, .. } = &self.model;
            let known = match vendor.as_str() {
                "AuthenticAMD" => *family >= 0x17,
                "GenuineIntel" => *avx512,
                _ => false,
            };
            if known || 2 * private_bytes * cores as u64 > cache.bytes {
                warnings.push(Warning::NotInclusive { private_bytes });
            }
        }
        if self.model.hypervisor {
            warnings.push(Warning::Virtual);
        }
        warnings
    }
}

fn read_cpu(id: usize, folder: &Path) -> Option<Cpu> {
    // Absent for processors that cannot be taken offline.
    if text(&folder.join("online")).is_some_and(|online| online == "0") {
        return None;
    }
    let core = ["topology/core_cpus_list", "topology/thread_siblings_list"]
        .iter()
        .find_map(|file| text(&folder.join(file)))
        .map_or_else(|| vec![id], |list| parse_list(&list));
    let mut caches: Vec<CacheInfo> = fs::read_dir(folder.join("cache"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| read_cache(id, &entry.path()))
        .collect();
    caches.sort_by_key(|cache| cache.level);
    let scaling = || {
        let governor = text(&folder.join("cpufreq/scaling_governor"))?;
        let number = |file: &str| text(&folder.join("cpufreq").join(file))?.parse().ok();
        Some((governor, number("scaling_min_freq")?, number("scaling_max_freq")?))
    };
    Some(Cpu { id, core, caches, scaling: scaling() })
}

fn read_cache(id: usize, folder: &Path) -> Option<CacheInfo> {
    if text(&folder.join("type"))? == "Instruction" {
        return None;
    }
    Some(CacheInfo {
        level: text(&folder.join("level"))?.parse().ok()?,
        bytes: parse_size(&text(&folder.join("size"))?)?,
        line_size: text(&folder.join("coherency_line_size")).and_then(|t| t.parse().ok()).unwrap_or(64),
        ways: text(&folder.join("ways_of_associativity")).and_then(|t| t.parse().ok()).filter(|&w| w > 0),
        shared_by: text(&folder.join("shared_cpu_list")).map_or_else(|| vec![id], |t| parse_list(&t)),
    })
}

fn text(path: &PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// `0-3,8` and the like.
fn parse_list(text: &str) -> Vec<usize> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            // No machine has more processors; a wrong file must not take all memory.
            list.extend((first..=last).take(1 << 16));
        }
    }
    list
}

/// `48K`, `32M` and the like.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

fn model(cpuinfo: &str) -> Model {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let flags = field("flags").unwrap_or_default();
    let has = |flag| flags.split_whitespace().any(|f| f == flag);
    Model {
        vendor: field("vendor_id").unwrap_or_default(),
        family: field("cpu family").and_then(|f| f.parse().ok()).unwrap_or(0),
        avx512: has("avx512f"),
        hypervisor: has("hypervisor"),
    }
}
