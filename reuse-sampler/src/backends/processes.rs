//! What backends that follow whole trees know of each process.

#[cfg(any(qemu_plugin, dbi_backend))]
use std::{fs::File, io};

#[cfg(any(qemu_plugin, dbi_backend))]
use nix::sys::resource::{Resource, getrlimit};

#[cfg(any(qemu_plugin, dbi_backend, all(feature = "perf", target_os = "linux")))]
pub(super) use super::images::Images;
use crate::{AccessCount, ProcessRecord};

/// Makes a file in memory `bytes` long. Where a limit forbids that, the kernel would end this process.
#[cfg(any(qemu_plugin, dbi_backend))]
pub(super) fn lengthen(file: &File, bytes: u64) -> io::Result<()> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    if limit < bytes {
        return Err(io::Error::other(format!(
            "it takes {} KiB, and files of this process may have {}: raise the limit (ulimit -f)",
            bytes >> 10,
            limit >> 10
        )));
    }
    file.set_len(bytes)
}

/// A process's record, and what its accesses are estimated from.
#[derive(Debug)]
pub(super) struct Account {
    pub record: ProcessRecord,
    seen_instructions: u64, // of windows whose accesses were measured
    accesses: u64,          // in them
}

/// The command of a process with its arguments; empty where it is gone.
#[cfg(any(dbi_backend, all(feature = "perf", target_os = "linux")))]
pub(super) fn command_of(process: impl std::fmt::Display) -> String {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    words.join(" ").trim_end().to_owned()
}

impl Account {
    /// How a user knows the process with this number in the tree.
    #[cfg_attr(not(any(dbi_backend, feature = "perf")), allow(dead_code))]
    pub(super) fn name(&self, number: usize) -> String {
        match number {
            0 => "the program".to_owned(),
            _ => format!("process {} ({})", self.record.pid, self.record.command),
        }
    }

    pub(super) const fn new(record: ProcessRecord) -> Self {
        Self { record, seen_instructions: 0, accesses: 0 }
    }

    /// A window of so many instructions has ended, with accesses in so many of them if they were seen.
    pub(super) fn add(&mut self, instructions: u64, seen: Option<(u64, u64)>) {
        self.record.instructions += instructions;
        if let Some((instructions, accesses)) = seen {
            self.seen_instructions += instructions;
            self.accesses += accesses;
        }
    }

    /// Accesses that were seen.
    #[cfg_attr(not(qemu_plugin), allow(dead_code))]
    pub(super) const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// The record as of now.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) fn record(&self) -> ProcessRecord {
        let mut record = self.record.clone();
        record.accesses = match self.seen_instructions {
            0 => AccessCount::Unknown,
            seen if seen == record.instructions => AccessCount::Measured(self.accesses),
            seen => {
                let per_instruction = self.accesses as f64 / seen as f64;
                AccessCount::Estimated((record.instructions as f64 * per_instruction).round() as u64)
            }
        };
        record
    }
}
