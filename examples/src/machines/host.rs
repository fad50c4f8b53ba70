//! The data caches of the machine at hand, as the kernel describes them.

use std::fs;
use std::path::Path;

/// The processor as the kernel names it, or else its architecture.
pub fn processor() -> String {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
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
    /// The caches of this machine's first core, from `/sys` where there is one.
    pub fn of_this_machine() -> Self {
        Self::read(Path::new("/sys/devices/system/cpu/cpu0/cache")).unwrap_or_else(Self::typical)
    }

    /// Sizes to use where the machine reports none: 32 KiB, 1 MiB, 32 MiB.
    pub fn typical() -> Self {
        let level = |name: &str, bytes| CacheLevel { name: name.to_owned(), bytes };
        Self {
            levels: vec![level("L1", 32 << 10), level("L2", 1 << 20), level("L3", 32 << 20)],
            measured: false,
        }
    }

    /// Reads the `index*` folders below `root`.
    pub fn read(root: &Path) -> Option<Self> {
        let mut levels = Vec::new();
        for entry in fs::read_dir(root).ok()?.filter_map(Result::ok) {
            let folder = entry.path();
            let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
            let (Some(kind), Some(level), Some(size)) = (text("type"), text("level"), text("size")) else {
                continue;
            };
            if kind.trim() == "Instruction" {
                continue;
            }
            let Some(bytes) = parse_size(size.trim()) else { continue };
            levels.push(CacheLevel { name: format!("L{}", level.trim()), bytes });
        }
        levels.sort_by(|a, b| a.name.cmp(&b.name));
        (!levels.is_empty()).then_some(Self { levels, measured: true })
    }
}

/// The kernel writes `32K`, `1024K` or `32M`.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, ""),
    };
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    number.parse::<u64>().ok().filter(|&n| n > 0)?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let root = tempfile::tempdir().unwrap();
        for (index, kind, level, size) in [
            ("0", "Data", "1", "48K"),
            ("1", "Instruction", "1", "32K"),
            ("2", "Unified", "2", "2048K"),
            ("3", "Unified", "3", "32M"),
        ] {
            let folder = root.path().join(format!("index{index}"));
            fs::create_dir(&folder).unwrap();
            for (file, text) in [("type", kind), ("level", level), ("size", size)] {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
        let found = DataCaches::read(root.path()).unwrap();
        let sizes: Vec<(&str, u64)> = found.levels.iter().map(|l| (l.name.as_str(), l.bytes)).collect();
        assert_eq!(sizes, [("L1", 48 << 10), ("L2", 2 << 20), ("L3", 32 << 20)]);
        assert!(found.measured);
    }

    #[test]
    fn an_empty_or_missing_folder_has_no_caches() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(DataCaches::read(root.path()), None);
        assert_eq!(DataCaches::read(&root.path().join("missing")), None);
    }
}
