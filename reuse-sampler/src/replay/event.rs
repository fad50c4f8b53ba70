//! What a replayed source consists of.

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
    /// Whatever stops the source from telling the next event. It is not asked again.
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError>;
}

impl<I: Iterator<Item = Event>> EventSource for I {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        Ok(self.next())
    }
}
