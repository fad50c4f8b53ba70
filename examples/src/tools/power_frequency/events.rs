//! What is counted, and what for.
//!
//! Eleven events, as in the paper: instructions and cycles on counters of their own, nine on four. The power
//! model reads the paper's six (table V.1) and, since they are there, the instructions: on the reference core
//! that takes its error from 4 to 1 %.

use powersleuth::multiplex::{Roles, Source};
use powersleuth::performance::{Event, Scaling};

use crate::machines::ooo::Interval;

/// The events that share counters, in this order.
pub const EVENTS: [&str; 9] = [
    "memory operations",
    "L2 misses",
    "L2 references",
    "resource stalls",
    "floating-point operations",
    "mispredicted branches",
    "execution stalls",
    "LLC misses",
    "branches",
];

/// Counters that they share.
pub const COUNTERS: usize = 4;

const RESOURCE_STALLS: usize = 3;
const EXECUTION_STALLS: usize = 6;
const LLC_MISSES: usize = 7;
/// The power model reads the events from the first to before this one.
const POWER: usize = 6;

/// The events of the power model: instructions, and the first six.
pub fn roles() -> Roles {
    let event = |number: usize| {
        let scaling = if number == RESOURCE_STALLS { Scaling::ResourceStalls } else { Scaling::Fixed };
        (Event { name: EVENTS[number].to_owned(), scaling }, Source::Event(number))
    };
    let instructions = (Event::fixed("instructions"), Source::Instructions);
    Roles {
        stall_cycles: EXECUTION_STALLS,
        llc_misses: LLC_MISSES,
        leading_misses: None,
        resource_stalls: Some(RESOURCE_STALLS),
        power: std::iter::once(instructions).chain((0..POWER).map(event)).collect(),
    }
}

/// What each of the [`EVENTS`] counts in `interval` on clock number `clock`.
pub fn counts(interval: &Interval, clock: usize) -> [f64; EVENTS.len()] {
    let (activity, clock) = (&interval.activity, &interval.clocks[clock]);
    [
        (activity.loads + activity.stores) as f64,
        activity.l2_misses as f64,
        activity.l1_misses as f64,
        clock.resource_stalls,
        activity.floats as f64,
        activity.mispredictions as f64,
        (clock.cycles - clock.busy).max(0.0),
        activity.llc_misses as f64,
        activity.branches as f64,
    ]
}
