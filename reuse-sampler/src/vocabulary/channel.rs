//! Programs before one way to memory.
//!
//! Lines pass it one after the other. A line finds before it what others have asked for, and what its own program
//! fetched ahead or asks for at the same time; but a program that waits for each line is never behind itself. How much
//! each program has waiting follows from how fast it is, and that from how long its lines wait (mean value analysis:
//! Reiser and Lavenberg, *Mean-Value Analysis of Closed Multichain Queuing Networks*, Journal of the ACM 1980; with the
//! mean of what is found taken as that over time, as by Schweitzer).

/// A way to memory that lines of several programs pass one after the other, in the order in which they are asked for.
///
/// ```
/// use reuse_sampler::{MemoryDemand, MemoryQueue};
///
/// // Each of two programs misses every 100 cycles, and a line takes 10 cycles to pass: one time in ten it finds a line
/// // of the other one, half done.
/// let demand = MemoryDemand { time: 100.0, misses: 1.0, lines: 1.0, line_time: 10.0, time_per_miss: None };
/// let times = MemoryQueue::new().times(&[demand, demand]);
/// assert!((times[0] - 100.5).abs() < 0.1);
/// ```
///
/// # Accuracy
/// Queues of two to four programs that wait for each line, followed event by event: 1.2 % off on average, 8.6 % at most; of
/// programs that ask for several lines at once, one to eight on average: 2.0 and 8.6 %. Where programs overlap misses or fetch
/// ahead, see the documents on the accuracy of `cachesharing`, which waits in it, as `statcc`
/// does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryQueue {
    latency: Option<f64>,
    prefetch_backlog: Option<f64>,
}

/// What a program asks of memory while it runs as fast as it does alone. Times are in any unit, the same for all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryDemand {
    /// Time per access, above 0, with what the program waits for its own lines.
    pub time: f64,
    /// Misses per access: lines that it needs when it asks for them.
    pub misses: f64,
    /// Lines fetched per access, ahead of need or not.
    pub lines: f64,
    /// Time that one of them takes to pass.
    pub line_time: f64,
    /// Time that a miss costs the program alone, if known: less than the latency where misses overlap.
    pub time_per_miss: Option<f64>,
}

/// The least part of a line's way to be taken as waited for: a program that shows less shows noise.
const LEAST_WAITED: f64 = 0.02;
/// To within which part of itself, or of a line, the backlog is found.
const EXACTLY: f64 = 1e-7;
/// Programs find less and less room to take turns in as they ask for all that is delivered: by this power of the load. Chosen
/// by pairs and fours of embedded programs before .5, 1 and 2 bytes per cycle.
const FULL: i32 = 16;
/// How close to always the channel can be taken to work for a program that it serves alone.
const NEARLY_ALWAYS: f64 = 1.0 - 1e-6;
/// Lines fetched ahead come in bursts, and what is demanded waits for them: alone as long as prefetches may, times this
/// power of the channel's load. Chosen by co-runs of embedded programs, with a prefetcher before 1, and out of order before
/// 8 bytes per cycle.
const BURSTS: i32 = 4;
/// A backlog varies: the first prefetches are dropped where the mean one is this part of the backlog that stops them, and
/// all where it is that. Chosen likewise.
const FIRST_DROPPED: f64 = 0.8;

impl MemoryQueue {
    /// Of which nothing more is known: programs wait for every line from its beginning to its end.
    #[must_use]
    pub const fn new() -> Self {
        Self { latency: None, prefetch_backlog: None }
    }

    /// The same where a line takes `time`, above 0, longer from memory than from the shared cache while nothing else is
    /// asked for: by what a miss costs a program it is then known how many of its misses overlap.
    #[must_use]
    pub const fn with_latency(self, time: f64) -> Self {
        Self { latency: Some(time), ..self }
    }

    /// The same where prefetchers fetch nothing while lines wait for longer than `time`, above 0: until then programs do not
    /// wait for what is fetched ahead, but others do. Without it, all lines are waited for.
    #[must_use]
    pub const fn with_prefetch_backlog(self, time: f64) -> Self {
        Self { prefetch_backlog: Some(time), ..self }
    }

    /// Its latency or its backlog, where that is not finite or not above 0, so that times would mean nothing.
    #[must_use]
    pub fn unusable(self) -> Option<f64> {
        let mut times = [self.latency, self.prefetch_backlog].into_iter().flatten();
        times.find(|&time| !(time.is_finite() && time > 0.0))
    }

    /// Time per access of each program beside the others.
    ///
    /// # Cost
    /// Some microseconds for a few programs.
    #[must_use]
    pub fn times(self, demands: &[MemoryDemand]) -> Vec<f64> {
        let users = demands.iter().map(|demand| User::of(demand, self)).collect();
        let mut channel = Channel { queue: self, users };
        let by_chance: Vec<f64> = channel.users.iter().map(|user| channel.by_chance(user)).collect();
        for (user, by_chance) in channel.users.iter_mut().zip(by_chance) {
            user.by_chance = by_chance;
        }
        let backlog = channel.backlog();
        channel.users.iter().map(|user| channel.beside_others(user, backlog).time).collect()
    }
}

