//! System calls that write to the program's memory what they can give only once.
//!
//! A call that was to write to a page that is protected ([`guard`](super::guard)) fails, and is made again. One that has taken
//! a message for it, or returned with less, cannot be: the pages it may write to are opened before. Where the kernel writes
//! without a call, or does not report that it could not, pages are not protected: stacks for signals, and all pages once there
//! is an `io_uring`.

use std::ops::Range;

use nix::libc;

use super::guard::Guards;
use super::observer::{Observer, register};

/// Calls that matter while pages are protected, beyond those that are asked about anyway.
pub(super) const WHILE_GUARDED: [u32; 13] = [19, 43, 45, 47, 70, 128, 243, 288, 295, 299, 310, 318, 327];

/// Of these, with a buffer as second argument and its length as third, only where it is near such pages: programs make them
/// all the time.
pub(super) const INTO_BUFFER: [u32; 2] = [libc::SYS_read as u32, libc::SYS_pread64 as u32];

/// An address of a socket, the description of a signal, what a process has used.
const STRUCTURE: u64 = 144;
/// A message's header with its length.
const HEADER: u64 = 64;
/// Pieces that one call takes, and messages.
const MOST: u64 = 1024;

impl Observer {
    /// Opens what the call `number` may write to.
    pub(super) fn open_for(&mut self, number: i64) {
        if self.memory.guarded.is_empty() {
            return;
        }
        for Range { start, end } in self.written_by(number) {
            self.unguard_all(start, end);
        }
    }

    fn written_by(&self, number: i64) -> Vec<Range<u64>> {
        let [first, second, third] =
            [register::RDI, register::RSI, register::RDX].map(|register| self.register(register));
        let [fourth, fifth, sixth] =
            [register::R10, register::R8, register::R9].map(|register| self.register(register));
        let some = |start: u64, length: u64| start..start.saturating_add(length);
        match number {
            libc::SYS_read | libc::SYS_pread64 | libc::SYS_msgrcv | libc::SYS_mq_timedreceive => {
                let priority = if number == libc::SYS_mq_timedreceive { fourth } else { 0 };
                vec![some(second, third.saturating_add(8)), some(priority, 4)]
            }
            libc::SYS_recvfrom => vec![some(second, third), some(fifth, STRUCTURE), some(sixth, 4)],
            libc::SYS_getrandom => vec![some(first, second)],
            libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 | libc::SYS_process_vm_readv => {
                self.pieces(second, third)
            }
            libc::SYS_recvmsg => self.message(second),
            libc::SYS_recvmmsg => {
                (0..third.min(MOST)).flat_map(|k| self.message(second.saturating_add(HEADER * k))).collect()
            }
            libc::SYS_accept | libc::SYS_accept4 => vec![some(second, STRUCTURE), some(third, 4)],
            libc::SYS_rt_sigtimedwait => vec![some(second, STRUCTURE)],
            libc::SYS_wait4 => vec![some(second, 4), some(fourth, STRUCTURE)],
            libc::SYS_waitid => vec![some(third, STRUCTURE), some(fifth, STRUCTURE)],
            libc::SYS_clone => vec![some(third, 4), some(fourth, 4)],
            libc::SYS_clone3 => {
                let word = |at: u64| self.memory.word(first.saturating_add(at)).unwrap_or(0);
                [8, 16, 24].map(|at| some(word(at), 4)).into() // descriptor, numbers for child and parent
            }
            _ => Vec::new(),
        }
    }

    /// So many pairs of an address and a length at `place`.
    fn pieces(&self, place: u64, count: u64) -> Vec<Range<u64>> {
        let word = |at: u64| self.memory.word(place.saturating_add(at)).unwrap_or(0);
        let piece = |k: u64| word(16 * k)..word(16 * k).saturating_add(word(16 * k + 8));
        (0..count.min(MOST)).map(piece).collect()
    }

    /// A message's header, and what it says there is room in.
    fn message(&self, place: u64) -> Vec<Range<u64>> {
        let word = |at: u64| self.memory.word(place.saturating_add(at)).unwrap_or(0);
        let mut all = self.pieces(word(16), word(24));
        for (start, length) in [(place, HEADER), (word(0), STRUCTURE), (word(32), word(40))] {
            all.push(start..start.saturating_add(length));
        }
        all
    }

    /// A stack for signals, described at `place`, is never protected.
    pub(super) fn note_signal_stack(&mut self, place: u64) {
        if let (Some(start), Some(length)) =
            (self.memory.word(place), self.memory.word(place.saturating_add(16)))
        {
            let end = start.saturating_add(length);
            self.unguard_all(start, end);
            self.guards.note_stack(start..end);
        }
    }
}

impl Guards {
    fn note_stack(&mut self, stack: Range<u64>) {
        if !self.stacks.contains(&stack) {
            self.stacks.push(stack);
        }
    }
}
