//! Which code misses: samples by the instructions, the source lines or the kinds of access that they begin and end
//! with.
//!
//! A sample shows two things. The access that *ended* it found its line after that distance: whether it missed. The
//! access that *began* it left its line for that distance: whether the line was still there when it was wanted again.
//! The first says where misses happen, the second which code fills the cache with lines that nobody reuses in time.

use std::collections::BTreeMap;

use crate::engine::bins;
use crate::{Error, Evaluator, Outcome, Reuse, ReuseDistance, ReuseProfile, ReuseSample, Site, Window};

/// Standard errors by which a site's samples that begin there must outnumber those that end there, before first touches
/// are seen in that.
const SIGNIFICANT: f64 = 2.0;
/// Reuses after so few accesses hit in every cache: their distances are not kept by who began them.
const NEAR: u64 = 64;

/// Samples by site: `K` is what the caller makes of a [`Site`], an instruction, a source line, loads and stores.
///
/// Only single samples know their sites: windows in which every access is measured report counts, which do not. To
/// measure every access and keep the sites, sample with a mean gap of 1.
///
/// All windows are of the line size, clock and scope of the first.
///
/// # Cost
/// Some 20 bytes for each different distance at each site.
///
/// ```
/// use reuse_sampler::{
///     AccessKind, Evaluator, HotSpots, LineSize, Outcome, ReuseDistance, ReuseSample, Site, ThreadId, Window,
///     WindowIndex,
/// };
///
/// let site = |pc| Site { pc, kind: AccessKind::Load };
/// let sample = |pc, distance| ReuseSample {
///     outcome: Outcome::Reused(ReuseDistance(distance)),
///     started_in: WindowIndex(0),
///     thread: ThreadId(0),
///     begin: site(pc),
///     end: Some(site(pc)),
///     weight: 100,
/// };
/// let mut window = Window::new(WindowIndex(0), ThreadId(0), LineSize::B64); // as a sampler returns it
/// window.samples.extend([sample(0x10, 3); 90]);
/// window.samples.extend([sample(0x20, 5_000); 10]);
/// let mut spots = HotSpots::new();
/// spots.add(&window, |site| site.pc)?;
/// // A cache that keeps lines for 1,000 accesses: one instruction in ten makes all the misses.
/// let ranked = spots.rank(&Evaluator::step(ReuseDistance(1_000)));
/// assert_eq!((ranked[0].site, ranked[0].accesses, ranked[0].misses), (0x20, 0.1, 1.0));
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HotSpots<K> {
    pub(super) units: Option<ReuseProfile>, // empty, of the units of the first window
    pub(super) sites: BTreeMap<K, Tally<K>>,
    samples: u64,
    weight: u64,
    pub(super) unended: u64, // weight of those that dangle or were censored
}

#[derive(Clone, Debug)]
pub(super) struct Tally<K> {
    samples: u64,                                    // begun here
    pub(super) begun: u64,                           // their weight
    pub(super) ended: u64,                           // weight of those ended here
    own: u64,                                        // of these, begun here as well
    unended: u64,             // weight of those begun here that dangle or were censored
    pub(super) dangling: u64, // of these, those that dangle
    pub(super) forward: BTreeMap<u16, u64>, // weight by bin, of those begun here
    pub(super) backward: BTreeMap<u16, u64>, // of those ended here
    pub(super) far: BTreeMap<K, BTreeMap<u16, u64>>, // of them, those beyond NEAR, by the sites that they began at
    pub(super) near: BTreeMap<K, u64>,               // weight of the others that began elsewhere, likewise
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self {
            samples: 0,
            begun: 0,
            ended: 0,
            own: 0,
            unended: 0,
            dangling: 0,
            forward: BTreeMap::new(),
            backward: BTreeMap::new(),
            far: BTreeMap::new(),
            near: BTreeMap::new(),
        }
    }
}

