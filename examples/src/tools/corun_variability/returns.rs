//! When a program comes back to its lines in the sets of the shared cache, window by window, beside its curves.

use cachesharing::ReuseTimes;
use reuse_sampler::{Line, SetReuseCounter};

use super::Ground;
use crate::cli::{Failure, Recorded};
use crate::machines::chip::Cache;

/// Looks at how evenly lines lie over the sets, in a window: at least so many, and one for as many accesses as the cache
/// has lines.
const LOOKS: u64 = 4;

/// The reuse times of each window of a program that has run before, as they get past its private caches.
pub(super) fn reuse_times(ground: &Ground, played: &Recorded) -> Result<Vec<ReuseTimes>, Failure> {
    let geometry = ground.settings.shared.geometry;
    let private = [Some(ground.settings.l1), ground.settings.l2];
    let mut private: Vec<Cache> =
        private.into_iter().flatten().map(|cache| Cache::new(cache.geometry, cache.policy)).collect();
    let levels = private.len();
    let (sets, ways) = (geometry.sets(), geometry.ways());
    let mut watch = SetReuseCounter::new(sets as usize, ways as u32).map_err(Failure::run)?;
    let mut now = 0;
    let mut use_line = |watch: &mut SetReuseCounter, now: u64, line: u64| {
        let served = private.iter_mut().position(|cache| cache.touch(line));
        for cache in &mut private[..served.unwrap_or(levels)] {
            cache.insert(line);
        }
        if served.is_none() {
            watch.touch(Line(line), geometry.index().set(line, sets), now);
        }
    };
    let recording = &played.recording;
    let all = recording.references();
    for line in recording.lines(all - ground.warm_up(played), all) {
        now += 1;
        use_line(&mut watch, now, line);
    }
    watch.take();
    let mut begin = 0;
    ground
        .windows(played)
        .map(|accesses| {
            let looks = LOOKS.max(accesses / geometry.lines().0);
            for part in 1..=looks {
                let end = begin + accesses * part / looks;
                for line in recording.lines(begin + accesses * (part - 1) / looks, end) {
                    now += 1;
                    use_line(&mut watch, now, line);
                }
                watch.look(now);
            }
            begin += accesses;
            let seen = watch.take();
            ReuseTimes::new(geometry.bytes() / ways, seen.variances, seen.reuses).map_err(Failure::run)
        })
        .collect()
}
