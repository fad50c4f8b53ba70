//! What the processor reports of operations that it chose by itself.

use std::io;

use super::Session;
use super::failures::{again, is_gone, ok_if_gone};
use super::thread::Thread;
use crate::SamplerError;
use crate::perf::kernel::Kernel;
use crate::perf::ring::{Record, records};
use crate::perf::spe::{Profiled, operations};

/// Memory for the trace of a thread: 2,000 operations and more between two looks at it.
const TRACE: usize = 128 << 10;

impl<K: Kernel> Session<K> {
    /// Opens the unit that profiles, if that is asked for and there is one. Where it cannot be had, the run does without.
    pub(super) fn open_profile(&mut self, thread: &mut Thread) -> io::Result<()> {
        let (Some(every), Some(profiler)) = (self.settings.profile_every, self.abilities.profiler) else {
            return Ok(());
        };
        match again(|| self.kernel.open(thread.tid, &profiler.opening(every, TRACE), None)) {
            Ok(event) => thread.events.profile = Some(event),
            Err(error) if is_gone(&error) => return Err(error),
            Err(error) => {
                let warning = format!("the processor's own profiling cannot be had: {error}");
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
        }
        Ok(())
    }

    /// Reads what has come into the trace.
    pub(super) fn profile(&mut self, thread: &Thread) -> Result<(), SamplerError> {
        let Some(event) = thread.events.profile else { return Ok(()) };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let drained = again(|| self.kernel.drain(event, &mut bytes));
        ok_if_gone(drained, "read", "the ring of the processor's profile")?;
        let losses = &mut self.profile_losses;
        for record in records(&bytes, |_| None) {
            let part = match record {
                Ok(Record::Trace(part)) => part,
                Ok(Record::Lost(records)) => {
                    losses.lost_parts += records;
                    continue;
                }
                Ok(_) => continue,
                Err(malformed) => {
                    losses.malformed += (bytes.len() - malformed.offset) as u64;
                    continue;
                }
            };
            losses.parts += 1;
            losses.truncated += u64::from(part.truncated);
            losses.partial += u64::from(part.partial);
            losses.collided += u64::from(part.collided);
            self.trace.clear();
            let drained = again(|| self.kernel.drain_trace(event, &part, &mut self.trace));
            ok_if_gone(drained, "read", "the processor's profile")?;
            for operation in operations(&self.trace, part.offset) {
                match operation {
                    Ok(operation) => self.profiled.push(Profiled {
                        thread: thread.id,
                        window: thread.progress.window.index,
                        operation,
                    }),
                    Err(malformed) => {
                        losses.malformed += part.offset + self.trace.len() as u64 - malformed.offset;
                    }
                }
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}
