//! The events that are counted together for one thread, and what is given up where a processor has too few counters for all
//! of them.
//!
//! The kernel takes a group whole or not at all: it refuses the event by which the group no longer fits the counters
//! (`EINVAL`; on x86 `validate_group`), and a pinned group that others leave no room for is never counted. What can be
//! done without, in this order:
//! 1. code samples: windows then have no code, and phases cannot be told by it;
//! 2. accesses that the processor chooses: a count chooses them instead, and their instructions are decoded;
//! 3. both.
//!
//! Whoever needs code gives up the second alone. Where nothing fits, there is no sampling by counters.

use std::io;

use super::kernel::{Abilities, Opening, Output};
use super::ring::Layout;

/// Records of events that stop a thread or hit a watchpoint.
pub(super) const COUNTS: Layout = Layout { address: true, counts: true, branches: false, user_ip: false };
/// Longest period: an event that waits for nothing.
pub(super) const NEVER: u64 = 1 << 40;

/// How the events of a thread are opened, but for those that watch memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
    /// Counts what windows are measured in; overflows at their ends.
    pub leader: Opening,
    pub accesses: [Option<Opening>; 2],
    /// Overflows where the next sample is due, unless the processor chooses.
    pub gap: Option<Opening>,
    /// Whether each is in a group of its own is said by its selector.
    pub selectors: [Option<Opening>; 2],
    pub echo: Option<Opening>,
    pub code: Option<Opening>,
}

impl Group {
    /// With `code`, the distance between code samples, there are such samples.
    pub fn new(abilities: &Abilities, code: Option<u64>) -> Self {
        let counting = |source| Opening { layout: COUNTS, enabled: true, ..Opening::of(source) };
        let leader = Opening { period: NEVER, stops: true, enabled: false, ..counting(abilities.windows) };
        // Nobody is to hear it.
        let echo = Opening { stops: false, output: Output::Nowhere, enabled: true, ..leader };
        Self {
            leader,
            accesses: abilities.accesses.map(|source| source.map(counting)),
            gap: (!abilities.selects()).then_some(leader),
            selectors: abilities.selectors.map(|selector| selector.map(|selector| selector.opening())),
            echo: abilities.echo.then_some(echo),
            code: code.filter(|_| abilities.code).map(|period| Opening {
                period,
                layout: abilities.code_layout(),
                ..counting(abilities.windows)
            }),
        }
    }

    /// Those that the leader's counters must have room for, but for the leader.
    fn siblings(&self, abilities: &Abilities) -> impl Iterator<Item = Opening> {
        let selectors = self.selectors.into_iter().zip(abilities.selectors);
        let [one, other] = selectors
            .map(|(opening, selector)| opening.filter(|_| selector.is_some_and(|selector| !selector.apart)))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap_or_default();
        let [first, second] = self.accesses;
        [first, second, self.gap, one, other, self.echo, self.code].into_iter().flatten()
    }
}

/// What of `abilities` fits a processor's counters, and what was given up for it, in words. `opens` tries a group: its leader,
/// then the others.
///
/// # Errors
/// What the kernel says to the smallest group.
pub(super) fn fit(
    abilities: Abilities,
    keep_code: bool,
    mut opens: impl FnMut(Opening, &[Opening]) -> io::Result<()>,
) -> io::Result<(Abilities, Vec<String>)> {
    let no_code = Abilities { code: false, ..abilities };
    let chosen_by_count = |with| Abilities { selectors: [None; 2], ..with };
    let mut ladder = vec![abilities];
    if !keep_code {
        ladder.push(no_code);
    }
    if abilities.selects() && abilities.decodes {
        ladder.push(chosen_by_count(abilities));
        if !keep_code {
            ladder.push(chosen_by_count(no_code));
        }
    }
    let mut refusal = None;
    for tried in ladder {
        let group = Group::new(&tried, Some(NEVER));
        let siblings: Vec<Opening> = group.siblings(&tried).collect();
        match opens(group.leader, &siblings) {
            Ok(()) => return Ok((tried, lost(&abilities, &tried))),
            // Something else is in the way than room.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.unwrap_or_else(|| io::ErrorKind::InvalidInput.into()))
}

fn lost(all: &Abilities, left: &Abilities) -> Vec<String> {
    let mut lost = Vec::new();
    if all.code && !left.code {
        lost.push(
            "the processor has too few counters for code samples too: windows have no code, so that phases cannot be \
             separated by it"
                .to_owned(),
        );
    }
    if all.selects() && !left.selects() {
        lost.push(
            "the processor has too few counters to choose accesses itself: they are chosen by a count, and late by \
             what it stops late by"
                .to_owned(),
        );
    }
    lost
}

/// Shortest periods that some processor takes, with some kernel.
const SHORTEST: [u64; 2] = [32, 128];

/// The next longer period to try where the kernel refuses `period`.
pub(super) fn longer(period: u64) -> Option<u64> {
    SHORTEST.into_iter().find(|&shortest| shortest > period)
}
