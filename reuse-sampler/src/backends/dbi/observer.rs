//! Serves the requests of the program: what a thread asks for when translated code cannot go on by itself.
//!
//! The thread waits while it asks. So all decisions are made here, in ordinary code, and the program's side stays a
//! page of assembly. One thread is served at a time, the current one; the others run on meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::block::UNREADABLE;
use super::cache::CodeCache;
use super::children::News;
use super::cpuid;
use super::exits::Exit;
use super::guard::Guards;
use super::layout::{self, command, reason, shared};
use super::memory::{Mapped, Memory};
use super::process::{Process, lives};
use super::region::{self, Region};
use super::runtime::Runtime;
use super::signals::Action;
use super::threads::Thread;

/// Longest sleep while nothing is asked.
pub(super) const NAP: Duration = Duration::from_secs(10);
/// The same where nobody rings the bell if what is waited for has ended.
const SHORT_NAP: Duration = Duration::from_millis(20);
/// Numbers of registers, as saved.
pub(super) mod register {
    pub const RAX: u32 = 0;
    pub const RCX: u32 = 1;
    pub const RDX: u32 = 2;
    pub const RSP: u32 = 4;
    pub const RSI: u32 = 6;
    pub const RDI: u32 = 7;
    pub const R8: u32 = 8;
    pub const R9: u32 = 9;
    pub const R10: u32 = 10;
    pub const R11: u32 = 11;
    /// Of `cpuid`: eax, ebx, ecx, edx.
    pub const ANSWER: [u32; 4] = [RAX, 3, RCX, RDX];
}
/// Something that windows are concerned with, of the current thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It has begun, at `pc`.
    Began { pc: u64 },
    /// The window ends before the block at `pc`.
    Boundary { pc: u64 },
    /// The buffer of accesses is full before the block at `pc`.
    Full { pc: u64 },
    /// Translated code is no longer valid, or there is no room for more; the program is at `pc`.
    Stale { pc: u64 },
    /// The thread is about to end, or all of its process with a status; it waits.
    Exiting { status: Option<u8> },
    /// It is about to execute another program; it waits.
    Executing { path: String },
    /// The process is at another program's first instruction, stopped.
    Executed { path: String },
    /// The program is to run natively, this thread from `pc` on.
    Leaving { pc: u64 },
}

impl Event {
    /// Where the thread is, unless it ends.
    pub(super) const fn pc(&self) -> Option<u64> {
        match *self {
            Self::Began { pc }
            | Self::Boundary { pc }
            | Self::Full { pc }
            | Self::Stale { pc }
            | Self::Leaving { pc } => Some(pc),
            Self::Exiting { .. } | Self::Executing { .. } | Self::Executed { .. } => None,
        }
    }
}

/// The process has ended while it was served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone;

/// The observer of one program.
#[derive(Debug)]
pub(super) struct Observer {
    pub region: Arc<Region>,
    pub runtime: Runtime,
    pub base: u64,
    pub process: Process,
    pub memory: Memory,
    pub cache: CodeCache,
    pub guards: Guards,
    /// By the numbers of their blocks.
    pub threads: Vec<Option<Thread>>,
    /// The one that is served.
    pub current: usize,
    /// What the program asked of each signal.
    pub actions: [Action; 65],
    /// Why the program is to run natively.
    pub leaving: Option<String>,
    /// Whether the program limits its addresses, without the region.
    pub limits_addresses: bool,
    /// Whether children are observed.
    pub follows: bool,
    /// Children that are not.
    pub forks: u64,
    /// What has become of children, not yet taken note of.
    pub news: Vec<News>,
    /// Programs that were executed and not observed.
    pub unobserved: Vec<String>,
}

impl Observer {
    pub(super) fn new(region: Arc<Region>, runtime: Runtime, base: u64, process: Process) -> Self {
        let mut observer = Self {
            cache: CodeCache::new(Arc::clone(&region), base, &runtime),
            memory: Memory::new(process.pid()),
            guards: Guards::default(),
            region,
            runtime,
            base,
            threads: vec![Some(Thread::new(process.pid().as_raw()))],
            current: 0,
            actions: [[0; 4]; 65],
            process,
            leaving: None,
            limits_addresses: false,
            follows: false,
            forks: 0,
            news: Vec::new(),
            unobserved: Vec::new(),
        };
        observer.prepare();
        observer
    }

