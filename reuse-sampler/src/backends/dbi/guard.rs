//! Pages of code that may change, protected from writing while it is executed.
//!
//! Where a program may write to its code, each execution of a block compares it. A page of such code that is executed
//! much is protected instead: its code is translated as that of a file is, but for what is concluded from code behind
//! it. A thread that writes to the page sleeps until all ways into its translation are cut; then the page may be written
//! to as before, and must be executed more before it is protected again.
//!
//! The kernel says who writes (`userfaultfd`, in user mode only, for which no privilege is needed). No signal is involved,
//! and no mapping changes in the program's eyes. A system call that was to write to such a page fails, and is made again,
//! unless that would be too late ([`arrivals`](super::arrivals)).
//! Where the kernel refuses, code is compared as before.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::pipe2;

use super::arrivals::{INTO_BUFFER, WHILE_GUARDED};
use super::assemble::Code;
use super::cache::{Block, CodeCache, Waiting, distance_of};
use super::chain::Owed;
use super::exits::Exit;
use super::layout::{self, shared};
use super::memory::{PAGE, page_of};
use super::observer::{Gone, Observer};
use super::process::handle_of;
use super::region::{self, Region};
use super::translate::Kind;

/// Instructions that are executed of a page before it is protected. Chosen on node and java; four times as many or as few
/// take up to a tenth longer there.
const EXECUTED: u64 = 1 << 18;
/// So many times as many after each time that it was written to.
const AGAIN: u64 = 8;
/// What is so near a thread's stack pointer, in the same mapping, may be its stack, to which the kernel writes too.
const STACK: u64 = 8 << 20;

/// System calls that concern pages that are protected.
const ASK_FIRST: [u32; 2] = [libc::SYS_madvise as u32, libc::SYS_userfaultfd as u32];

/// Requests of `userfaultfd`, and what they take, as the kernel defines them.
const API: libc::c_ulong = 0xC018_AA3F;
const REGISTER: libc::c_ulong = 0xC020_AA00;
const PROTECT: libc::c_ulong = 0xC018_AA06;
const VERSION: u64 = 0xAA;
const USER_MODE_ONLY: i32 = 1;
/// That a fault says whether the page was protected, which includes that pages can be.
const REPORTS_PROTECTED: u64 = 1;
const OF_PROTECTED: u64 = 2;
/// A message: its first byte says that there was a fault, the word at 16 where.
const MESSAGE: usize = 32;
const FAULT: u8 = 0x12;

/// What is known of a page of code that changes.
#[derive(Clone, Copy, Debug)]
struct Heat {
    executed: u64,
    needed: u64,
}

/// Pages of a process, protected or to be.
#[derive(Debug, Default)]
pub(super) struct Guards {
    kernel: Option<Kernel>,
    refused: bool,
    heat: BTreeMap<u64, Heat>,
    /// From where to where pages have been protected.
    span: Range<u64>,
    /// For signals: the kernel writes to them.
    pub stacks: Vec<Range<u64>>,
}

impl Guards {
    /// More of `page` must be executed from now on before it is protected.
    fn cool(&mut self, page: u64) {
        if let Some(heat) = self.heat.get_mut(&page) {
            *heat = Heat { executed: 0, needed: heat.needed.saturating_mul(AGAIN) };
        }
    }
}

/// What the kernel does for a process. Nothing is protected any more once this is dropped.
#[derive(Debug)]
struct Kernel {
    file: Arc<File>,
    written: Receiver<u64>,
    registered: Vec<(u64, u64)>,
    _open: OwnedFd,
}

