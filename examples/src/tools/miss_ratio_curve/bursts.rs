//! A run of unknown length, divided into a given number of parts of about equal length.
//!
//! The sampler returns many short windows. Their profiles are kept one by one at first; whenever there are too
//! many, neighbours are merged in pairs, so that memory stays bounded and the parts stay equally long. At the end
//! they are merged into the number of parts asked for, which then differ in length by a few percent.

use std::iter::repeat_n;

use reuse_sampler::{
    AccessKind, Arrivals, Clock, Error, LineSize, Outcome, ReuseProfile, Scope, Window, count_alike,
};

/// Profiles kept per part that is asked for, at least; twice as many at most.
const PER_PART: usize = 24;

/// What was seen of a stretch of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Samples that started in it: what its model is fitted to.
    pub profile: ReuseProfile,
    /// Reuses that ended in it, by the kind of access that ended them: what its model judges. First touches are among
    /// them only where every access was measured; single samples do not see them.
    pub arrivals: Arrivals,
    /// Executed in it; 0 if the source does not count them.
    pub instructions: u64,
}

impl Part {
    fn new(line_size: LineSize, scope: Scope) -> Self {
        let empty = || ReuseProfile::with_units(line_size, Clock::Accesses, scope);
        Self { profile: empty(), arrivals: Arrivals { loads: empty(), stores: empty() }, instructions: 0 }
    }

    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.profile.merge(&other.profile)?;
        self.instructions += other.instructions;
        self.arrive(&other.arrivals)
    }

    fn arrive(&mut self, arrivals: &Arrivals) -> Result<(), Error> {
        self.arrivals.loads.merge(&arrivals.loads)?;
        self.arrivals.stores.merge(&arrivals.stores)
    }
}

/// Profiles of consecutive stretches of a run.
#[derive(Clone, Debug)]
pub struct Bursts {
    parts: usize, // >= 1
    line_size: LineSize,
    scope: Scope,
    windows_each: u32,    // binary logarithm of the windows in each stretch
    stretches: Vec<Part>, // at most 2 * PER_PART * parts
    samples: u64,
    accesses: u64,
    invalidated: [u64; 2], // weight of the samples that were, and of those whose line was touched again
}

impl Bursts {
    /// Nothing yet, of windows of a thread, to be divided into `parts` parts (0 is taken as 1).
    pub fn new(parts: usize, line_size: LineSize) -> Self {
        Self::with_scope(parts, line_size, Scope::Private)
    }

    /// The same of windows of `scope`.
    pub fn with_scope(parts: usize, line_size: LineSize, scope: Scope) -> Self {
        let parts = parts.max(1);
        Self {
            parts,
            line_size,
            scope,
            windows_each: 0,
            stretches: Vec::new(),
            samples: 0,
            accesses: 0,
            invalidated: [0; 2],
        }
    }

    /// Adds a window. Each of its samples goes to the stretch in which it was started, and where it ended counts as an
    /// arrival of this one.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] if the window's profile is of another line size.
    pub fn add(&mut self, window: &Window) -> Result<(), Error> {
        let accesses = window.accesses.get().unwrap_or(0);
        let own = self.stretch(window.index.0)?;
        own.profile.add_accesses(accesses);
        own.instructions += window.instructions;
        match &window.arrivals {
            Some(arrivals) => own.arrive(arrivals)?,
            None => {
                for sample in &window.samples {
                    let (Some(end), Outcome::Reused(_)) = (sample.end, sample.outcome) else { continue };
                    let of_kind = match end.kind {
                        AccessKind::Store => &mut own.arrivals.stores,
                        AccessKind::Load => &mut own.arrivals.loads,
                    };
                    of_kind.record(sample.outcome, sample.weight);
                }
            }
        }
        self.accesses += accesses;
        self.invalidated[1] += window.refetched;
        for (started_in, outcome, count, weight) in window.outcomes() {
            self.stretch(started_in.0)?.profile.record_many(outcome, count, weight);
            self.samples += count;
            if let Outcome::Invalidated(_) = outcome {
                self.invalidated[0] += count * weight;
            }
        }
        for overlap in &window.overlaps {
            self.stretch(overlap.started_in.0)?.profile.record_overlap(overlap);
        }
        Ok(())
    }

