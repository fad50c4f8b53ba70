//! Samples of several processors, put in the order of their times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::PerfSample;

/// Samples held back at most.
const MOST: usize = 1 << 18;

/// Samples that wait until nothing earlier can come.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    waiting: BinaryHeap<Reverse<Waiting>>,
    ready: VecDeque<PerfSample>,
    latest: u64,   // time of any sample so far
    finished: u64, // `latest` when the last round finished
    pushed: u64,
}

/// By time, and those of one time as they came.
#[derive(Debug)]
struct Waiting {
    order: (u64, u64),
    sample: PerfSample,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl InOrder {
    pub(super) fn push(&mut self, sample: PerfSample) {
        self.latest = self.latest.max(sample.time);
        self.pushed += 1;
        self.waiting.push(Reverse(Waiting { order: (sample.time, self.pushed), sample }));
        if self.waiting.len() > MOST {
            self.release_one();
        }
    }

    /// A round of reading all processors has finished: whatever is earlier than the latest time of the round before has
    /// come by now.
    pub(super) fn finish_round(&mut self) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.order.0 <= self.finished) {
            self.release_one();
        }
        self.finished = self.latest;
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        while !self.waiting.is_empty() {
            self.release_one();
        }
    }

    fn release_one(&mut self) {
        self.ready.extend(self.waiting.pop().map(|Reverse(first)| first.sample));
    }

    pub(super) fn next(&mut self) -> Option<PerfSample> {
        self.ready.pop_front()
    }
}