impl Kernel {
    /// Of the descriptor `number` of the process `pid`.
    fn new(pid: i32, number: i32, region: &Arc<Region>) -> Option<Self> {
        let process = handle_of(pid)?;
        // SAFETY: passes numbers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
        let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
        // SAFETY: the kernel has just opened it for us.
        let file = Arc::new(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }));
        let mut api = [VERSION, REPORTS_PROTECTED, 0];
        // SAFETY: three words, as the request says, which outlive the call.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), API, &raw mut api) };
        if answer != 0 || api[1] & REPORTS_PROTECTED == 0 {
            return None;
        }
        let (ended, open) = pipe2(OFlag::O_CLOEXEC).ok()?;
        let (found, written) = channel();
        let (events, region) = (Arc::clone(&file), Arc::clone(region));
        let watch = move || {
            let mut message = [0; MESSAGE];
            while is_readable(&events, &ended) {
                if (&*events).read(&mut message).is_ok_and(|length| length == MESSAGE) && message[0] == FAULT
                {
                    let address = <[u8; 8]>::try_from(&message[16..24]).map_or(0, u64::from_le_bytes);
                    if found.send(address).is_err() {
                        break;
                    }
                    region.bell().fetch_add(1, Ordering::SeqCst);
                    region::wake(region.bell());
                }
            }
        };
        thread::Builder::new().name("dbi-guard".into()).spawn(watch).ok()?;
        Some(Self { file, written, registered: Vec::new(), _open: open })
    }

    /// Protects `page` of the mapping from `start` to `end`. False where the kernel cannot.
    fn protect(&mut self, page: u64, (start, end): (u64, u64)) -> bool {
        if self.registered.contains(&(start, end)) && self.set(page, true) {
            return true;
        }
        let mut register = [start, end - start, OF_PROTECTED, 0];
        // SAFETY: four words, as the request says, which outlive the call.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), REGISTER, &raw mut register) };
        if answer != 0 {
            return false;
        }
        if !self.registered.contains(&(start, end)) {
            self.registered.push((start, end));
        }
        self.set(page, true)
    }

    /// Protects a page or, the other way, lets whoever waits write to it. False if it is mapped no longer.
    fn set(&self, page: u64, protected: bool) -> bool {
        let mut request = [page, PAGE, u64::from(protected)];
        // SAFETY: three words, as the request says, which outlive the call.
        unsafe { libc::ioctl(self.file.as_raw_fd(), PROTECT, &raw mut request) == 0 }
    }
}

/// Waits until there is something to read; false once `ended` is closed.
fn is_readable(events: &File, ended: &OwnedFd) -> bool {
    let poll = |descriptor| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    loop {
        let mut both = [poll(events.as_raw_fd()), poll(ended.as_raw_fd())];
        // SAFETY: two structures, which outlive the call.
        let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        match both {
            [_, ended] if ended.revents != 0 => return false,
            [events, _] if events.revents & libc::POLLIN != 0 => return true,
            [events, _] if events.revents != 0 => return false,
            _ if ready < 0 => {} // interrupted
            _ => return false,
        }
    }
}

impl Observer {
    /// The current thread has executed so many instructions of each block, and waits: pages of which many were executed
    /// are protected.
    pub(super) fn note_executed(&mut self, executed: &[(u64, u64)]) -> Result<(), Gone> {
        // A process that shares memory has files of its own.
        if self.guards.refused || self.is_apart() {
            return Ok(());
        }
        let mut hot = Vec::new();
        let mut rest = executed;
        while let Some(&(first, _)) = rest.first() {
            let page = page_of(first);
            let (now, after) = rest.split_at(rest.partition_point(|(pc, _)| *pc < page + PAGE));
            rest = after;
            if !self.cache.verified.contains_key(&page) {
                continue;
            }
            let verified = |pc: u64| self.cache.block(pc).is_some_and(Block::is_verified);
            let count = now.iter().filter(|(pc, _)| verified(*pc)).map(|(_, count)| count).sum::<u64>();
            if count > 0 {
                let heat = self.guards.heat.entry(page).or_insert(Heat { executed: 0, needed: EXECUTED });
                heat.executed += count;
                if heat.executed >= heat.needed {
                    hot.push((page, now));
                }
            }
        }
        for (page, blocks) in hot {
            if self.guard(page)? {
                self.translate_again(page, blocks);
            }
        }
        Ok(())
    }

