//! Names of code that a program makes as it runs: `/tmp/perf-PID.map` and jitdump files, as `perf` reads them.
//!
//! A map lists `START SIZE NAME` in hexadecimal, a line each; node writes it as it compiles (`--perf-basic-prof`), a Java
//! virtual machine as it ends (`-XX:+DumpPerfMapAtExit`). A jitdump is a file of binary records that the program also maps,
//! by which it is found (node `--perf-prof`, the agent `libperf-jvmti.so`). Both are read once the process has ended. Code
//! that was thrown away and whose place was used again has the name of what was there last.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What one process called its code.
#[derive(Debug, Default)]
pub(super) struct Methods {
    file: PathBuf,
    named: BTreeMap<u64, (u64, String)>, // by start: end and name; they do not overlap
}

impl Methods {
    /// What process `pid` has written down since `since`, in a map or one of the `mapped` files; `None` if nothing. Files
    /// that are older belong to another process, which had the number before.
    pub(super) fn of_process(pid: i32, since: SystemTime, mapped: &[PathBuf]) -> Option<Self> {
        let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let dump = mapped.iter().find(|path| path.ends_with(format!("jit-{pid}.dump")));
        let read = |path: &Path| content(path, since);
        let dumped = || dump.and_then(|path| Some(Self::of_dump(path, &read(path)?)));
        let listed = || Some(Self::of_map(&map, &String::from_utf8_lossy(&read(&map)?)));
        dumped().filter(|found| !found.named.is_empty()).or_else(listed)
    }

    fn of_map(file: &Path, text: &str) -> Self {
        let mut methods = Self { file: file.to_owned(), ..Self::default() };
        let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
        for line in text.lines() {
            let mut fields = line.splitn(3, ' ');
            let (start, bytes) = (fields.next().and_then(hex), fields.next().and_then(hex));
            if let (Some(start), Some(bytes), Some(name)) = (start, bytes, fields.next()) {
                methods.add(start, bytes, name.trim_end());
            }
        }
        methods
    }

    /// The records of a jitdump, as `tools/perf/Documentation/jitdump-specification.txt` of Linux lays them out. A file that
    /// breaks off has the records until there.
    fn of_dump(file: &Path, bytes: &[u8]) -> Self {
        const MAGIC: u32 = 0x4a69_5444;
        const LOAD: u32 = 0;
        const MOVE: u32 = 1;
        let mut methods = Self { file: file.to_owned(), ..Self::default() };
        let short = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if short(bytes, 0) != Some(MAGIC) {
            return methods;
        }
        let mut at = short(bytes, 8).unwrap_or(0) as usize;
        while let (Some(kind), Some(size @ 16..)) = (short(bytes, at), short(bytes, at + 4)) {
            let Some(record) = bytes.get(at..at + size as usize) else { break };
            // After id, size and time: process and thread, the address, where the code is (was), and (is).
            match (kind, long(record, 32), long(record, 40), long(record, 48)) {
                (LOAD, Some(start), Some(length), _) => {
                    let name = record.get(56..).unwrap_or_default().split(|&byte| byte == 0).next();
                    methods.add(start, length, &String::from_utf8_lossy(name.unwrap_or_default()));
                }
                (MOVE, Some(before), Some(start), Some(length)) => {
                    if let Some((_, name)) = methods.named.remove(&before) {
                        methods.add(start, length, &name);
                    }
                }
                _ => {}
            }
            at += size as usize;
        }
        methods
    }

    /// Takes note of code, in the place of whatever was there.
    fn add(&mut self, start: u64, bytes: u64, name: &str) {
        let Some(end) = start.checked_add(bytes).filter(|end| *end > start) else { return };
        while let Some((&before, _)) = self.named.range(..end).next_back().filter(|(_, old)| old.0 > start) {
            self.named.remove(&before);
        }
        self.named.insert(start, (end, name.to_owned()));
    }

    /// The code at `address`, and the offset in it.
    pub(super) fn symbol_at(&self, address: u64) -> Option<(String, u64)> {
        let (start, (end, name)) = self.named.range(..=address).next_back()?;
        (address < *end).then(|| (name.clone(), address - start))
    }

    /// Where that was written.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

/// The content of a file that was written since `since` by this user or root: others may write to `/tmp` too.
fn content(path: &Path, since: SystemTime) -> Option<Vec<u8>> {
    let about = fs::symlink_metadata(path).ok()?;
    let own = fs::metadata("/proc/self").ok()?.uid();
    let trusted = about.is_file() && [own, 0].contains(&about.uid()) && about.modified().ok()? >= since;
    trusted.then(|| fs::read(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_code_by_its_last_entry() {
        let text = "0x7f00 0x100 Interpreter\n8000 80 LazyCompile:~sum a.js:3\nnonsense\n8040 40 sum, compiled\n9000 0 x\n";
        let methods = Methods::of_map(Path::new("/tmp/perf-1.map"), text);
        let at = |address| methods.symbol_at(address).map(|(name, offset)| format!("{name}+{offset:x}"));
        assert_eq!(at(0x7f00), Some("Interpreter+0".into()));
        assert_eq!(at(0x7fff), Some("Interpreter+ff".into()));
        assert_eq!(at(0x8044), Some("sum, compiled+4".into()));
        // What was overwritten in part is gone: its other part is not known to be its own any more.
        for nowhere in [0x7eff, 0x8000, 0x8080, 0x9000] {
            assert_eq!(at(nowhere), None, "{nowhere:#x}");
        }
    }

    #[test]
    fn a_dump_names_code_and_follows_its_moves() {
        let mut bytes = Vec::new();
        let mut put = |words: &[u32], longs: &[u64], rest: &[u8]| {
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            bytes.extend(longs.iter().flat_map(|long| long.to_ne_bytes()));
            bytes.extend(rest);
        };
        put(&[0x4a69_5444, 1, 40, 62, 0, 7], &[1, 0], &[]); // the header: 40 bytes
        put(&[0, 56 + 4 + 2], &[5], &[]); // a load: its name, and two bytes of code
        put(&[7, 7], &[0x8000, 0x8000, 2, 0], b"sum\0\x90\xc3");
        put(&[1, 64], &[6], &[]);
        put(&[7, 7], &[0, 0x8000, 0xa000, 2, 0], &[]);
        let methods = Methods::of_dump(Path::new("jit-7.dump"), &bytes);
        assert_eq!(methods.symbol_at(0xa001), Some(("sum".into(), 1)));
        assert_eq!(methods.symbol_at(0x8000), None);
        for length in 0..bytes.len() {
            Methods::of_dump(Path::new("cut"), &bytes[..length]);
        }
    }

    #[test]
    fn files_of_an_earlier_process_are_not_read() {
        let pid = std::process::id() as i32;
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        fs::write(&path, "1000 10 main\n").unwrap();
        let hour = std::time::Duration::from_secs(3600);
        let now = SystemTime::now();
        let found =
            |since| Methods::of_process(pid, since, &[]).and_then(|methods| methods.symbol_at(0x1008));
        assert_eq!(found(now - hour), Some(("main".into(), 8)));
        assert_eq!(found(now + hour), None);
        fs::remove_file(path).unwrap();
    }
}
