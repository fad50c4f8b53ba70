//! The program's children: each is observed in a region of its own.
//!
//! A forked child has a copy of its parent's memory, but the region in it is its parent's. So it begins by mapping another
//! one in the same place, in which its registers lie already, and asks there. A child that shares its parent's memory until
//! it executes another program (`vfork`, `posix_spawn`) is to its parent's observer one more thread; the parent sleeps.

use std::fs;
use std::sync::Arc;

use nix::libc;

use super::layout::{self, command, private, shared};
use super::observer::{Gone, Observer, register};
use super::process::Process;
use super::region::Region;
use super::signals::Action;
use super::system_calls::{Calling, Creates};
use super::threads::set_up;

/// What has become of a child, or of a thread that is a process of its own.
#[derive(Debug)]
pub(super) enum News {
    /// A child is about to ask for the first time.
    Forked(Box<Observer>),
    /// The process that had a thread's block has ended or executes another program.
    Apart(usize),
    /// The program has seen a child's end.
    Reaped { pid: u32, status: i32 },
}

impl Observer {
    /// Forks, with the child on the stack at `stack` and `fs` as its base of FS where these are not the parent's.
    pub(super) fn fork(&mut self, stack: Option<u64>, fs: Option<u64>) -> Result<(), Gone> {
        let mask = self.block_signals()?;
        let observed = self.follows && self.numbers_are_ours();
        let region = if observed { Region::beside(&self.region).ok().map(Arc::new) } else { None };
        let none = String::from("\0");
        let common = region.as_ref().and_then(|region| region.first()).map_or(none.clone(), Region::path);
        let path = region.as_ref().map_or(none, |region| region.path());
        for (offset, bytes) in [
            (private::CHILD_PATH, path.as_bytes()),
            (private::COMMON_PATH, common.as_bytes()),
            (private::MASK, &mask.to_le_bytes()),
        ] {
            let place = self.address_of(offset);
            self.write_or_leave(place, bytes);
        }
        if let Some(region) = &region {
            self.furnish(region, mask, stack, fs);
        }
        self.own().child = region;
        let calling = self.own().calling;
        self.own().calling = Calling { mask, creates: Some(Creates::Process), ..calling };
        self.perform(command::FORK).map(drop)
    }

    /// Whether processes that the current thread creates have the same numbers for it as for us.
    pub(super) fn numbers_are_ours(&self) -> bool {
        let theirs = fs::read_link(format!("/proc/{}/ns/pid_for_children", self.task()));
        match (theirs, fs::read_link("/proc/self/ns/pid")) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            _ => false,
        }
    }

    /// Writes what a child finds in its region: the entry points, and its state behind the system call.
    fn furnish(&mut self, region: &Region, mask: u64, stack: Option<u64>, fs: Option<u64>) {
        let block = layout::block(0);
        region.write(layout::RUNTIME, self.runtime.code);
        set_up(region, self.base, 0);
        for number in 0..16 {
            region.set(block + u64::from(shared::REGISTERS + 8 * number), self.register(number));
        }
        let (next, flags) = (self.own().calling.next, self.get(shared::FLAGS));
        let stack = stack.unwrap_or_else(|| self.register(register::RSP));
        for (offset, value) in [
            (shared::REGISTERS + 8 * register::RAX, 0),
            (shared::REGISTERS + 8 * register::R11, flags),
            (shared::REGISTERS + 8 * register::RSP, stack),
            (shared::FLAGS, flags),
            (shared::PC, next),
            (shared::FS_BASE, fs.unwrap_or_else(|| self.get(shared::FS_BASE))),
            (shared::MASK, mask),
        ] {
            region.set(block + u64::from(offset), value);
        }
        region.set_half(block + u64::from(shared::MASKED), 1);
        // The file's content is what its private mapping begins with.
        let actions = bytes_of(self.own_actions());
        region.write(block + u64::from(private::ACTIONS), &actions);
    }

    /// The system call has returned to the parent, with the child's number unless it failed. Where the parent goes on.
    pub(super) fn forked(&mut self, pid: Option<i32>) -> Result<u64, Gone> {
        let Calling { next, mask, .. } = self.own().calling;
        match (pid, self.own().child.take()) {
            (Some(pid), Some(region)) => match Process::watch_other(pid, &region) {
                Ok(process) => {
                    let mut child = self.beside(region, self.base, process);
                    child.actions = *self.own_actions();
                    child.guards.stacks.clone_from(&self.guards.stacks);
                    child.own().calling = Calling { next, mask, ..Calling::default() };
                    self.news.push(News::Forked(Box::new(child)));
                }
                Err(_) => self.forks += 1,
            },
            (Some(_), None) => self.forks += 1,
            (None, _) => {}
        }
        self.unblock(next, mask, mask)
    }

    /// The observer of another process of the tree, which has its region at `base`.
    pub(super) fn beside(&self, region: Arc<Region>, base: u64, process: Process) -> Self {
        let mut other = Self::new(region, self.runtime, base, process);
        other.follows = self.follows;
        other.limits_addresses = self.limits_addresses;
        other.cache.purpose = self.cache.purpose;
        other.leaving.clone_from(&self.leaving);
        other
    }

    /// The program has waited for a child: how that ended is where the system call was to write it.
    pub(super) fn waited(&mut self, number: i64, result: i64, place: u64) {
        const EXITED: i32 = 1;
        let found = if number == libc::SYS_wait4 {
            self.memory.read(place).map(|bytes| (result as u32, i32::from_le_bytes(bytes)))
        } else {
            // A structure that says the same in other words: signal, errno, code; process, user, status.
            self.memory.read::<28>(place).map(|bytes| {
                let word = |at: usize| i32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
                (word(16) as u32, if word(8) == EXITED { word(24) << 8 } else { word(24) & 0x7F })
            })
        };
        if let Some((pid, status)) = found {
            self.news.push(News::Reaped { pid, status });
        }
    }
}

/// Actions as the entry points find them.
pub(super) fn bytes_of(actions: &[Action; 65]) -> Vec<u8> {
    actions.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}