    /// Protects `page`, if it can be.
    fn guard(&mut self, page: u64) -> Result<bool, Gone> {
        let Some(mapping) = self.memory.own_mapping(page) else {
            self.guards.cool(page);
            return Ok(false);
        };
        let stack_of = |number| self.region.get(layout::block(number) + u64::from(shared::REGISTERS) + 32);
        let is_stack = |at: u64| (mapping.0..mapping.1).contains(&at) && at.abs_diff(page) < STACK;
        let has = |stack: &Range<u64>| stack.start < page + PAGE && page < stack.end;
        if (0..self.threads.len()).any(|number| self.threads[number].is_some() && is_stack(stack_of(number)))
            || self.guards.stacks.iter().any(has)
        {
            self.guards.cool(page);
            return Ok(false);
        }
        if self.guards.kernel.is_none() {
            self.guards.kernel = self.open_guard()?;
            self.guards.refused = self.guards.kernel.is_none();
        }
        self.may_guard(page);
        let Some(kernel) = &mut self.guards.kernel else { return Ok(false) };
        if !kernel.protect(page, mapping) {
            self.guards.cool(page);
            return Ok(false);
        }
        self.memory.guarded.insert(page);
        Ok(true)
    }

    /// All threads ask about what concerns `page` from now on, if pages can be protected.
    fn may_guard(&mut self, page: u64) {
        let span = &mut self.guards.span;
        if span.contains(&page) {
            return;
        }
        let first = if span.is_empty() { page } else { span.start.min(page) };
        *span = first..span.end.max(page + PAGE);
        let caller = self.current;
        for number in 0..self.threads.len() {
            self.current = number;
            self.ask_for_guards();
        }
        self.current = caller;
    }

    /// Has the program open what says who writes, and takes it over.
    fn open_guard(&mut self) -> Result<Option<Kernel>, Gone> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        self.raw(libc::SYS_userfaultfd, [flags as u64, 0, 0, 0])?;
        let Ok(number) = i32::try_from(self.get(shared::RAW_RESULT) as i64) else { return Ok(None) };
        if number < 0 {
            return Ok(None);
        }
        let kernel = Kernel::new(self.process.pid().as_raw(), number, &self.region);
        self.raw(libc::SYS_close, [number as u64, 0, 0, 0])?;
        Ok(kernel)
    }

    /// The current thread asks about system calls that concern protected pages, if there may be any.
    pub(super) fn ask_for_guards(&self) {
        if self.guards.kernel.is_some() {
            self.ask_about(shared::ASK_FIRST, &ASK_FIRST);
            self.ask_about(shared::ASK_FIRST, &WHILE_GUARDED);
            self.ask_about(shared::ASK_WHERE, &INTO_BUFFER);
            self.set(shared::GUARDED, self.guards.span.start);
            self.set(shared::GUARDED_END, self.guards.span.end);
        }
    }

    /// Has the code of `page`, of which `blocks` are executed, translated as what stays.
    fn translate_again(&mut self, page: u64, blocks: &[(u64, u64)]) {
        let again = self.cache.leave(page);
        let thread = self.current;
        let Self { memory, cache, .. } = self;
        for (pc, kind) in again {
            if cache.is_full() {
                return;
            }
            if blocks.binary_search_by_key(&pc, |(pc, _)| *pc).is_ok() {
                cache.find(pc, kind, thread, &mut |at| memory.code(at));
            }
        }
    }

    /// Lets those write who wait for it.
    pub(super) fn let_write(&mut self) {
        while let Some(address) =
            self.guards.kernel.as_ref().and_then(|kernel| kernel.written.try_recv().ok())
        {
            self.unguard(page_of(address));
        }
    }

    /// `page` may be written to.
    fn unguard(&mut self, page: u64) {
        if self.memory.guarded.remove(&page) {
            self.cache.cut(page);
            self.guards.cool(page);
        }
        if let Some(kernel) = &self.guards.kernel {
            kernel.set(page, false);
        }
    }

    /// Something else is mapped in `start..end`.
    pub(super) fn unguard_mapping(&mut self, start: u64, end: u64) {
        self.unguard_all(start, end);
        self.guards.stacks.retain(|stack| stack.end <= start || end <= stack.start);
        let pages: Vec<u64> = self.guards.heat.range(start..end.max(start)).map(|(&page, _)| page).collect();
        for page in pages {
            self.guards.heat.remove(&page);
        }
    }

    /// What is in `start..end` has changed, or how it may be accessed. Whether some of it was protected.
    pub(super) fn unguard_all(&mut self, start: u64, end: u64) -> bool {
        let start = page_of(start);
        let pages: Vec<u64> = self.memory.guarded.range(start..end.max(start)).copied().collect();
        for &page in &pages {
            self.unguard(page);
        }
        !pages.is_empty()
    }

    /// Protects nothing from now on.
    pub(super) fn end_guards(&mut self) {
        self.unguard_all(0, u64::MAX);
        self.guards = Guards { refused: true, ..Guards::default() };
    }
}