/// What one site does to a cache of some size.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HotSpot<K> {
    /// The site.
    pub site: K,
    /// Samples that began there: the precision of all this. Shares of n samples have a relative standard error of
    /// 1 / sqrt(n).
    pub samples: u64,
    /// Its share of all accesses, from 0 to 1.
    pub accesses: f64,
    /// Its share of all misses, from 0 to 1.
    pub misses: f64,
    /// Share of its accesses that miss, from 0 to 1.
    pub miss_ratio: f64,
    /// Share of its misses that are first touches of a line, from 0 to 1: an estimate, see [`HotSpots::rank`].
    pub first_touches: f64,
    /// Share of its accesses whose line leaves the cache before it is touched again, or never is.
    pub wasted: f64,
}

/// Samples below which a share of nearly all says nothing.
const ENOUGH: u64 = 20;
/// Share of wasted accesses from which a site is better kept out of the cache.
const WASTED: f64 = 0.95;

impl<K> HotSpot<K> {
    /// The sites of which nearly every access (95 %, of 20 samples or more) brings or keeps a line in the cache that
    /// leaves it before it is touched again, the one with most of them first: candidates for non-temporal hints, which
    /// leave the cache to others at no cost to themselves.
    #[must_use]
    pub fn non_temporal(spots: &[Self]) -> Vec<&Self> {
        let mut wasteful: Vec<&Self> =
            spots.iter().filter(|spot| spot.samples >= ENOUGH && spot.wasted >= WASTED).collect();
        wasteful.sort_by(|a, b| (b.accesses * b.wasted).total_cmp(&(a.accesses * a.wasted)));
        wasteful
    }
}

impl<K> Default for HotSpots<K> {
    fn default() -> Self {
        Self { units: None, sites: BTreeMap::new(), samples: 0, weight: 0, unended: 0 }
    }
}

impl<K: Ord + Clone> HotSpots<K> {
    /// No samples yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the samples that a window reports; `site` names the instructions that they began and ended with.
    ///
    /// # Errors
    /// [`Error::MixedLineSizes`], [`Error::MixedClocks`] and [`Error::MixedScopes`] for a window that was observed otherwise
    /// than the first: nothing is added.
    pub fn add(&mut self, window: &Window, site: impl Fn(Site) -> K) -> Result<(), Error> {
        let units = || ReuseProfile::with_units(window.line_size, window.clock, window.scope);
        self.units.get_or_insert_with(units).check(window.line_size, window.clock, window.scope)?;
        window.samples.iter().for_each(|sample| self.add_sample(sample, &site));
        Ok(())
    }

    fn add_sample(&mut self, sample: &ReuseSample, site: &impl Fn(Site) -> K) {
        self.samples += 1;
        self.weight = self.weight.saturating_add(sample.weight);
        let key = site(sample.begin);
        let end = sample.end.map(site);
        let same = end.as_ref() == Some(&key);
        let begin = self.sites.entry(key.clone()).or_default();
        begin.samples += 1;
        begin.begun += sample.weight;
        let Outcome::Reused(distance) = sample.outcome else {
            begin.unended += sample.weight;
            begin.dangling += if sample.outcome == Outcome::Dangling { sample.weight } else { 0 };
            self.unended += sample.weight;
            return;
        };
        let bin = bins::bin_of(distance.0) as u16;
        *begin.forward.entry(bin).or_default() += sample.weight;
        if let Some(end) = end {
            let end = self.sites.entry(end).or_default();
            end.ended += sample.weight;
            end.own += if same { sample.weight } else { 0 };
            *end.backward.entry(bin).or_default() += sample.weight;
            if distance.0 > NEAR {
                *end.far.entry(key).or_default().entry(bin).or_default() += sample.weight;
            } else if !same {
                *end.near.entry(key).or_default() += sample.weight;
            }
        }
    }

    /// An empty profile of the line size, clock and scope of the windows; `None` before the first.
    #[must_use]
    pub const fn units(&self) -> Option<&ReuseProfile> {
        self.units.as_ref()
    }

    /// Number of samples.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// The sites, ascending.
    pub fn sites(&self) -> impl Iterator<Item = &K> {
        self.sites.keys()
    }

