//! Phase-guided profiling: the phases of a program decide which of its windows are profiled.
//!
//! The guide deals in phases and threads only. What profiling a window means (reuse samples, counters, a trace) is up to
//! the caller, who turns an [`Action`] into a request to its own profiler.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::gaps::Gaps;
use super::{Detection, Detector, Histories, PrivateHistories};
use crate::{Clusterer, Distance, Error, LeaderFollower, PhaseId, Ppm, Signature};

/// Profiled windows of a phase that are followed for the full [`GuideConfig::follow`] windows.
const FOLLOWED_FAR: u64 = 2;

/// Windows at the beginning of a run that are profiled by default; chosen in `docs/phase-guided.md`.
const PROFILE_FIRST: u64 = 32;

/// Parameters of [`Guide`]; checked by [`Guide::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GuideConfig {
    /// Windows at the beginning of the run, of all threads together, that are profiled whatever their phase: a short run
    /// is profiled whole, and a long one pays no more than this. Gaps begin afterwards, as if nothing had been profiled, so
    /// that what they choose speaks for the rest of the run. 0 leaves every window but a thread's first to the gaps.
    #[cfg_attr(feature = "serde", serde(default))]
    pub profile_first: u64,
    /// Mean gap after the first profiled window of a phase, in windows of the phase: 1 also profiles the next one. At
    /// least 1; a value above `gap_limit` counts as that.
    pub first_gap: f64,
    /// Largest mean gap between profiled windows of a phase, in windows of the phase. At least 1; 1 profiles every
    /// window.
    pub gap_limit: f64,
    /// Largest number of windows after a profiled one in which samples that are still open are followed. The first two
    /// profiled windows of a phase are followed that far; a quarter of it (at least one window) serves for the others.
    pub follow: u32,
    /// Share of the samples of a profiled window that may stay unresolved, from 0 to 1: if fewer are open they are not
    /// followed.
    pub unresolved: f64,
    /// Seed of the gaps.
    pub seed: u64,
}

impl Default for GuideConfig {
    /// The first 32 windows, then gaps from 1 to 32 windows; at most 64 windows of following while more than
    /// 0.5 % of a window's samples are open.
    fn default() -> Self {
        Self {
            profile_first: PROFILE_FIRST,
            first_gap: 1.0,
            gap_limit: 32.0,
            follow: 64,
            unresolved: 0.005,
            seed: 0,
        }
    }
}

impl GuideConfig {
    fn check(&self) -> Result<(), Error> {
        for (name, value) in [("first_gap", self.first_gap), ("gap_limit", self.gap_limit)] {
            if !(1.0..f64::INFINITY).contains(&value) {
                return Err(Error::Parameter { name, value, limit: "it is a number of windows, at least 1" });
            }
        }
        if !(0.0..=1.0).contains(&self.unresolved) {
            let limit = "it is a share of the samples, from 0 to 1";
            return Err(Error::Parameter { name: "unresolved", value: self.unresolved, limit });
        }
        Ok(())
    }
}

/// What to do in the next window of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// Start samples.
    Profile,
    /// Start none, but keep looking for the end of those that are open.
    Follow,
    /// Run at full speed.
    LeaveAlone,
}

/// What the guide says after a window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Guidance<T = u64> {
    /// The window's phase and the prediction for the next one.
    pub detection: Detection<T>,
    /// The phase the window's samples belong to: the detector's; where that has none, the thread's last one; in a thread
    /// that never had any, phase 0.
    pub phase: PhaseId,
    /// The phase that had been predicted for this window.
    pub predicted: Option<PhaseId>,
    /// Whether samples were started in this window.
    pub profiled: bool,
    /// How many windows of its phase this one represents, if it was profiled: the mean gap at which it was chosen; 1 at the
    /// beginning of the run. Gaps widen while a phase goes on, so samples that are not weighted by this describe the time
    /// soon after each phase began too much, and later windows too little.
    pub represents: f64,
    /// What to do in the thread's next window.
    pub next: Action,
}