/// A way into translated code of a protected page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub pc: u64,
    pub kind: Kind,
    pub waiting: Waiting,
}

/// What is translated of a protected page.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    pub gates: Vec<Gate>,
    pub blocks: Vec<u32>,
}

impl CodeCache {
    /// Code of `kind` for the block at `pc` was written at `start`, and begins with a jump to what is behind it if it is
    /// guarded: on `page`.
    pub(super) fn enter_by(
        &mut self,
        start: u64,
        (pc, kind): (u64, Kind),
        page: Option<u64>,
        owed: Option<Owed>,
    ) {
        if let Some(page) = page {
            let waiting = Waiting { patch: distance_of(start), owed };
            self.guarded.entry(page).or_default().gates.push(Gate { pc, kind, waiting });
            self.gates += 1;
        }
    }

    /// Cuts all ways into code of `page`: they lead to what is translated next.
    fn cut(&mut self, page: u64) {
        let Guarded { gates, blocks } = self.guarded.remove(&page).unwrap_or_default();
        self.gates -= gates.len();
        for number in blocks {
            let pc = self.blocks[number as usize].pc;
            if self.numbers.get(&pc) == Some(&number) {
                self.numbers.remove(&pc);
                self.codes.iter_mut().for_each(|codes| _ = codes.entries.remove(&pc));
                self.runs.forget(pc);
            }
        }
        for Gate { pc, kind, waiting } in gates {
            let Waiting { patch, owed } = waiting;
            let number = self.keep(Exit::Link { target: pc, patch, owed });
            let mut code = Code::at(self.cold);
            code.store_value(number, shared::EXIT);
            code.jump(self.entries.exit);
            self.region.write(code.address - self.base, &code.bytes);
            self.complete.push((patch, self.cold));
            self.cold = code.here();
            self.codes[kind as usize].wait(pc, waiting);
        }
        self.publish();
    }

    /// Code that compares itself is left for what is translated next. Returns what of it is on `page`, and which kind.
    fn leave(&mut self, page: u64) -> Vec<(u64, Kind)> {
        let mut left = Vec::new();
        for number in self.verified.remove(&page).unwrap_or_default() {
            let pc = self.blocks[number as usize].pc;
            if self.numbers.get(&pc) == Some(&number) {
                let kinds = [Kind::Counting, Kind::Recording];
                let known = |kind: &Kind| self.codes[*kind as usize].entries.contains_key(&pc);
                left.extend(kinds.into_iter().filter(known).map(|kind| (pc, kind)));
                self.replace(pc, number);
            }
        }
        left.sort_by_key(|(pc, kind)| (*kind as u64, *pc));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Source, Trust};
    use super::super::runtime::Runtime;
    use super::*;

