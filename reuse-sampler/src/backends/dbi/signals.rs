//! Signals of the program: delivered between blocks, in the kernel's own frame on the program's own stack.
//!
//! The kernel knows one handler for all signals that the program handles. A signal that arrives while translated code
//! runs is put aside, all signals are blocked, and the thread is made to ask at its next block. There it queues the
//! signal to itself again and unblocks it on the program's stack; the frame that the kernel then builds is given the
//! program's registers, and the program's handler runs translated. Faults are delivered where they happen, with the
//! registers as the faulting instruction found them.

use std::time::{Duration, Instant};

use nix::libc;

use super::interrupted::Place;
use super::layout::shared::{self, SCRATCH};
use super::layout::{self, command, reason};
use super::observer::{Event, Gone, Observer, register};
use super::translate::Mark;

/// In a `siginfo`: the address of a fault.
const ADDRESS: u64 = 16;
/// In a `ucontext`: the general registers, and the mask.
const GREGS: u64 = 40;
const MASK: u64 = 0x128;
/// Positions among the general registers.
const RIP: usize = 16;
const EFLAGS: usize = 17;
const ERROR: usize = 19;
const TRAP: usize = 20;
const CR2: usize = 22;
/// Where the saved registers, by their numbers, are among the general registers.
const PLACES: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

/// Flags that arithmetic sets, which the entry points keep.
const ARITHMETIC: u64 = 0x8D5;
/// Flags that a handler begins without: direction, trap, resume.
const CLEARED: u64 = 0x1_0500;
const SA_RESTORER: u64 = 0x0400_0000;
pub(super) const ALL: u64 = u64::MAX;
/// All but those that faults raise, which cannot wait.
const ASIDE: u64 = !(1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGTRAP - 1));

/// System calls that neither wait nor know of signals.
const UNCONCERNED: [i64; 5] =
    [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_pkey_mprotect];
/// A signal that comes so soon after a handler has returned leaves the program no time, if most do.
const HURRY: Duration = Duration::from_micros(200);
const MOST_HURRIED: u32 = 3000;

/// What a program asks of a signal: handler, flags, restorer, mask.
pub(super) type Action = [u64; 4];

/// A signal put aside.
#[derive(Clone, Debug)]
struct Pending {
    signal: u64,
    info: [u8; 128],
}

/// The state of a thread's signals.
#[derive(Debug, Default)]
pub(super) struct Signals {
    pending: Vec<Pending>,
    aside: u64,                // the program's own mask, while some are pending
    reset: Option<u64>,        // the signal whose action the kernel is to forget
    nowhere: Option<[u64; 3]>, // of the jump to no code that is put aside: error, trap and address
    /// While signals are unblocked for delivery: where the program is, and the mask that it has.
    delivering: Option<(u64, u64)>,
    /// After a delivery: where the handler begins, and the mask that it runs with.
    entered: Option<(u64, u64)>,
    /// When the last handler began to return, and how many more signals came soon after that than did not.
    returned: Option<Instant>,
    hurried: u32,
    /// Instructions that were counted and not executed, by the number of their block.
    pub unexecuted: Vec<(u32, u64)>,
}