    /// A word of the thread's block.
    pub(super) fn get(&self, offset: u32) -> u64 {
        self.region.get(layout::block(self.current) + u64::from(offset))
    }

    pub(super) fn set(&self, offset: u32, value: u64) {
        self.region.set(layout::block(self.current) + u64::from(offset), value);
    }

    pub(super) fn set_half(&self, offset: u32, value: u32) {
        self.region.set_half(layout::block(self.current) + u64::from(offset), value);
    }

    pub(super) fn get_half(&self, offset: u32) -> u32 {
        self.region.get_half(layout::block(self.current) + u64::from(offset))
    }

    /// A saved register of the thread's.
    pub(super) fn register(&self, number: u32) -> u64 {
        self.get(shared::REGISTERS + 8 * number)
    }

    pub(super) fn set_register(&self, number: u32, value: u64) {
        self.set(shared::REGISTERS + 8 * number, value);
    }

    /// An address of the program's, of something in the thread's block.
    pub(super) fn address_of(&self, offset: u32) -> u64 {
        layout::address(self.base, self.current) + u64::from(offset)
    }

    /// Whether an address range meets the region.
    pub(super) fn is_ours(&self, start: u64, length: u64) -> bool {
        start < self.base + layout::SIZE && start.saturating_add(length) > self.base - layout::MORE
    }

