//! A debug register set and touched again and again, to measure what that costs.

use std::io;

use super::event::OpenEvent;
use super::mapping::Ring;
use crate::SamplerError;
use crate::perf::kernel::{Change, Event, Opening, Source};
use crate::perf::ring::{Layout, Record, records};

/// One debug register of the calling thread, for measuring what a sample costs apart from the stop that chooses it: no
/// descriptor is opened or closed in a cycle.
#[derive(Debug)]
pub struct WatchCycle {
    event: OpenEvent,
    ring: Ring,
    name: Event,
    once: bool,
    counted: u64, // touches so far
    word: Box<u64>,
    bytes: Vec<u8>,
}

const LAYOUT: Layout = Layout { address: true, counts: true, branches: false, user_ip: false };

impl WatchCycle {
    /// Takes a debug register, of the calling thread, which is to be the one that calls [`run`](Self::run).
    ///
    /// # Errors
    /// [`SamplerError::Io`] if there is none free or permission to observe.
    pub fn new() -> Result<Self, SamplerError> {
        Self::open().map_err(|source| SamplerError::Io {
            operation: "take",
            object: "a debug register of this thread".to_owned(),
            source,
        })
    }

    fn open() -> io::Result<Self> {
        let opening = Opening { period: 1, layout: LAYOUT, ..Opening::of(Source::Watchpoint) };
        let event = OpenEvent::open(0, &opening, None)?;
        let ring = Ring::map(event.descriptor())?;
        let name = Event { handle: event.descriptor(), id: event.id()? };
        let once = super::reports_once();
        Ok(Self { event, ring, name, once, counted: 0, word: Box::new(0), bytes: Vec::new() })
    }

    /// Sets the register to a word (which turns it off before, if it is on), touches that `touches` times, of which the
    /// last is reported, and reads the record and the count. Whether they are as they should be: one record, and so many touches. On x86 a touch is a trap of some
    /// microseconds.
    ///
    /// # Errors
    /// [`SamplerError::Io`] if the kernel refuses.
    pub fn run(&mut self, touches: u64) -> Result<bool, SamplerError> {
        self.cycle(touches.max(1)).map_err(|source| SamplerError::Io {
            operation: "set",
            object: "a debug register of this thread".to_owned(),
            source,
        })
    }

    fn cycle(&mut self, touches: u64) -> io::Result<bool> {
        let address = (&raw const *self.word) as u64;
        self.event.change(Change::Watch { address, bytes: 8, touch: touches, spent: self.once })?;
        for _ in 0..touches {
            // SAFETY: reads a word that lives.
            unsafe { std::ptr::read_volatile(&raw const *self.word) };
        }
        let counted = self.event.read()?.of(self.name);
        self.bytes.clear();
        self.ring.drain(&mut self.bytes);
        let mut reported = records(&self.bytes, |id| (id == self.name.id).then_some(LAYOUT));
        let one = matches!(
            (reported.next(), reported.next()),
            (Some(Ok(Record::Sample(sample))), None) if sample.address == Some(address)
        );
        self.counted += touches;
        Ok(one && counted == Some(self.counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel counts a sample's own access, reports the next one, and does so as often as it is asked to.
    #[test]
    fn a_register_reports_the_touch_that_it_is_asked_for_again_and_again() {
        let Ok(mut cycle) = WatchCycle::new() else {
            assert!(
                std::env::var_os("REQUIRE_PERF").is_none(),
                "REQUIRE_PERF is set, but there is no register"
            );
            return eprintln!("skipped: no debug register is to be had");
        };
        for touches in [1, 2, 5, 2, 1, 1, 2] {
            assert!(cycle.run(touches).unwrap(), "{touches} touches");
        }
    }
}
