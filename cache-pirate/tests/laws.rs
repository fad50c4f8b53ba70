//! The testbeds keep the laws, and ones that break them are noticed.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use cache_pirate::simple::{SimpleMachine, SimpleTestbed};
use cache_pirate::{Outcome, PirateError, Reading, SharedCache, Testbed, Until, Who, laws};
use common::random_lines;

fn simple(accesses: usize) -> SimpleTestbed<impl Iterator<Item = u64>> {
    SimpleTestbed::new(SimpleMachine::default(), random_lines(700, 1).take(accesses)).unwrap()
}

#[test]
fn the_simple_testbed_keeps_them() {
    // The second ends on the way.
    for accesses in [1_000_000, 25_000] {
        laws::testbed(&mut simple(accesses), 10_000.0, 32 << 10).unwrap();
    }
}

/// What a broken testbed does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    RunsOn,
    WalksLess,
    StopsShort,
    WalksBesideNothing,
    Forgets,
    FetchesMore,
}

struct Broken<T> {
    inner: T,
    fault: Fault,
    readings: u32,
}

impl<T: Testbed<Error = PirateError>> Testbed for Broken<T> {
    type Error = PirateError;
    fn cache(&self) -> SharedCache {
        self.inner.cache()
    }
    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), PirateError> {
        let bytes = if self.fault == Fault::WalksBesideNothing { bytes.max(64) } else { bytes };
        self.inner.steal(bytes, threads)
    }
    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, PirateError> {
        match (self.fault, until) {
            (Fault::WalksLess, Until::Walks(n)) => self.inner.run(who, Until::Walks(n - 1)),
            (Fault::StopsShort, Until::Work(work)) => self.inner.run(who, Until::Work(0.9 * work)),
            (Fault::Forgets, Until::Walks(1)) => {
                self.inner.run(Who::Target, Until::Work(5_000.0))?;
                self.inner.run(who, until)
            }
            _ => self.inner.run(who, until),
        }
    }
    fn read(&mut self) -> Result<Reading, PirateError> {
        self.readings += 1;
        let mut reading = self.inner.read()?;
        match self.fault {
            Fault::RunsOn => reading.target.work += f64::from(self.readings),
            Fault::FetchesMore => reading.pirate.fetches = 1.1 * reading.pirate.touches,
            _ => {}
        }
        Ok(reading)
    }
}

#[test]
fn broken_testbeds_are_noticed() {
    let faults = [
        (Fault::RunsOn, "nobody executes between runs"),
        (Fault::WalksLess, "walks touch every stolen line"),
        (Fault::StopsShort, "a run does the work asked for"),
        (Fault::WalksBesideNothing, "a pirate that steals nothing touches nothing"),
        (Fault::Forgets, "a pirate alone keeps its first lines"),
        (Fault::FetchesMore, "a fetch is of a touched line"),
    ];
    for (fault, law) in faults {
        let mut broken = Broken { inner: simple(1_000_000), fault, readings: 0 };
        let violation = laws::testbed(&mut broken, 10_000.0, 32 << 10).unwrap_err();
        assert_eq!(violation.law, law, "{fault:?}: {violation}");
    }
}
