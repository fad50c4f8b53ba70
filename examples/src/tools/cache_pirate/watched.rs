//! A testbed that can be interrupted and shows its progress.

use cache_pirate::{Evidence, LinePlacement, Outcome, Reading, SharedCache, Testbed, Until, Who};

use super::show_progress;
use crate::cli::Watch;

/// Wraps a testbed: long runs are cut into pieces, between which the interrupt flag is looked at.
pub struct Watched<'a, T> {
    pub inner: T,
    pub watch: &'a Watch<'a>,
    /// Work in a piece: infinite where the testbed looks at the flag by itself.
    pub piece: f64,
    /// How often the target has run.
    pub runs: u64,
}

impl<T: Testbed> Testbed for Watched<'_, T> {
    type Error = T::Error;

    fn cache(&self) -> SharedCache {
        self.inner.cache()
    }

    fn max_threads(&self) -> usize {
        self.inner.max_threads()
    }

    fn evidence(&self) -> Evidence {
        self.inner.evidence()
    }

    fn placement(&self) -> LinePlacement {
        self.inner.placement()
    }

    fn steal(&mut self, bytes: u64, threads: usize) -> Result<(), T::Error> {
        self.inner.steal(bytes, threads)
    }

    fn run(&mut self, who: Who, until: Until) -> Result<Outcome, T::Error> {
        let Until::Work(work) = until else { return self.inner.run(who, until) };
        self.runs += 1;
        show_progress(self.watch, self.runs);
        let goal = self.inner.read()?.target.work + work;
        let mut left = work;
        loop {
            if self.watch.is_interrupted() {
                return Ok(Outcome::TargetEnded);
            }
            let outcome = self.inner.run(who, Until::Work(left.min(self.piece)))?;
            if outcome == Outcome::TargetEnded || left <= self.piece {
                return Ok(outcome);
            }
            left = goal - self.inner.read()?.target.work;
            if left <= 0.0 {
                return Ok(Outcome::Done);
            }
        }
    }

    fn read(&mut self) -> Result<Reading, T::Error> {
        self.inner.read()
    }

    fn shares_cache(&mut self) -> Result<Option<bool>, T::Error> {
        self.inner.shares_cache()
    }
}
