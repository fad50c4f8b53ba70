//! The mappings of a process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

const PAGE_BITS: u32 = 12;

/// A mapped part of a file, or of nothing that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    end: u64,
    offset: u64,
    file: Option<PathBuf>,
}

/// What was mapped where, by addresses of the emulated program.
#[derive(Debug, Default)]
pub(super) struct Maps {
    parts: BTreeMap<u64, Part>, // by start; they may overlap where mappings changed: the latest start counts
    unknown: BTreeSet<u64>,     // pages that were executed and gone when the mappings were looked at
}

impl Maps {
    /// Looks at the mappings of `pid` if `code` has been executed where nothing is known to be mapped; at the `last` ones if it
    /// has none any more.
    pub(super) fn see(&mut self, pid: i32, base: u64, code: &[(u64, u64)], last: &str) {
        let unknown: Vec<u64> = self.unknown_pages(code);
        if unknown.is_empty() {
            return;
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok().filter(|maps| !maps.is_empty());
        self.take(maps.as_deref().unwrap_or(last), base);
        let still: Vec<u64> =
            unknown.into_iter().filter(|page| self.part_at(page << PAGE_BITS).is_none()).collect();
        self.unknown.extend(still);
    }

    fn unknown_pages(&self, code: &[(u64, u64)]) -> Vec<u64> {
        let mut pages = Vec::new();
        let mut known = 0..0;
        for &(address, _) in code {
            if known.contains(&address) {
                continue;
            }
            if let Some((start, part)) = self.part_at(address) {
                known = start..part.end;
            } else if !self.unknown.contains(&(address >> PAGE_BITS))
                && pages.last() != Some(&(address >> PAGE_BITS))
            {
                pages.push(address >> PAGE_BITS);
            }
        }
        pages
    }

    /// Takes over the content of `/proc/PID/maps`.
    pub(super) fn take(&mut self, maps: &str, base: u64) {
        for line in maps.lines() {
            if let Some((start, part)) = parse(line, base) {
                self.parts.insert(start, part);
            }
        }
    }

    fn part_at(&self, address: u64) -> Option<(u64, &Part)> {
        self.parts
            .range(..=address)
            .next_back()
            .filter(|(_, part)| address < part.end)
            .map(|(&start, part)| (start, part))
    }

    /// Mapped files that are called as a jitdump is.
    pub(super) fn dumps(&self) -> Vec<PathBuf> {
        let files = self.parts.values().filter_map(|part| part.file.clone());
        files.filter(|file| file.extension().is_some_and(|end| end == "dump")).collect()
    }

    /// The file mapped at `address`, and the offset in it.
    pub(super) fn file_at(&self, address: u64) -> Option<(PathBuf, u64)> {
        let (start, part) = self.part_at(address)?;
        let file = part.file.clone()?;
        Some((file, address - start + part.offset))
    }

    /// The file whose data is at `address`, the offset at which the mapping of the file begins there, and how far behind
    /// that the address is. Zeroed data lies behind the mapping and belongs to it.
    #[cfg(feature = "symbols")]
    pub(super) fn data_at(&self, address: u64) -> Option<(PathBuf, u64, u64)> {
        let (mut start, mut part) = self.part_at(address)?;
        if part.file.is_none() {
            (start, part) = self.part_at(start.checked_sub(1)?).filter(|(_, before)| before.end == start)?;
        }
        Some((part.file.clone()?, part.offset, address - start))
    }
}

/// A line such as `7f00-7f10 r-xp 00001000 08:02 135522 /usr/lib/libc.so.6`, as addresses of the program.
fn parse(line: &str, base: u64) -> Option<(u64, Part)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let offset = fields.nth(1)?;
    let file = fields.nth(2).map(|path| path.trim_start().trim_end_matches(" (deleted)"));
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let start = hex(start)?.checked_sub(base)?;
    let end = hex(end)?.checked_sub(base)?;
    let file = file.filter(|path| path.starts_with('/')).map(PathBuf::from);
    Some((start, Part { end, offset: hex(offset)?, file }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
4000000000-4000002000 r--p 00000000 08:02 17 /usr/bin/some program
4000002000-4000009000 r--p 00002000 08:02 17 /usr/bin/some program
4000009000-400000a000 rw-p 00000000 00:00 0
4000010000-4000012000 r--p 00005000 08:02 18 /usr/lib/libx.so (deleted)
7fff0000-7fff1000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn addresses_are_found_in_their_files() {
        let mut maps = Maps::default();
        maps.take(MAPS, 0);
        let file = |address| maps.file_at(address).map(|(path, offset)| (path.display().to_string(), offset));
        assert_eq!(file(0x40_0000_2010), Some(("/usr/bin/some program".into(), 0x2010)));
        assert_eq!(file(0x40_0000_8fff), Some(("/usr/bin/some program".into(), 0x8fff)));
        assert_eq!(file(0x40_0001_0004), Some(("/usr/lib/libx.so".into(), 0x5004)));
        for nowhere in [0x40_0000_9000, 0x40_0000_a000, 0x7fff_0800, 0] {
            assert_eq!(file(nowhere), None, "{nowhere:#x}");
        }
    }

    #[cfg(feature = "symbols")]
    #[test]
    fn zeroed_data_belongs_to_the_mapping_before_it() {
        let mut maps = Maps::default();
        maps.take(MAPS, 0);
        let program = PathBuf::from("/usr/bin/some program");
        assert_eq!(maps.data_at(0x40_0000_2010), Some((program.clone(), 0x2000, 0x10)));
        assert_eq!(maps.data_at(0x40_0000_9008), Some((program, 0x2000, 0x7008)));
        for nowhere in [0x40_0000_a000, 0x7fff_0800, 0] {
            assert_eq!(maps.data_at(nowhere), None, "{nowhere:#x}");
        }
    }

    #[test]
    fn a_base_moves_all_addresses() {
        let mut maps = Maps::default();
        maps.take(MAPS, 0x1000);
        assert_eq!(maps.file_at(0x40_0000_1010).map(|f| f.1), Some(0x2010));
        // Below the base is the emulator's own.
        assert_eq!(parse("0-1000 r--p 0 0:0 0 /x", 0x1000), None);
    }

    #[test]
    fn only_new_pages_are_looked_for() {
        let mut maps = Maps::default();
        maps.take(MAPS, 0);
        let code = [(0x40_0000_0000, 1), (0x40_0000_A001, 1), (0x40_0000_A900, 1), (0x50_0000_0000, 1)];
        assert_eq!(maps.unknown_pages(&code), [0x40_0000_A000 >> 12, 0x50_0000_0000 >> 12]);
        maps.unknown.insert(0x40_0000_A000 >> 12);
        assert_eq!(maps.unknown_pages(&code), [0x50_0000_0000 >> 12]);
    }
}
