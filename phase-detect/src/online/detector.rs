//! The online detector: a window goes in, its phase and the next one come out.

use std::collections::BTreeMap;
use std::fmt;

use super::{DynamicRate, DynamicRateConfig, Histories, PrivateHistories};
use crate::{
    Classification, Clusterer, Error, LeaderFollower, LeaderFollowerConfig, PhaseId, Ppm, Prediction,
    Signature,
};

/// What the detector says about one window of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Detection<T = u64> {
    /// The thread.
    pub thread: T,
    /// Number of this window among those of its thread, from 0.
    pub window: u64,
    /// The phase; `None` if the window was sampled at a reduced rate and matched no phase, or if it has no signature and
    /// is the first of its thread.
    pub phase: Option<PhaseId>,
    /// The phase has been seen in too few windows to be one: call it a transition.
    pub in_transition: bool,
    /// How it was classified; `None` if it was only matched.
    pub classification: Option<Classification>,
    /// Whether this window begins another phase: it is not in transition, and its phase is not that of the thread's last
    /// such window. False for the first.
    pub changed: bool,
    /// The next phase of the thread, if there is anything to predict it from. Phases in transition are neither learned
    /// from nor predicted.
    pub prediction: Option<Prediction>,
    /// What to multiply the normal sample period by in the thread's next window; 1 without a dynamic rate.
    pub sample_factor: u32,
}

impl<T> Detection<T> {
    /// The phase, unless it is in transition.
    pub fn settled(&self) -> Option<PhaseId> {
        self.phase.filter(|_| !self.in_transition)
    }
}

type Callback<T> = Box<dyn FnMut(&Detection<T>) + Send>;

