//! The program's threads: each has a block of its own behind GS, and asks by itself.
//!
//! A new thread begins where its parent has made the system call, but with the parent's GS. It finds its block through
//! the parent's, which does not go on before that. All share one cache of code. Before that is emptied, and before the
//! program runs on natively, every other thread is brought to where it executes nothing of the cache: it asks, or it is
//! in a system call, from which it then returns to an entry point.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::libc;

use super::children::News;
use super::exits::Exit;
use super::layout::{self, command, private, shared};
use super::limits;
use super::observer::{Event, Gone, Observer, register};
use super::process::lives;
use super::region::{self, Region};
use super::signals::{Action, Signals};
use super::system_calls::{ASK_FIRST, Calling, Creates};
use super::translate::Kind;

/// What is taken from each share of the instructions left to make a thread ask at its next block. It evens them out, and may
/// be asked anew: the sum holds some thousands.
const SOON: u64 = 1 << 48;
/// Between looks at threads that are to stop.
const NAP: Duration = Duration::from_millis(1);

/// A thread of the program.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its number in the kernel; 0 while its parent does not know it.
    pub tid: i32,
    pub kind: Kind,
    pub signals: Signals,
    pub calling: Calling,
    /// In a system call that the observer has ordered.
    pub calls: bool,
    /// What its exit owes was taken back.
    pub paid: bool,
    /// It was told to end.
    pub ends: bool,
    /// Of a process of its own that shares memory until it executes another program or ends: what it asked of each signal.
    pub apart: Option<Box<[Action; 65]>>,
    /// The region of the child that it is about to fork.
    pub child: Option<Arc<Region>>,
}

impl Thread {
    pub(super) fn new(tid: i32) -> Self {
        Self {
            tid,
            kind: Kind::Counting,
            signals: Signals::default(),
            calling: Calling::default(),
            calls: false,
            paid: false,
            ends: false,
            apart: None,
            child: None,
        }
    }
}

impl Observer {
    /// The thread that is served.
    pub(super) fn own(&mut self) -> &mut Thread {
        self.threads[self.current].get_or_insert_with(|| Thread::new(0))
    }

    /// Whether the current thread is a process of its own.
    pub(super) fn is_apart(&mut self) -> bool {
        self.own().apart.is_some()
    }

    /// Completes the current thread's block.
    pub(super) fn prepare(&mut self) {
        self.ask_about(shared::ASK_FIRST, &ASK_FIRST);
        self.ask_about(shared::ASK_FIRST, &limits::ASK_FIRST);
        self.ask_for_guards();
        self.cache.clear_lookups(self.current);
        self.use_kind(Kind::Counting);
    }

    /// The current thread asks before it makes these system calls, by the table at an offset.
    pub(super) fn ask_about(&self, table: u32, calls: &[u32]) {
        for call in calls {
            let offset = table + call / 64 * 8;
            self.set(offset, self.get(offset) | 1 << (call % 64));
        }
    }

    /// From now on the current thread executes code of `kind`.
    pub(super) fn use_kind(&mut self, kind: Kind) {
        self.own().kind = kind;
        self.set(shared::HASH, self.base + layout::HASHES + kind as u64 * layout::HASH_SIZE);
        self.set(shared::LOOKUP, self.address_of(shared::LOOKUPS + kind as u32 * shared::LOOKUP_SIZE));
    }

    /// Why the current thread asks, if it does. Its signals are served.
    pub(super) fn request(&mut self) -> Option<u32> {
        let tid = match &self.threads[self.current] {
            Some(thread) if thread.tid != 0 => thread.tid,
            // Its parent sleeps: it says itself which number it has.
            Some(Thread { apart: Some(_), ends: false, .. }) if self.get_half(shared::STATE) == 1 => {
                let tid = self.get_half(shared::TID) as i32;
                self.own().tid = tid;
                tid
            }
            _ => return None,
        };
        self.memory.follow(tid);
        self.serve_signals();
        if self.get_half(shared::STATE) != 1 {
            return None;
        }
        self.set_half(shared::ASKED, 0);
        let left = self.left();
        if is_marked(left) {
            self.set_left(unmarked(left));
        }
        self.own().calls = false;
        Some(self.get_half(shared::REASON))
    }