    /// The next request of any thread, if there is one. That thread becomes the current one.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.let_write();
        let (first, count) = (self.current + 1, self.threads.len());
        (first..first + count).find_map(|number| {
            self.current = number % count;
            self.request()
        })
    }

    /// Waits until `found` has found something. Whoever may make it true rings the bell.
    pub(super) fn wait_for<T>(&mut self, mut found: impl FnMut(&mut Self) -> Option<T>) -> Result<T, Gone> {
        loop {
            let rung = self.region.bell().load(Ordering::SeqCst);
            let ended = self.has_ended();
            self.let_write();
            if let Some(found) = found(self) {
                return Ok(found);
            }
            if ended {
                return Err(Gone);
            }
            let nap = if self.is_apart() { SHORT_NAP } else { NAP };
            region::sleep(self.region.bell(), rung, nap);
        }
    }

    /// A thread through which the memory can be reached.
    pub(super) fn task(&self) -> i32 {
        let known = self.threads[self.current].as_ref().map(|thread| thread.tid).filter(|tid| *tid != 0);
        known.unwrap_or_else(|| self.process.pid().as_raw())
    }

    /// Whether the process that the current thread belongs to has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        let tid = self.own().tid;
        self.process.has_ended() || self.is_apart() && tid != 0 && !lives(tid)
    }

    pub(super) fn answer(&self, state: u32) {
        let word = self.region.half(layout::block(self.current) + u64::from(state));
        word.store(2, Ordering::SeqCst);
        region::wake(word);
    }

    /// Tells the waiting thread what to do.
    pub(super) fn order(&mut self, what: u32) {
        self.own().paid = false;
        self.set_half(shared::REASON, reason::NONE);
        self.set_half(shared::COMMAND, what);
        self.answer(shared::STATE);
    }

    /// Has the waiting thread make a system call on the program's stack.
    pub(super) fn raw(&mut self, number: i64, arguments: [u64; 4]) -> Result<(u32, u64), Gone> {
        self.set(shared::RAW, number as u64);
        for (index, argument) in (1..).zip(arguments) {
            self.set(shared::RAW + 8 * index, argument);
        }
        self.order(command::RAW);
        let reason = self.wait_for(Self::request)?;
        Ok((reason, self.get(shared::RAW_RESULT)))
    }

    /// Lets the thread go on at `pc`, if nothing else is to happen first.
    pub(super) fn resume(&mut self, mut pc: u64, indirect: bool) -> Result<Option<Event>, Gone> {
        if self.own().signals.is_pending() {
            pc = self.deliver(pc)?;
        }
        if self.leaving.is_some() {
            return Ok(Some(Event::Leaving { pc }));
        }
        if self.cache.is_full() {
            return Ok(Some(Event::Stale { pc }));
        }
        let (kind, thread) = (self.own().kind, self.current);
        let Self { memory, cache, .. } = self;
        let address = cache.find(pc, kind, thread, &mut |at| memory.code(at));
        if indirect {
            cache.indirect(pc, kind, thread);
        }
        self.set(shared::RESUME, address);
        self.order(command::RESUME);
        Ok(None)
    }

    /// Lets the thread run on without us from `pc`.
    pub(super) fn leave(&mut self, pc: u64) -> Result<(), Gone> {
        // No signal may come between: the last step gives it its own mask.
        self.block_signals()?;
        self.requeue()?;
        self.set(shared::PC, pc);
        self.order(command::NATIVE);
        Ok(())
    }

    /// Serves the request that waits, for `reason`.
    pub(super) fn serve(&mut self, reason: u32) -> Result<Option<Event>, Gone> {
        match reason {
            reason::CALLED => self.called(),
            reason::RETURNED => {
                let pc = self.get(shared::PC);
                self.resume(pc, false)
            }
            reason::AFTER => {
                let pc = self.get(shared::PC);
                self.set_register(register::RCX, pc);
                self.resume(pc, false)
            }
            reason::ABORTED => {
                let pc = self.own().calling.pc;
                self.resume(pc, false)
            }
            reason::FAULTED => self.faulted(),
            reason::BEGAN => self.began(),
            reason::DELIVERED => {
                let pc = self.delivered()?;
                self.resume(pc, false)
            }
            _ => self.exited(),
        }
    }

    /// Instructions left in the current thread's window.
    pub(super) fn left(&self) -> u64 {
        shared::SHARES.iter().fold(0, |sum, &share| sum.wrapping_add(self.get(share)))
    }

    /// Gives them all to one share. The thread evens them out when it takes from another.
    pub(super) fn set_left(&self, left: u64) {
        for share in shared::SHARES {
            self.set(share, if share == shared::LEFT { left } else { 0 });
        }
    }

    /// Takes back what was counted before the current thread took `exit`, and is not executed.
    fn pay(&mut self, exit: Option<Exit>) {
        if let Some(owed) = exit.and_then(Exit::owed).filter(|_| !self.own().paid) {
            self.own().paid = true;
            let unexecuted = self.cache.chain(Some(owed.from));
            self.own().signals.unexecuted.extend(unexecuted);
            self.set_left(self.left().wrapping_add(owed.instructions.into()));
        }
    }

    /// Pays for the exit that the current thread waits at, before the cache may be emptied.
    pub(super) fn settle(&mut self) {
        if self.get_half(shared::REASON) == reason::EXIT {
            self.pay(self.cache.exit(self.get_half(shared::EXIT)));
        }
    }

    fn exited(&mut self) -> Result<Option<Event>, Gone> {
        let number = self.get_half(shared::EXIT);
        if number == 0 {
            let pc = self.get(shared::PC);
            return self.resume(pc, true);
        }
        let exit = self.cache.exit(number);
        self.pay(exit);
        match exit {
            Some(Exit::Link { target, .. }) => self.resume(target, false),
            Some(Exit::Window { pc, .. }) => Ok(Some(Event::Boundary { pc })),
            Some(Exit::Full { pc }) => Ok(Some(Event::Full { pc })),
            Some(Exit::Call { pc, next }) => {
                if self.own().signals.is_pending() || self.leaving.is_some() {
                    return self.resume(pc, false);
                }
                self.call(pc, next)
            }
            Some(Exit::Identify { next, .. }) => {
                let [leaf, part] = [register::RAX, register::RCX].map(|asked| self.register(asked) as u32);
                let answer = cpuid::answer(self.cache.purpose.cpu, leaf, part);
                for (register, value) in register::ANSWER.into_iter().zip(answer) {
                    self.set_register(register, value.into());
                }
                self.resume(next, false)
            }
            Some(Exit::Changed { pc, number }) => {
                self.cache.replace(pc, number);
                self.resume(pc, false)
            }
            Some(Exit::Unsupported { pc, why }) => match self.memory.kind(pc) {
                Mapped::Other => self.jumped_nowhere(pc),
                // It has come since.
                _ if why == UNREADABLE && !self.memory.code(pc).bytes().is_empty() => {
                    Ok(Some(Event::Stale { pc }))
                }
                _ => self.give_up(pc, &format!("{why} at {pc:#x}")),
            },
            None => {
                let pc = self.get(shared::PC);
                self.give_up(pc, "an exit that is not known")
            }
        }
    }
}
