//! A prefetcher in front of the cache: what it fetches becomes part of the stream, and only the program's own accesses are
//! asked whether they miss.

use std::cell::Cell;
use std::collections::HashMap;

use reuse_sampler::reference::LruStack;
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::{Access, AccessKind, CacheLines, Line, LineSize, SamplerError};

use super::measure::{Measured, replay};
use crate::cli::{Failure, Watch};

/// Which lines are fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Prefetch {
    /// The line after each line that is touched
    NextLine,
    /// One stride ahead of each instruction that moved by the same stride twice, at least one line ahead
    Stride,
}

/// What the prefetcher saw and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetches {
    /// Accesses of the program, one for each line touched.
    pub accesses: u64,
    /// Those whose instruction is known.
    located: u64,
    /// Lines that the prefetcher touched.
    pub lines: u64,
}

/// Where an instruction was last, and how it moves.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    address: u64,
    stride: i64,
    fetched: Option<u64>, // line
}

/// The events of a source, each access followed by the line that the prefetcher touches because of it: loads are the program's
/// accesses of either kind, stores are the prefetcher's.
#[derive(Debug)]
pub struct Prefetching<'a, S> {
    source: S,
    prefetch: Prefetch,
    line_size: LineSize,
    last: Option<u64>,             // line, of the program
    courses: HashMap<u64, Course>, // by instruction
    next: Option<u64>,             // line to fetch before the source goes on
    seen: &'a Cell<Prefetches>,
}

impl<'a, S> Prefetching<'a, S> {
    /// Nothing fetched yet.
    pub fn new(source: S, prefetch: Prefetch, line_size: LineSize, seen: &'a Cell<Prefetches>) -> Self {
        Self { source, prefetch, line_size, last: None, courses: HashMap::new(), next: None, seen }
    }

    /// The line that is fetched because of `access`.
    fn ahead(&mut self, access: &Access) -> Option<u64> {
        let (first, last) = self.line_size.span(access);
        let line = match self.prefetch {
            Prefetch::NextLine => {
                let known = self.last.replace(last) == Some(first) && first == last;
                last.checked_add(1).filter(|_| !known)?
            }
            Prefetch::Stride => {
                let course = self.courses.entry(access.pc).or_default();
                let stride = access.address.wrapping_sub(course.address) as i64;
                let steady = stride != 0 && stride == course.stride;
                (course.address, course.stride) = (access.address, stride);
                if !steady {
                    course.fetched = None;
                    return None;
                }
                let next = access.address.checked_add_signed(stride)?;
                let next = self.line_size.line_of(next).0;
                let here = (first..=last).contains(&next);
                let line = match stride {
                    _ if !here => next,
                    1.. => last.checked_add(1)?,
                    _ => first.checked_sub(1)?,
                };
                (course.fetched.replace(line) != Some(line)).then_some(line)?
            }
        };
        // The address space ends with its last line.
        (line <= u64::MAX >> self.line_size.shift()).then_some(line)
    }
}

impl<S: EventSource> EventSource for Prefetching<'_, S> {
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        let mut seen = self.seen.get();
        let event = if let Some(line) = self.next.take() {
            seen.lines += 1;
            Some(Event::Access(Access::store(line << self.line_size.shift(), 1)))
        } else {
            let mut event = self.source.next_event()?;
            if let Some(Event::Access(access)) = &mut event {
                let (first, last) = self.line_size.span(access);
                seen.accesses += last - first + 1;
                seen.located += if access.pc == 0 { 0 } else { last - first + 1 };
                self.next = self.ahead(access);
                access.kind = AccessKind::Load;
            }
            event
        };
        self.seen.set(seen);
        Ok(event)
    }
}

/// Exact LRU caches of all sizes: misses of the program's own accesses.
pub fn exact(
    source: &mut impl EventSource,
    line_size: LineSize,
    sizes: &[CacheLines],
    watch: &Watch<'_>,
) -> Result<Measured, SamplerError> {
    let mut stack = LruStack::new();
    let mut misses = vec![0_u64; sizes.len()];
    let mut demand = 0_u64;
    let (touched, incomplete) = replay(source, watch, |_, access| {
        let (first, last) = line_size.span(access);
        for line in first..=last {
            let distance = stack.access(Line(line));
            if access.kind == AccessKind::Load {
                demand += 1;
                for (misses, size) in misses.iter_mut().zip(sizes) {
                    *misses += u64::from(distance.is_none_or(|distance| distance.0 >= size.0));
                }
            }
        }
        last - first + 1
    })?;
    let ratio = |misses: u64| misses as f64 / demand.max(1) as f64;
    let points = sizes.iter().copied().zip(misses.into_iter().map(ratio)).collect();
    Ok(Measured { samples: touched, windows: 1, points, incomplete, ..Measured::default() })
}

