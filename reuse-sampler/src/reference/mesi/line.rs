//! A line that several threads touched: who holds a copy, who lost one, and what was written since.

use super::MesiLine;
use crate::Line;

/// What a thread that touched the line has of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Copy {
    /// A copy, in caches that did not evict it; in state shared in those of the mask.
    Held { shared: u64 },
    /// None: another thread stored to the line.
    Lost(Lost),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// How many sizes had evicted the copy before.
    pub rank: usize,
    /// Bytes that others wrote since. Those in [`SharedLine::pending`] come in addition.
    pub written: u64,
}

#[derive(Clone, Debug)]
pub(super) struct SharedLine {
    line: Line,
    pub copies: Vec<(u32, Copy)>, // by thread, in no order
    writer: u32,                  // the thread that stored last
    pending: u64,                 // bytes it wrote that the lost copies of others do not list yet
    sharing: [u64; 2],            // coherence misses in the largest cache: false and true sharing
    missed_at: u64,
    stored_at: u64,
}

impl SharedLine {
    /// A line that only the thread `before` touched until now.
    pub fn new(line: Line, before: Option<u32>) -> Self {
        Self {
            line,
            copies: before.into_iter().map(|one| (one, Copy::Held { shared: 0 })).collect(),
            writer: before.unwrap_or(u32::MAX),
            pending: 0,
            sharing: [0; 2],
            missed_at: 0,
            stored_at: 0,
        }
    }

    /// Takes out what `me` has of the line, for its next access.
    pub fn take(&mut self, me: u32) -> Option<Copy> {
        if self.writer != me && self.pending != 0 {
            let (writer, written) = (self.writer, std::mem::take(&mut self.pending));
            for (other, copy) in &mut self.copies {
                if let (true, Copy::Lost(lost)) = (*other != writer, copy) {
                    lost.written |= written;
                }
            }
        }
        let at = self.copies.iter().position(|(thread, _)| *thread == me)?;
        Some(self.copies.swap_remove(at).1)
    }

    /// `me`, whose copy was taken, stores to `bytes`.
    pub fn write(&mut self, me: u32, bytes: u64, pc: u64) {
        self.writer = me;
        self.pending |= bytes;
        self.stored_at = pc;
    }

    /// A coherence miss by the instruction at `pc`.
    pub fn missed(&mut self, is_true: bool, pc: u64) {
        self.sharing[usize::from(is_true)] += 1;
        if !is_true {
            self.missed_at = pc;
        }
    }

    pub fn report(&self) -> MesiLine {
        let [false_sharing, true_sharing] = self.sharing;
        MesiLine {
            line: self.line,
            threads: self.copies.len(),
            true_sharing,
            false_sharing,
            missed_at: self.missed_at,
            stored_at: self.stored_at,
        }
    }
}
