//! Which processors share which caches, read from sysfs below a root that tests can replace.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::divided::read_text;
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
    number: u32,
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
    /// The cache is stated to be smaller than the kernel reports. If the kernel is right, the program has more than each
    /// size, by the difference.
    SmallerThanReported {
        /// Bytes of the cache as stated.
        stated: u64,
        /// As the kernel reports it.
        reported: u64,
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
            Self::SmallerThanReported { stated, reported } => write!(
                f,
                "the cache is stated to have {stated} bytes and the kernel reports {reported}: if the kernel is right, the \
                 program has {} more at each size",
                reported - stated
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

    /// Reads `sys/devices/system/cpu` and `proc/cpuinfo` below `root`. What the kernel has no
    /// file for is left out.
    ///
    /// # Errors
    /// [`PirateError::System`] if no processor is listed there, or for a file that cannot be read or is not understood.
    pub fn read(root: &Path) -> Result<Self, PirateError> {
        let folder = root.join("sys/devices/system/cpu");
        let object = folder.display().to_string();
        let refused =
            |source| PirateError::system("list the processors in", &object, source, "is sysfs mounted?");
        let mut cpus = Vec::new();
        for entry in fs::read_dir(&folder).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
            if let Some(id) = id {
                cpus.extend(read_cpu(id, &entry.path())?);
            }
        }
        if cpus.is_empty() {
            return Err(refused(ErrorKind::NotFound.into()));
        }
        cpus.sort_by_key(|cpu| cpu.id);
        let cpuinfo = root.join("proc/cpuinfo");
        let fields = |text: &str| text.contains(':').then(|| model(text));
        let model = parsed(&cpuinfo, "fields and their values", fields)?.unwrap_or_default();
        Ok(Self { cpus, model })
    }

    /// Vendor, family and model of the processor, as its maker numbers them; empty and 0 where the kernel does not say.
    pub(super) fn make(&self) -> (&str, u32, u32) {
        (&self.model.vendor, self.model.family, self.model.number)
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

/// `None` if it is offline.
fn read_cpu(id: usize, folder: &Path) -> Result<Option<Cpu>, PirateError> {
    // Absent for processors that cannot be taken offline.
    let online = parsed(&folder.join("online"), "0 or 1", |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })?;
    if online == Some(false) {
        return Ok(None);
    }
    let cpus = |file: &str| parsed(&folder.join(file), LIST, parse_list);
    let core = match cpus("topology/core_cpus_list")? {
        Some(core) => Some(core),
        None => cpus("topology/thread_siblings_list")?,
    };
    let cache = folder.join("cache");
    let mut caches = Vec::new();
    for entry in entries(&cache)? {
        if entry.to_str().is_some_and(|name| name.starts_with("index")) {
            caches.extend(read_cache(id, &cache.join(entry))?);
        }
    }
    caches.sort_by_key(|cache| cache.level);
    let khz = |file: &str| parsed(&folder.join("cpufreq").join(file), "a number of kHz", |t| t.parse().ok());
    let governor = text(&folder.join("cpufreq/scaling_governor"))?;
    let scaling = match (governor, khz("scaling_min_freq")?, khz("scaling_max_freq")?) {
        (Some(governor), Some(lowest), Some(highest)) => Some((governor, lowest, highest)),
        _ => None,
    };
    Ok(Some(Cpu { id, core: core.unwrap_or_else(|| vec![id]), caches, scaling }))
}

/// `None` for one of instructions, or of a size that the kernel does not know.
fn read_cache(id: usize, folder: &Path) -> Result<Option<CacheInfo>, PirateError> {
    const KINDS: [&str; 3] = ["Data", "Unified", "Instruction"];
    let kind = parsed(&folder.join("type"), "Data, Unified or Instruction", |text| {
        KINDS.iter().position(|known| *known == text)
    })?;
    if kind.is_none_or(|kind| KINDS[kind] == "Instruction") {
        return Ok(None);
    }
    let number = |file: &str| parsed(&folder.join(file), "a number", |text| text.parse::<u32>().ok());
    let bytes = parsed(&folder.join("size"), "a number of bytes, as 48K", parse_size)?;
    let (Some(level), Some(bytes)) = (number("level")?, bytes.filter(|&bytes| bytes > 0)) else {
        return Ok(None);
    };
    Ok(Some(CacheInfo {
        level,
        bytes,
        line_size: number("coherency_line_size")?.unwrap_or(64),
        ways: number("ways_of_associativity")?.filter(|&ways| ways > 0),
        shared_by: parsed(&folder.join("shared_cpu_list"), LIST, parse_list)?.unwrap_or_else(|| vec![id]),
    }))
}

/// Names in a folder; none if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<OsString>, PirateError> {
    match fs::read_dir(folder).and_then(|all| all.map(|entry| Ok(entry?.file_name())).collect()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|source| unreadable(folder, source)),
    }
}

/// Text of a file, which must not be empty; `None` if there is no such file.
fn text(path: &Path) -> Result<Option<String>, PirateError> {
    match read_text(path) {
        Ok(text) if text.trim().is_empty() => Err(malformed(path, "", "text")),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

/// What `parse` makes of it.
fn parsed<T>(
    path: &Path,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, PirateError> {
    let Some(text) = text(path)? else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| malformed(path, &text, expected))
}

fn unreadable(path: &Path, source: io::Error) -> PirateError {
    let remedy = "run as root, or make it readable";
    PirateError::system("read", path.display().to_string(), source, remedy)
}

fn malformed(path: &Path, text: &str, expected: &str) -> PirateError {
    let text: String = text.chars().take(40).collect();
    let source = io::Error::new(ErrorKind::InvalidData, format!("it holds {text:?} instead of {expected}"));
    let remedy = "the kernel or the machine that shows it is not understood: report it with this file";
    PirateError::system("understand", path.display().to_string(), source, remedy)
}

const LIST: &str = "numbers of processors, as 0-3,8";

/// `0-3,8` and the like.
pub(super) fn parse_list(text: &str) -> Option<Vec<usize>> {
    // No machine has more processors; a wrong file must not take all memory.
    const MOST: usize = 1 << 16;
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
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
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
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
        number: field("model").and_then(|m| m.parse().ok()).unwrap_or(0),
        avx512: has("avx512f"),
        hypervisor: has("hypervisor"),
    }
}