    pub(super) fn serve_signals(&mut self) {
        while self.get_half(shared::SIGNAL_STATE) == 1 {
            let command = self.signal();
            self.set_half(shared::SIGNAL_COMMAND, command);
            self.answer(shared::SIGNAL_STATE);
        }
    }

    /// Makes the current thread ask at its next block, if it runs. A block that it enters at the same moment may undo
    /// this.
    pub(super) fn ask_soon(&mut self) {
        self.set_half(shared::ASKED, 1);
        // A buffer without room is never undone, but there may be none in use.
        self.set(shared::BUFFER_END, 0);
        for share in shared::SHARES.into_iter().filter(|&share| !is_marked(self.get(share))) {
            let at = layout::block(self.current) + u64::from(share);
            self.region.word(at).fetch_sub(SOON, Ordering::SeqCst);
        }
    }

    /// The current thread creates one that has `fs` as its base of FS, if any, and may be a process of its own.
    pub(super) fn create_thread(
        &mut self,
        pc: u64,
        fs: Option<u64>,
        apart: bool,
    ) -> Result<Option<Event>, Gone> {
        if apart && !self.numbers_are_ours() {
            return self.give_up(pc, "it creates processes with numbers of their own");
        }
        let Some(number) = self.free_block() else {
            return self.give_up(pc, &format!("it has more than {} threads", layout::THREADS));
        };
        let parent = self.current;
        let fs = fs.unwrap_or_else(|| self.get(shared::FS_BASE));
        let mask = self.block_signals()?;
        let address = layout::address(self.base, number);
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let (_, mapped) = self.raw(libc::SYS_mmap, [address, private::SIZE, protection, flags])?;
        if mapped != address {
            let pc = self.unblock(pc, mask, mask)?;
            return self.give_up(pc, "there is no room for a thread");
        }
        let calling = self.own().calling;
        self.threads.resize_with(self.threads.len().max(number + 1), || None);
        let actions = apart.then(|| Box::new(*self.own_actions()));
        self.threads[number] =
            Some(Thread { calling: Calling { mask, ..calling }, apart: actions, ..Thread::new(0) });
        self.current = number;
        for offset in (shared::REGISTERS..shared::SCRATCH).step_by(8) {
            self.set(offset, 0);
        }
        set_up(&self.region, self.base, number);
        self.prepare();
        self.set(shared::FS_BASE, fs);
        // Should we die meanwhile.
        self.set(shared::PC, calling.next);
        self.set(shared::MASK, mask);
        self.set_half(shared::MASKED, 1);
        self.keep_all_actions();
        let place = self.address_of(private::APART);
        self.write_or_leave(place, &u32::from(apart).to_le_bytes());
        self.current = parent;
        self.own().calling = Calling { mask, creates: Some(Creates::Thread(number)), ..calling };
        self.set(shared::NEW, address);
        self.perform(command::CLONE)
    }

    /// The system call has returned to the parent.
    pub(super) fn created(&mut self, number: usize, tid: Option<i32>) -> Result<u64, Gone> {
        let Calling { next, mask, .. } = self.own().calling;
        let parent = self.current;
        match (tid, &mut self.threads[number]) {
            // What was a process of its own has ended, or executes another program.
            (Some(_), Some(Thread { apart: Some(_), .. })) => self.news.push(News::Apart(number)),
            (Some(tid), Some(thread)) => {
                thread.tid = tid;
                // It needs its parent's block until it asks.
                self.wait_for(|observer| {
                    observer.current = number;
                    (observer.get_half(shared::STATE) == 1).then_some(())
                })?;
                self.current = parent;
            }
            (_, thread) => *thread = None,
        }
        self.unblock(next, mask, mask)
    }

    /// A new thread asks for the first time.
    pub(super) fn began(&mut self) -> Result<Option<Event>, Gone> {
        let Calling { next, mask, .. } = self.own().calling;
        self.set_register(register::RCX, next);
        let pc = self.unblock(next, mask, mask)?;
        Ok(Some(Event::Began { pc }))
    }