impl Signals {
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl Observer {
    /// `rt_sigaction`.
    pub(super) fn set_action(&mut self, next: u64) -> Result<Option<Event>, Gone> {
        let [signal, new, old, size] =
            [register::RDI, register::RSI, register::RDX, register::R10].map(|r| self.register(r));
        let wanted = if new == 0 { Some(None) } else { self.memory.read::<32>(new).map(|b| Some(words(&b))) };
        let (Some(wanted), true) = (wanted, size == 8 && (1..=64).contains(&signal)) else {
            return self.perform(command::CALL); // the kernel says what is wrong
        };
        let (give, take) = (self.address_of(SCRATCH), self.address_of(SCRATCH + 32));
        if let Some([handler, flags, restorer, mask]) = wanted {
            let kernel = if handler > 1 {
                let kept = libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT;
                let base = self.base;
                let ours = [self.runtime.signal, self.runtime.restorer].map(|offset| base + offset);
                [ours[0], flags & kept as u64 | libc::SA_SIGINFO as u64 | SA_RESTORER, ours[1], ALL]
            } else {
                [handler, flags, restorer, mask]
            };
            for (index, word) in (0..).zip(kernel) {
                self.set(SCRATCH + 8 * index, word);
            }
        }
        let give = if wanted.is_some() { give } else { 0 };
        // The entry must be there before the kernel delivers by it.
        let before = self.own_actions()[signal as usize];
        if let Some(action) = wanted.filter(|action| action[0] > 1) {
            self.keep_action(signal, action);
        }
        let (_, result) = self.raw(libc::SYS_rt_sigaction, [signal, give, take, 8])?;
        if result != 0 {
            self.keep_action(signal, before);
        } else {
            if let Some(action) = wanted {
                self.keep_action(signal, action);
            }
            if old != 0 {
                let kernels: [u64; 4] = [0, 1, 2, 3].map(|index| self.get(SCRATCH + 32 + 8 * index));
                let answer = if kernels[0] == self.base + self.runtime.signal { before } else { kernels };
                let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_le_bytes()).collect();
                if !self.memory.write(old, &bytes) {
                    const EFAULT: i64 = 14;
                    self.set_register(register::RAX, (-EFAULT) as u64);
                    return self.resume(next, false);
                }
            }
        }
        self.set_register(register::RAX, result);
        self.resume(next, false)
    }

    /// A signal has arrived in the program. Returns 0 if the interrupted code goes on, 1 if the program's handler is
    /// to be entered.
    pub(super) fn signal(&mut self) -> u32 {
        let [signal, info, context, stack] =
            [shared::SIGNAL, shared::SIGNAL_INFO, shared::SIGNAL_CONTEXT, shared::SIGNAL_STACK]
                .map(|w| self.get(w));
        let Some(mut gregs) = self.memory.read::<184>(context + GREGS).map(|bytes| words::<23>(&bytes))
        else {
            return 0;
        };
        if let Some((pc, mask)) = self.own().signals.delivering.take() {
            for (number, place) in (0..).zip(PLACES) {
                gregs[place] = self.register(number);
            }
            gregs[RIP] = pc;
            gregs[EFLAGS] = gregs[EFLAGS] & !ARITHMETIC | self.get(shared::FLAGS) & ARITHMETIC;
            if signal == libc::SIGSEGV as u64 {
                if let Some(fault) = self.own().signals.nowhere.take() {
                    [gregs[ERROR], gregs[TRAP], gregs[CR2]] = fault;
                }
            }
            self.enter([signal, info, context, stack], &gregs, mask);
            return 1;
        }
        let mask = match self.memory.word(context + MASK) {
            Some(_) if self.own().signals.is_pending() => self.own().signals.aside,
            Some(mask) => mask,
            None => return 0,
        };
        let info_bytes = self.memory.read::<128>(info).unwrap_or([0; 128]);
        let code = i32::from_le_bytes([info_bytes[8], info_bytes[9], info_bytes[10], info_bytes[11]]);
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
        if code > 0 && faults.contains(&(signal as i32)) {
            let Self { memory, cache, .. } = self;
            if let Some(place) = cache.instruction_at(gregs[RIP], &mut |at| memory.code(at)) {
                // Where the address of a fault is the instruction's own.
                if self.memory.word(info + ADDRESS) == Some(gregs[RIP]) {
                    self.memory.write(info + ADDRESS, &place.mark.pc.to_le_bytes());
                }
                self.restore(&mut gregs, &place.mark);
                self.note_fault(&place);
                self.enter([signal, info, context, stack], &gregs, mask);
                return 1;
            }
        }
        // Its own mask is known before the frame has another: the thread may be without us at any moment.
        self.set(shared::MASK, mask);
        self.set_half(shared::MASKED, 1);
        self.rewind(&mut gregs);
        let bytes: Vec<u8> = gregs.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory.write(context + GREGS, &bytes);
        self.memory.write(context + MASK, &ASIDE.to_le_bytes());
        self.set_half(shared::PENDING, 1);
        self.own().signals.aside = mask;
        self.set(shared::ASIDE, self.get(shared::ASIDE) | 1 << (signal - 1));
        self.own().signals.pending.push(Pending { signal, info: info_bytes });
        self.note_hurry();
        self.ask_soon();
        0
    }

