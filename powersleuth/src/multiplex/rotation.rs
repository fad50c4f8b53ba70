//! Which group of events is counted next.

use std::collections::HashMap;
use std::hash::Hash;

/// Decides what to count in each interval.
pub trait Rotation<P> {
    /// Number of the group, below the number of groups, to count in an interval that is predicted to belong to
    /// `predicted`; `None` where nothing is predicted.
    fn next_group(&mut self, predicted: Option<P>) -> usize;

    /// The interval turned out to belong to `phase`, and `group` was counted in it.
    fn counted(&mut self, phase: P, group: usize);
}

/// Each phase takes the groups in turn, however long it was away in between.
///
/// A wrong prediction counts a group that was not due for the phase that came instead. That is no loss to the
/// predicted phase, whose turn stays where it was; the phase that came goes on after what was counted of it.
#[derive(Clone, Debug)]
pub struct PerPhase<P> {
    groups: usize, // >= 1
    next: HashMap<P, usize>,
    unpredicted: usize,
}

impl<P> PerPhase<P> {
    /// For this many groups; 0 is taken as 1.
    #[must_use]
    pub fn new(groups: usize) -> Self {
        Self { groups: groups.max(1), next: HashMap::new(), unpredicted: 0 }
    }
}

impl<P: Clone + Eq + Hash + Ord> Rotation<P> for PerPhase<P> {
    fn next_group(&mut self, predicted: Option<P>) -> usize {
        if let Some(phase) = predicted {
            return self.next.get(&phase).copied().unwrap_or(0);
        }
        self.unpredicted = (self.unpredicted + 1) % self.groups;
        self.unpredicted
    }

    fn counted(&mut self, phase: P, group: usize) {
        self.next.insert(phase, (group + 1) % self.groups);
    }
}

/// The groups take turns, whatever the program does: the baseline.
#[derive(Clone, Copy, Debug)]
pub struct InTime {
    groups: usize, // >= 1
    next: usize,
}

impl InTime {
    /// For this many groups; 0 is taken as 1.
    #[must_use]
    pub const fn new(groups: usize) -> Self {
        Self { groups: if groups == 0 { 1 } else { groups }, next: 0 }
    }
}

impl<P> Rotation<P> for InTime {
    fn next_group(&mut self, _: Option<P>) -> usize {
        let group = self.next;
        self.next = (self.next + 1) % self.groups;
        group
    }

    fn counted(&mut self, _: P, _: usize) {}
}
