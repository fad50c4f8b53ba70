//! Which events are counted together.

use crate::Error;

/// Events, by number, in groups that fit the counters: each event in at least one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterGroups {
    events: usize,           // >= 1
    groups: Vec<Vec<usize>>, // none empty, no event twice in one
}

impl CounterGroups {
    /// Goes round the events, each group taking up where the one before left off, until the round closes: all
    /// events are counted equally often, in `counters` of every `events` intervals.
    ///
    /// # Errors
    /// [`Error::Empty`] without events or without counters.
    pub fn round_robin(events: usize, counters: usize) -> Result<Self, Error> {
        if events == 0 {
            return Err(Error::Empty { what: "events" });
        }
        if counters == 0 {
            return Err(Error::Empty { what: "counters" });
        }
        let counters = counters.min(events);
        let rounds = events / greatest_common_divisor(events, counters);
        let group = |g: usize| (0..counters).map(|c| (g * counters + c) % events).collect();
        Ok(Self { events, groups: (0..rounds).map(group).collect() })
    }

    /// These groups, for processors on which not every event can be counted on every counter.
    ///
    /// # Errors
    /// [`Error::Empty`] if there is no event or no group or one without events; [`Error::NoSuch`] for an event
    /// not below `events`; [`Error::Duplicate`] if one occurs twice in a group; [`Error::NeverCounted`] if one
    /// occurs in none.
    pub fn new(events: usize, groups: Vec<Vec<usize>>) -> Result<Self, Error> {
        if events == 0 {
            return Err(Error::Empty { what: "events" });
        }
        if groups.is_empty() || groups.iter().any(Vec::is_empty) {
            return Err(Error::Empty { what: "events in a group" });
        }
        let mut counted = vec![false; events];
        for group in &groups {
            for (place, &event) in group.iter().enumerate() {
                let Some(counted) = counted.get_mut(event) else {
                    return Err(Error::NoSuch { what: "event", index: event, count: events });
                };
                *counted = true;
                if group[..place].contains(&event) {
                    return Err(Error::Duplicate { what: "event", which: event.to_string() });
                }
            }
        }
        match counted.iter().position(|counted| !counted) {
            Some(event) => Err(Error::NeverCounted { event }),
            None => Ok(Self { events, groups }),
        }
    }

    /// Number of events.
    #[must_use]
    pub const fn events(&self) -> usize {
        self.events
    }

    /// The groups, in the order in which they take turns.
    #[must_use]
    pub fn as_slice(&self) -> &[Vec<usize>] {
        &self.groups
    }
}

const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_counts_all_events_equally_often() {
        for (events, counters) in [(9, 4), (6, 4), (8, 4), (3, 4), (1, 1), (7, 3)] {
            let groups = CounterGroups::round_robin(events, counters).unwrap();
            let mut counted = vec![0; events];
            for group in groups.as_slice() {
                assert!(group.len() == counters.min(events));
                for &event in group {
                    counted[event] += 1;
                }
            }
            assert!(counted.iter().all(|&c| c == counted[0] && c > 0), "{events} {counters} {counted:?}");
            // What it made must pass the check of groups made by hand.
            assert_eq!(CounterGroups::new(events, groups.as_slice().to_vec()).unwrap(), groups);
        }
        assert_eq!(CounterGroups::round_robin(9, 4).unwrap().as_slice()[2], [8, 0, 1, 2]);
    }

    #[test]
    fn each_bad_grouping_is_refused() {
        assert!(matches!(CounterGroups::round_robin(0, 4), Err(Error::Empty { .. })));
        assert!(matches!(CounterGroups::round_robin(4, 0), Err(Error::Empty { .. })));
        let new = |groups: &[&[usize]]| CounterGroups::new(3, groups.iter().map(|g| g.to_vec()).collect());
        assert!(new(&[&[0, 1], &[2]]).is_ok());
        assert!(matches!(new(&[]), Err(Error::Empty { .. })));
        assert!(matches!(new(&[&[0, 1, 2], &[]]), Err(Error::Empty { .. })));
        assert!(matches!(new(&[&[0, 1, 3]]), Err(Error::NoSuch { index: 3, .. })));
        assert!(matches!(new(&[&[0, 1, 0], &[2]]), Err(Error::Duplicate { .. })));
        assert!(matches!(new(&[&[0, 1]]), Err(Error::NeverCounted { event: 2 })));
    }
}
