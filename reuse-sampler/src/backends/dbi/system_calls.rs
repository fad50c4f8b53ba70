//! System calls that change what the observer relies on. All others go to the kernel unseen.

use nix::libc;

use super::children::bytes_of;
use super::exits::Exit;
use super::layout::{self, command, private, shared};
use super::observer::{Event, Gone, Observer, register};
use super::signals::Action;
use super::threads::Thread;
use super::translate::Kind;

/// Calls that the observer decides about.
pub(super) const ASK_FIRST: [u32; 25] = [
    9, 10, 11, 13, 15, 25, 56, 57, 58, 59, 60, 61, 101, 131, 154, 157, 158, 231, 247, 317, 322, 329, 334,
    425, 435,
];

/// The system call that the program makes at the observer's order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calling {
    pub pc: u64,
    pub next: u64,
    pub number: i64,
    pub argument: u64,
    pub replaced: Option<(u32, u64)>, // an argument that was changed, and what it was
    pub mask: u64,                    // of signals, while a thread or process is created
    pub creates: Option<Creates>,
}

/// What a system call creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Creates {
    /// A thread, or a process that shares memory: the number of its block.
    Thread(usize),
    /// A process with a copy of the memory.
    Process,
}

/// In the structure of `clone3`.
const STACK: u64 = 40;
const STACK_SIZE: u64 = 48;
const TLS: u64 = 56;

const ENOSYS: i64 = 38;
const EINVAL: i64 = 22;
const ENOMEM: i64 = 12;

impl Observer {
    /// The program makes a system call at `pc`, followed by the instruction at `next`.
    pub(super) fn call(&mut self, pc: u64, next: u64) -> Result<Option<Event>, Gone> {
        let number = self.register(register::RAX) as i64;
        let first = self.register(register::RDI);
        let second = self.register(register::RSI);
        self.own().calling = Calling { pc, next, number, argument: second, ..Calling::default() };
        self.open_for(number);
        match number {
            libc::SYS_mmap => {
                let fixed = self.register(register::R10) & (libc::MAP_FIXED as u64) != 0;
                if fixed && self.is_ours(first, second) {
                    return self.refuse(next, ENOMEM);
                }
                self.perform(command::CALL)
            }
            libc::SYS_mprotect | libc::SYS_munmap | libc::SYS_mremap | libc::SYS_pkey_mprotect => {
                if self.is_ours(first, second) {
                    return self.refuse(next, EINVAL);
                }
                self.perform(command::CALL)
            }
            // A mapping has one at a time; through a ring the kernel writes whenever it wants.
            libc::SYS_userfaultfd | libc::SYS_io_uring_setup => {
                self.end_guards();
                self.perform(command::CALL)
            }
            libc::SYS_sigaltstack => {
                self.note_signal_stack(first);
                self.perform(command::CALL)
            }
            libc::SYS_mlockall | libc::SYS_getrlimit | libc::SYS_setrlimit | libc::SYS_prlimit64 => {
                self.limit(number, first)
            }
            libc::SYS_rt_sigaction => self.set_action(next),
            libc::SYS_rt_sigreturn => self.return_from_handler(pc),
            libc::SYS_clone | libc::SYS_clone3 => self.clone(pc, number == libc::SYS_clone),
            libc::SYS_fork => self.fork(None, None).map(|()| None),
            libc::SYS_vfork => self.create_thread(pc, None, true),
            libc::SYS_execve | libc::SYS_execveat => {
                let mut path = self.memory.text(if number == libc::SYS_execve { first } else { second });
                if number == libc::SYS_execveat && !path.starts_with('/') && first as i32 != libc::AT_FDCWD {
                    // The file, or one in the folder, that a descriptor is of.
                    path = format!("/proc/{}/fd/{}/{path}", self.own().tid, first as i32);
                    path.truncate(path.trim_end_matches('/').len());
                }
                Ok(Some(Event::Executing { path }))
            }
            libc::SYS_exit | libc::SYS_exit_group => {
                let thread_only = number == libc::SYS_exit;
                self.own().ends = thread_only;
                Ok(Some(Event::Exiting { status: (!thread_only).then_some(first as u8) }))
            }
            libc::SYS_rseq => self.refuse(next, ENOSYS),
            libc::SYS_arch_prctl => {
                const ARCH_SET_GS: u64 = 0x1001;
                const ARCH_GET_GS: u64 = 0x1004;
                const SHADOW_STACK: std::ops::Range<u64> = 0x5001..0x6000;
                match first {
                    ARCH_SET_GS | ARCH_GET_GS => self.give_up(pc, "the program uses the GS register"),
                    code if SHADOW_STACK.contains(&code) => self.refuse(next, EINVAL),
                    _ => self.perform(command::CALL),
                }
            }
            libc::SYS_prctl => match first as i32 {
                libc::PR_SET_SECCOMP => self.give_up(pc, "the program installs a system call filter"),
                libc::PR_SET_DUMPABLE if second == 0 => self.give_up(pc, "the program protects its memory"),
                _ => self.perform(command::CALL),
            },
            libc::SYS_seccomp => self.give_up(pc, "the program installs a system call filter"),
            libc::SYS_ptrace => self.give_up(pc, "the program traces or is traced"),
            libc::SYS_modify_ldt => self.give_up(pc, "the program changes its segments"),
            _ => self.perform(command::CALL),
        }
    }