    /// The distances at which the accesses of a site found their lines, first touches dangling: what
    /// [`CacheModel::miss_ratio_of`](crate::CacheModel::miss_ratio_of) makes the miss ratio of loads, of stores or of one
    /// instruction of. `None` for a site that no sample names.
    #[must_use]
    pub fn arrivals(&self, site: &K) -> Option<ReuseProfile> {
        let tally = self.sites.get(site)?;
        let mut profile = self.units.clone()?;
        for (&bin, &weight) in &tally.backward {
            profile.record(Outcome::Reused(ReuseDistance(bins::middle(usize::from(bin)))), weight);
        }
        let first = self.first_touches(tally) * self.first_scale();
        profile.record(Outcome::Dangling, first.round() as u64);
        profile.add_accesses(tally.begun);
        Some(profile)
    }

    /// What each site does to a cache, the one with most misses first. `at` is a model of all accesses, prepared for the
    /// size; it does not say of which units, [`units`](Self::units) does.
    ///
    /// # Formula
    /// Misses of a site: the sum over samples ended there of weight times miss probability, and its first touches.
    /// A first touch ends no sample: where more samples begin at a site than end there, by twice the standard error of
    /// the difference, sqrt(begun + ended - 2 begun and ended there), lines come in for the first time. The sites'
    /// surpluses are scaled to add up to the samples that never ended.
    ///
    /// # Limits
    /// Where samples were censored, they count as never ended: shares of first touches are then upper bounds.
    #[must_use]
    pub fn rank(&self, at: &Evaluator<'_>) -> Vec<HotSpot<K>> {
        let scale = self.first_scale();
        let missing = |bins: &BTreeMap<u16, u64>| -> f64 {
            let miss = |(&bin, &weight): (&u16, &u64)| {
                let distance = ReuseDistance(bins::middle(usize::from(bin)));
                weight as f64 * at.miss_probability(Reuse::Distance(distance))
            };
            bins.iter().map(miss).sum()
        };
        let mut spots: Vec<(f64, HotSpot<K>)> = Vec::with_capacity(self.sites.len());
        let mut all = 0.0;
        for (site, tally) in &self.sites {
            let first = scale * self.first_touches(tally);
            let misses = missing(&tally.backward) + first;
            all += misses;
            // A site at which samples only ended was reached at least that often.
            let accesses = tally.begun.max(tally.ended).max(1) as f64;
            let wasted = missing(&tally.forward) + tally.unended as f64;
            let spot = HotSpot {
                site: site.clone(),
                samples: tally.samples,
                accesses: tally.begun as f64 / self.weight.max(1) as f64,
                misses: 0.0,
                miss_ratio: (misses / accesses).min(1.0),
                first_touches: if misses > 0.0 { first / misses } else { 0.0 },
                wasted: wasted / tally.begun.max(1) as f64,
            };
            spots.push((misses, spot));
        }
        // Stable: equal ones stay in the order of their keys.
        spots.sort_by(|a, b| b.0.total_cmp(&a.0));
        let share = |(misses, spot)| HotSpot { misses: if all > 0.0 { misses / all } else { 0.0 }, ..spot };
        spots.into_iter().map(share).collect()
    }

    /// Weight of the first touches that a site's samples give away.
    pub(super) fn first_touches(&self, tally: &Tally<K>) -> f64 {
        let each = self.weight as f64 / self.samples.max(1) as f64;
        // Where every access was a sample, chance has no part in it.
        let chance = 1.0 - 1.0 / each.max(1.0);
        let apart = (tally.begun + tally.ended).saturating_sub(2 * tally.own) as f64;
        let error = (chance * each * apart).sqrt();
        (tally.begun as f64 - tally.ended as f64 - SIGNIFICANT * error).max(0.0)
    }

    pub(super) fn first_scale(&self) -> f64 {
        let found: f64 = self.sites.values().map(|tally| self.first_touches(tally)).sum();
        if found > 0.0 { self.unended as f64 / found } else { 0.0 }
    }
}

const _: () = assert!(bins::BINS <= u16::MAX as usize, "a bin fits the 16 bits kept of it");
