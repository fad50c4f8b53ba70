//! The state of a walk: what each program has done so far, and when.

use reuse_sampler::{MemoryDemand, probability_of_at_least};

use super::{Memory, Replacement, SetAssociativeCache, Until, Walked, WindowedProgram};
use crate::CpiModel;

/// Steps in the time that the longest program takes, at most, give or take those that end passes.
const MOST_STEPS: f64 = 6_000.0;
/// Steps in a window of the program whose windows are shortest.
const STEPS_PER_WINDOW: f64 = 3.0;
/// Probabilities to be gone between which ages matter.
const GONE: (f64, f64) = (1e-3, 1.0 - 1e-3);
/// Ages looked at between those.
const AGES: u32 = 14;

/// A program on its way.
struct Runner<'a> {
    known: &'a WindowedProgram,
    cpi_error: f64,
    position: f64,  // accesses made
    pace: f64,      // cycles per access, as it competes
    waiting: f64,   // part of them that memory serves others in
    path: Vec<f64>, // accesses made at each moment of `Timeline::moments`
    lines: f64,     // held
    safe: f64,      // accesses for which every line stays; 0 unknown
    unbooked: f64,  // cycles for which lines held are not in `so_far` yet
    so_far: Walked,
}

impl Runner<'_> {
    fn passes(&self) -> f64 {
        (self.position / self.known.accesses()).floor()
    }
}

/// All programs and what they did so far.
pub(super) struct Timeline<'a> {
    size: f64, // lines of the shared cache
    sets: f64,
    ways: u64,
    memory: Option<Memory>,
    replacement: Replacement,
    moments: Vec<f64>,  // cycles, increasing, from 0
    replaced: Vec<f64>, // lines replaced until then
    filled: f64,        // lines that have come in where none had to leave, at most `size`
    age: f64,           // at which lines were last found to be evicted; 0 before the cache is full
    ends_windows: bool, // whether no step goes beyond the end of a window
    burst: f64,         // what the times between two uses of a line are multiplied by
    runners: Vec<Runner<'a>>,
}

/// What is predicted of a window alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct AloneWindow {
    pub accesses: f64,
    pub misses: f64,
    pub safe: f64, // accesses for which every line stays
}

/// What is predicted of a program alone, in each window of each of `passes` passes, which misses as often as was `counted`.
pub(super) fn alone(
    known: &WindowedProgram,
    cache: SetAssociativeCache,
    replacement: Replacement,
    passes: u64,
    counted: impl Fn(usize, usize) -> f64,
) -> Vec<Vec<AloneWindow>> {
    let mut timeline = Timeline { ends_windows: true, ..Timeline::new(&[known], cache, replacement, &[]) };
    let until = Until::Accesses(known.accesses() as u64 * passes);
    let nothing = AloneWindow { accesses: 0.0, misses: 0.0, safe: f64::INFINITY };
    let mut found: Vec<Vec<AloneWindow>> = Vec::new();
    let so_far = |timeline: &Timeline<'_>| {
        timeline.runners.first().map_or((0.0, 0.0), |runner| (runner.position, runner.safe))
    };
    while !timeline.is_over(until) {
        let (position, _) = so_far(&timeline);
        let (_, pass, window) = known.to_window_end(position);
        let expected = timeline.cycles(until);
        let misses = timeline.misses(expected);
        timeline.go(&[counted(pass, window)], expected, until);
        let (end, safe) = so_far(&timeline);
        while found.len() <= pass {
            found.push(vec![nothing; known.windows()]);
        }
        let window = &mut found[pass][window];
        window.accesses += end - position;
        window.misses += (end - position) * misses.first().copied().unwrap_or(0.0);
        window.safe = window.safe.min(safe);
    }
    found
}

