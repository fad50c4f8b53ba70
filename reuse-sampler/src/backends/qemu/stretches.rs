//! What the plugin reports of each thread in stretches, as events one after the other.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use super::QemuOptions;
use super::sampler::Run;
use super::shared::layout::Reported;
use super::shared::message::TraceMessage;
use super::shared::word::{self, Word};
use crate::replay::Event;
use crate::{Access, AccessKind, SamplerError, ThreadId};

/// How far the stretches behind a [`QemuTrace`](super::QemuTrace) have become events.
#[derive(Debug)]
pub(super) struct Stretches {
    stretch: TraceMessage,
    reported: usize, // words of the stretch returned so far
    thread: u32,
    place: Place,                // of that thread
    places: HashMap<u32, Place>, // of the other threads
    fetches: bool,
    accesses: u64, // handed out
}

/// What a thread executes.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    block: u64, // its address; its number where fetches are reported
    site: u64,  // the instruction returned last; of fetches, the next one
    left: u32,  // instructions of the block not returned yet, of fetches
}

impl Stretches {
    pub fn start(
        program: &OsStr,
        arguments: &[OsString],
        options: &QemuOptions,
        fetches: bool,
    ) -> Result<(Run, Self), SamplerError> {
        let reported = if fetches { Reported::Fetches } else { Reported::Accesses };
        let stretches = Self {
            stretch: TraceMessage::default(),
            reported: 0,
            thread: 0,
            place: Place::default(),
            places: HashMap::new(),
            fetches,
            accesses: 0,
        };
        Ok((Run::start(program, arguments, options, reported)?, stretches))
    }

    pub fn operands(&self, run: &Run) -> u64 {
        self.accesses.saturating_sub(run.further)
    }

    #[inline]
    pub fn next_event(&mut self, run: &mut Run) -> Result<Option<Event>, SamplerError> {
        loop {
            if self.place.left > 0 {
                return self.fetch(run).map(Some);
            }
            if let Some(&packed) = self.stretch.words.get(self.reported) {
                self.reported += 1;
                match self.event(packed, run)? {
                    None => continue,
                    event => return Ok(event),
                }
            }
            if std::mem::take(&mut self.stretch.ended) {
                self.place = Place::default();
                return Ok(Some(Event::Exit(ThreadId(self.stretch.thread))));
            }
            match run.next_trace()? {
                Some(stretch) => self.stretch = stretch,
                None => return Ok(None),
            }
            self.reported = 0;
            if let Some(event) = self.switch() {
                return Ok(Some(event));
            }
        }
    }

    /// The event that a word stands for, if it is one.
    #[inline]
    fn event(&mut self, packed: u64, run: &Run) -> Result<Option<Event>, SamplerError> {
        if self.fetches {
            let (address, sizes) = run.block(packed)?;
            let instructions = sizes.len() as u32;
            self.place = Place { block: packed, site: address, left: instructions };
            return Ok(Some(Event::Block { address, instructions }));
        }
        Ok(match word::read(packed) {
            Word::Block(address, instructions) => {
                self.place.block = address;
                Some(Event::Block { address, instructions })
            }
            Word::Site(pc) => {
                self.place.site = pc;
                None
            }
            Word::Access(address, bytes, store, within) => {
                let kind = if store { AccessKind::Store } else { AccessKind::Load };
                let pc = within.map_or(self.place.site, |bytes| self.place.block.wrapping_add(bytes));
                self.accesses += 1;
                Some(Event::Access(Access { address, bytes, kind, pc }))
            }
        })
    }

    /// The next instruction of the block.
    fn fetch(&mut self, run: &Run) -> Result<Event, SamplerError> {
        let (_, sizes) = run.block(self.place.block)?;
        let (address, next) = (self.place.site, sizes.len() - self.place.left as usize);
        let bytes = sizes[next];
        self.place.left -= 1;
        self.place.site = address.wrapping_add(bytes.into());
        Ok(Event::Access(Access::load(address, bytes.into()).at(address)))
    }

    /// Goes on with the thread of the stretch, if it is another one.
    fn switch(&mut self) -> Option<Event> {
        let thread = self.stretch.thread;
        if thread == self.thread {
            return None;
        }
        let place = self.places.remove(&thread).unwrap_or_default();
        self.places.insert(self.thread, std::mem::replace(&mut self.place, place));
        self.thread = thread;
        Some(Event::Thread(ThreadId(thread)))
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::super::shared::message::{CodeMessage, Message};
    use super::*;

    fn arrives(sent: Message) -> bool {
        let mut bytes = Vec::new();
        sent.encode(&mut bytes);
        let cut = Message::decode(&bytes[..bytes.len() - 1]);
        cut == Ok(None) && Message::decode(&bytes) == Ok(Some((sent, bytes.len())))
    }

    quickcheck! {
        fn stretches_arrive_as_they_were_sent(thread: u32, ended: bool, words: Vec<u64>, further: u64) -> bool {
            arrives(Message::Trace(TraceMessage { thread, ended, words, further }))
        }

        fn blocks_arrive_as_they_were_sent(number: u64, address: u64, sizes: Vec<u8>) -> bool {
            arrives(Message::Code(CodeMessage { number, address, sizes }))
        }
    }
}
