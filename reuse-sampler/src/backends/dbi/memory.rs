//! The program's memory, and which of it is code that stays what it is.

use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use super::block::READ;
use crate::engine::hash::FastMap;

pub(super) const PAGE: u64 = 4096;

/// The address of the page that `address` is in.
pub(super) const fn page_of(address: u64) -> u64 {
    address - address % PAGE
}

/// What is mapped at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapped {
    /// Code of a file that nothing writes to.
    Code,
    /// Memory that is executable and may be written to: here, later, or through another mapping.
    Changing,
    /// Nothing that can be executed.
    Other,
}

/// Why code is what was translated when it is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing writes to it.
    #[default]
    Fixed,
    /// Its page is protected: whoever writes to it waits until its translation is left.
    Guarded,
    /// Each execution compares it.
    Verified,
}

impl Trust {
    /// The page of code at `pc`, if it is protected.
    pub(super) fn guard(self, pc: u64) -> Option<u64> {
        (self == Self::Guarded).then(|| page_of(pc))
    }
}

/// Code of the program, from an address on.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    page: Arc<[u8]>,
    from: usize,
    pub trust: Trust,
}

impl Source {
    /// What `page` holds from `from` on.
    pub(super) const fn new(page: Arc<[u8]>, from: usize, trust: Trust) -> Self {
        Self { page, from, trust }
    }

    /// As many as there are, or more than a block may take.
    pub(super) fn bytes(&self) -> &[u8] {
        self.page.get(self.from..).unwrap_or(&[])
    }
}

/// The memory of a process.
#[derive(Debug)]
pub(super) struct Memory {
    pid: Pid,
    mappings: String, // as they were when code was last found
    executable: Vec<(u64, u64, Mapped)>,
    stale: bool,
    pages: FastMap<u64, Arc<[u8]>>, // of code that stays what it is, each with the beginning of the next
    /// Pages of code that are protected from writing.
    pub guarded: BTreeSet<u64>,
}

impl Memory {
    pub(super) fn new(pid: Pid) -> Self {
        let mappings = String::new();
        Self {
            pid,
            mappings,
            executable: Vec::new(),
            stale: true,
            pages: FastMap::default(),
            guarded: BTreeSet::new(),
        }
    }

    /// The thread of this number lives: through one that has ended the memory cannot be reached.
    pub(super) fn follow(&mut self, tid: i32) {
        self.pid = Pid::from_raw(tid);
    }

    /// The mappings have changed.
    pub(super) fn changed(&mut self) {
        self.stale = true;
        self.pages.clear();
    }

    /// What is mapped at `address`.
    pub(super) fn kind(&mut self, address: u64) -> Mapped {
        if let Some(kind) = self.known(address) {
            return kind;
        }
        if !std::mem::take(&mut self.stale) {
            return Mapped::Other;
        }
        self.mappings = self.now();
        self.executable = self.mappings.lines().filter_map(executable).collect();
        self.known(address).unwrap_or(Mapped::Other)
    }

    /// Whether anything is mapped at `address`.
    pub(super) fn is_mapped(&self, address: u64) -> bool {
        self.now().lines().filter_map(range).any(|(start, end)| (start..end).contains(&address))
    }

    fn now(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default()
    }

    /// The mapping that `page` is in, if it is private memory of no file that may be written to and executed.
    pub(super) fn own_mapping(&mut self, page: u64) -> Option<(u64, u64)> {
        if self.kind(page) != Mapped::Changing {
            return None;
        }
        let mut mappings = self.mappings.lines().filter_map(|line| Some((line, executable(line)?)));
        let (line, (start, end, _)) = mappings.find(|(_, (start, end, _))| (*start..*end).contains(&page))?;
        let [_, rights, _, _, inode] =
            <[&str; 5]>::try_from(line.split(' ').take(5).collect::<Vec<_>>()).ok()?;
        (rights == "rwxp" && inode == "0" && !line.ends_with("[stack]")).then_some((start, end))
    }

    /// What `/proc/PID/maps` listed when code was last found.
    pub(super) fn mappings(&self) -> &str {
        &self.mappings
    }

    fn known(&self, address: u64) -> Option<Mapped> {
        let found = self.executable.iter().find(|(start, end, _)| (*start..*end).contains(&address));
        found.filter(|_| !self.stale).map(|(_, _, kind)| *kind)
    }

    /// The code from `address` on, as much as there is, or [`READ`] bytes and more. Each page of a file is read once.
    pub(super) fn code(&mut self, address: u64) -> Source {
        match self.kind(address) {
            Mapped::Other => Source::default(),
            Mapped::Changing => {
                let guarded = self.guarded.contains(&page_of(address));
                let trust = if guarded { Trust::Guarded } else { Trust::Verified };
                Source::new(self.read_some(address, READ).into(), 0, trust)
            }
            Mapped::Code => {
                let from = address % PAGE;
                let known = self.pages.get(&(address - from)).cloned();
                let page = known.unwrap_or_else(|| {
                    let page: Arc<[u8]> = self.read_some(address - from, PAGE as usize + READ).into();
                    self.pages.insert(address - from, Arc::clone(&page));
                    page
                });
                Source::new(page, from as usize, Trust::Fixed)
            }
        }
    }

    /// Up to `length` bytes, fewer where a page cannot be read.
    fn read_some(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let first = ((PAGE - address % PAGE) as usize).min(length);
        // A transfer is partial between elements only.
        let remote = [
            RemoteIoVec { base: address as usize, len: first },
            RemoteIoVec { base: (address as usize).wrapping_add(first), len: length - first },
        ];
        let used = if first == length { &remote[..1] } else { &remote[..] };
        let read = process_vm_readv(self.pid, &mut [IoSliceMut::new(&mut bytes)], used).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    /// `N` bytes, or none if they cannot be read.
    pub(super) fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        self.read_some(address, N).try_into().ok()
    }

    /// A number.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        self.read(address).map(u64::from_le_bytes)
    }

    /// A string that ends with 0, cut where it is too long or cannot be read.
    pub(super) fn text(&self, address: u64) -> String {
        let bytes = self.read_some(address, 512);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Writes `bytes`; false if that is refused.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
        process_vm_writev(self.pid, &[IoSlice::new(bytes)], &remote) == Ok(bytes.len())
    }
}

/// The addresses of a mapping.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

fn executable(line: &str) -> Option<(u64, u64, Mapped)> {
    let (start, end) = range(line)?;
    let mut words = line.split(' ').skip(1);
    let rights = words.next()?.as_bytes();
    let &[_, write, execute, shared] = rights else { return None };
    let mut words = words.skip(2);
    let is_fixed = words.next()? != "0" || line.ends_with("[vdso]");
    let kind = if write == b'w' || shared == b's' || !is_fixed { Mapped::Changing } else { Mapped::Code };
    (execute == b'x').then_some((start, end, kind))
}