    /// The stretch that window number `index` belongs to.
    fn stretch(&mut self, index: u64) -> Result<&mut Part, Error> {
        while (index >> self.windows_each) as usize >= 2 * PER_PART * self.parts {
            self.halve()?;
        }
        let stretch = (index >> self.windows_each) as usize;
        if self.stretches.len() <= stretch {
            self.stretches.resize(stretch + 1, Part::new(self.line_size, self.scope));
        }
        Ok(&mut self.stretches[stretch])
    }

    fn halve(&mut self) -> Result<(), Error> {
        self.stretches = joined(&self.stretches, 2)?;
        self.windows_each += 1;
        Ok(())
    }

    /// Samples so far.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Share of the invalidated samples whose line its thread touched again: only those are misses because of others.
    pub fn refetched(&self) -> f64 {
        let [all, again] = self.invalidated;
        if all > 0 { (again as f64 / all as f64).min(1.0) } else { 0.0 }
    }

    /// Accesses so far.
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    /// `parts` parts in order, with samples or without; fewer where the run was too short.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`] cannot happen once the windows were added.
    pub fn divided(&self, parts: usize) -> Result<Vec<Part>, Error> {
        let stretches = self.stretches.len();
        merged(&self.stretches, parts.min(stretches), |i, parts| i * parts / stretches)
    }
}

/// Those of the parts with at least one sample. What arrived in one without samples goes to the part before it, or to the
/// first.
///
/// # Errors
/// As [`Bursts::divided`].
pub fn sampled(parts: Vec<Part>) -> Result<Vec<Part>, Error> {
    let (mut kept, empty): (Vec<_>, Vec<_>) =
        parts.into_iter().enumerate().partition(|(_, part)| !part.profile.is_empty());
    for (place, part) in empty {
        let before = kept.partition_point(|(kept, _)| *kept < place);
        if let Some((_, neighbour)) = kept.get_mut(before.saturating_sub(1)) {
            neighbour.arrive(&part.arrivals)?;
        }
    }
    Ok(kept.into_iter().map(|(_, part)| part).collect())
}

/// Neighbours in one where their samples do not show that they differ.
///
/// # Errors
/// As [`Bursts::divided`].
pub fn alike(parts: Vec<Part>) -> Result<Vec<Part>, Error> {
    let profiles: Vec<_> = parts.iter().map(|part| part.profile.clone()).collect();
    let counts = count_alike(&profiles)?;
    if counts.is_empty() {
        return Ok(parts);
    }
    let group_of: Vec<usize> =
        counts.iter().enumerate().flat_map(|(group, &count)| repeat_n(group, count)).collect();
    merged(&parts, counts.len(), |i, _| group_of[i])
}

/// So many neighbours in one, of the last ones fewer; `each` is at least 1.
///
/// # Errors
/// As [`Bursts::divided`].
pub fn joined(stretches: &[Part], each: usize) -> Result<Vec<Part>, Error> {
    merged(stretches, stretches.len().div_ceil(each), |i, _| i / each)
}

