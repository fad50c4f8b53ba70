//! When a program reuses its lines in the sets of the shared cache, window by window, beside its curves.

use cachesharing::ReuseTimes;
use reuse_sampler::{Line, SetReuseCounter};

use super::Ground;
use crate::cli::Failure;
use crate::machines::chip::{Cache, Geometry};
use crate::machines::testbed::programs::Recorded;

/// Looks at how evenly lines lie over the sets, in a window: at least so many, and one for as many accesses as the cache
/// has lines.
const LOOKS: usize = 4;

/// Counts the reuse times of a stream of lines as they get past the private caches.
pub(super) struct ReuseWatch {
    geometry: Geometry,
    private: Vec<Cache>, // the first level first
    counter: SetReuseCounter,
    now: u64, // accesses so far
}

impl ReuseWatch {
    pub fn new(ground: &Ground) -> Result<Self, Failure> {
        let geometry = ground.settings.shared.geometry;
        let private = [Some(ground.settings.l1), ground.settings.l2].into_iter().flatten();
        let private = private.map(|cache| Cache::new(cache.geometry, cache.policy)).collect();
        let counter = SetReuseCounter::new(geometry.sets() as usize, geometry.ways() as u32);
        Ok(Self { geometry, private, counter: counter?, now: 0 })
    }

    /// The program accesses a line.
    fn access(&mut self, line: u64) {
        self.now += 1;
        let served = self.private.iter_mut().position(|cache| cache.touch(line));
        let levels = served.unwrap_or(self.private.len());
        for cache in &mut self.private[..levels] {
            cache.insert(line);
        }
        if served.is_none() {
            let set = self.geometry.index().set(line, self.geometry.sets());
            self.counter.touch(Line(line), set, self.now);
        }
    }

    /// The program has made these accesses before it is measured.
    pub fn warm_up(&mut self, lines: impl Iterator<Item = u64>) {
        lines.for_each(|line| self.access(line));
        self.counter.take();
    }

    /// The reuse times of a window of `accesses` accesses.
    pub fn window(
        &mut self,
        mut lines: impl Iterator<Item = u64>,
        accesses: usize,
    ) -> Result<ReuseTimes, Failure> {
        let looks = LOOKS.max(accesses / self.geometry.lines().0 as usize);
        for part in 1..=looks {
            let count = accesses * part / looks - accesses * (part - 1) / looks;
            lines.by_ref().take(count).for_each(|line| self.access(line));
            self.counter.look(self.now);
        }
        let seen = self.counter.take();
        let way = self.geometry.bytes() / self.geometry.ways();
        ReuseTimes::new(way, seen.variances, seen.reuses).map_err(Failure::run)
    }
}

/// The reuse times of each window of a program that has run before.
pub(super) fn reuse_times(ground: &Ground, played: &Recorded) -> Result<Vec<ReuseTimes>, Failure> {
    let mut watch = ReuseWatch::new(ground)?;
    let recording = &played.recording;
    let all = recording.references();
    watch.warm_up(recording.lines(all - ground.warm_up(played), all));
    let mut begin = 0;
    ground
        .windows(played)
        .map(|accesses| {
            let lines = recording.lines(begin, begin + accesses);
            begin += accesses;
            watch.window(lines, accesses as usize)
        })
        .collect()
}