    /// Takes back a system call that the kernel has not begun: it may wait for the signal, or change the frame's mask. Those
    /// of which neither is true are made, so that a program gets on however many signals come.
    fn rewind(&mut self, gregs: &mut [u64; 23]) {
        let place = gregs[RIP].wrapping_sub(self.base);
        let calls = self.own().calls;
        let is_told = calls && self.get_half(shared::REASON) == reason::NONE;
        let is_unconcerned = calls && UNCONCERNED.contains(&self.own().calling.number);
        let r = &self.runtime;
        if place == r.call_kernel {
            gregs[RIP] = self.base + r.exit;
        } else if place == r.call_checked {
            gregs[RIP] = self.base + r.call_asked;
        } else if (r.call_made..r.call_kernel).contains(&place) {
            gregs[RIP] = self.base + r.call_asked + (place - r.call_made);
        } else if is_unconcerned {
            // It is made.
        } else if is_told && (r.exit..r.command).contains(&place)
            || (r.command..=r.command_kernel).contains(&place)
            || (r.fork..=r.fork_kernel).contains(&place)
        {
            gregs[RIP] = self.base + r.aborted;
            let calling = self.own().calling;
            self.set(shared::PC, calling.pc);
            if calling.number == libc::SYS_rt_sigreturn {
                let place = self.register(register::RSP) + GREGS + 8 * RIP as u64;
                self.memory.write(place, &calling.argument.to_le_bytes());
            }
        }
    }

    /// Registers as the program's instruction at `mark` found them.
    fn restore(&self, gregs: &mut [u64; 23], mark: &Mark) {
        for (register, slot) in mark.spilled.into_iter().flatten() {
            gregs[PLACES[usize::from(register)]] = self.get(slot);
        }
        gregs[RIP] = mark.pc;
    }

    /// The block was left before the marked instruction.
    fn note_fault(&mut self, place: &Place) {
        let Self { memory, cache, .. } = self;
        let before = cache.instructions_before(place.block, place.mark.pc, &mut |at| memory.code(at));
        let all = |block: u32| {
            (block, cache.blocks().get(block as usize).map_or(0, |block| u64::from(block.instructions)))
        };
        let mut rest: Vec<(u32, u64)> =
            std::iter::once(place.block).chain(place.counted.iter().copied()).map(all).collect();
        rest[0].1 = rest[0].1.saturating_sub(before);
        if let Some((header, words)) = place.passed {
            let at = self.get(shared::BUFFER);
            let word = layout::block(self.current) + at.wrapping_sub(self.address_of(0));
            self.region.set(word, header.into());
            self.set(shared::BUFFER, at + 8 * (1 + words as u64));
        }
        let instructions: u64 = rest.iter().map(|(_, instructions)| instructions).sum();
        self.own().signals.unexecuted.extend(rest);
        self.set_left(self.left().wrapping_add(instructions));
    }