/// Merges neighbours: stretch `i` goes to number `to(i, count)`, which never falls and is below `count`.
fn merged(stretches: &[Part], count: usize, to: impl Fn(usize, usize) -> usize) -> Result<Vec<Part>, Error> {
    let mut merged: Vec<Part> = Vec::with_capacity(count);
    for (i, stretch) in stretches.iter().enumerate() {
        match merged.get_mut(to(i, count)) {
            Some(part) => part.merge(stretch)?,
            None => merged.push(stretch.clone()),
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;
    use reuse_sampler::{AccessCount, ReuseCount, ReuseDistance, ReuseSample, Site, ThreadId, WindowIndex};

    use super::*;

    fn with_samples(bursts: &Bursts) -> Result<Vec<Part>, Error> {
        sampled(bursts.divided(bursts.parts)?)
    }

    /// A window with one sample of its own, whose distance is its number, and one that the window before left.
    fn window(index: u64, accesses: u64) -> Window {
        let mut window = Window::new(WindowIndex(index), ThreadId(0), LineSize::B64);
        window.accesses = AccessCount::Measured(accesses);
        let count = |started_in, distance| ReuseCount {
            outcome: Outcome::Reused(ReuseDistance(distance)),
            started_in: WindowIndex(started_in),
            count: 1,
        };
        window.counts.push(count(index, index % 1000));
        if let Some(before) = index.checked_sub(1) {
            window.counts.push(count(before, before % 1000));
        }
        window
    }

    fn bursts(parts: usize, windows: u64) -> Bursts {
        let mut bursts = Bursts::new(parts, LineSize::B64);
        for index in 0..windows {
            bursts.add(&window(index, 10)).unwrap();
        }
        bursts
    }

    quickcheck! {
        fn nothing_is_lost_and_the_order_is_kept(parts: u8, windows: u16) -> bool {
            let (parts, windows) = (usize::from(parts % 30) + 1, u64::from(windows % 5000) + 1);
            let bursts = bursts(parts, windows);
            let totals = (bursts.accesses(), bursts.samples()) == (10 * windows, 2 * windows - 1);
            let divided = with_samples(&bursts).unwrap();
            let mut next = 0;
            let in_order = divided.iter().all(|part| {
                // Windows next.. belong to this part, two samples each but for the last window of all.
                let own = part.profile.accesses() / 10;
                let samples = 2 * own - u64::from(next + own == windows);
                next += own;
                part.profile.samples() == samples
            });
            totals && in_order && next == windows && divided.len() == parts.min(windows as usize)
        }

        fn parts_of_a_long_run_are_about_equal(parts: u8, windows: u16) -> bool {
            let parts = usize::from(parts % 30) + 1;
            let windows = u64::from(windows) + (PER_PART * parts) as u64;
            let divided = with_samples(&bursts(parts, windows)).unwrap();
            let lengths = || divided.iter().map(|part| part.profile.accesses());
            let (Some(least), Some(most)) = (lengths().min(), lengths().max()) else { return false };
            // At least 24 stretches each, one more or less, the last of them partial.
            divided.len() == parts && most as f64 <= least as f64 * 24.0 / 22.0 + 10.0
        }
    }

    /// A window whose only sample began in window 0 and ended in it, at a load or at a store.
    fn arrival(index: u64, kind: AccessKind) -> Window {
        let mut window = Window::new(WindowIndex(index), ThreadId(0), LineSize::B64);
        let site = |pc| Site { pc, kind };
        window.samples.push(ReuseSample {
            outcome: Outcome::Reused(ReuseDistance(index)),
            started_in: WindowIndex(0),
            thread: ThreadId(0),
            begin: site(1),
            end: Some(site(2)),
            weight: index + 1,
        });
        window
    }

    #[test]
    fn arrivals_stay_where_they_ended_and_move_on_from_parts_without_samples() {
        let kind = |index| if index % 3 == 0 { AccessKind::Store } else { AccessKind::Load };
        let weight = |stores: bool, indices: std::ops::Range<u64>| -> u64 {
            indices.filter(|index| (index % 3 == 0) == stores).map(|index| index + 1).sum()
        };
        let arrived = |part: &Part| (part.arrivals.loads.total_weight(), part.arrivals.stores.total_weight());
        let mut bursts = Bursts::new(4, LineSize::B64);
        (0..100).for_each(|index| bursts.add(&arrival(index, kind(index))).unwrap());
        // All samples began in the first part: the other three have none to be modelled by. They are time, nevertheless.
        let divided = bursts.divided(4).unwrap();
        let by_part =
            [0..25, 25..50, 50..75, 75..100].map(|part| (weight(false, part.clone()), weight(true, part)));
        assert_eq!(divided.iter().map(arrived).collect::<Vec<_>>(), by_part);
        let alone = with_samples(&bursts).unwrap();
        assert_eq!(alone.len(), 1);
        assert_eq!(arrived(&alone[0]), (weight(false, 0..100), weight(true, 0..100)));
        let own = |index, distance| {
            let mut window = window(index, 10);
            window.counts.truncate(1);
            window.counts[0].outcome = Outcome::Reused(ReuseDistance(distance));
            window
        };
        bursts.add(&own(60, 5)).unwrap();
        let parts = with_samples(&bursts).unwrap();
        let expected = [0..50, 50..100].map(|part| (weight(false, part.clone()), weight(true, part)));
        assert_eq!(parts.iter().map(arrived).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_window_gives_no_part() {
        assert_eq!(with_samples(&Bursts::new(0, LineSize::B64)).unwrap(), []);
    }
}
