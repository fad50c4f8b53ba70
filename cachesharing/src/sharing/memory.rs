//! What a limited memory adds to the times per access that follow from the shares.
//!
//! Lines pass a channel one after the other. A line finds before it what others have asked for, and what its own program
//! fetched ahead or asks for at the same time; but a program that waits for each line is never behind itself. How much
//! each program has waiting follows from how fast it is, and that from how long its lines wait (mean value analysis:
//! Reiser and Lavenberg, *Mean-Value Analysis of Closed Multichain Queuing Networks*, Journal of the ACM 1980; with the
//! mean of what is found taken as that over time, as by Schweitzer).

use super::Allocation;
use crate::{CacheCurve, MemoryLimit, SharedCache, Waiting};

/// Stretches the times of programs by what their lines wait for those of others, where `cache`'s memory has a limit.
pub(super) fn stretch<'c>(
    cache: &SharedCache,
    curves: impl Iterator<Item = &'c CacheCurve>,
    allocations: &mut [Allocation],
) {
    let Some(limit) = cache.memory() else { return };
    match limit.waiting() {
        Waiting::PerProgram => {
            let demand: f64 = allocations.iter().map(|a| a.inflow() / a.time).sum();
            let longer = (demand / limit.bytes_per_time()).max(1.0);
            for a in allocations {
                a.wait_for_memory(longer * a.time);
            }
        }
        Waiting::PerLine => {
            let users = allocations.iter().zip(curves).map(|(a, curve)| User::of(a, curve, limit)).collect();
            let channel = Channel { limit, users };
            let backlog = channel.backlog();
            for (a, user) in allocations.iter_mut().zip(&channel.users) {
                a.wait_for_memory(channel.beside_others(user, backlog).time);
            }
        }
    }
}

impl Allocation {
    /// Takes `time` per access, because memory serves others meanwhile.
    fn wait_for_memory(&mut self, time: f64) {
        self.waiting = (1.0 - self.time / time).max(0.0);
        self.time = time;
    }
}

/// The least part of a line's way to be taken as waited for: a curve that shows less shows noise.
const LEAST_WAITED: f64 = 0.02;
/// To within which part of itself, or of a line, the backlog is found.
const EXACTLY: f64 = 1e-7;
/// How close to always the channel can be taken to work for a program that it serves alone.
const NEARLY_ALWAYS: f64 = 1.0 - 1e-6;
/// Lines fetched ahead come in bursts, and what is demanded waits for them: alone as long as prefetches may, times this
/// power of the channel's load. Chosen by co-runs of embedded programs, with a prefetcher before 1, and out of order before
/// 8 bytes per cycle.
const BURSTS: i32 = 4;
/// A backlog varies: the first prefetches are dropped where the mean one is this part of the backlog that stops them, and
/// all where it is that. Chosen likewise.
const FIRST_DROPPED: f64 = 0.7;

/// The way to memory, and who uses it.
struct Channel {
    limit: MemoryLimit,
    users: Vec<User>,
}

/// What a program asks of the channel, and how it waits.
struct User {
    line: f64,     // time that a line takes to pass
    time: f64,     // per access, alone
    demanded: f64, // lines per access that it waits for
    ahead: f64,    // lines per access that are fetched before they are needed
    waited: f64,   // part of a line's way that the program stands still for, in (0, 1]
    alone: f64,    // what a line demanded waits when the program is alone
}

/// What a backlog makes of a program.
struct Beside {
    time: f64, // per access
    wait: f64, // of a line demanded
    load: f64, // part of the time in which the channel works for it
}