    /// Has the thread make the frame at `context` what the program expects, and its registers those of the handler's
    /// first instruction.
    fn enter(&mut self, [signal, info, context, stack]: [u64; 4], gregs: &[u64; 23], mask: u64) {
        let action = self.own_actions()[(signal as usize).min(64)];
        let [handler, flags, restorer, blocked] = action;
        let own = if flags & libc::SA_NODEFER as u64 == 0 { 1 << (signal - 1) } else { 0 };
        let with = mask | blocked | own;
        let mut registers = PLACES.map(|place| gregs[place]);
        for (number, value) in [
            (register::RAX, 0),
            (register::RDI, signal),
            (register::RSI, info),
            (register::RDX, context),
            (register::RSP, stack),
        ] {
            registers[number as usize] = value;
        }
        let ends = [gregs[EFLAGS] & !CLEARED, with, handler];
        let middle = [mask, restorer];
        let frame = gregs.iter().chain(&middle).chain(&registers).chain(&ends);
        for (index, &word) in (0..).zip(frame) {
            self.set(shared::FRAME + 8 * index, word);
        }
        self.own().signals.entered = Some((handler, with));
        if flags & libc::SA_RESETHAND as u64 != 0 {
            self.keep_action(signal, [0; 4]);
            self.own().signals.reset = Some(signal);
        }
    }

    /// The program is at the first instruction of its handler, all signals blocked.
    pub(super) fn delivered(&mut self) -> Result<u64, Gone> {
        match self.own().signals.entered.take() {
            Some((pc, mask)) => self.unblock(pc, mask, mask),
            None => Ok(self.get(shared::PC)),
        }
    }

