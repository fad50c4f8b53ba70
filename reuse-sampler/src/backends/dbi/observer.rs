//! Serves the requests of the program: what it asks for when translated code cannot go on by itself.
//!
//! The program waits while it asks. So all decisions are made here, in ordinary code, and the program's side stays a
//! page of assembly.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::cache::CodeCache;
use super::layout::{self, command, private, reason, shared};
use super::memory::{Mapped, Memory};
use super::process::Process;
use super::region::{self, Region};
use super::runtime::Runtime;
use super::signals::Signals;
use super::system_calls::{ASK_FIRST, Calling};
use super::translate::{Exit, Kind};

/// Longest sleep while nothing is asked.
const NAP: Duration = Duration::from_secs(10);
/// Numbers of registers, as saved.
pub(super) mod register {
    pub const RAX: u32 = 0;
    pub const RDX: u32 = 2;
    pub const RSP: u32 = 4;
    pub const RSI: u32 = 6;
    pub const RDI: u32 = 7;
    pub const R10: u32 = 10;
}
/// What is taken from the instructions left to make the thread ask at its next block.
pub(super) const SOON: u64 = 1 << 62;

/// Something that windows are concerned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The window ends before the block at `pc`.
    Boundary { pc: u64 },
    /// The buffer of accesses is full before the block at `pc`.
    Full { pc: u64 },
    /// Translated code is no longer valid, or there is no room for more; the program is at `pc`.
    Stale { pc: u64 },
    /// The program is about to end; it waits.
    Exiting,
    /// It runs natively from `pc` on, once it is told to.
    Leaving { pc: u64 },
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
    pub kind: Kind,
    pub signals: Signals,
    pub calling: Calling,
    /// Why the program is to run natively.
    pub leaving: Option<String>,
    pub forks: u64,
    pub executed: u64,
    pub first_executed: Option<String>,
    pub soon: bool,
}

impl Observer {
    pub(super) fn new(region: Arc<Region>, runtime: Runtime, base: u64, process: Process) -> Self {
        let observer = Self {
            cache: CodeCache::new(Arc::clone(&region), base, &runtime),
            memory: Memory::new(process.pid()),
            region,
            runtime,
            base,
            process,
            kind: Kind::Counting,
            signals: Signals::default(),
            calling: Calling::default(),
            leaving: None,
            forks: 0,
            executed: 0,
            first_executed: None,
            soon: false,
        };
        for call in ASK_FIRST {
            let offset = u64::from(shared::ASK_FIRST) + u64::from(call / 64) * 8;
            observer.set_at(offset, observer.at(offset) | 1 << (call % 64));
        }
        observer.use_kind(Kind::Counting);
        observer
    }

    fn at(&self, offset: u64) -> u64 {
        self.region.get(layout::THREAD + offset)
    }

    fn set_at(&self, offset: u64, value: u64) {
        self.region.set(layout::THREAD + offset, value);
    }

    /// A word of the thread's block.
    pub(super) fn get(&self, offset: u32) -> u64 {
        self.at(offset.into())
    }

    pub(super) fn set(&self, offset: u32, value: u64) {
        self.set_at(offset.into(), value);
    }

    pub(super) fn set_half(&self, offset: u32, value: u32) {
        self.region.set_half(layout::THREAD + u64::from(offset), value);
    }

    fn get_half(&self, offset: u32) -> u32 {
        self.region.get_half(layout::THREAD + u64::from(offset))
    }

    /// A saved register of the program's.
    pub(super) fn register(&self, number: u32) -> u64 {
        self.get(shared::REGISTERS + 8 * number)
    }

    pub(super) fn set_register(&self, number: u32, value: u64) {
        self.set(shared::REGISTERS + 8 * number, value);
    }

    /// An address of the program's, of something in its thread's block.
    pub(super) fn address_of(&self, offset: u32) -> u64 {
        self.base + layout::THREAD + u64::from(offset)
    }

    /// Whether an address range meets the region.
    pub(super) fn is_ours(&self, start: u64, length: u64) -> bool {
        start < self.base + layout::SIZE && start.saturating_add(length) > self.base
    }

    /// From now on code of `kind` is executed.
    pub(super) fn use_kind(&self, kind: Kind) {
        self.set(shared::HASH, self.base + layout::HASHES + kind as u64 * layout::HASH_SIZE);
        self.set(shared::LOOKUP, self.address_of(shared::LOOKUPS + kind as u32 * shared::LOOKUP_SIZE));
    }

