//! Where each program is in its pass, and what came of the run so far.

use super::timeline::{Segment, Timeline};
use super::{CoRun, Outcome, Step, Until};
use crate::Share;

/// Where a program is.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: usize,
    left: f64,   // work in the segment, > 0
    whole: bool, // it follows the curve of its whole pass, which has no boundaries
}

/// A step that was shown, to be shown again for later passes of the same kind.
struct Shown {
    phases: Vec<usize>,
    shares: Vec<Share>,
    time: f64,
    cpi_alone: f64,
}

/// The caller's function that is shown each step, if there is one.
pub(super) struct Observer<'a> {
    observe: Option<&'a mut dyn FnMut(&Step<'_>)>,
    cycle: Vec<Shown>, // since the last restart of a co-runner
}

impl<'a> Observer<'a> {
    pub(super) const fn new(observe: Option<&'a mut dyn FnMut(&Step<'_>)>) -> Self {
        Self { observe, cycle: Vec::new() }
    }

    /// Whether there is one.
    pub(super) const fn observes(&self) -> bool {
        self.observe.is_some()
    }

    /// Shows the steps since the last restart once more, each for so many times its time.
    fn repeat(&mut self, mut start: f64, times: f64) {
        let Some(observe) = &mut self.observe else { return };
        for Shown { phases, shares, time, cpi_alone } in &self.cycle {
            let time = times * time;
            observe(&Step { start, time, phases, shares, cpi_alone: *cpi_alone });
            start += time;
        }
    }
}

/// The state of a run when a co-runner last started over.
struct Restart {
    program: usize,
    time: f64,
    time_waiting: f64,
    work: Vec<f64>,
    calm: Calm,
}

/// Since when programs hold the same.
#[derive(Default)]
pub(super) struct Calm {
    since: f64,
    held: Vec<f64>,
}

impl Calm {
    /// Time for which programs have held the same that hold `held` of a cache of `bytes` now.
    pub(super) fn time(&mut self, now: f64, held: &[f64], bytes: f64) -> f64 {
        let same = |(a, b): (&f64, &f64)| (a - b).abs() < SAME * bytes;
        if self.held.len() != held.len() || !held.iter().zip(&self.held).all(same) {
            self.held.clear();
            self.held.extend_from_slice(held);
            self.since = now;
        }
        now - self.since
    }
}

/// A run in progress.
pub(super) struct Places<'r> {
    timelines: &'r [Timeline],
    cache: f64, // bytes
    programs: Vec<Place>,
    until: Until,
    /// Numbers of the present curves.
    pub curves: Vec<usize>,
    phases: Vec<usize>,
    restarted: Option<usize>, // the co-runner that started over in the last step, if nothing else changed
    last: Option<Restart>,
    offsets: Vec<f64>,
    warms_up: bool, // the present pass is not the one that counts
    warm_up: f64,   // time of the pass that warmed up; 0 before it has ended
    /// What came of it so far.
    pub outcome: Outcome,
}

/// Programs hold the same if each holds as much to within this part of the cache.
const SAME: f64 = 1e-3;

impl<'r> Places<'r> {
    /// A run from these offsets; one that `warms_up` makes a pass before the one that counts.
    pub(super) fn new<P, M>(run: &'r CoRun<'_, P, M>, offsets: &[f64], until: Until, warms_up: bool) -> Self {
        let timelines = &run.timelines[..];
        let count = timelines.len();
        let outcome = Outcome {
            time: 0.0,
            low: 0.0,
            high: 0.0,
            time_alone: timelines[0].time_alone(),
            work: vec![0.0; count],
            steps: 0,
            invocations: 0,
            time_on_cliff: 0.0,
            time_waiting: 0.0,
        };
        let mut places = Self {
            timelines,
            cache: run.cache.bytes(),
            programs: Vec::new(),
            until,
            curves: Vec::new(),
            phases: Vec::new(),
            restarted: None,
            last: None,
            offsets: offsets.to_vec(),
            warms_up,
            warm_up: 0.0,
            outcome,
        };
        places.begin();
        places
    }