impl Measured {
    /// Leaves of what was measured behind a prefetcher the program's own accesses.
    pub fn of_demand(mut self, prefetch: Prefetch, seen: Prefetches) -> Result<Self, Failure> {
        if prefetch == Prefetch::Stride && seen.located == 0 {
            return Err(Failure::usage(
                "--prefetch stride needs the instruction of each access, which this source does not name: give --prefetch \
                 next-line, or a program",
            ));
        }
        for (point, kinds) in self.points.iter_mut().zip(self.kinds.take().into_iter().flatten()) {
            point.1 = kinds[0].unwrap_or_default();
        }
        self.invalidated.clear(); // of all touches, fetched lines included
        self.accesses = seen.accesses;
        self.prefetches = Some(seen.lines);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// What the program's accesses miss, by a list of lines with the last one touched in front.
    fn by_hand(accesses: &[Access], prefetch: Prefetch, size: usize) -> f64 {
        let mut cache: Vec<u64> = Vec::new();
        let mut touch = |line: u64| {
            let found = cache.iter().position(|&other| other == line);
            found.map(|at| cache.remove(at));
            cache.insert(0, line);
            cache.truncate(size);
            found.is_none()
        };
        let (mut misses, mut history) = (0, HashMap::<u64, Vec<u64>>::new());
        let mut before = u64::MAX;
        for access in accesses {
            let line = access.address / 64;
            misses += u64::from(touch(line));
            match prefetch {
                Prefetch::NextLine if line != before => _ = touch(line + 1),
                Prefetch::NextLine => {}
                Prefetch::Stride => {
                    let past = history.entry(access.pc).or_default();
                    past.push(access.address);
                    if let [.., a, b, c] = past[..] {
                        if b != c && 2 * b == a + c {
                            _ = touch((2 * c - b) / 64); // all are multiples of 64 apart
                        }
                    }
                }
            }
            before = line;
        }
        misses as f64 / accesses.len() as f64
    }

    #[test]
    fn demand_misses_are_those_of_a_cache_that_is_fetched_into() {
        let mut state = 1_u64;
        let mut accesses = Vec::new();
        for i in 0..6_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            accesses.push(Access::load((1 << 20) + i % 2_000 * 256, 8).at(1));
            accesses.push(Access::store((1 << 24) + (state >> 33) % 300 * 64, 8).at(2));
        }
        let never = AtomicBool::new(false);
        let watch = Watch::new(&never);
        for prefetch in [Prefetch::NextLine, Prefetch::Stride] {
            let seen = Cell::default();
            let events = accesses.iter().copied().map(Event::Access);
            let mut source = Prefetching::new(events, prefetch, LineSize::B64, &seen);
            let sizes = [CacheLines(16), CacheLines(64), CacheLines(400)];
            let found = exact(&mut source, LineSize::B64, &sizes, &watch).unwrap();
            for (size, ratio) in found.of_demand(prefetch, seen.get()).unwrap().points {
                assert_eq!(ratio, by_hand(&accesses, prefetch, size.0 as usize), "{prefetch:?} {size:?}");
            }
            assert_eq!(seen.get().accesses, 12_000);
        }
    }

    #[test]
    fn lines_ahead_stay_within_the_address_space() {
        for prefetch in [Prefetch::NextLine, Prefetch::Stride] {
            let seen = Cell::default();
            let ends = [0, 1, 2, 0, u64::MAX - 2, u64::MAX - 1, u64::MAX, u64::MAX, 2, 1, 0];
            let events = ends.into_iter().map(|address| Event::Access(Access::load(address, 8).at(1)));
            let mut source = Prefetching::new(events, prefetch, LineSize::B64, &seen);
            while source.next_event().unwrap().is_some() {}
            assert_eq!(seen.get().accesses, 11);
        }
    }
}
