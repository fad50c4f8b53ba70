//! What a processor's counters and a version of the kernel refuse.
//!
//! The kernel places a group's events on a processor's counters before it opens one (`validate_group` in
//! `arch/x86/events/core.c`), without regard to who else uses them. Instructions are also counted by a counter of their own on
//! Intel's processors (fixed counter 0), unless `precise_ip` is set. Software events and watchpoints take none.
//!
//! A group that was opened need not be counted. Hyper-threads of Sandy Bridge to Haswell spoil each other's counts of accesses
//! (errata BJ122, BV98, HSD29), for which the kernel gives a thread with such an event half of the general counters, and
//! only when it is to be counted (`x86_schedule_events`).

use std::sync::LazyLock;

use super::{ACCESSES, LOADS, OPERATIONS, PRECISE_LOADS, PRECISE_STORES, STORES};
use crate::perf::kernel::{Opening, Source};

/// The counter of instructions alone.
const FIXED: u32 = 1 << 31;

/// Which general counters count instructions, loads and stores, a bit each: with hyper-threading, and without.
#[derive(Debug)]
pub struct Counters {
    pub name: &'static str,
    pub shared: [u32; 3],
    pub alone: [u32; 3],
}

/// By the manufacturers' lists.
pub static COUNTERS: LazyLock<Vec<Counters>> = LazyLock::new(|| {
    let lines = include_str!("counters.csv").lines().filter(|line| !line.starts_with('#'));
    let masks = |text: &str| {
        let masks: Vec<u32> = text.split(' ').map(|mask| u32::from_str_radix(mask, 16).unwrap()).collect();
        masks.try_into().unwrap()
    };
    let counters = |line: &'static str| {
        let fields: Vec<&str> = line.split(',').collect();
        Counters { name: fields[0], shared: masks(fields[1]), alone: masks(fields[2]) }
    };
    lines.map(counters).collect()
});

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// General counters for instructions, loads and stores.
    pub general: [u32; 3],
    /// Whether instructions have one of their own.
    pub fixed: bool,
    /// The shortest period of an event: 32 on Nehalem (`nhm_limit_period`) and, from Linux 6.10 on, Haswell
    /// (`hsw_limit_period`).
    pub shortest: u64,
    /// Version of Linux.
    pub linux: (u32, u32),
    /// Whether counts of accesses leave only half of the general counters.
    pub halved: bool,
}

impl Limits {
    /// Counters that can count what an event does, a bit each; `None` if it takes none of the group's.
    fn counters(&self, opening: &Opening) -> Option<u32> {
        match opening.source {
            Source::INSTRUCTIONS if self.fixed && opening.precise == 0 => Some(self.general[0] | FIXED),
            Source::INSTRUCTIONS => Some(self.general[0]),
            LOADS | PRECISE_LOADS | ACCESSES => Some(self.general[1]),
            STORES | PRECISE_STORES => Some(self.general[2]),
            _ => None,
        }
    }

    /// Whether all of a group can be counted at once.
    pub fn hold(&self, group: &[Opening]) -> bool {
        let wanted: Vec<u32> = group.iter().filter_map(|opening| self.counters(opening)).collect();
        place(&wanted, 0, u32::MAX)
    }

    /// Whether it ever is, if nobody else counts anything.
    pub fn count(&self, group: &[Opening]) -> bool {
        let wanted: Vec<u32> = group.iter().filter_map(|opening| self.counters(opening)).collect();
        let accesses = |o: &Opening| matches!(o.source, LOADS | PRECISE_LOADS | STORES | PRECISE_STORES);
        let halved = self.halved && group.iter().any(accesses);
        place(&wanted, 0, if halved { self.general[0].count_ones() / 2 } else { u32::MAX })
    }

    /// Whether the kernel opens an event that stops its thread. Instruction-based sampling is of a processor and not of a
    /// thread before Linux 6.2.
    pub fn opens(&self, opening: &Opening) -> bool {
        let new = opening.stops || opening.source == Source::Watchpoint;
        let short = self.counters(opening).is_some() && opening.period > 0 && opening.period < self.shortest;
        let of_a_processor = opening.source == OPERATIONS && self.linux < (6, 2);
        !(new && self.linux < (5, 13) || short || of_a_processor)
    }

    /// The period that an event has from now on, or `None` if the kernel refuses it.
    pub fn period(&self, opening: &Opening, period: u64) -> Option<u64> {
        if opening.source == OPERATIONS {
            // `perf_ibs_check_period`; before there was one, the low bits were left out.
            let refused = self.linux >= (6, 15) && (period % 16 != 0 || period < 144);
            return (!refused).then(|| (period & !15).max(16));
        }
        (self.counters(opening).is_none() || period >= self.shortest).then_some(period)
    }
}

/// Whether each of `wanted` gets a counter of its own that is not in `taken`, at most `most` of them general ones.
fn place(wanted: &[u32], taken: u32, most: u32) -> bool {
    let Some((&first, rest)) = wanted.split_first() else { return (taken & !FIXED).count_ones() <= most };
    (0..32).map(|bit| 1 << bit).any(|bit| first & bit & !taken != 0 && place(rest, taken | bit, most))
}
