//! System calls that change what the observer relies on. All others go to the kernel unseen.

use nix::libc;

use super::layout::{self, command, private, shared};
use super::observer::{Event, Gone, Observer, register};
use super::signals::Action;

/// Calls that the observer decides about.
pub(super) const ASK_FIRST: [u32; 21] =
    [9, 10, 11, 13, 15, 25, 56, 57, 58, 59, 60, 101, 154, 157, 158, 231, 317, 322, 329, 334, 435];

/// The system call that the program makes at the observer's order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calling {
    pub pc: u64,
    pub next: u64,
    pub number: i64,
    pub argument: u64,
    pub mask: u64,              // of signals, while a thread is created
    pub creates: Option<usize>, // the number of its block
}

/// In the structure of `clone3`.
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
            libc::SYS_rt_sigaction => self.set_action(next),
            libc::SYS_rt_sigreturn => self.return_from_handler(pc),
            libc::SYS_clone | libc::SYS_clone3 => {
                let clone = number == libc::SYS_clone;
                let flags = if clone { Some(first) } else { self.memory.word(first) }.unwrap_or(0);
                let has = |flag: i32| flags & flag as u64 != 0;
                if !has(libc::CLONE_VM) || has(libc::CLONE_VFORK) {
                    return self.fork();
                }
                if !has(libc::CLONE_THREAD) {
                    return self.give_up(pc, "the program creates a process that shares its memory");
                }
                let tls =
                    if clone { Some(self.register(register::R8)) } else { self.memory.word(first + TLS) };
                self.create_thread(pc, tls.filter(|_| has(libc::CLONE_SETTLS)))
            }
            libc::SYS_fork | libc::SYS_vfork => self.fork(),
            libc::SYS_execve | libc::SYS_execveat => {
                let path = self.memory.text(if number == libc::SYS_execve { first } else { second });
                if path.starts_with('/') || number == libc::SYS_execve {
                    return Ok(Some(Event::Executing { path }));
                }
                self.unobserved.push(format!("{path}, which ran unobserved"));
                self.perform(command::CALL)
            }
            libc::SYS_exit | libc::SYS_exit_group => {
                self.own().ends = number == libc::SYS_exit;
                Ok(Some(Event::Exiting))
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

    fn fork(&mut self) -> Result<Option<Event>, Gone> {
        self.forks += 1;
        self.perform(command::FORK)
    }

    /// The call fails with `error`.
    fn refuse(&mut self, next: u64, error: i64) -> Result<Option<Event>, Gone> {
        self.set_register(register::RAX, (-error) as u64);
        self.resume(next, false)
    }

    pub(super) fn give_up(&mut self, pc: u64, why: &str) -> Result<Option<Event>, Gone> {
        self.leaving.get_or_insert_with(|| why.to_owned());
        self.resume(pc, false)
    }

    /// The call that was performed has returned.
    pub(super) fn called(&mut self) -> Result<Option<Event>, Gone> {
        let Calling { next, number, argument, creates, .. } = self.own().calling;
        let result = self.register(register::RAX) as i64;
        let failed = (-4095..0).contains(&result);
        let first = self.register(register::RDI);
        if let Some(thread) = creates {
            let next = self.created(thread, (!failed).then_some(result as i32))?;
            return self.resume(next, false);
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
                    if self.cache.covers(start, start.saturating_add(length)) {
                        return Ok(Some(Event::Stale { pc: next }));
                    }
                }
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
            _ => {}
        }
        self.resume(next, false)
    }

    /// Writes what the program asked of `signal` where the entry points find it.
    pub(super) fn keep_action(&mut self, signal: u64, action: Action) {
        let bytes: Vec<u8> = action.iter().flat_map(|word| word.to_le_bytes()).collect();
        for number in 0..self.threads.len() {
            if self.threads[number].is_some() {
                self.keep_actions(number, signal, &bytes);
            }
        }
    }

    /// The same of all signals, for the current thread.
    pub(super) fn keep_all_actions(&mut self) {
        let bytes: Vec<u8> = self.actions.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        self.keep_actions(self.current, 0, &bytes);
    }

    fn keep_actions(&mut self, thread: usize, signal: u64, bytes: &[u8]) {
        let to = layout::address(self.base, thread) + u64::from(private::ACTIONS) + 32 * signal;
        if !self.memory.write(to, bytes) {
            self.leaving.get_or_insert_with(|| "the program's memory can no longer be written".into());
        }
    }
}
