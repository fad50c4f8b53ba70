//! Cache allocation by the hardware, through resctrl: the other way to leave a program part of a cache.
//!
//! Where the kernel has it (`/sys/fs/resctrl`), a group of tasks can be confined to some ways of the last-level
//! cache, without a pirate, its bandwidth or its doubts; what it cannot do is any size between ways, and what
//! the target misses is told only by counters. [`Partition`] confines a process; run it once per size.
//!
//! # References
//! Linux kernel documentation, *User Interface for Resource Control feature (resctrl)*.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::PirateError;

/// What the hardware can allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resctrl {
    root: PathBuf,
    mask: u64,  // all ways
    least: u32, // ways in the smallest allowed mask
    domains: Vec<u32>,
}

impl Resctrl {
    /// What `root` (usually `/sys/fs/resctrl`) offers for the last-level cache.
    ///
    /// # Errors
    /// [`PirateError::System`] if it is not mounted there, or has no L3 allocation.
    pub fn open(root: &Path) -> Result<Self, PirateError> {
        let read = |file: &str| {
            fs::read_to_string(root.join(file)).map_err(|source| PirateError::System {
                operation: "read",
                object: root.join(file).display().to_string(),
                source,
                remedy: "mount resctrl (mount -t resctrl resctrl /sys/fs/resctrl) on a processor with cache allocation",
            })
        };
        let broken = |file: &str, text: &str| PirateError::System {
            operation: "understand",
            object: format!("{} ({})", root.join(file).display(), text.trim()),
            source: io::Error::from(io::ErrorKind::InvalidData),
            remedy: "",
        };
        let text = read("info/L3/cbm_mask")?;
        let mask = u64::from_str_radix(text.trim(), 16).ok().filter(|&mask| mask > 0);
        let mask = mask.ok_or_else(|| broken("info/L3/cbm_mask", &text))?;
        let text = read("info/L3/min_cbm_bits")?;
        let least = text.trim().parse().map_err(|_| broken("info/L3/min_cbm_bits", &text))?;
        let text = read("schemata")?;
        let domains = l3_domains(&text).ok_or_else(|| broken("schemata", &text))?;
        Ok(Self { root: root.to_owned(), mask, least, domains })
    }

    /// Ways of the cache.
    #[must_use]
    pub const fn ways(&self) -> u32 {
        self.mask.count_ones()
    }

    /// Ways that can be given at least.
    #[must_use]
    pub const fn least_ways(&self) -> u32 {
        self.least
    }

    /// Confines process `pid`, with all its threads, to `ways` ways, in a group named `name`.
    ///
    /// # Errors
    /// [`PirateError::Parameter`] for more ways than there are or fewer than allowed; [`PirateError::System`]
    /// for what the kernel refuses: no groups left, no such process.
    pub fn confine(&self, name: &str, pid: i32, ways: u32) -> Result<Partition, PirateError> {
        if ways < self.least.max(1) || ways > self.ways() {
            return Err(PirateError::Parameter {
                what: "ways",
                value: f64::from(ways),
                remedy: "a number from the hardware's least to all of them",
            });
        }
        let folder = self.root.join(name);
        let refused = |source| PirateError::System {
            operation: "allocate cache in",
            object: folder.display().to_string(),
            source,
            remedy: "remove other resctrl groups, and see info/last_cmd_status there",
        };
        fs::create_dir(&folder).map_err(refused)?;
        // Made: from here on it is removed again, whatever comes.
        let partition = Partition { folder: folder.clone(), root: self.root.clone() };
        let low = self.mask.trailing_zeros();
        let mask = (u64::MAX >> (64 - ways)) << low;
        let all: Vec<String> = self.domains.iter().map(|domain| format!("{domain}={mask:x}")).collect();
        fs::write(folder.join("schemata"), format!("L3:{}\n", all.join(";"))).map_err(refused)?;
        for thread in super::threads::threads_of(pid) {
            // One at a time, as the kernel asks; a thread may have ended meanwhile, the process must not.
            let moved = fs::write(folder.join("tasks"), thread.to_string());
            if thread == pid {
                moved.map_err(refused)?;
            }
        }
        Ok(partition)
    }
}

/// A process confined to part of the cache. Dropping it lifts the confinement.
#[derive(Debug)]
pub struct Partition {
    folder: PathBuf,
    root: PathBuf,
}

impl Partition {
    /// Bytes of the cache that the group holds at this moment, over all domains, where the hardware monitors it.
    #[must_use]
    pub fn occupancy(&self) -> Option<u64> {
        let domains = fs::read_dir(self.folder.join("mon_data")).ok()?;
        let each = domains.filter_map(Result::ok).filter_map(|domain| {
            let text = fs::read_to_string(domain.path().join("llc_occupancy")).ok()?;
            text.trim().parse::<u64>().ok()
        });
        each.fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes))
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        if let Ok(tasks) = fs::read_to_string(self.folder.join("tasks")) {
            for task in tasks.lines() {
                // Back to the default group; those that have ended are gone from it anyway.
                let _ = fs::write(self.root.join("tasks"), task);
            }
        }
        // The kernel lets a group go with its files in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The cache domains in a schemata file: `L3:0=ffff;1=ffff`.
fn l3_domains(schemata: &str) -> Option<Vec<u32>> {
    let line = schemata.lines().find_map(|line| line.trim().strip_prefix("L3:"))?;
    line.split(';').map(|domain| domain.split_once('=')?.0.trim().parse().ok()).collect()
}