    /// Puts all programs at their offsets.
    fn begin(&mut self) {
        let timelines = self.timelines;
        let offset = |i: usize| self.offsets.get(i).copied().unwrap_or(0.0);
        self.programs =
            timelines.iter().enumerate().map(|(i, t)| place_at(t.segments(), offset(i))).collect();
        let segments = timelines.iter().zip(&self.programs).map(|(t, place)| t.segments()[place.segment]);
        (self.curves, self.phases) = segments.map(|segment| (segment.curve, segment.phase)).unzip();
        (self.restarted, self.last) = (None, None);
    }

    /// What came of it, and the time of the pass that warmed up.
    pub(super) fn end(self) -> (Outcome, f64) {
        (self.outcome, self.warm_up)
    }

    /// After a pass that warmed up begins the one that counts, from the same offsets; returns whether it was one.
    pub(super) fn begin_again(&mut self) -> bool {
        if !self.warms_up {
            return false;
        }
        self.warms_up = false;
        self.begin();
        let outcome = &mut self.outcome;
        self.warm_up = outcome.time;
        (outcome.time, outcome.low, outcome.high) = (0.0, 0.0, 0.0);
        (outcome.time_on_cliff, outcome.time_waiting) = (0.0, 0.0);
        outcome.work.fill(0.0);
        true
    }

