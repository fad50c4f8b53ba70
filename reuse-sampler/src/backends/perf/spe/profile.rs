//! What a run's profile is, and adding it up by instruction.

use std::collections::HashMap;

use super::Operation;
use crate::{AccessKind, ThreadId, WindowIndex};

/// An operation that the processor chose by itself, and whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profiled {
    /// Its thread.
    pub thread: ThreadId,
    /// The window in which its record was read: its own, or the one after.
    pub window: WindowIndex,
    /// What is known of it.
    pub operation: Operation,
}

/// What is missing in a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileLosses {
    /// Parts of the trace that were read.
    pub parts: u64,
    /// Parts that were never announced, for want of room in the ring.
    pub lost_parts: u64,
    /// Parts behind which memory for the trace was full, so that the processor chose nothing until it was read.
    pub truncated: u64,
    /// Parts with a gap in them.
    pub partial: u64,
    /// Parts in which an operation was not followed because another one still was: there may be many such in one.
    pub collided: u64,
    /// Bytes that made no sense.
    pub malformed: u64,
}

/// What is known of one instruction's accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstructionProfile {
    /// The instruction.
    pub pc: u64,
    /// Whether it stores.
    pub kind: AccessKind,
    /// Accesses of it that were chosen: its share of all of them is its share of the program's accesses, but for collisions.
    pub samples: u64,
    /// How many of these missed in the first data cache.
    pub first_level_misses: u64,
    /// How many missed in the last one, or in the last one that is reported.
    pub last_level_misses: u64,
    /// Cycles that they took together, from dispatch to completion.
    pub cycles: u64,
}

/// Accesses of a profile by instruction: which ones miss, and which ones the program waits for.
///
/// Shares of n samples have a relative standard error of 1 / sqrt(n). All of it is **estimated**: code behind slow
/// operations is chosen too seldom (collisions), and cycles of operations that overlap add up to more than passes.
#[derive(Clone, Debug, Default)]
pub struct ByInstruction {
    sites: HashMap<u64, InstructionProfile>,
}

impl ByInstruction {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation, if it is an access of the program.
    pub fn add(&mut self, operation: &Operation) {
        let Some(access) = operation.access() else { return };
        let empty = InstructionProfile {
            pc: access.pc,
            kind: access.kind,
            samples: 0,
            first_level_misses: 0,
            last_level_misses: 0,
            cycles: 0,
        };
        let site = self.sites.entry(access.pc).or_insert(empty);
        site.samples += 1;
        site.first_level_misses += u64::from(operation.events.first_level_miss());
        site.last_level_misses += u64::from(operation.events.last_level_miss());
        site.cycles += u64::from(operation.latency.unwrap_or(0));
    }

    /// All instructions, those that took most cycles first.
    #[must_use]
    pub fn ranked(&self) -> Vec<InstructionProfile> {
        let mut sites: Vec<InstructionProfile> = self.sites.values().copied().collect();
        sites.sort_by_key(|site| (std::cmp::Reverse(site.cycles), site.pc));
        sites
    }
}
