//! The memory accesses that perf sampled, as a table of them needs it.

use std::io::Read;

use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::PerfDataReader;
use reuse_sampler::{Access, AccessKind, SamplerError, ThreadId};

/// Samples with an address, as loads if the file does not say what they are.
pub(super) struct SampledAccesses<R> {
    reader: PerfDataReader<R>,
    thread: ThreadId,
    held: Option<Event>, // returned after the switch of threads
    empty: bool,         // no access so far
}

impl<R: Read> SampledAccesses<R> {
    pub(super) fn new(reader: PerfDataReader<R>) -> Self {
        Self { reader, thread: ThreadId(0), held: None, empty: true }
    }
}

impl<R: Read> EventSource for SampledAccesses<R> {
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        if let Some(event) = self.held.take() {
            return Ok(Some(event));
        }
        while let Some(sample) = self.reader.next_sample()? {
            let Some(address) = sample.address else { continue };
            self.empty = false;
            let kind = sample.kind.unwrap_or(AccessKind::Load);
            let event = Event::Access(Access { address, bytes: 0, kind, pc: sample.pc });
            let thread = ThreadId(sample.thread);
            if thread == self.thread {
                return Ok(Some(event));
            }
            self.thread = thread;
            self.held = Some(event);
            return Ok(Some(Event::Thread(thread)));
        }
        if std::mem::take(&mut self.empty) {
            return Err(SamplerError::EmptyTrace { format: "perf-data" });
        }
        Ok(None)
    }
}