    /// The present curves.
    pub(super) fn curves(&self) -> impl Iterator<Item = &'r crate::CacheCurve> {
        self.timelines.iter().zip(&self.curves).map(|(timeline, &number)| timeline.curve(number))
    }

    /// Lets a program follow the curve of its whole pass, or that of its segments; returns whether that is another
    /// curve than before.
    pub(super) fn follow_whole(&mut self, program: usize, whole: Option<usize>) -> bool {
        let (timeline, place) = (&self.timelines[program], &mut self.programs[program]);
        place.whole = whole.is_some();
        let curve = whole.unwrap_or_else(|| timeline.segments()[place.segment].curve);
        std::mem::replace(&mut self.curves[program], curve) != curve
    }

    /// Time until a program whose time per unit of work is `cpi(program)` ends its segment, or the run ends.
    pub(super) fn time(&self, cpi: impl Fn(usize) -> f64) -> f64 {
        let end = match self.until {
            Until::TargetEnds => f64::INFINITY,
            Until::Time(time) => time - self.outcome.time,
        };
        let places = self.programs.iter().enumerate().filter(|(_, place)| !place.whole);
        places.map(|(program, place)| place.left * cpi(program)).fold(end, f64::min)
    }

    /// Shows what happens from now on for `time`.
    pub(super) fn show(&self, time: f64, shares: &[Share], observer: &mut Observer<'_>) {
        let Some(observe) = &mut observer.observe else { return };
        if time > 0.0 && time.is_finite() {
            let cpi_alone = self.timelines[0].curve(self.curves[0]).cpi(self.cache);
            let (start, phases) = (self.outcome.time, &self.phases);
            observe(&Step { start, time, phases, shares, cpi_alone });
            if self.last.is_some() {
                observer.cycle.push(Shown {
                    phases: phases.clone(),
                    shares: shares.to_vec(),
                    time,
                    cpi_alone,
                });
            }
        }
    }

    /// Goes on by `time`, at most [`time`](Self::time), in which each program takes `cpi(program)` per unit of work and
    /// the target between `range` of it; returns whether the run goes on.
    #[inline]
    pub(super) fn advance(&mut self, time: f64, cpi: impl Fn(usize) -> f64, range: (f64, f64)) -> bool {
        if time <= 0.0 || !time.is_finite() {
            return false;
        }
        self.outcome.time += time;
        self.outcome.low += time * range.0;
        self.outcome.high += time * range.1;
        self.outcome.steps += 1;
        self.restarted = None;
        let mut over = false;
        for (i, place) in self.programs.iter_mut().enumerate() {
            let segments = self.timelines[i].segments();
            let work = time / cpi(i);
            self.outcome.work[i] += work;
            if place.whole {
                // It is somewhere in its pass; where is of no importance.
                let pass = self.timelines[i].work();
                let place_in = segments[..place.segment].iter().map(|s| s.work).sum::<f64>();
                let done = place_in + segments[place.segment].work - place.left + work;
                *place = Place { whole: true, ..place_at(segments, done / pass) };
                self.phases[i] = segments[place.segment].phase;
                continue;
            }
            place.left -= work;
            // What rounding leaves of a window that ended with another is not a window.
            if place.left <= 1e-9 * segments[place.segment].work {
                place.segment += 1;
                if place.segment == segments.len() {
                    over |= i == 0 && self.until == Until::TargetEnds;
                    place.segment = 0;
                    self.restarted = (i > 0).then_some(i);
                }
                let segment = segments[place.segment];
                place.left = segment.work;
                (self.curves[i], self.phases[i]) = (segment.curve, segment.phase);
                // In a cycle nobody else changes.
                if self.last.as_ref().is_some_and(|last| last.program != i) {
                    self.last = None;
                }
            }
        }
        !over
    }

    /// Whether a co-runner just started over, so that the next passes may repeat the last one.
    pub(super) const fn may_skip(&self) -> bool {
        self.restarted.is_some()
    }

    /// After a restart of a co-runner at the end of a pass in which no other program left its segment: skips the
    /// passes that repeat this one, if programs have held the same at restarts for a pass and for the `age` of the oldest
    /// lines. Returns the time skipped.
    pub(super) fn skip_passes(&mut self, held: &[f64], age: f64, observer: &mut Observer<'_>) -> f64 {
        let Some(program) = self.restarted.take() else { return 0.0 };
        let mut last = self.last.take().filter(|last| last.program == program);
        let now = self.outcome.time;
        let mut calm = last.as_mut().map(|last| std::mem::take(&mut last.calm)).unwrap_or_default();
        let same = calm.time(now, held, self.cache);
        let mut skipped = 0.0;
        if let Some(last) = last {
            let time = now - last.time;
            let work: Vec<f64> =
                self.outcome.work.iter().zip(&last.work).map(|(now, then)| now - then).collect();
            let end = match self.until {
                Until::TargetEnds => f64::INFINITY,
                Until::Time(end) => (end - now) / time,
            };
            let others = self.programs.iter().zip(&work).enumerate();
            let others = others.filter(|(i, (place, _))| *i != program && !place.whole);
            let passes = others.map(|(_, (place, work))| place.left / work).fold(end, f64::min).floor() - 1.0;
            if same >= age.max(time) && passes >= 1.0 && passes.is_finite() {
                skipped = passes * time;
                observer.repeat(now, passes);
                self.outcome.time += skipped;
                self.outcome.low += skipped;
                self.outcome.high += skipped;
                self.outcome.time_waiting += passes * (self.outcome.time_waiting - last.time_waiting);
                for (i, (place, work)) in self.programs.iter_mut().zip(&work).enumerate() {
                    self.outcome.work[i] += passes * work;
                    if i != program && !place.whole {
                        place.left -= passes * work;
                    }
                }
            }
        }
        observer.cycle.clear();
        let Outcome { time, time_waiting, .. } = self.outcome;
        let work = self.outcome.work.clone();
        calm.since += skipped;
        self.last = Some(Restart { program, time, time_waiting, work, calm });
        skipped
    }
}

/// The place after `offset` of all work.
fn place_at(segments: &[Segment], offset: f64) -> Place {
    let fraction = if offset.is_finite() { offset.rem_euclid(1.0) } else { 0.0 };
    let mut left = fraction * segments.iter().map(|s| s.work).sum::<f64>();
    for (segment, s) in segments.iter().enumerate() {
        if left < s.work * (1.0 - 1e-9) {
            return Place { segment, left: s.work - left, whole: false };
        }
        left = (left - s.work).max(0.0);
    }
    Place { segment: 0, left: segments[0].work, whole: false }
}
