//! Groupings of windows: one model for each burst or each phase, combined by their shares of the accesses.
//!
//! A model fitted to all samples at once assumes that every access sees the same stream. Programs change:
//! fitting each part by itself and averaging removes that error, at the cost of fewer samples per model. The
//! three groupings of the papers differ only in the key that a window is given:
//!
//! | grouping | key |
//! |---|---|
//! | phase-oblivious | the same for all windows |
//! | burst | the window's own number |
//! | phase-aware | the window's phase |

use std::collections::{BTreeMap, HashMap};

use crate::{
    CacheLines, CacheModel, Clock, Error, Evaluator, LineSize, Reuse, ReuseProfile, Scope, Window,
    WindowIndex,
};

/// Reuse profiles by group: every sample goes to the group of the window that *started* it, whichever window
/// reports it.
///
/// # Cost
/// One profile per group, and 16 bytes or so per window added.
///
/// ```
/// use reuse_sampler::{GroupedProfiles, LineSize, ThreadId, Window, WindowIndex};
///
/// let mut phases = GroupedProfiles::new(LineSize::B64);
/// phases.add(&Window::new(WindowIndex(0), ThreadId(0), LineSize::B64), "start-up")?;
/// phases.add(&Window::new(WindowIndex(1), ThreadId(0), LineSize::B64), "steady")?;
/// assert_eq!(phases.iter().count(), 2);
/// # Ok::<(), reuse_sampler::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupedProfiles<K> {
    empty: ReuseProfile,
    group_of: HashMap<WindowIndex, K>,
    profiles: BTreeMap<K, ReuseProfile>,
    strays: ReuseProfile,
}

impl<K: Ord + Clone> GroupedProfiles<K> {
    /// No groups yet.
    #[must_use]
    pub fn new(line_size: LineSize) -> Self {
        Self::with_scope(line_size, Scope::Private)
    }

    /// No groups yet, for windows of `scope`: those of a thread, or [those of all threads together](Window::process).
    #[must_use]
    pub fn with_scope(line_size: LineSize, scope: Scope) -> Self {
        let empty = ReuseProfile::with_units(line_size, Clock::Accesses, scope);
        Self { group_of: HashMap::new(), profiles: BTreeMap::new(), strays: empty.clone(), empty }
    }

    /// Puts `window` into group `key`, and what it reports into the groups of the windows that started it.
    /// Windows are added in the order in which the sampler returned them.
    ///
    /// # Errors
    /// [`Error::WindowTwice`] if a window of this number was added before, [`Error::MixedLineSizes`] or
    /// [`Error::MixedScopes`] if it was observed at another line size, or of other threads; nothing is recorded then.
    /// Distances by another clock than accesses count as not known.
    pub fn add(&mut self, window: &Window, key: K) -> Result<(), Error> {
        // Of the clock, each outcome says itself whether it is known by accesses.
        self.empty.check(window.line_size, Clock::Accesses, window.scope)?;
        if self.group_of.contains_key(&window.index) {
            return Err(Error::WindowTwice { index: window.index.0 });
        }
        let own = self.profiles.entry(key.clone()).or_insert_with(|| self.empty.clone());
        own.add_accesses(window.accesses.get().unwrap_or(0));
        self.group_of.insert(window.index, key);
        // Outcomes come by the window that started them: one look-up serves all of a window's.
        let mut outcomes = window.outcomes_by(Clock::Accesses).peekable();
        while let Some(&(started_in, ..)) = outcomes.peek() {
            let profile = self.profile_of(started_in);
            while let Some((_, outcome, count, weight)) = outcomes.next_if(|next| next.0 == started_in) {
                profile.record_many(outcome, count, weight);
            }
        }
        for overlap in &window.overlaps {
            self.profile_of(overlap.started_in).record_overlap(overlap);
        }
        Ok(())
    }

    /// Where samples that were started in this window are recorded.
    fn profile_of(&mut self, window: WindowIndex) -> &mut ReuseProfile {
        let key = self.group_of.get(&window);
        key.and_then(|key| self.profiles.get_mut(key)).unwrap_or(&mut self.strays)
    }

    /// The profile of one group.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&ReuseProfile> {
        self.profiles.get(key)
    }

    /// The groups and their profiles, by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &ReuseProfile)> {
        self.profiles.iter()
    }

    /// Samples whose window was never added.
    #[must_use]
    pub const fn strays(&self) -> &ReuseProfile {
        &self.strays
    }

    /// All groups and the strays together: the phase-oblivious profile.
    #[must_use]
    pub fn all(&self) -> ReuseProfile {
        let mut all = self.strays.clone();
        for profile in self.profiles.values() {
            // All have the line size, clock and scope given at construction.
            let merged = all.merge(profile);
            debug_assert!(merged.is_ok());
        }
        all
    }
}

/// A model per group of windows, each answering for its share of the accesses.
///
/// # Formula
/// m(L) is the sum of the groups' m(L), each times its share. For a single access of which only the
/// distance is known, the probabilities of the groups are weighted in the same way.
///
/// # References
/// Sembrant, Black-Schaffer and Hagersten, *Phase Guided Profiling for Fast Cache Modeling*, CGO 2012,
/// section 3.2 (burst and phase-aware use of StatCache).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Saved<M>", bound(deserialize = "M: CacheModel + serde::Deserialize<'de>"))
)]
pub struct Grouped<M> {
    line_size: LineSize,
    parts: Vec<(f64, M)>, // shares > 0 that add up to 1
}

/// Models as they are read: not yet known to fit together.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<M> {
    line_size: LineSize,
    parts: Vec<(f64, M)>,
}

