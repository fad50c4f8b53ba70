//! Limits on the program's memory, in which the region does not count.
//!
//! A limit on its addresses that the program asks for is set higher by as much as the region takes, and given back to it
//! without. Where it locks all its memory, pages are locked as they are touched: the region has two gigabytes, most never
//! used.

#![allow(unsafe_code)]

use nix::libc;

use super::layout::{self, command, shared};
use super::observer::{Event, Gone, Observer, register};

/// Calls about limits.
pub(super) const ASK_FIRST: [u32; 4] = [97, 151, 160, 302];

/// Of a structure with a soft and a hard limit.
type Limits = [u64; 2];

impl Observer {
    /// One of these calls, with its first argument.
    pub(super) fn limit(&mut self, number: i64, first: u64) -> Result<Option<Event>, Gone> {
        let changed = match number {
            libc::SYS_mlockall if first & libc::MCL_CURRENT as u64 != 0 => {
                Some((register::RDI, first | libc::MCL_ONFAULT as u64))
            }
            libc::SYS_setrlimit if first as u32 == libc::RLIMIT_AS => self.higher(register::RSI),
            libc::SYS_prlimit64 if self.is_about_addresses() => self.higher(register::RDX),
            _ => None,
        };
        if let Some((argument, changed)) = changed {
            let was = self.register(argument);
            self.own().calling.replaced = Some((argument, was));
            self.set_register(argument, changed);
        }
        self.perform(command::CALL)
    }

    /// One of them has returned, and may have failed.
    pub(super) fn limited(&mut self, number: i64, failed: bool) {
        let replaced = self.own().calling.replaced.take();
        if let Some((argument, was)) = replaced {
            self.set_register(argument, was);
        }
        let answer = match number {
            libc::SYS_getrlimit if self.register(register::RDI) as u32 == libc::RLIMIT_AS => {
                Some(register::RSI)
            }
            libc::SYS_prlimit64 if self.is_about_addresses() => Some(register::R10),
            _ => None,
        };
        if let Some(answer) = answer.filter(|_| !failed && self.limits_addresses) {
            self.lower(self.register(answer));
        }
        if !failed && replaced.is_some() && number != libc::SYS_mlockall {
            self.limits_addresses = true;
        }
    }

    /// Whether `prlimit64` is about the addresses of the process that calls it.
    fn is_about_addresses(&self) -> bool {
        let pid = self.register(register::RDI);
        (pid == 0 || pid == self.process.pid().as_raw() as u64)
            && self.register(register::RSI) as u32 == libc::RLIMIT_AS
    }

    /// An argument, and where the limits are that it points to, higher by as much as the region takes, but no higher than the
    /// process may have them.
    fn higher(&self, argument: u32) -> Option<(u32, u64)> {
        let asked: Limits = self.pair(self.register(argument))?;
        let mut now = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        let pid = self.process.pid().as_raw();
        // SAFETY: writes into a structure that outlives the call.
        let known = unsafe { libc::prlimit(pid, libc::RLIMIT_AS, std::ptr::null(), &raw mut now) };
        let most = if known == 0 { now.rlim_max.max(asked[1]) } else { libc::RLIM_INFINITY };
        for (offset, limit) in (0..).step_by(8).zip(asked) {
            self.set(shared::SCRATCH + offset, limit.saturating_add(layout::FILE).min(most));
        }
        Some((argument, self.address_of(shared::SCRATCH)))
    }

    /// Gives the limits at `place` back as the program set them.
    fn lower(&self, place: u64) {
        let Some(found) = self.pair(place) else { return };
        let own =
            found.map(|limit| if limit == u64::MAX { limit } else { limit.saturating_sub(layout::FILE) });
        let bytes: Vec<u8> = own.into_iter().flat_map(u64::to_le_bytes).collect();
        self.memory.write(place, &bytes);
    }

    fn pair(&self, place: u64) -> Option<Limits> {
        Some([self.memory.word(place)?, self.memory.word(place + 8)?])
    }
}