/// Classifies the windows of any number of threads with one clusterer and predicts each thread's next phase.
///
/// Feed it the windows in the order they end. To share it between threads of the profiler, put it behind a lock: a
/// window costs well under a microsecond.
///
/// ```
/// use phase_detect::{CodeVector, Detector};
///
/// let mut detector = Detector::default(); // leader-follower, partial matching, 64-bit thread numbers
/// detector.on_phase_change(|d| println!("thread {} is in phase {:?}", d.thread, d.phase));
/// let mut code = CodeVector::new(128, 1)?;
/// for window in 0..10_u64 {
///     code.add(if window < 5 { 0x401000 } else { 0x55f730 }, 1.0);
///     let seen = detector.observe(7, &code.finish()?)?;
///     // a phase is one from its third window on: until then it may be a transition
///     assert_eq!(seen.in_transition, [0, 1, 5, 6].contains(&window));
///     assert_eq!(seen.changed, window == 7);
/// }
/// # Ok::<(), phase_detect::Error>(())
/// ```
///
/// With a [dynamic sample rate](Self::with_dynamic_rate), take `sample_factor` times fewer samples in the thread's next
/// window. Windows of a reduced rate are matched with known phases but neither learned nor, if they match none, shown
/// to the predictor.
///
/// # Saving
/// With the `serde` feature the detector can be saved and resumed; callbacks are not saved.
///
/// # References
/// Sembrant, Eklöv, Hagersten, *Efficient Software-based Online Phase Classification*, IISWC 2011, I.7; for threads:
/// Sembrant, Black-Schaffer, Hagersten, IISWC 2012, II.5.
pub struct Detector<C = LeaderFollower, H = PrivateHistories<Ppm>, T = u64> {
    clusterer: C,
    histories: H,
    // the controller a new thread starts with
    rate: Option<DynamicRate>,
    threads: BTreeMap<T, Thread>,
    on_window: Option<Callback<T>>,
    on_change: Option<Callback<T>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Thread {
    windows: u64, // number of windows so far
    // of the last window
    phase: Option<PhaseId>,
    in_transition: bool,
    // of the last window that was not in transition
    settled: Option<PhaseId>,
    rate: Option<DynamicRate>,
}

impl Default for Detector {
    /// Leader-follower clustering and prediction by partial matching for each thread, with their default parameters.
    fn default() -> Self {
        Self::new(
            LeaderFollower::with_checked(LeaderFollowerConfig::default()),
            PrivateHistories::new(Ppm::default()),
        )
    }
}

impl<C, H, T> fmt::Debug for Detector<C, H, T>
where
    C: fmt::Debug,
    H: fmt::Debug,
    T: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detector")
            .field("clusterer", &self.clusterer)
            .field("histories", &self.histories)
            .field("rate", &self.rate)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl<C, H, T> Detector<C, H, T>
where
    C: Clusterer,
    H: Histories<T>,
    T: Copy + Ord,
{
    /// A detector that has seen no window.
    pub fn new(clusterer: C, histories: H) -> Self {
        Self { clusterer, histories, rate: None, threads: BTreeMap::new(), on_window: None, on_change: None }
    }

    /// Samples less while phases are stable.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is outside its range.
    pub fn with_dynamic_rate(mut self, config: DynamicRateConfig) -> Result<Self, Error> {
        self.rate = Some(DynamicRate::new(config)?);
        Ok(self)
    }

    /// Calls `f` after every window.
    pub fn on_window(&mut self, f: impl FnMut(&Detection<T>) + Send + 'static) {
        self.on_window = Some(Box::new(f));
    }

    /// Calls `f` after every window that begins another phase ([`Detection::changed`]).
    pub fn on_phase_change(&mut self, f: impl FnMut(&Detection<T>) + Send + 'static) {
        self.on_change = Some(Box::new(f));
    }

    /// Takes a window of `thread` that has just ended.
    ///
    /// # Errors
    /// Those of the clusterer, for a signature of the wrong kind or length. The detector stays as it was.
    pub fn observe(&mut self, thread: T, signature: &Signature) -> Result<Detection<T>, Error> {
        let before = self.thread(thread);
        let (phase, classification) = match &before.rate {
            Some(rate) if !rate.learning() => (self.matched(signature, rate.config().match_threshold)?, None),
            _ => {
                let classification = self.clusterer.classify(signature)?;
                (Some(classification.phase), Some(classification))
            }
        };
        let in_transition = classification.is_some_and(|c| c.in_transition);
        Ok(self.conclude(thread, before, phase, in_transition, classification))
    }

    /// Takes a window of `thread` that has no signature, since no code was observed in it: it continues the thread's
    /// last phase.
    pub fn continue_phase(&mut self, thread: T) -> Detection<T> {
        let before = self.thread(thread);
        self.conclude(thread, before, before.phase, before.in_transition, None)
    }

    fn thread(&self, thread: T) -> Thread {
        let new = Thread { windows: 0, phase: None, in_transition: false, settled: None, rate: self.rate };
        self.threads.get(&thread).copied().unwrap_or(new)
    }

    fn conclude(
        &mut self,
        thread: T,
        before: Thread,
        phase: Option<PhaseId>,
        in_transition: bool,
        classification: Option<Classification>,
    ) -> Detection<T> {
        let settled = phase.filter(|_| !in_transition);
        if let Some(phase) = settled {
            self.histories.observe(thread, phase);
        }
        let prediction = self.histories.predict(thread);
        let mut rate = before.rate;
        let sample_factor = rate.as_mut().map_or(1, |r| r.observe(phase, in_transition, prediction));
        let now = Thread {
            windows: before.windows + 1,
            phase,
            in_transition,
            settled: settled.or(before.settled),
            rate,
        };
        self.threads.insert(thread, now);
        let detection = Detection {
            thread,
            window: before.windows,
            phase,
            in_transition,
            classification,
            changed: before.settled.is_some() && now.settled != before.settled,
            prediction,
            sample_factor,
        };
        if let Some(callback) = &mut self.on_window {
            callback(&detection);
        }
        if let Some(callback) = self.on_change.as_mut().filter(|_| detection.changed) {
            callback(&detection);
        }
        detection
    }

    /// The nearest phase within `threshold`, without learning.
    fn matched(&mut self, signature: &Signature, threshold: f64) -> Result<Option<PhaseId>, Error> {
        let nearest = self.clusterer.nearest(signature)?;
        let phase = nearest.filter(|n| n.1 <= threshold).map(|n| n.0);
        if let Some(phase) = phase {
            self.clusterer.note_match(phase);
        }
        Ok(phase)
    }

    /// Forgets a thread that has ended; its phases remain.
    pub fn forget(&mut self, thread: T) {
        self.threads.remove(&thread);
        self.histories.forget(thread);
    }

    /// The clusterer that all threads share.
    pub fn clusterer(&self) -> &C {
        &self.clusterer
    }

    /// The predictors.
    pub fn histories(&self) -> &H {
        &self.histories
    }
}

/// Version of the saved form.
#[cfg(feature = "serde")]
const FORMAT: u32 = 3;

#[cfg(feature = "serde")]
#[derive(serde::Serialize)]
struct SavedRef<'a, C, H, T> {
    format: u32,
    clusterer: &'a C,
    histories: &'a H,
    rate: Option<DynamicRate>,
    threads: Vec<(T, Thread)>,
}

#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Saved<C, H, T> {
    format: u32,
    clusterer: C,
    histories: H,
    rate: Option<DynamicRate>,
    threads: Vec<(T, Thread)>,
}

#[cfg(feature = "serde")]
impl<C, H, T> serde::Serialize for Detector<C, H, T>
where
    C: serde::Serialize,
    H: serde::Serialize,
    T: serde::Serialize + Copy,
{
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SavedRef {
            format: FORMAT,
            clusterer: &self.clusterer,
            histories: &self.histories,
            rate: self.rate,
            threads: self.threads.iter().map(|(&thread, &state)| (thread, state)).collect(),
        }
        .serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de, C, H, T> serde::Deserialize<'de> for Detector<C, H, T>
where
    C: serde::Deserialize<'de>,
    H: serde::Deserialize<'de>,
    T: serde::Deserialize<'de> + Ord,
{
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let saved = Saved::deserialize(deserializer)?;
        if saved.format != FORMAT {
            return Err(serde::de::Error::custom(format_args!(
                "the detector was saved in format {}; this version reads format {FORMAT}",
                saved.format
            )));
        }
        Ok(Self {
            clusterer: saved.clusterer,
            histories: saved.histories,
            rate: saved.rate,
            threads: saved.threads.into_iter().collect(),
            on_window: None,
            on_change: None,
        })
    }
}