/// The way to memory, and who uses it.
struct Channel {
    queue: MemoryQueue,
    users: Vec<User>,
}

/// What a program asks of the channel, and how it waits.
struct User {
    line: f64,      // time that a line takes to pass
    time: f64,      // per access, alone
    demanded: f64,  // lines per access that it waits for
    ahead: f64,     // lines per access that are fetched before they are needed
    waited: f64,    // part of a line's way that the program stands still for, in (0, 1]
    alone: f64,     // what a line demanded waits when the program is alone
    free: f64,      // mean time between two lines demanded that is not waited; infinite if not known
    by_chance: f64, // part of what others ask for that is before its lines
}

/// What a backlog makes of a program.
struct Beside {
    time: f64, // per access
    wait: f64, // of a line demanded
    load: f64, // part of the time in which the channel works for it
}

impl User {
    fn of(asked: &MemoryDemand, queue: MemoryQueue) -> Self {
        let MemoryDemand { time, misses, lines, line_time: line, time_per_miss } = *asked;
        // Without a backlog at which prefetches stop, they are waited for as soon as memory cannot deliver them.
        let demanded = if queue.prefetch_backlog.is_some() { misses.min(lines) } else { lines };
        let mut waited = 1.0;
        if let Some(latency) = queue.latency {
            // A program cannot wait for longer than it takes, nor for more than its misses cost.
            let shown = time_per_miss.map_or(1.0, |time| time / latency);
            let most = if misses > 0.0 { time / (latency * misses) } else { 1.0 };
            waited = shown.min(most).clamp(LEAST_WAITED, 1.0);
        }
        let free = match queue.latency {
            Some(latency) if demanded > 0.0 => (time / demanded - waited * latency).max(0.0),
            _ => f64::INFINITY,
        };
        let mut user =
            Self { line, time, demanded, ahead: lines - demanded, waited, alone: 0.0, free, by_chance: 1.0 };
        if lines > 0.0 {
            let load = (lines * line / time).min(NEARLY_ALWAYS);
            let own = user.behind_itself(0.0) * load;
            user.alone = own * user.residual() / (1.0 - own);
            if let Some(most) = queue.prefetch_backlog {
                let bursts = most * load.powi(BURSTS) * user.ahead / lines;
                user.alone = user.alone.max(bursts).min(FIRST_DROPPED * most);
            }
        }
        user
    }

    /// Part of the time in which the channel works for it, if it takes so long per access.
    fn load(&self, time: f64) -> f64 {
        (self.demanded + self.ahead) * self.line / time
    }

    /// Part of its lines that may be before one that it demands: those that are fetched ahead, of which `late` are dropped.
    /// What it demands together is under way together, and is not waited for one after the other.
    fn behind_itself(&self, late: f64) -> f64 {
        (self.ahead - late) / (self.demanded + self.ahead)
    }

    /// Time that is left, on average, of the lines under way together when another one comes: of as many as there are, at
    /// random, where each is the last of them with the same chance (a geometric number, with mean 1 / `waited`).
    fn residual(&self) -> f64 {
        self.line * (1.0 / self.waited - 0.5)
    }
}

impl Channel {
    /// Part of the lines fetched ahead that are dropped at a backlog.
    fn dropped(&self, backlog: f64) -> f64 {
        let Some(most) = self.queue.prefetch_backlog else { return 0.0 };
        ((backlog / most - FIRST_DROPPED) / (1.0 - FIRST_DROPPED)).clamp(0.0, 1.0)
    }

    /// What becomes of a program where a line finds so much work before it.
    fn beside_others(&self, user: &User, backlog: f64) -> Beside {
        let lines = user.demanded + user.ahead;
        if lines <= 0.0 {
            return Beside { time: user.time, wait: 0.0, load: 0.0 };
        }
        let late = self.dropped(backlog) * user.ahead;
        let latency = self.queue.latency.unwrap_or(0.0);
        let others = 1.0 - user.behind_itself(late);
        let (mut time, mut wait) = (user.time, 0.0);
        // Its own load, which it does not wait for, depends on its time.
        for _ in 0..3 {
            let load = user.load(time);
            wait = ((backlog - others * load * user.residual()) / (1.0 + others * load)).max(0.0);
            wait *= user.by_chance;
            let longer = (user.demanded + late) * wait - user.demanded * user.alone + late * latency;
            time = user.time + user.waited * longer.max(0.0);
        }
        Beside { time, wait, load: user.load(time) }
    }