impl<'a> Timeline<'a> {
    pub(super) fn new(
        programs: &[&'a WindowedProgram],
        cache: SetAssociativeCache,
        replacement: Replacement,
        cpi_errors: &[f64],
    ) -> Self {
        let runners = programs.iter().enumerate().map(|(k, &known)| {
            let cpi_error = cpi_errors.get(k).copied().unwrap_or(1.0);
            let pace = known.cpi_model(0.0).cpi(1.0) * cpi_error / known.mix();
            Runner {
                known,
                cpi_error,
                position: 0.0,
                pace,
                waiting: 0.0,
                path: vec![0.0],
                lines: 0.0,
                safe: 0.0,
                unbooked: 0.0,
                so_far: Walked::default(),
            }
        });
        Self {
            size: (cache.sets * cache.ways) as f64,
            sets: cache.sets as f64,
            ways: cache.ways,
            memory: cache.memory,
            replacement,
            moments: vec![0.0],
            replaced: vec![0.0],
            filled: 0.0,
            age: 0.0,
            ends_windows: false,
            burst: 1.0,
            runners: runners.collect(),
        }
    }

    /// The same where lines are used again `burst` times as late as the mean speed of a program says.
    pub(super) fn in_bursts(self, burst: f64) -> Self {
        Self { burst, ..self }
    }
}

impl Timeline<'_> {
    pub(super) fn is_over(&self, until: Until) -> bool {
        let mut passes = self.runners.iter().map(Runner::passes);
        match until {
            Until::AllEnded => passes.all(|passes| passes >= 1.0),
            Until::FirstEnded => self.runners.is_empty() || passes.any(|passes| passes >= 1.0),
            Until::Ended(program) => passes.nth(program).is_none_or(|passes| passes >= 1.0),
            Until::Accesses(n) => {
                self.runners.is_empty() || self.runners.iter().any(|r| r.position >= n as f64 * (1.0 - 1e-9))
            }
        }
    }