    /// The call goes to the kernel.
    #[allow(clippy::unnecessary_wraps)] // the last step of those that may fail
    pub(super) fn perform(&mut self, how: u32) -> Result<Option<Event>, Gone> {
        let next = self.own().calling.next;
        self.set(shared::PC, next);
        self.own().calls = true;
        self.order(how);
        Ok(None)
    }

    /// `clone`, or `clone3` with its arguments in a structure.
    fn clone(&mut self, pc: u64, in_registers: bool) -> Result<Option<Event>, Gone> {
        let [first, second] = [register::RDI, register::RSI].map(|register| self.register(register));
        let word = |at: u64| self.memory.word(first + at).unwrap_or(0);
        let (flags, stack, tls) = if in_registers {
            (first, second, self.register(register::R8))
        } else {
            let stack = word(STACK);
            (word(0), if stack == 0 { 0 } else { stack + word(STACK_SIZE) }, word(TLS))
        };
        let has = |flag: i32| flags & flag as u64 != 0;
        let tls = has(libc::CLONE_SETTLS).then_some(tls);
        if has(libc::CLONE_NEWPID) {
            return self.give_up(pc, "it creates processes with numbers of their own");
        }
        match (has(libc::CLONE_VM), has(libc::CLONE_THREAD), has(libc::CLONE_VFORK)) {
            (true, true, _) => self.create_thread(pc, tls, false),
            (true, false, true) => self.create_thread(pc, tls, true),
            (true, false, false) => self.give_up(pc, "the program creates a process that shares its memory"),
            (false, _, true) => {
                self.give_up(pc, "the program waits for a copy of itself to begin another program")
            }
            (false, _, false) => self.fork((stack != 0).then_some(stack), tls).map(|()| None),
        }
    }

    /// The call fails with `error`.
    fn refuse(&mut self, next: u64, error: i64) -> Result<Option<Event>, Gone> {
        self.set_register(register::RAX, (-error) as u64);
        self.resume(next, false)
    }

    /// Has the program run on natively. One that another thread is ending has no memory any more: it is left to its end.
    pub(super) fn give_up(&mut self, pc: u64, why: &str) -> Result<Option<Event>, Gone> {
        if !self.has_memory() {
            return Err(Gone);
        }
        self.leaving.get_or_insert_with(|| why.to_owned());
        self.resume(pc, false)
    }

    fn has_memory(&self) -> bool {
        self.memory.word(self.address_of(shared::REGISTERS)).is_some()
    }