/// Classifies windows, predicts the next phase, and decides what to do in the next window.
///
/// ```
/// use phase_detect::{Action, CodeVector, Guide};
///
/// let mut guide = Guide::default();
/// let mut code = CodeVector::new(128, 0)?;
/// let (mut action, mut profiled) = (Guide::first_action(), 0);
/// for window in 0..1000_u64 {
///     profiled += u32::from(action == Action::Profile); // ask the profiler for it here
///     code.add(if window % 100 < 60 { 0x401000 } else { 0x55f730 }, 1.0);
///     action = guide.observe(0, Some(&code.finish()?), |_| 0.0)?.next;
/// }
/// assert!(profiled < 100); // of 1000 windows
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// # Cost
/// That of the [`Detector`] and the lookup of a gap.
///
/// # References
/// Sembrant, Black-Schaffer, Hagersten, *Phase Guided Profiling for Fast Cache Modeling*, CGO 2012, section 4; gaps within
/// a phase: 4.3.
pub struct Guide<C = LeaderFollower, H = PrivateHistories<Ppm>, T = u64> {
    detector: Detector<C, H, T>,
    config: GuideConfig,
    windows: u64,
    gaps: Gaps,
    threads: BTreeMap<T, Thread>,
    // the first signature of each phase
    founders: BTreeMap<PhaseId, Signature>,
}

#[derive(Clone, Debug)]
struct Thread {
    action: Action,
    windows: u64,
    profiled: VecDeque<Profiled>, // since the thread was last left alone
    phase: Option<PhaseId>,
    predicted: Option<PhaseId>,
}

/// A profiled window whose samples may be worth following.
#[derive(Clone, Copy, Debug)]
struct Profiled {
    number: u64, // among the thread's windows
    follow: u32, // for so many windows
}

impl Default for Guide {
    /// The default detector with the default parameters.
    fn default() -> Self {
        Self::with_checked(Detector::default(), GuideConfig::default())
    }
}

impl<C: fmt::Debug, H: fmt::Debug, T: fmt::Debug> fmt::Debug for Guide<C, H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guide")
            .field("detector", &self.detector)
            .field("config", &self.config)
            .field("gaps", &self.gaps)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl<C, H, T> Guide<C, H, T> {
    fn with_checked(detector: Detector<C, H, T>, config: GuideConfig) -> Self {
        let gaps = Gaps::new(config.first_gap, config.gap_limit, config.seed);
        Self { detector, config, windows: 0, gaps, threads: BTreeMap::new(), founders: BTreeMap::new() }
    }

    /// A guide that has seen no window.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn new(detector: Detector<C, H, T>, config: GuideConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self::with_checked(detector, config))
    }

    /// The detector behind it.
    pub fn detector(&self) -> &Detector<C, H, T> {
        &self.detector
    }

    /// The phase that lends its profile to `phase`: among those for which `has_profile` holds the one whose first
    /// window is nearest to that of `phase`; `phase` itself if it has one. `None` if no phase has, or if `phase` was
    /// never seen with a signature.
    pub fn lender(&self, phase: PhaseId, has_profile: impl Fn(PhaseId) -> bool) -> Option<PhaseId> {
        if has_profile(phase) {
            return Some(phase);
        }
        let own = self.founders.get(&phase)?.values();
        let lenders = self.founders.iter().filter(|other| has_profile(*other.0));
        let distance = |other: &Signature| Distance::Manhattan.between(own, other.values());
        lenders.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1))).map(|lender| *lender.0)
    }
}

impl Guide {
    /// What to do in the first window of every thread: nothing is known, so it is profiled.
    pub const fn first_action() -> Action {
        Action::Profile
    }
}

