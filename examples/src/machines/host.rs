//! The data caches of the machine at hand, as the kernel describes them.

use std::fs;

use cache_pirate::native::topology::{CacheInfo, Topology};
use reuse_sampler::Cpu;

/// The processor as the kernel names it, or else its architecture.
pub fn processor() -> String {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// The same, and what a program on it is shown.
pub fn processor_as(cpu: Cpu) -> String {
    match cpu {
        Cpu::Host => processor(),
        level => format!("{}, shown as {level}", processor()),
    }
}

/// A level of the data cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// `L1`, `L2`, ...
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// The data caches seen by one core, and whether the machine reported them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataCaches {
    /// First level first.
    pub levels: Vec<CacheLevel>,
    /// Whether the sizes were read off this machine; if not, they are [typical ones](DataCaches::typical).
    pub measured: bool,
}

impl DataCaches {
    /// The caches of this machine's first core, where the kernel reports them.
    pub fn of_this_machine() -> Self {
        let machine = Topology::of_this_machine().ok();
        let caches = machine.as_ref().and_then(|machine| machine.cpu(0)).map_or(&[][..], |cpu| &cpu.caches);
        if caches.is_empty() {
            return Self::typical();
        }
        let level = |cache: &CacheInfo| CacheLevel { name: format!("L{}", cache.level), bytes: cache.bytes };
        Self { levels: caches.iter().map(level).collect(), measured: true }
    }

    /// Sizes to use where the machine reports none: 32 KiB, 1 MiB, 32 MiB.
    pub fn typical() -> Self {
        let level = |name: &str, bytes| CacheLevel { name: name.to_owned(), bytes };
        Self {
            levels: vec![level("L1", 32 << 10), level("L2", 1 << 20), level("L3", 32 << 20)],
            measured: false,
        }
    }
}