#[cfg(feature = "serde")]
impl<M: CacheModel> TryFrom<Saved<M>> for Grouped<M> {
    type Error = Error;

    fn try_from(Saved { line_size, parts }: Saved<M>) -> Result<Self, Error> {
        for (share, model) in &parts {
            // A comparison that a NaN fails.
            if !(*share > 0.0 && *share <= 1.0) {
                return Err(Error::GroupWeight { weight: *share });
            }
            if model.line_size() != line_size {
                return Err(Error::mixed_line_sizes(line_size, model.line_size()));
            }
            same_scope(&parts[0].1, model)?;
        }
        if parts.is_empty() {
            return Err(Error::NoGroups);
        }
        let sum: f64 = parts.iter().map(|(share, _)| share).sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(Error::MalformedProfile { what: format!("shares of groups that add up to {sum}") });
        }
        Ok(Self { line_size, parts })
    }
}

impl<M: CacheModel> Grouped<M> {
    /// Combines models by weights that are proportional to the accesses they stand for. Models of weight 0
    /// are left out.
    ///
    /// # Errors
    /// [`Error::NoGroups`] if no weight is positive, [`Error::GroupWeight`] for a weight that is negative,
    /// infinite or not a number, and [`Error::MixedLineSizes`] or [`Error::MixedScopes`] if the units differ.
    pub fn new(models: impl IntoIterator<Item = (f64, M)>) -> Result<Self, Error> {
        let mut parts: Vec<(f64, M)> = Vec::new();
        for (weight, model) in models {
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(Error::GroupWeight { weight });
            }
            if let Some((_, first)) = parts.first() {
                if first.line_size() != model.line_size() {
                    return Err(Error::mixed_line_sizes(first.line_size(), model.line_size()));
                }
                same_scope(first, &model)?;
            }
            if weight > 0.0 {
                parts.push((weight, model));
            }
        }
        let Some(line_size) = parts.first().map(|(_, model)| model.line_size()) else {
            return Err(Error::NoGroups);
        };
        let largest = parts.iter().map(|(weight, _)| *weight).fold(0.0, f64::max);
        let total: f64 = parts.iter().map(|(weight, _)| *weight / largest).sum();
        for (weight, _) in &mut parts {
            *weight = *weight / largest / total;
        }
        parts.retain(|(share, _)| *share > 0.0); // some are too small beside the others for a number
        Ok(Self { line_size, parts })
    }

    /// Fits a model to every profile that has samples, weighted by the accesses the profile stands for, or by
    /// the weight of its samples where the accesses are not known.
    ///
    /// # Errors
    /// What `fit` answers, or [`Error::NoGroups`] and [`Error::MixedLineSizes`] as [`new`](Self::new).
    pub fn fit<'a, E: From<Error>>(
        profiles: impl IntoIterator<Item = &'a ReuseProfile>,
        fit: impl Fn(&ReuseProfile) -> Result<M, E>,
    ) -> Result<Self, E> {
        let mut models = Vec::new();
        for profile in profiles.into_iter().filter(|profile| !profile.is_empty()) {
            models.push((weight_of(profile), fit(profile)?));
        }
        Ok(Self::new(models)?)
    }

    /// The models with their shares, which add up to 1.
    #[must_use]
    pub fn parts(&self) -> &[(f64, M)] {
        &self.parts
    }
}

fn same_scope(left: &impl CacheModel, right: &impl CacheModel) -> Result<(), Error> {
    let (left, right) = (left.scope(), right.scope());
    if left == right { Ok(()) } else { Err(Error::MixedScopes { left, right }) }
}

/// A profile's accesses, or its samples' weight where those are unknown.
pub(super) fn weight_of(profile: &ReuseProfile) -> f64 {
    (if profile.accesses() > 0 { profile.accesses() } else { profile.total_weight() }) as f64
}

impl<M: CacheModel> CacheModel for Grouped<M> {
    fn line_size(&self) -> LineSize {
        self.line_size
    }

    fn scope(&self) -> Scope {
        // There is at least one part, and all are of one scope.
        self.parts.first().map_or_else(Scope::default, |(_, model)| model.scope())
    }

    fn at(&self, size: CacheLines) -> Evaluator<'_> {
        let parts: Vec<_> = self.parts.iter().map(|(share, model)| (*share, model.at(size))).collect();
        Evaluator::function(move |distance| {
            let misses =
                parts.iter().map(|(share, at)| share * at.miss_probability(Reuse::Distance(distance)));
            misses.sum::<f64>().min(1.0) // but for rounding
        })
    }

    fn miss_ratio(&self, size: CacheLines) -> f64 {
        let sum: f64 = self.parts.iter().map(|(share, model)| share * model.miss_ratio(size)).sum();
        sum.clamp(0.0, 1.0)
    }

    /// As if all parts erred alike.
    fn standard_error(&self, size: CacheLines) -> f64 {
        let errors = self.parts.iter().map(|(share, model)| share * model.standard_error(size));
        errors.sum::<f64>().min(1.0)
    }

    fn curve(&self, sizes: &[CacheLines]) -> crate::MissRatioCurve {
        let mut points: Vec<_> = sizes.iter().map(|&size| (size, 0.0)).collect();
        for (share, model) in &self.parts {
            for (point, (_, ratio)) in points.iter_mut().zip(model.curve(sizes).points) {
                point.1 += share * ratio;
            }
        }
        for (_, ratio) in &mut points {
            *ratio = ratio.clamp(0.0, 1.0);
        }
        crate::MissRatioCurve::new(self.line_size, self.scope(), points)
    }
}
