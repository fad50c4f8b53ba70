//! What backends that follow whole trees know of each process: its record, and where its code comes from.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use nix::sys::resource::{Resource, getrlimit};

use super::locate::Locator;
use crate::engine::report::Report;
use crate::{AccessCount, CodeLocation, ProcessRecord};

/// Bits of an address that are the program's; above them is the number of its image.
const ADDRESS_BITS: u32 = 48;

/// Makes a file in memory `bytes` long. Where a limit forbids that, the kernel would end this process.
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

impl Account {
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

/// The programs that processes execute: code at one address is another in each.
#[derive(Debug, Default)]
pub(super) struct Images {
    all: Vec<Locator>, // 65,536 at most
    numbers: HashMap<String, usize>,
}

impl Images {
    /// The number of the program at `path`. The first is 0.
    pub(super) fn number(&mut self, path: &str) -> usize {
        if let Some(&number) = self.numbers.get(path) {
            return number;
        }
        if u16::try_from(self.all.len()).is_ok() {
            self.all.push(Locator::default());
        }
        let number = self.all.len() - 1;
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// Where the code of a program comes from.
    pub(super) fn get(&mut self, image: usize) -> Option<&mut Locator> {
        self.all.get_mut(image)
    }

    /// What marks addresses of the image's code.
    pub(super) const fn mark_of(image: usize) -> u64 {
        (image as u64) << ADDRESS_BITS
    }

    /// Marks the addresses of a window's code with the image.
    pub(super) fn mark<'a>(
        image: usize,
        code: impl IntoIterator<Item = &'a mut (u64, u64)>,
        report: &mut Report,
    ) {
        let mark = Self::mark_of(image);
        if mark == 0 {
            return;
        }
        for (address, _) in code {
            *address |= mark;
        }
        for closed in &mut report.closed {
            closed.begin.0 |= mark;
            if let Some(end) = &mut closed.end {
                end.0 |= mark;
            }
        }
        for (pc, _) in &mut report.strides {
            *pc |= mark;
        }
    }

    /// A process has ended, or executes another program than the image's from now on.
    pub(super) fn ended(&mut self, image: usize, pid: u32) {
        if let Some(image) = self.all.get_mut(image) {
            image.ended(pid);
        }
    }

    /// What is at a marked address.
    pub(super) fn locate(&mut self, address: u64) -> Option<CodeLocation> {
        let image = (address >> ADDRESS_BITS) as usize;
        let address = if image == 0 { address } else { address & ((1 << ADDRESS_BITS) - 1) };
        self.all.get_mut(image)?.locate(address)
    }
}