    /// Waits for the program's next request; signals are served meanwhile.
    pub(super) fn wait(&mut self) -> Result<u32, Gone> {
        let bell = layout::HUB + layout::DOORBELL;
        loop {
            let rung = self.region.half(bell).load(Ordering::SeqCst);
            let ended = self.process.has_ended();
            if self.get_half(shared::SIGNAL_STATE) == 1 {
                let command = self.signal();
                self.set_half(shared::SIGNAL_COMMAND, command);
                self.answer(shared::SIGNAL_STATE);
                continue;
            }
            if self.get_half(shared::STATE) == 1 {
                if std::mem::take(&mut self.soon) {
                    self.set(shared::LEFT, self.get(shared::LEFT).wrapping_add(SOON));
                }
                return Ok(self.get_half(shared::REASON));
            }
            if ended {
                return Err(Gone);
            }
            region::sleep(self.region.half(bell), rung, NAP);
        }
    }

    fn answer(&self, state: u32) {
        let word = self.region.half(layout::THREAD + u64::from(state));
        word.store(2, Ordering::SeqCst);
        region::wake(word);
    }

    /// Tells the waiting program what to do.
    pub(super) fn order(&mut self, what: u32) {
        self.set_half(shared::COMMAND, what);
        self.answer(shared::STATE);
    }

    /// Makes a running thread ask at its next block.
    pub(super) fn ask_soon(&mut self) {
        if !self.soon {
            self.soon = true;
            self.set(shared::LEFT, self.get(shared::LEFT).wrapping_sub(SOON));
        }
    }

    /// Has the waiting program make a system call on the stack at `stack`.
    pub(super) fn raw(&mut self, number: i64, arguments: [u64; 4], stack: u64) -> Result<(u32, u64), Gone> {
        self.set(shared::RAW, number as u64);
        for (index, argument) in (1..).zip(arguments) {
            self.set(shared::RAW + 8 * index, argument);
        }
        self.set(shared::RAW + 40, stack);
        self.order(command::RAW);
        let reason = self.wait()?;
        Ok((reason, self.get(shared::RAW_RESULT)))
    }

    /// The top of the stack that the entry points use.
    pub(super) fn own_stack(&self) -> u64 {
        self.address_of(private::STACK_TOP)
    }

    /// Lets the program go on at `pc`, if nothing else is to happen first.
    pub(super) fn resume(&mut self, mut pc: u64, indirect: bool) -> Result<Option<Event>, Gone> {
        if self.signals.is_pending() {
            pc = self.deliver(pc)?;
        }
        if self.leaving.is_some() {
            return Ok(Some(Event::Leaving { pc }));
        }
        if self.cache.is_full() {
            return Ok(Some(Event::Stale { pc }));
        }
        let Self { memory, cache, kind, .. } = self;
        let address = cache.find(pc, *kind, &mut |at| memory.code(at));
        if indirect {
            cache.indirect(pc, *kind);
        }
        self.set(shared::RESUME, address);
        self.order(command::RESUME);
        Ok(None)
    }

    /// Lets the program run on without us from `pc`.
    pub(super) fn leave(&mut self, pc: u64) -> Result<(), Gone> {
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
            reason::ABORTED => {
                let pc = self.calling.pc;
                self.resume(pc, false)
            }
            reason::DELIVERED => {
                let pc = self.delivered()?;
                self.resume(pc, false)
            }
            _ => self.exited(),
        }
    }

    fn exited(&mut self) -> Result<Option<Event>, Gone> {
        let number = self.get_half(shared::EXIT);
        if number == 0 {
            let pc = self.get(shared::PC);
            return self.resume(pc, true);
        }
        match self.cache.exit(number) {
            Some(Exit::Link { target, .. }) => self.resume(target, false),
            Some(Exit::Window { pc }) => Ok(Some(Event::Boundary { pc })),
            Some(Exit::Full { pc }) => Ok(Some(Event::Full { pc })),
            Some(Exit::Call { pc, next }) => {
                if self.signals.is_pending() || self.leaving.is_some() {
                    return self.resume(pc, false);
                }
                self.call(pc, next)
            }
            Some(Exit::Unsupported { pc, why }) => {
                let why = match self.memory.kind(pc) {
                    Mapped::Code => format!("{why} at {pc:#x}"),
                    Mapped::Changing => format!("writable code at {pc:#x} (a just-in-time compiler?)"),
                    Mapped::Other => format!("a jump to {pc:#x}, where there is no code"),
                };
                self.leaving.get_or_insert(why);
                self.resume(pc, false)
            }
            None => {
                let pc = self.get(shared::PC);
                self.leaving.get_or_insert_with(|| "an exit that is not known".into());
                self.resume(pc, false)
            }
        }
    }
}
