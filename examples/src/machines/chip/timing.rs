//! Time on one core: in order, where every access is waited for, or out of order by interval analysis.
//!
//! The out-of-order core dispatches instructions at a steady pace and stops only where the reorder buffer is
//! full: an instruction enters when the one a buffer's length before it has left, and instructions leave in
//! order, so one that waits for memory holds up all that come a buffer's length later. Misses less than a
//! buffer apart overlap, unless one computes the other's address. That is the interval model of Karkhanis and
//! Smith (*A First-Order Superscalar Processor Model*, ISCA 2004) with each interval's length computed from the
//! misses themselves. Branch mispredictions, instruction-cache misses and functional units are in the pace.

use std::collections::VecDeque;

use super::ChipError;
use super::config::not_negative;

/// How a core turns instructions and accesses into cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CoreTiming {
    /// Each instruction takes `base_cpi` cycles, and each access its level's latency on top.
    InOrder {
        /// Cycles per instruction without memory, finite and not negative.
        base_cpi: f64,
    },
    /// Latencies are hidden as far as the reorder buffer and independent misses reach.
    OutOfOrder {
        /// Cycles per instruction while nothing is waited for: at least 1 / issue width. Finite, above 0.
        base_cpi: f64,
        /// Instructions in the reorder buffer, at least 1.
        reorder_buffer: u32,
        /// Lines on their way from beyond the private first level at a time, at least 1.
        outstanding: u32,
    },
}

impl Default for CoreTiming {
    /// In order, one cycle per instruction.
    fn default() -> Self {
        Self::InOrder { base_cpi: 1.0 }
    }
}

impl CoreTiming {
    pub(super) fn check(self) -> Result<(), ChipError> {
        match self {
            Self::InOrder { base_cpi } => not_negative("base CPI", base_cpi),
            Self::OutOfOrder { base_cpi, reorder_buffer, outstanding } => {
                if !(base_cpi.is_finite() && base_cpi > 0.0) {
                    let remedy = "a finite number of cycles above 0";
                    return Err(ChipError::Timing { what: "base CPI", value: base_cpi, remedy });
                }
                for (what, value) in [("reorder buffer", reorder_buffer), ("outstanding lines", outstanding)]
                {
                    if value == 0 {
                        return Err(ChipError::Timing { what, value: 0.0, remedy: "at least 1" });
                    }
                }
                Ok(())
            }
        }
    }
}

/// The clock of one core and what it is waiting for.
#[derive(Clone, Debug)]
pub(super) struct CoreClock {
    timing: CoreTiming,
    /// Cycles on the chip's common time axis.
    pub now: f64,
    /// Cycles spent waiting for an access, of all that passed.
    pub stalled: f64,
    /// Those of them in which memory was waited for.
    pub stalled_by_memory: f64,
    executed: f64,            // instructions
    last_data: f64,           // when the last reference's data arrives
    inflight: VecDeque<Wait>, // in program order
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    instruction: f64,
    until: f64,
    served: Served,
}

/// What serves an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The first level.
    First,
    /// Another cache.
    Cache,
    Memory,
}

impl CoreClock {
    pub(super) const fn new(timing: CoreTiming, start: f64) -> Self {
        let (stalled, stalled_by_memory) = (0.0, 0.0);
        let inflight = VecDeque::new();
        Self { timing, now: start, stalled, stalled_by_memory, executed: 0.0, last_data: start, inflight }
    }

    /// Executes `instructions` and answers when the access that ends them can go out.
    #[inline]
    pub(super) fn issue(&mut self, instructions: f64, dependent: bool) -> f64 {
        match self.timing {
            CoreTiming::InOrder { base_cpi } => {
                self.now += instructions * base_cpi;
                self.now
            }
            CoreTiming::OutOfOrder { base_cpi, reorder_buffer, .. } => {
                self.executed += instructions;
                self.now += instructions * base_cpi;
                let left = self.executed - f64::from(reorder_buffer);
                while let Some(&wait) = self.inflight.front() {
                    if wait.instruction > left && wait.until > self.now {
                        break;
                    }
                    self.end(wait);
                    self.inflight.pop_front();
                }
                if dependent { self.now.max(self.last_data) } else { self.now }
            }
        }
    }

    /// Takes the access that went out at `issued` and is served after `latency` cycles. The first level keeps no buffer
    /// for it.
    #[inline]
    pub(super) fn complete(&mut self, issued: f64, latency: f64, served: Served) {
        match self.timing {
            CoreTiming::InOrder { .. } => {
                self.now = issued + latency;
                self.stall(latency, served);
            }
            CoreTiming::OutOfOrder { outstanding, .. } => {
                let mut until = issued + latency;
                if served != Served::First {
                    if self.inflight.len() >= outstanding as usize {
                        // The oldest wait gives its buffer back when it ends; this one starts then.
                        if let Some(oldest) = self.inflight.pop_front() {
                            until = until.max(oldest.until + latency);
                            self.end(oldest);
                        }
                    }
                    self.inflight.push_back(Wait { instruction: self.executed, until, served });
                }
                self.last_data = until;
            }
        }
    }

    #[inline]
    fn end(&mut self, wait: Wait) {
        if wait.until > self.now {
            self.stall(wait.until - self.now, wait.served);
            self.now = wait.until;
        }
    }

    #[inline]
    fn stall(&mut self, cycles: f64, served: Served) {
        match served {
            Served::First => {}
            Served::Cache => self.stalled += cycles,
            Served::Memory => {
                self.stalled += cycles;
                self.stalled_by_memory += cycles;
            }
        }
    }
}