impl User {
    fn of(a: &Allocation, curve: &CacheCurve, limit: MemoryLimit) -> Self {
        let size = f64::from(curve.line_size());
        let lines = a.inflow() / size;
        let misses = a.met.map_or_else(|| curve.miss_ratio(a.at.bytes), |met| met.misses);
        // Without a backlog at which prefetches stop, they are waited for as soon as memory cannot deliver them.
        let demanded = if limit.prefetch_backlog().is_some() { misses.min(lines) } else { lines };
        let mut waited = 1.0;
        if let Some(latency) = limit.latency() {
            // A program cannot wait for longer than it takes, nor for more than its misses cost.
            let shown = curve.time_per_miss().map_or(1.0, |time| time / latency);
            let most = if misses > 0.0 { a.time / (latency * misses) } else { 1.0 };
            waited = shown.min(most).clamp(LEAST_WAITED, 1.0);
        }
        let line = size / limit.bytes_per_time();
        let mut user = Self { line, time: a.time, demanded, ahead: lines - demanded, waited, alone: 0.0 };
        if lines > 0.0 {
            let load = (lines * line / a.time).min(NEARLY_ALWAYS);
            let own = user.behind_itself(0.0) * load;
            user.alone = own * user.residual() / (1.0 - own);
            if let Some(most) = limit.prefetch_backlog() {
                let bursts = most * load.powi(BURSTS) * user.ahead / lines;
                user.alone = user.alone.max(bursts).min(FIRST_DROPPED * most);
            }
        }
        user
    }

    /// Part of its lines that may be before another one of its own, where `late` of those fetched ahead are dropped.
    fn behind_itself(&self, late: f64) -> f64 {
        (self.ahead - late + (1.0 - self.waited) * (self.demanded + late)) / (self.demanded + self.ahead)
    }

    /// Time that is left, on average, of the lines under way together when another one comes.
    fn residual(&self) -> f64 {
        0.5 * self.line / self.waited
    }
}

impl Channel {
    /// Part of the lines fetched ahead that are dropped at a backlog.
    fn dropped(&self, backlog: f64) -> f64 {
        let Some(most) = self.limit.prefetch_backlog() else { return 0.0 };
        ((backlog / most - FIRST_DROPPED) / (1.0 - FIRST_DROPPED)).clamp(0.0, 1.0)
    }

    /// What becomes of a program where a line finds so much work before it.
    fn beside_others(&self, user: &User, backlog: f64) -> Beside {
        let lines = user.demanded + user.ahead;
        if lines <= 0.0 {
            return Beside { time: user.time, wait: 0.0, load: 0.0 };
        }
        let late = self.dropped(backlog) * user.ahead;
        let latency = self.limit.latency().unwrap_or(0.0);
        let others = 1.0 - user.behind_itself(late);
        let (mut time, mut wait) = (user.time, 0.0);
        // Its own load, which it does not wait for, depends on its time.
        for _ in 0..3 {
            let load = lines * user.line / time;
            wait = ((backlog - others * load * user.residual()) / (1.0 + others * load)).max(0.0);
            let longer = (user.demanded + late) * wait - user.demanded * user.alone + late * latency;
            time = user.time + user.waited * longer.max(0.0);
        }
        Beside { time, wait, load: lines * user.line / time }
    }