    /// cmp rax, 1; je 0x400000; nop; ret on a protected page; elsewhere a chain that jumps to its middle and its beginning.
    fn read(at: u64) -> Source {
        let (code, start, trust): (&[u8], u64, Trust) = if at >= 0x40_0000 {
            (&[0x48, 0x83, 0xF8, 1, 0x74, 0xFA, 0x90, 0xC3], 0x40_0000, Trust::Guarded)
        } else {
            // je 0x400006; jmp 0x400000
            (&[0x0F, 0x84, 0x00, 0x00, 0x10, 0x00, 0xE9, 0xF5, 0xFF, 0x0F, 0x00], 0x30_0000, Trust::Fixed)
        };
        Source::new(code.into(), (at - start) as usize, trust)
    }

    /// mov [rsi], dil; jmp on; on: nop; ret
    fn stores(at: u64) -> Source {
        let code: &[u8] = &[0x40, 0x88, 0x3E, 0xEB, 0x00, 0x90, 0xC3];
        Source::new(code.into(), (at - 0x40_0000) as usize, Trust::Guarded)
    }

    #[test]
    fn a_block_that_may_change_the_next_one_is_the_last_of_its_chain_and_run() {
        for fetches in [false, true] {
            let mut cache = CodeCache::new(Arc::new(Region::new().unwrap()), 0x7000_0000, &Runtime::new());
            cache.purpose.fetches = fetches;
            for kind in [Kind::Counting, Kind::Recording] {
                cache.find(0x40_0000, kind, 0, &mut stores);
                assert_eq!(cache.length_at(0x40_0000, kind), 2, "{kind:?}, fetches: {fetches}");
            }
        }
    }

    const PLACES: [u64; 3] = [0x30_0000, 0x40_0000, 0x40_0006];

    #[test]
    fn all_ways_into_a_page_that_is_written_to_ask_the_observer() {
        let base = 0x7000_0000;
        let mut cache = CodeCache::new(Arc::new(Region::new().unwrap()), base, &Runtime::new());
        let leads_to = |cache: &CodeCache, patch: u64| {
            patch.wrapping_add(4).wrapping_add_signed((cache.region.get_half(patch - base) as i32).into())
        };
        for kind in [Kind::Counting, Kind::Recording, Kind::Stepping] {
            for pc in PLACES {
                cache.find(pc, kind, 0, &mut read);
            }
        }
        let gates = cache.guarded[&0x40_0000].gates.clone();
        assert!(gates.len() >= 6, "{gates:?}");
        for gate in &gates {
            assert_eq!(leads_to(&cache, gate.waiting.patch), gate.waiting.patch + 4, "{gate:?}");
        }
        assert!(gates.iter().any(|gate| gate.waiting.owed.is_some()), "{gates:?}");
        cache.cut(0x40_0000);
        for gate in &gates {
            assert!(leads_to(&cache, gate.waiting.patch) > base + layout::COLD, "{gate:?}");
            let exit = cache.exits.iter().find_map(|exit| match *exit {
                Exit::Link { target, patch, owed } if patch == gate.waiting.patch => Some((target, owed)),
                _ => None,
            });
            assert_eq!(exit, Some((gate.pc, gate.waiting.owed)));
        }
        assert!(cache.block(0x40_0006).is_none() && cache.block(0x30_0000).is_some());
        // What is translated next is entered by the same ways.
        for kind in [Kind::Counting, Kind::Recording, Kind::Stepping] {
            for pc in PLACES {
                cache.find(pc, kind, 0, &mut read);
            }
        }
        for gate in &gates {
            let to = leads_to(&cache, gate.waiting.patch);
            assert!(to > gate.waiting.patch + 4 && to < base + layout::COLD, "{gate:?}");
        }
    }
}
