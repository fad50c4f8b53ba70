//! What a replayed source consists of.

use std::ops::ControlFlow;

use crate::{Access, SamplerError, ThreadId};

/// One event of a program's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The current thread accesses memory.
    Access(Access),
    /// The current thread enters a basic block; the block's accesses follow.
    Block {
        /// Address of the block.
        address: u64,
        /// Instructions in it.
        instructions: u32,
    },
    /// The following events belong to this thread. Events before the first switch belong to thread 0.
    Thread(ThreadId),
    /// This thread has ended. What it left open dangles.
    Exit(ThreadId),
}

/// Where events come from.
///
/// Every iterator of [`Event`]s is one; readers that can fail implement it themselves.
pub trait EventSource {
    /// The next event, or `None` at the end of the program.
    ///
    /// # Errors
    /// Whatever keeps the source from returning the next event. It is not asked again.
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError>;

    /// Hands events to `take` until it breaks or the source ends, and returns what it broke with. The same as
    /// asking for one event after the other, for sources that are faster at returning many.
    ///
    /// # Errors
    /// As [`next_event`](Self::next_event).
    fn drive<B>(&mut self, mut take: impl FnMut(Event) -> ControlFlow<B>) -> Result<Option<B>, SamplerError>
    where
        Self: Sized,
    {
        while let Some(event) = self.next_event()? {
            if let ControlFlow::Break(value) = take(event) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl<I: Iterator<Item = Event>> EventSource for I {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        Ok(self.next())
    }

    #[inline]
    fn drive<B>(&mut self, take: impl FnMut(Event) -> ControlFlow<B>) -> Result<Option<B>, SamplerError> {
        Ok(self.try_for_each(take).break_value())
    }
}