impl<C, H, T> Guide<C, H, T>
where
    C: Clusterer,
    H: Histories<T>,
    T: Copy + Ord,
{
    /// Takes a window of `thread` that has just ended and decides what to do in the thread's next one.
    ///
    /// `signature` is `None` for a window without observed code; it continues the thread's last phase. `open` gives the
    /// share of the samples started in a window of the thread that have not ended yet: in this window for 0, in the one
    /// before it for 1, and so on. It is asked for windows that were profiled.
    ///
    /// # Errors
    /// Those of the clusterer, for a signature of the wrong kind or length. The guide stays as it was.
    pub fn observe(
        &mut self,
        thread: T,
        signature: Option<&Signature>,
        open: impl Fn(u64) -> f64,
    ) -> Result<Guidance<T>, Error> {
        let detection = match signature {
            Some(signature) => self.detector.observe(thread, signature)?,
            None => self.detector.continue_phase(thread),
        };
        let own = self.threads.entry(thread).or_insert_with(|| Thread {
            action: Action::Profile,
            windows: 0,
            profiled: VecDeque::new(),
            phase: None,
            predicted: None,
        });
        let phase = detection.phase.or(own.phase).unwrap_or(PhaseId::new(0));
        if let Some(signature) = signature {
            self.founders.entry(phase).or_insert_with(|| signature.clone());
        }
        let profiled = own.action == Action::Profile;
        let beginning = self.windows < self.config.profile_first;
        let represents = if beginning { 1.0 } else { self.gaps.note(phase, profiled) };
        self.windows += 1;
        own.windows += 1;
        if profiled {
            let far = self.config.follow;
            let again = self.gaps.profiled(phase) > FOLLOWED_FAR;
            let follow = if again { far.min((far / 4).max(1)) } else { far };
            own.profiled.push_back(Profiled { number: own.windows, follow });
        }
        let now = own.windows;
        own.profiled.retain(|of| now - of.number < u64::from(of.follow));
        let predicted = detection.prediction.map(|p| p.phase);
        // a phase in transition is not predicted; while it lasts, more of it is expected
        let expected = predicted.filter(|_| !detection.in_transition).unwrap_or(phase);
        let next = if self.windows < self.config.profile_first || self.gaps.is_due(expected) {
            Action::Profile
        } else if own.profiled.iter().any(|of| open(now - of.number) > self.config.unresolved) {
            Action::Follow
        } else {
            own.profiled.clear();
            Action::LeaveAlone
        };
        (own.action, own.phase) = (next, Some(phase));
        let predicted = std::mem::replace(&mut own.predicted, predicted);
        Ok(Guidance { detection, phase, predicted, profiled, represents, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corner(entry: usize) -> Signature {
        let mut values = [0.0; 4];
        values[entry] = 1.0;
        Signature::frequency(values).unwrap()
    }

    fn actions(guide: &mut Guide, windows: &[(usize, f64)]) -> Vec<Action> {
        windows
            .iter()
            .map(|&(entry, open)| guide.observe(0, Some(&corner(entry)), |_| open).unwrap().next)
            .collect()
    }

    fn guide(config: GuideConfig) -> Guide {
        Guide::new(Detector::default(), GuideConfig { profile_first: 0, ..config }).unwrap()
    }

    #[test]
    fn the_first_windows_are_profiled_whatever_their_phase() {
        for first in [0, 1, 2, 10] {
            let config =
                GuideConfig { profile_first: first, first_gap: 1e9, gap_limit: 1e9, ..Default::default() };
            let mut guide = Guide::new(Detector::default(), config).unwrap();
            let seen = (0..20).map(|_| guide.observe(0, Some(&corner(0)), |_| 0.0).unwrap());
            // and the first for which gaps begin
            assert_eq!(seen.filter(|guidance| guidance.profiled).count() as u64, first + 1);
        }
        // they are counted over all threads; the eighth window was decided on when the sixth had ended
        let config = GuideConfig { profile_first: 6, first_gap: 1e9, gap_limit: 1e9, ..Default::default() };
        let mut guide = Guide::new(Detector::default(), config).unwrap();
        let seen =
            (0..20).map(|window| guide.observe(window % 2, Some(&corner(0)), |_| 0.0).unwrap().profiled);
        assert!(seen.eq((0..20).map(|window| window < 8)));
    }

    #[test]
    fn new_phases_are_profiled_and_known_ones_left_alone() {
        let mut guide = guide(GuideConfig { first_gap: 1e9, gap_limit: 1e9, ..GuideConfig::default() });
        // the first window is profiled; the phase is then known for a long time
        assert_eq!(actions(&mut guide, &[(0, 0.0); 5]), [Action::LeaveAlone; 5]);
        // a new phase: nobody expected it, so that its second window is the first that can be profiled
        assert_eq!(
            actions(&mut guide, &[(1, 0.0); 3]),
            [Action::Profile, Action::LeaveAlone, Action::LeaveAlone]
        );
        let (a, b) = (PhaseId::new(0), PhaseId::new(1));
        assert_eq!((guide.gaps.profiled(a), guide.gaps.profiled(b)), (1, 1));
    }

    #[test]
    fn open_samples_are_followed_for_a_while() {
        let config = GuideConfig { first_gap: 1e9, gap_limit: 1e9, follow: 2, ..GuideConfig::default() };
        // followed twice at most, and not again once left alone
        let open = [(0, 0.5), (0, 0.5), (0, 0.5), (0, 0.5)];
        assert_eq!(
            actions(&mut guide(config), &open),
            [Action::Follow, Action::Follow, Action::LeaveAlone, Action::LeaveAlone]
        );
        let resolved = [(0, 0.5), (0, 0.005), (0, 0.5)];
        assert_eq!(
            actions(&mut guide(config), &resolved),
            [Action::Follow, Action::LeaveAlone, Action::LeaveAlone]
        );
    }

    #[test]
    fn the_nearest_profiled_phase_lends() {
        let mut guide = Guide::default();
        let mix = |a: f64| Signature::frequency([a, 1.0 - a]).unwrap();
        for share in [0.0, 0.3, 0.5, 1.0] {
            guide.observe(0, Some(&mix(share)), |_| 0.0).unwrap();
        }
        let [zero, one, two, three] = [0, 1, 2, 3].map(PhaseId::new);
        assert_eq!(guide.lender(two, |p| p != two), Some(one));
        assert_eq!(guide.lender(two, |_| true), Some(two));
        assert_eq!(guide.lender(three, |p| p == zero), Some(zero));
        assert_eq!(guide.lender(three, |_| false), None);
        assert_eq!(guide.lender(PhaseId::new(9), |p| p == zero), None);
    }

    #[test]
    fn a_window_without_code_continues_the_phase_of_its_thread() {
        let mut guide = Guide::default();
        assert_eq!(guide.observe(7, None, |_| 0.0).unwrap().phase, PhaseId::new(0));
        for entry in [0, 1] {
            guide.observe(0, Some(&corner(entry)), |_| 0.0).unwrap();
        }
        let seen = guide.observe(0, None, |_| 0.0).unwrap();
        assert_eq!((seen.phase, seen.detection.changed, seen.detection.window), (PhaseId::new(1), false, 2));
    }

    #[test]
    fn parameters_are_checked() {
        let good = GuideConfig::default();
        for bad in [
            GuideConfig { first_gap: 0.5, ..good },
            GuideConfig { gap_limit: f64::NAN, ..good },
            GuideConfig { gap_limit: f64::INFINITY, ..good },
            GuideConfig { unresolved: -0.1, ..good },
        ] {
            assert!(matches!(Guide::new(Detector::default(), bad), Err(Error::Parameter { .. })), "{bad:?}");
        }
        assert_eq!(Guide::first_action(), Action::Profile);
    }
}