    /// The call that was performed has returned.
    pub(super) fn called(&mut self) -> Result<Option<Event>, Gone> {
        let Calling { next, number, argument, creates, .. } = self.own().calling;
        let result = self.register(register::RAX) as i64;
        let failed = (-4095..0).contains(&result);
        let first = self.register(register::RDI);
        let created = (!failed).then_some(result as i32);
        if let Some(creates) = creates {
            let pc = match creates {
                Creates::Thread(thread) => self.created(thread, created)?,
                Creates::Process => self.forked(created)?,
            };
            // What it has accessed before comes before what the other will.
            return match self.own().kind {
                Kind::Counting => self.resume(pc, false),
                _ => Ok(Some(Event::Full { pc })),
            };
        }
        match number {
            libc::SYS_mmap
            | libc::SYS_mprotect
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_pkey_mprotect => {
                let (start, length) = match number {
                    libc::SYS_mmap => (result as u64, argument),
                    _ => (first, argument),
                };
                let executable = number != libc::SYS_mmap
                    || self.register(register::RDX) & libc::PROT_EXEC as u64 != 0
                    || self.register(register::R10) & libc::MAP_FIXED as u64 != 0;
                if !failed && executable {
                    self.memory.changed();
                    let end = start.saturating_add(length);
                    match number {
                        libc::SYS_mprotect | libc::SYS_pkey_mprotect => _ = self.unguard_all(start, end),
                        _ => self.unguard_mapping(start, end),
                    }
                    if self.cache.covers(start, end) {
                        return Ok(Some(Event::Stale { pc: next }));
                    }
                }
            }
            libc::SYS_mlockall | libc::SYS_getrlimit | libc::SYS_setrlimit | libc::SYS_prlimit64 => {
                self.limited(number, failed);
            }
            libc::SYS_madvise => {
                self.unguard_all(first, first.saturating_add(argument));
            }
            libc::SYS_arch_prctl => {
                const ARCH_SET_FS: u64 = 0x1002;
                if first == ARCH_SET_FS && !failed {
                    self.set(shared::FS_BASE, argument);
                }
            }
            libc::SYS_execve | libc::SYS_execveat => {
                self.unobserved.pop(); // it failed
            }
            libc::SYS_wait4 if result > 0 && argument != 0 => self.waited(number, result, argument),
            libc::SYS_waitid if result == 0 => self.waited(number, result, self.register(register::RDX)),
            _ => {}
        }
        self.resume(next, false)
    }

    /// A system call of translated code was refused an address. That may be why a page is guarded: it is made again.
    pub(super) fn faulted(&mut self) -> Result<Option<Event>, Gone> {
        let Some(Exit::Call { pc, next }) = self.cache.exit(self.get_half(shared::EXIT)) else {
            let pc = self.get(shared::PC);
            return self.give_up(pc, "a system call that is not known");
        };
        if self.unguard_all(0, u64::MAX) {
            return self.resume(pc, false);
        }
        self.set_register(register::RCX, next);
        self.refuse(next, libc::EFAULT.into())
    }

    /// What the current thread's process asked of each signal.
    pub(super) fn own_actions(&mut self) -> &mut [Action; 65] {
        match &mut self.threads[self.current] {
            Some(Thread { apart: Some(own), .. }) => own,
            _ => &mut self.actions,
        }
    }

    /// The current thread's process asks `action` of `signal`: written where the entry points find it, too.
    pub(super) fn keep_action(&mut self, signal: u64, action: Action) {
        self.own_actions()[signal as usize] = action;
        let bytes: Vec<u8> = action.iter().flat_map(|word| word.to_le_bytes()).collect();
        let apart = self.is_apart();
        for number in 0..self.threads.len() {
            let shares = self.threads[number].as_ref().is_some_and(|thread| !apart && thread.apart.is_none());
            if shares || number == self.current {
                self.keep_actions(number, signal, &bytes);
            }
        }
    }

    /// The same of all signals, for the current thread.
    pub(super) fn keep_all_actions(&mut self) {
        let bytes = bytes_of(self.own_actions());
        self.keep_actions(self.current, 0, &bytes);
    }

    fn keep_actions(&mut self, thread: usize, signal: u64, bytes: &[u8]) {
        let to = layout::address(self.base, thread) + u64::from(private::ACTIONS) + 32 * signal;
        self.write_or_leave(to, bytes);
    }

    /// Writes into the program's memory; where that is refused, it is to run natively.
    pub(super) fn write_or_leave(&mut self, to: u64, bytes: &[u8]) {
        if !self.memory.write(to, bytes) && self.has_memory() {
            self.leaving.get_or_insert_with(|| "the program's memory can no longer be written".into());
        }
    }
}
