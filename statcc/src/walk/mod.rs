//! StatCC through time: the equations of the model with the interleaving that really was, not a steady one.
//!
//! StatCC stretches a program's reuse distances by the accesses that the others make meanwhile, at CPIs that
//! follow from the misses. Where programs start with empty caches, have phases, or could settle in more than one
//! way, those CPIs are not the present ones but those of the time since the last access to the line. Here
//! time is walked through in short steps. What each program has done so far is known, so that nothing needs to
//! be solved for: the lines touched by all programs in the last T cycles fill the cache, and an access that
//! reaches back further misses. The misses give the CPIs of the step. With random replacement an access misses
//! with the probability that one of the replacements since took its line (StatCache).

mod program;
mod timeline;
mod window;

pub use program::WindowedProgram;
pub use window::ProfiledWindow;
// What signatures here take, so that one dependency is enough.
#[doc(no_inline)]
pub use reuse_sampler::{MemoryQueue, SetDispersion, SetDispersionCounter};

use crate::{Error, Outlook};
use timeline::Timeline;

/// How the shared cache replaces lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The line used longest ago leaves (StatStack's policy).
    Lru,
    /// Any line leaves, with the same probability (StatCache's policy).
    Random,
}

/// When a walk is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// Every program has ended at least once; the others start over.
    AllEnded,
    /// The first program has ended.
    FirstEnded,
    /// The program of this number has ended; at once if there is none.
    Ended(usize),
    /// A program has made so many accesses.
    Accesses(u64),
}

/// Sets and ways of the shared cache, and what the memory behind it delivers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetAssociativeCache {
    sets: u64, // >= 1
    ways: u64, // >= 1
    memory: Option<Memory>,
}

/// Memory that passes a line after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Memory {
    line_time: f64, // cycles, > 0
    queue: MemoryQueue,
}

impl SetAssociativeCache {
    /// A cache of so many sets and ways.
    ///
    /// # Errors
    /// [`Error::Sets`] if one of them is 0.
    pub const fn new(sets: u64, ways: u64) -> Result<Self, Error> {
        if sets == 0 || ways == 0 {
            Err(Error::Sets { sets, ways })
        } else {
            Ok(Self { sets, ways, memory: None })
        }
    }

    /// The same before a memory that delivers so many lines per cycle to all programs together, which wait in this `queue`:
    /// also where memory could deliver more, a line waits for what others have asked for before it. What a program waits for
    /// alone is in its CPI. How many lines are fetched, and how far misses overlap, is known from
    /// [`MeasuredCpi::with_traffic`](crate::MeasuredCpi::with_traffic).
    ///
    /// # Errors
    /// [`Error::Cycles`] unless `lines_per_cycle`, and the times of the queue, are finite and above 0.
    pub fn with_memory(self, lines_per_cycle: f64, queue: MemoryQueue) -> Result<Self, Error> {
        let line_time = lines_per_cycle.recip();
        if !(line_time.is_finite() && line_time > 0.0) {
            return Err(Error::Cycles { what: "time of a line on the memory channel", cycles: line_time });
        }
        if let Some(cycles) = queue.unusable() {
            return Err(Error::Cycles { what: "latency of memory or backlog of prefetches", cycles });
        }
        Ok(Self { memory: Some(Memory { line_time, queue }), ..self })
    }
}

/// What became of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Walked {
    /// Accesses made.
    pub accesses: f64,
    /// Those of them that missed in the shared cache.
    pub misses: f64,
    /// Cycles taken.
    pub cycles: f64,
    /// Instructions executed.
    pub instructions: f64,
    /// Sum over cycles of the lines of the shared cache held.
    pub line_cycles: f64,
    /// Of the cycles taken, those in which it waited because memory served others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub waiting_cycles: f64,
}

impl Walked {
    /// Misses per access.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        (self.misses / self.accesses).min(1.0) // sums of parts may be rounded up
    }

    /// Cycles per instruction.
    #[must_use]
    pub fn cpi(&self) -> f64 {
        self.cycles / self.instructions
    }

    /// Part of the time in which it waited because memory served others; 0 without a [limited memory](SetAssociativeCache::with_memory).
    #[must_use]
    pub fn waiting(&self) -> f64 {
        self.waiting_cycles / self.cycles
    }

    /// Lines of the shared cache held, averaged over time.
    #[must_use]
    pub fn lines(&self) -> f64 {
        self.line_cycles / self.cycles
    }
}

/// Walks `programs` through time in a shared `cache`, from empty caches until `until`. Where `cpi_errors` gives a factor
/// for each program, they compete at CPIs that are wrong by it.
///
/// # Errors
/// [`Error::MixedLineSizes`] for programs profiled at different line sizes.
///
/// # Accuracy
/// See the crate's front page: mean error of the CPI 0.63 % over pairs of embedded programs.
///
/// # Cost
/// Up to 6,000 steps in the time of the longest program, or three for each window if there are fewer; some 10 us each
/// for two programs.
///
/// # References
/// The equations of a step: Eklöv, thesis, Paper II (`StatCC`), equations 1 to 3.
pub fn walk(
    programs: &[&WindowedProgram],
    cache: SetAssociativeCache,
    replacement: Replacement,
    until: Until,
    cpi_errors: &[f64],
) -> Result<Vec<Walked>, Error> {
    program::of_one_line_size(programs.iter().map(|program| program.line_size()))?;
    Ok(run(Timeline::new(programs, cache, replacement, cpi_errors), until))
}