    /// The work that a line from elsewhere finds before it.
    fn backlog(&self) -> f64 {
        let is_too_small = |backlog: f64| {
            let (mut load, mut work) = (0.0, 0.0);
            for user in &self.users {
                let beside = self.beside_others(user, backlog);
                load += beside.load;
                work += beside.load * (beside.wait + user.residual());
            }
            load > 1.0 || work > backlog
        };
        let line = self.users.iter().map(|user| user.line).fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, line);
        while is_too_small(high) && high < 1e15 * line {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > EXACTLY * high.max(line) {
            let middle = f64::midpoint(low, high);
            if is_too_small(middle) { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CurvePoint;

    /// Bytes of each curve's cache.
    const CACHE: u64 = 1 << 16;

    /// A program that takes `time` per access and fetches so many lines, of which it waits for `demanded`, and that
    /// misses for half of what it fetches with twice the cache, for `per_miss` each.
    fn curve(time: f64, demanded: f64, ahead: f64, per_miss: f64) -> CacheCurve {
        let point = |bytes: u64, part: f64| CurvePoint {
            bytes,
            cpi: time - per_miss * demanded * (1.0 - part),
            miss_ratio: demanded * part,
            fetch_ratio: demanded * part + ahead,
            hit_rate: None,
        };
        CacheCurve::new(vec![point(CACHE, 1.0), point(2 * CACHE, 0.5)], 1.0, 64).unwrap()
    }

    /// Times per access of programs that hold as much as their curves begin with.
    fn together(limit: MemoryLimit, curves: &[CacheCurve]) -> Vec<f64> {
        let mut all: Vec<Allocation> =
            curves.iter().map(|curve| Allocation::holding(curve, CACHE as f64)).collect();
        stretch(&SharedCache::new(CACHE).unwrap().with_memory(limit), curves.iter(), &mut all);
        for (a, curve) in all.iter().zip(curves) {
            assert!((a.time * (1.0 - a.waiting) / curve.cpi(CACHE as f64) - 1.0).abs() < 1e-9);
        }
        all.iter().map(|a| a.time).collect()
    }

    /// Memory that delivers a line in `time`, and a single one in 100.
    fn lines(time: f64) -> MemoryLimit {
        MemoryLimit::new(64.0 / time).unwrap().with_latency(100.0).unwrap()
    }

    fn load(line: f64, curves: &[CacheCurve], times: &[f64]) -> f64 {
        let lines = |curve: &CacheCurve| curve.fetch_ratio(CACHE as f64) * line;
        curves.iter().zip(times).map(|(curve, time)| lines(curve) / time).sum()
    }

    #[test]
    fn alone_a_program_takes_as_long_as_it_was_measured() {
        for (demanded, ahead) in [(0.1, 0.0), (0.02, 0.2), (0.0, 0.3), (0.0, 0.0)] {
            let one = [curve(12.0, demanded, ahead, 100.0)];
            for limit in [lines(20.0), lines(20.0).with_prefetch_backlog(200.0).unwrap()] {
                assert!((together(limit, &one)[0] - 12.0).abs() < 0.1, "{demanded} {ahead} {limit:?}");
            }
        }
    }

    #[test]
    fn two_that_wait_for_each_line_wait_for_each_other_as_a_queue_has_it() {
        // Each has a line under way for a tenth of the time; the other one finds it there, half done.
        let two = [curve(100.0, 1.0, 0.0, 50.0), curve(100.0, 1.0, 0.0, 50.0)];
        let times = together(MemoryLimit::new(6.4).unwrap(), &two);
        for time in times {
            assert!((time - 100.5).abs() < 0.1, "{time}");
        }
        // Nobody waits for who fetches nothing.
        let with_nobody = [two[0].clone(), curve(100.0, 0.0, 0.0, 0.0)];
        assert!(
            together(MemoryLimit::new(6.4).unwrap(), &with_nobody).iter().all(|t| (t - 100.0).abs() < 1e-6)
        );
    }

    #[test]
    fn no_more_is_delivered_than_memory_can() {
        for per_miss in [100.0, 20.0] {
            let three = [
                curve(14.0, 0.1, 0.0, per_miss),
                curve(20.0, 0.1, 0.1, per_miss),
                curve(5.0, 0.0, 0.0, per_miss),
            ];
            for limit in [
                MemoryLimit::new(64.0 / 90.0).unwrap(),
                lines(90.0),
                lines(90.0).with_prefetch_backlog(200.0).unwrap(),
                lines(90.0).with_waiting(Waiting::PerProgram),
            ] {
                let times = together(limit, &three);
                assert!(load(90.0, &three, &times) < 1.0 + 1e-6, "{limit:?} {times:?}");
                assert_eq!(times[2] > 5.01, limit.waiting() == Waiting::PerProgram, "{limit:?} {times:?}");
            }
        }
    }

    #[test]
    fn who_overlaps_misses_waits_for_a_part_of_each() {
        let beside = curve(30.0, 0.2, 0.0, 100.0);
        let waits = |per_miss: f64| {
            let times = together(lines(25.0), &[curve(30.0, 0.2, 0.0, per_miss), beside.clone()]);
            times[0] - 30.0
        };
        let (all, half) = (waits(100.0), waits(50.0));
        assert!(half > 0.0 && half < 0.8 * all, "{half} {all}");
    }

    #[test]
    fn prefetches_are_not_waited_for_until_they_are_dropped() {
        let limit = |line| lines(line).with_prefetch_backlog(200.0).unwrap();
        let with =
            |line: f64| together(limit(line), &[curve(10.0, 0.0, 0.2, 0.0), curve(20.0, 0.1, 0.0, 100.0)]);
        let enough = with(20.0);
        assert!(enough[0] == 10.0 && enough[1] > 20.2, "{enough:?}");
        let scarce = with(45.0);
        assert!(scarce[0] > 11.5 && scarce[1] > 25.0, "{scarce:?}");
    }
}