    /// Part of what others ask for that is before a user's line by chance.
    ///
    /// Programs that wait for each of their lines take turns: who has waited comes behind the other one from then on, and
    /// waits again only where the times between their lines vary by as much as a line takes to pass. The time that is not
    /// waited is taken to vary as that of random events does, whose variance is its square. Where they ask for more than is
    /// delivered, each finds all others before it.
    fn by_chance(&self, user: &User) -> f64 {
        let (mut load, mut in_turn, mut variance) = (0.0, 0.0, 0.0);
        for other in self.users.iter().filter(|other| !std::ptr::eq(*other, user)) {
            let part = other.load(other.time);
            load += part;
            if part > 0.0 {
                in_turn += part * other.waited * other.demanded / (other.demanded + other.ahead);
                variance += part * other.free * other.free;
            }
        }
        if load <= 0.0 {
            return 1.0;
        }
        let variance = user.free * user.free + variance / load;
        let takes_turns = (1.0 + variance / user.line.powi(2)).recip();
        let has_room = (1.0 + (load + user.load(user.time)).powi(FULL)).recip();
        1.0 - has_room * takes_turns * user.waited * in_turn / load
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
    use crate::engine::random::Random;

    const LATENCY: f64 = 120.0;

    /// Mean time per miss of programs that ask for so many lines at once, at random with this mean, wait until all are there,
    /// `LATENCY` after they passed, and then go on for a random time, of this mean each, before memory that passes a line in
    /// `line`: as it happens, event by event.
    fn simulated(programs: &[(f64, f64)], line: f64) -> Vec<f64> {
        let mut random = Random::new(1, 0);
        let mut passing = 0.0; // until when lines pass
        let mut next: Vec<(f64, u32)> = programs.iter().map(|(free, _)| (random.unit() * free, 0)).collect();
        loop {
            let (k, &(now, misses)) = next.iter().enumerate().min_by(|a, b| a.1.0.total_cmp(&b.1.0)).unwrap();
            if now > 2e7 {
                return next.iter().map(|(at, misses)| at / f64::from(*misses)).collect();
            }
            let (free, together) = programs[k];
            let mut lines = 1;
            while random.unit() * together > 1.0 {
                lines += 1;
            }
            let last = f64::max(now, passing) + f64::from(lines - 1) * line;
            passing = last + line;
            let goes_on = -free * (1.0 - random.unit()).ln();
            next[k] = (last + LATENCY + goes_on, misses + lines);
        }
    }

    /// Errors of the times predicted beside each other for programs measured alone.
    fn errors_of(by: MemoryQueue, programs: &[(f64, f64)], line: f64) -> Vec<f64> {
        let demand = |&(free, together): &(f64, f64)| {
            let time = simulated(&[(free, together)], line)[0];
            let time_per_miss = Some(time - free / together);
            MemoryDemand { time, misses: 1.0, lines: 1.0, line_time: line, time_per_miss }
        };
        let demands: Vec<MemoryDemand> = programs.iter().map(demand).collect();
        let truths = simulated(programs, line);
        by.times(&demands).into_iter().zip(truths).map(|(time, truth)| (time / truth - 1.0).abs()).collect()
    }

    /// Mean and largest error of the times predicted.
    fn errors(by: MemoryQueue) -> (f64, f64) {
        let (mut sum, mut largest, mut count) = (0.0, 0.0_f64, 0);
        for line in [16.0, 40.0, 64.0, 100.0] {
            for free in [
                &[24.0, 24.0][..],
                &[30.0, 400.0],
                &[300.0, 300.0],
                &[5.0, 60.0],
                &[20.0, 20.0, 20.0, 20.0],
                &[10.0, 100.0, 500.0, 2000.0],
                &[150.0, 150.0, 150.0],
            ] {
                let one_by_one: Vec<(f64, f64)> = free.iter().map(|&free| (free, 1.0)).collect();
                for error in errors_of(by, &one_by_one, line) {
                    (sum, largest, count) = (sum + error, largest.max(error), count + 1);
                }
            }
        }
        (sum / f64::from(count), largest)
    }

    #[test]
    fn lines_wait_as_they_do_where_each_is_followed() {
        let queue = MemoryQueue::new().with_latency(LATENCY);
        let (mean, largest) = errors(queue);
        assert!(mean < 0.015 && largest < 0.1, "{mean} {largest}");
        // Where latency is not known, nobody is taken to wait in turn.
        let (by_chance, _) = errors(MemoryQueue::new());
        assert!(by_chance > 1.3 * mean, "{by_chance} {mean}");
    }

    #[test]
    fn lines_asked_for_together_wait_as_they_do_where_each_is_followed() {
        let queue = MemoryQueue::new().with_latency(LATENCY);
        let mut errors = Vec::new();
        for line in [16.0, 32.0, 48.0, 64.0] {
            for programs in [
                &[(400.0, 4.0), (400.0, 4.0)][..],
                &[(300.0, 2.0), (1000.0, 6.0)],
                &[(200.0, 1.0), (600.0, 3.0)],
                &[(500.0, 3.0), (500.0, 3.0), (2000.0, 8.0)],
            ] {
                let found = errors_of(queue, programs, line);
                errors.extend(found);
            }
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let largest = errors.into_iter().fold(0.0, f64::max);
        assert!(mean < 0.025 && largest < 0.1, "{mean} {largest}");
    }
}