    /// Blocks all signals, until the thread is given a mask or runs natively. Returns the one that it has.
    pub(super) fn block_signals(&mut self) -> Result<u64, Gone> {
        self.set(SCRATCH, ALL);
        let (at, before) = (self.address_of(SCRATCH), self.address_of(SCRATCH + 8));
        self.raw(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, at, before, 8])?;
        let signals = &self.own().signals;
        let aside = signals.is_pending().then_some(signals.aside);
        let mask = aside.unwrap_or_else(|| self.get(SCRATCH + 8));
        self.set(shared::MASK, mask);
        self.set_half(shared::MASKED, 1);
        Ok(mask)
    }

    /// Gives the program at `pc` the mask `mask`; `own` is the one that it sees in a frame. Returns where it goes on.
    pub(super) fn unblock(&mut self, mut pc: u64, mut mask: u64, mut own: u64) -> Result<u64, Gone> {
        if self.own().signals.is_pending() {
            self.own().signals.aside = own; // once what waits is delivered
            return Ok(pc);
        }
        loop {
            if let Some(signal) = self.own().signals.reset.take() {
                for index in 0..4 {
                    self.set(SCRATCH + 8 * index, 0);
                }
                let give = self.address_of(SCRATCH);
                self.raw(libc::SYS_rt_sigaction, [signal, give, 0, 8])?;
            }
            self.set(SCRATCH, mask);
            self.own().signals.delivering = Some((pc, own));
            let at = self.address_of(SCRATCH);
            let set = libc::SIG_SETMASK as u64;
            let _ = self.raw(libc::SYS_rt_sigprocmask, [set, at, 0, 8])?;
            match (self.own().signals.delivering.take(), self.own().signals.entered.take()) {
                (None, Some((handler, with))) => (pc, mask, own) = (handler, with, with),
                _ => break,
            }
        }
        self.set_half(shared::MASKED, 0);
        Ok(pc)
    }

    /// Delivers the signal that was put aside to the program at `pc`. Returns where it goes on.
    pub(super) fn deliver(&mut self, pc: u64) -> Result<u64, Gone> {
        self.set_half(shared::PENDING, 0);
        let own = self.own().signals.aside;
        let mut mask = own;
        for pending in std::mem::take(&mut self.own().signals.pending) {
            mask &= !(1 << (pending.signal - 1));
            self.queue(&pending)?;
        }
        self.unblock(pc, mask, own)
    }

    /// The program has jumped to `pc`, where there is no code: its handler learns of it as of any fault. Without one, and
    /// where the signal is blocked, the program ends by itself.
    pub(super) fn jumped_nowhere(&mut self, pc: u64) -> Result<Option<Event>, Gone> {
        /// Of a `siginfo`: no such address, an address that may not be executed, and one that no pointer holds.
        const CODES: [u32; 3] = [1, 2, 0x80];
        /// Of a page fault: from user mode, by a fetch; and of a page that is there, or the kernel's.
        const FETCH: u64 = 0x14;
        const PRESENT: u64 = 1;
        const PAGE_FAULT: u64 = 14;
        const PROTECTION_FAULT: u64 = 13;
        if self.own().signals.is_pending() {
            return self.resume(pc, false); // which comes first, and back
        }
        let signal = libc::SIGSEGV as u64;
        let at = self.address_of(SCRATCH);
        self.raw(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as u64, 0, at, 8])?;
        let blocked = self.get(SCRATCH) & 1 << (signal - 1) != 0;
        if blocked || self.own_actions()[signal as usize][0] <= 1 {
            return self.give_up(pc, &format!("a jump to {pc:#x}, where there is no code"));
        }
        let (code, address, fault) = if pc.wrapping_add(1 << 47) >> 48 != 0 {
            (CODES[2], 0, [0, PROTECTION_FAULT, 0])
        } else if self.memory.is_mapped(pc) {
            (CODES[1], pc, [FETCH | PRESENT, PAGE_FAULT, pc])
        } else {
            (CODES[0], pc, [FETCH | pc >> 63, PAGE_FAULT, pc])
        };
        let mut info = [0; 128];
        info[..4].copy_from_slice(&(signal as u32).to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        info[ADDRESS as usize..][..8].copy_from_slice(&u64::to_le_bytes(address));
        let mask = self.block_signals()?;
        let signals = &mut self.own().signals;
        (signals.aside, signals.nowhere) = (mask, Some(fault));
        signals.pending.push(Pending { signal, info });
        self.resume(pc, false)
    }

    fn queue(&mut self, pending: &Pending) -> Result<(), Gone> {
        for (index, word) in (0..).zip(words::<16>(&pending.info)) {
            self.set(SCRATCH + 8 * index, word);
        }
        let tid = self.own().tid as u64;
        let pid = if self.is_apart() { tid } else { self.process.pid().as_raw() as u64 };
        let info = self.address_of(SCRATCH);
        self.raw(libc::SYS_rt_tgsigqueueinfo, [pid, tid, pending.signal, info])?;
        self.set(shared::ASIDE, self.get(shared::ASIDE) & !(1 << (pending.signal - 1)));
        Ok(())
    }

    /// Before the program leaves: what was put aside waits in the kernel until its mask is restored.
    pub(super) fn requeue(&mut self) -> Result<(), Gone> {
        for pending in std::mem::take(&mut self.own().signals.pending) {
            self.queue(&pending)?;
        }
        Ok(())
    }

    /// Lets a program go that gets signals faster than it can be observed: it would do nothing but handle them.
    fn note_hurry(&mut self) {
        let signals = &mut self.own().signals;
        let follows = signals.returned.is_some_and(|at| at.elapsed() < HURRY);
        signals.hurried = if follows { signals.hurried + 1 } else { signals.hurried.saturating_sub(1) };
        if signals.hurried > MOST_HURRIED {
            self.leaving.get_or_insert_with(|| "signals come faster than they can be observed".into());
        }
    }

    /// `rt_sigreturn`: the kernel restores the frame's registers, and comes to our entry instead of its place.
    pub(super) fn return_from_handler(&mut self, pc: u64) -> Result<Option<Event>, Gone> {
        /// The flag that has the processor stop after each instruction.
        const TRAPS: u64 = 1 << 8;
        let place = self.register(register::RSP) + GREGS + 8 * RIP as u64;
        let Some(target) = self.memory.word(place) else {
            return self.give_up(pc, "a signal frame that cannot be read");
        };
        if self.memory.word(place + 8).is_some_and(|flags| flags & TRAPS != 0) {
            return self.give_up(pc, "the program has the processor stop after each instruction");
        }
        self.memory.write(place, &(self.base + self.runtime.returned).to_le_bytes());
        self.own().calling.argument = target;
        self.own().signals.returned = Some(Instant::now());
        self.set(shared::PC, target);
        self.own().calls = true;
        self.order(command::CALL);
        Ok(None)
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    words
}