    /// What became of the programs, the last step's lines included.
    pub(super) fn finish(self) -> Vec<Walked> {
        let booked = |mut runner: Runner<'_>| {
            runner.so_far.line_cycles += runner.unbooked * runner.lines;
            runner.so_far
        };
        self.runners.into_iter().map(booked).collect()
    }

    /// Length of the next step at the paces of the last one.
    fn cycles(&self, until: Until) -> f64 {
        let longest = self.runners.iter().map(|r| r.known.accesses() * r.pace).fold(0.0, f64::max);
        let window = |r: &Runner<'_>| r.known.window() / STEPS_PER_WINDOW * r.pace;
        let shortest = self.runners.iter().map(window).fold(f64::INFINITY, f64::min);
        let cycles = shortest.max(longest / MOST_STEPS);
        // First passes, and with them cold misses, end where a step does.
        let ends = self.runners.iter().filter(|r| r.position < r.known.accesses());
        let ends = ends.map(|r| (r.known.accesses() - r.position) * r.pace);
        let limit = match until {
            Until::Accesses(n) => {
                self.runners.iter().map(|r| (n as f64 - r.position) * r.pace).fold(f64::INFINITY, f64::min)
            }
            _ => f64::INFINITY,
        };
        let cycles = ends.fold(cycles.min(limit), f64::min);
        if !self.ends_windows {
            return cycles;
        }
        self.runners.iter().map(|r| r.known.to_window_end(r.position).0 * r.pace).fold(cycles, f64::min)
    }

    pub(super) fn step(&mut self, until: Until) {
        let expected = self.cycles(until);
        let misses = self.misses(expected);
        self.go(&misses, expected, until);
    }

    /// Misses per access of each program in the next `cycles`.
    fn misses(&mut self, cycles: f64) -> Vec<f64> {
        match self.replacement {
            Replacement::Lru => self.misses_at_lru(cycles),
            Replacement::Random => self.misses_at_random(cycles),
        }
    }

    /// Takes a step of `expected` cycles in which the programs miss so often per access.
    fn go(&mut self, misses: &[f64], expected: f64, until: Until) {
        for (runner, &misses) in self.runners.iter_mut().zip(misses) {
            let cpi = runner.known.cpi_model(runner.position).cpi(misses);
            runner.pace = cpi * runner.cpi_error / runner.known.mix();
        }
        self.wait_for_memory(misses);
        let cycles = self.cycles(until).min(2.0 * expected);
        let mut replaced = 0.0;
        for (runner, &misses) in self.runners.iter_mut().zip(misses) {
            let length = runner.known.accesses();
            let before = runner.position;
            let to_end = length - before;
            let mut accesses = cycles / runner.pace;
            if to_end > 0.0 && accesses >= to_end * (1.0 - 1e-9) {
                accesses = to_end;
                runner.position = length;
            } else {
                runner.position += accesses;
            }
            replaced += accesses * misses;
            let so_far = &mut runner.so_far;
            let true_cycles = accesses * runner.pace / runner.cpi_error;
            so_far.accesses += accesses;
            so_far.misses += accesses * misses;
            so_far.cycles += true_cycles;
            so_far.waiting_cycles += true_cycles * runner.waiting;
            so_far.instructions += accesses / runner.known.mix();
            runner.unbooked += true_cycles;
        }
        self.settle(replaced, misses, cycles);
        let now = self.moments.last().copied().unwrap_or(0.0) + cycles;
        self.moments.push(now);
        for runner in &mut self.runners {
            runner.path.push(runner.position);
        }
    }

    /// Slows the programs down by what their lines wait for those of others, where memory has a limit.
    fn wait_for_memory(&mut self, misses: &[f64]) {
        let Some(Memory { line_time, queue }) = self.memory else { return };
        let demand = |(runner, &misses): (&Runner<'_>, &f64)| {
            let traffic = runner.known.cpi_model(runner.position).traffic(misses);
            MemoryDemand {
                time: runner.pace,
                misses,
                lines: traffic.map_or(misses, |of| of.fetched),
                line_time,
                time_per_miss: traffic.filter(|_| misses > 0.0).map(|of| of.stalled / misses),
            }
        };
        let demands: Vec<MemoryDemand> = self.runners.iter().zip(misses).map(demand).collect();
        for (runner, time) in self.runners.iter_mut().zip(queue.times(&demands)) {
            runner.waiting = (1.0 - runner.pace / time).max(0.0);
            runner.pace = time;
        }
    }

    /// Books `fetched` lines of a step: into empty places first, then replacing others.
    fn settle(&mut self, fetched: f64, misses: &[f64], cycles: f64) {
        let fills = fetched.min(self.size - self.filled);
        self.filled += fills;
        let replaced = fetched - fills;
        if self.replacement == Replacement::Random {
            // Of a program's lines, as many go as of any other's.
            let stay = (-replaced / self.size).exp();
            for (runner, &misses) in self.runners.iter_mut().zip(misses) {
                let came = cycles / runner.pace * misses;
                let before = runner.lines;
                runner.lines = (before * stay + came * f64::midpoint(1.0, stay)).min(self.size);
                runner.so_far.line_cycles += runner.unbooked * f64::midpoint(before, runner.lines);
                runner.unbooked = 0.0;
            }
        }
        self.replaced.push(self.replaced.last().copied().unwrap_or(0.0) + replaced);
    }

    /// Probability that a line last touched `age` cycles ago is gone, for a line of each program.
    fn gone(&self, age: f64) -> Vec<f64> {
        let per_set = |age: f64| -> Vec<(f64, f64)> {
            let of = |r: &Runner<'_>| {
                let lines = r.known.lines_touched(r.position, self.accesses_within(r, age));
                (lines / self.sets, r.known.dispersion().variance(lines, self.sets))
            };
            self.runners.iter().map(of).collect()
        };
        let own = per_set(age);
        // Those of the others, in the time that it really is.
        let later = (self.burst != 1.0).then(|| per_set(age * self.burst));
        let all = later.as_ref().unwrap_or(&own);
        let mean: f64 = all.iter().map(|set| set.0).sum();
        let variance: f64 = all.iter().map(|set| set.1).sum();
        let gone = |(own, of_all): (&(f64, f64), &(f64, f64))| {
            let mean = mean - of_all.0 + own.0;
            // A line is more likely to be where its program has many, and does not count itself.
            let others = if own.0 > 0.0 { mean + own.1 / own.0 - 1.0 } else { mean };
            probability_of_at_least(self.ways, others, variance - of_all.1 + own.1)
        };
        own.iter().zip(all).map(gone).collect()
    }

    /// Ages, and for a line of each program the probability to be gone at each, both increasing, from hardly to
    /// certainly, or to the age of the oldest line.
    fn ages(&self) -> Vec<(f64, Vec<f64>)> {
        let now = self.moments.last().copied().unwrap_or(0.0);
        let most = self.gone(now);
        if highest(&most) < GONE.0 {
            return Vec::new();
        }
        // Where all that the programs have does not fill the cache, older lines are no more likely to be gone.
        let oldest = self.where_gone(GONE.1 * lowest(&most), now, lowest);
        let youngest = self.where_gone(GONE.0, oldest, highest);
        let ratio = oldest / youngest;
        let mut last = vec![0.0_f64; self.runners.len()];
        (0..=AGES)
            .map(|k| {
                let age = youngest * ratio.powf(f64::from(k) / f64::from(AGES));
                for (last, gone) in last.iter_mut().zip(self.gone(age)) {
                    *last = last.max(gone);
                }
                (age, last.clone())
            })
            .collect()
    }

    /// Age up to `limit`, at which it holds, from which on `of` the probabilities to be gone is `least`.
    fn where_gone(&self, least: f64, limit: f64, of: impl Fn(&[f64]) -> f64) -> f64 {
        let (mut low, mut high) = (0.0, limit);
        // Near the age found last.
        let (mut below, mut above) = (self.age / 1.2, self.age * 1.2);
        while high - low > 2e-3 * high {
            let age = if below > low && below < high {
                below
            } else if above > low && above < high {
                above
            } else {
                f64::midpoint(low, high)
            };
            if of(&self.gone(age)) < least {
                low = age;
                above *= 1.2;
            } else {
                high = age;
                below /= 1.2;
            }
        }
        high
    }

    /// Accesses that a program made in the last `age` cycles.
    fn accesses_within(&self, runner: &Runner<'_>, age: f64) -> f64 {
        let now = self.moments.last().copied().unwrap_or(0.0);
        runner.position - along(&self.moments, &runner.path, now - age)
    }

    /// The same where the line used longest ago leaves.
    fn misses_at_lru(&mut self, cycles: f64) -> Vec<f64> {
        let ages = self.ages();
        let now = self.moments.last().copied().unwrap_or(0.0);
        self.age = ages.iter().find(|age| highest(&age.1) >= 0.5).map_or(0.0, |age| age.0);
        let mut misses = Vec::with_capacity(self.runners.len());
        let mut held = Vec::with_capacity(self.runners.len());
        let mut safe = Vec::with_capacity(self.runners.len());
        for (k, runner) in self.runners.iter().enumerate() {
            // In own accesses, when its lines leave, and what part of them then.
            let mut leaving = Vec::with_capacity(ages.len());
            let mut before = (0.0, 0.0);
            for (age, gone) in &ages {
                let gone = gone[k];
                if gone > before.1 {
                    let middle = if before.1 > 0.0 { f64::midpoint(before.0, *age) } else { *age };
                    leaving.push((self.accesses_within(runner, middle), gone - before.1));
                }
                before = (*age, gone);
            }
            if before.1 >= GONE.1 {
                if let Some(last) = leaving.last_mut() {
                    last.1 += 1.0 - before.1;
                }
            }
            let stays = 1.0 - leaving.iter().map(|leaving| leaving.1).sum::<f64>();
            let known = runner.known;
            misses.push(known.average(runner.position, cycles / runner.pace, |window| {
                let stay = (stays > 0.0).then_some((f64::INFINITY, stays));
                leaving.iter().copied().chain(stay).fold((0.0, 0.0), |sum, (n, part)| {
                    let (certain, others) = window.hits(n);
                    (sum.0 + part * certain, sum.1 + part * others)
                })
            }));
            safe.push(ages.first().map_or(f64::INFINITY, |age| self.accesses_within(runner, age.0)));
            let lines = |n: f64| known.lines_touched(runner.position, n);
            let all = if stays > 0.0 { stays * lines(self.accesses_within(runner, now)) } else { 0.0 };
            held.push(leaving.iter().map(|&(n, part)| part * lines(n)).sum::<f64>() + all);
        }
        for (runner, (held, safe)) in self.runners.iter_mut().zip(held.into_iter().zip(safe)) {
            runner.safe = safe;
            // The time since it was last looked at, with what it held then and holds now.
            runner.so_far.line_cycles += runner.unbooked * f64::midpoint(runner.lines, held);
            runner.unbooked = 0.0;
            runner.lines = held;
        }
        misses
    }

    /// The same where any line may have left.
    fn misses_at_random(&self, cycles: f64) -> Vec<f64> {
        let total = self.replaced.last().copied().unwrap_or(0.0);
        let stay = (-self.size.recip()).ln_1p(); // logarithm of the probability to survive one replacement
        let of = |r: &Runner<'_>| {
            let missing = |back: f64| {
                let then = along(&r.path, &self.replaced, r.position - back);
                if self.size > 1.0 {
                    -((total - then) * stay).exp_m1()
                } else {
                    f64::from(u8::from(total > then))
                }
            };
            r.known
                .average(r.position, cycles / r.pace, |window| window.hits_without(window.missing(missing)))
        };
        self.runners.iter().map(of).collect()
    }
}

fn highest(of: &[f64]) -> f64 {
    of.iter().copied().fold(0.0, f64::max)
}

fn lowest(of: &[f64]) -> f64 {
    of.iter().copied().fold(1.0, f64::min)
}

/// Linear interpolation of `ys` over increasing `xs`, clamped to both ends.
fn along(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let next = xs.partition_point(|&known| known <= x);
    let (Some(before), Some(after)) = (next.checked_sub(1), xs.get(next)) else {
        let end = if next == 0 { ys.first() } else { ys.last() };
        return end.copied().unwrap_or(0.0);
    };
    let part = (x - xs[before]) / (after - xs[before]);
    ys[before] + part * (ys[next] - ys[before])
}