    /// The number of a block that no thread uses.
    fn free_block(&self) -> Option<usize> {
        let is_free = |number: &usize| match self.threads.get(*number) {
            Some(Some(thread)) => thread.apart.is_none() && thread.ends && !lives(thread.tid),
            _ => true,
        };
        (1..layout::THREADS).find(is_free)
    }

    /// Brings all other threads to where they execute nothing of the cache.
    pub(super) fn stop_others(&mut self) -> Result<(), Gone> {
        let caller = self.current;
        for number in (0..self.threads.len()).filter(|number| *number != caller) {
            self.current = number;
            while !self.is_stopped() {
                if self.process.has_ended() {
                    return Err(Gone);
                }
                let bell = self.region.bell();
                region::sleep(bell, bell.load(Ordering::SeqCst), NAP);
                self.let_write();
            }
        }
        self.current = caller;
        Ok(())
    }

    fn is_stopped(&mut self) -> bool {
        let tid = match &self.threads[self.current] {
            // A thread that has begun, but does not know it, is in an entry point.
            Some(thread) if thread.tid != 0 && !thread.calls => thread.tid,
            _ => return true,
        };
        if self.is_apart() && !lives(tid) {
            return true;
        }
        self.memory.follow(tid);
        self.serve_signals();
        if self.get_half(shared::STATE) == 1 {
            self.settle();
            return true;
        }
        self.ask_soon();
        // Whoever is seen in a system call after this returns to the entry point.
        let after = self.base + self.runtime.after;
        self.set(shared::AFTER_CALL, after);
        self.is_in_call(tid) && self.get(shared::AFTER_CALL) == after
    }

    /// Whether the thread sleeps in a system call of translated code.
    fn is_in_call(&self, tid: i32) -> bool {
        let state = fs::read_to_string(format!("/proc/{tid}/syscall"));
        let place = state.ok().and_then(|state| {
            let last = state.trim_end().rsplit(' ').next()?.strip_prefix("0x")?;
            u64::from_str_radix(last, 16).ok()
        });
        place == Some(self.base + self.runtime.call_kernel + 2) // behind it
    }

    /// Empties the cache. All other threads are stopped; where they left it is known afterwards, too.
    pub(super) fn empty_cache(&mut self) {
        let caller = self.current;
        let exits: Vec<_> = (0..self.threads.len())
            .map(|number| {
                self.current = number;
                Some(self.get_half(shared::EXIT))
                    .filter(|exit| *exit != 0)
                    .and_then(|exit| self.cache.exit(exit))
                    .map(Exit::paid)
            })
            .collect();
        self.cache.clear();
        for (number, exit) in exits.into_iter().enumerate() {
            if self.threads[number].is_some() {
                self.cache.clear_lookups(number);
                self.current = number;
                let exit = exit.map_or(0, |exit| self.cache.keep(exit));
                self.set_half(shared::EXIT, exit);
            }
        }
        self.current = caller;
    }

    /// Serves the stopped thread until it is known where it is. None if it ends, or is in a system call.
    pub(super) fn place(&mut self) -> Result<Option<u64>, Gone> {
        let Some(reason) = self.request() else { return Ok(None) };
        Ok(self.serve(reason)?.and_then(|event| event.pc()))
    }
}

/// Writes where the entry points find what they need.
pub(super) fn set_up(region: &Region, base: u64, thread: usize) {
    let address = layout::address(base, thread);
    for (offset, value) in [
        (shared::SELF, address),
        (shared::HUB, base + layout::HUB),
        (shared::EXIT_PCS, base + layout::EXIT_PCS),
    ] {
        region.set(layout::block(thread) + u64::from(offset), value);
    }
}

/// Whether the thread is to ask soon; a window is shorter than half of that.
const fn is_marked(left: u64) -> bool {
    (left as i64) < -(SOON as i64 / 2)
}

/// The instructions that are left.
const fn unmarked(left: u64) -> u64 {
    (left.wrapping_add(SOON / 2) % SOON).wrapping_sub(SOON / 2)
}