fn run(mut timeline: Timeline<'_>, until: Until) -> Vec<Walked> {
    while !timeline.is_over(until) {
        timeline.step(until);
    }
    timeline.finish()
}

/// Fraction by which smaller and larger caches are walked in, as [`SolverSettings`](crate::SolverSettings) has it.
const MARGIN: f64 = 0.07;
/// Its multiple with random replacement: chosen on co-runs of `dot`, `z3`, `glpsol`, `7zz`, `oggenc`, `tclsh`, `guile`,
/// `gnuplot`, `brotli`, `nasm` and R.
const AT_RANDOM: f64 = 1.7;
/// An end of a range that is further from the CPI than this is not moved by bursts.
const WIDE: f64 = 0.15;
/// Misses come in bursts, in which a program is slower than on average, and in between it is faster: by so much the
/// times may differ that lines are used again after.
const BURST: f64 = 1.5;
/// How long lines wait for memory is less certain than what a cache holds, since programs may take turns or not: ranges are
/// wider by this part of that time.
const WAITING: f64 = 1.0;
/// Predictions that are not flagged are within this part of the truth, as measured: see the crate's front page. A range that
/// reaches further from the CPI is a cliff; wider ones are of programs next to a co-runner that is on a cliff, too.
const UNFLAGGED: f64 = 0.03;
/// Others change which lines share a set, even where they hardly matter: no range is narrower than this either way.
const NOTHING: f64 = 0.002;

/// Range of each program's CPI, of what became of it in `walked` and in slightly smaller and larger caches.
///
/// The margin is 7 % of the cache and a line of each set, whichever way they add up: in some sets there is a line more
/// of the others than in most; with random replacement 1.7 times as much. With LRU, where an end does not move by that, lines are also taken to be used again later in the
/// smaller cache, and earlier in the larger one, than the mean speed of a window says. A range that reaches further than
/// 3 % from the CPI, the error measured, is flagged ([`Outlook::cliff`]) and includes that error.
///
/// # Errors
/// As [`walk`].
///
/// # Cost
/// Four [walks](walk).
pub fn outlook(
    programs: &[&WindowedProgram],
    cache: SetAssociativeCache,
    replacement: Replacement,
    until: Until,
    walked: &[Walked],
) -> Result<Vec<Outlook>, Error> {
    program::of_one_line_size(programs.iter().map(|program| program.line_size()))?;
    // Where any line may leave, the time until it is used again matters less, the number of lines alone.
    let (wider, bursts): (f64, &[f64]) = match replacement {
        Replacement::Lru => (1.0, &[1.0, BURST]),
        Replacement::Random => (AT_RANDOM, &[1.0]),
    };
    let margin = (wider * MARGIN.hypot((cache.ways as f64).recip())).min(0.5);
    let ends = |walked: &Walked| (walked.cpi() * (1.0 - NOTHING), walked.cpi() * (1.0 + NOTHING));
    let mut ranges: Vec<(f64, f64)> = walked.iter().map(ends).collect();
    for &burst in bursts {
        let before = ranges.clone();
        for (factor, burst) in [(1.0 - margin, burst), (1.0 + margin, burst.recip())] {
            let sets = ((cache.sets as f64 * factor).round() as u64).max(1);
            let timeline = Timeline::new(programs, SetAssociativeCache { sets, ..cache }, replacement, &[]);
            let varied = run(timeline.in_bursts(burst), until);
            for (((range, before), varied), walked) in ranges.iter_mut().zip(&before).zip(varied).zip(walked)
            {
                if before.0 > walked.cpi() * (1.0 - WIDE) {
                    range.0 = range.0.min(varied.cpi());
                }
                if before.1 < walked.cpi() * (1.0 + WIDE) {
                    range.1 = range.1.max(varied.cpi());
                }
            }
        }
    }
    let outlook = |(walked, range): (&Walked, &(f64, f64))| {
        let (&(low, high), cpi) = (range, walked.cpi());
        let waiting = WAITING * walked.waiting() * cpi;
        let (low, high) = (low - waiting, high + waiting);
        let cliff = low < cpi * (1.0 - UNFLAGGED) || high > cpi * (1.0 + UNFLAGGED);
        let error = if cliff { UNFLAGGED } else { 0.0 };
        let (lowest_cpi, highest_cpi) = (low * (1.0 - error), high * (1.0 + error));
        Outlook { lowest_cpi, highest_cpi, cliff }
    };
    Ok(walked.iter().zip(&ranges).map(outlook).collect())
}
