//! The online detector: a window goes in, its phase and the next one come out.

use std::collections::BTreeMap;
use std::fmt;

use super::{DynamicRate, DynamicRateConfig, Histories, PrivateHistories};
use crate::{
    Classification, Clusterer, Error, LeaderFollower, LeaderFollowerConfig, PhaseId, Prediction,
    RunLengthMarkov, Signature,
};

/// What the detector says about one window of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Detection<T = u64> {
    /// The thread.
    pub thread: T,
    /// Number of this window among those of its thread, from 0.
    pub window: u64,
    /// The phase; `None` if the window was sampled at a reduced rate and matched no phase.
    pub phase: Option<PhaseId>,
    /// How it was classified; `None` if it was only matched.
    pub classification: Option<Classification>,
    /// Whether the phase is another than that of the thread's window before. False for its first window.
    pub changed: bool,
    /// The phase of the thread's next window, if there is anything to predict it from.
    pub prediction: Option<Prediction>,
    /// What to multiply the normal sample period by in the thread's next window; 1 without a dynamic rate.
    pub sample_factor: u32,
}

impl<T> Detection<T> {
    /// Whether the next window is predicted to belong to another phase.
    pub fn change_predicted(&self) -> bool {
        self.prediction.is_some_and(|p| Some(p.phase) != self.phase)
    }
}

type Callback<T> = Box<dyn FnMut(&Detection<T>) + Send>;

/// Classifies the windows of any number of threads with one clusterer, predicts each thread's next phase, and tells
/// whoever wants to know.
///
/// Feed it the windows in the order they end. To share it between threads of the profiler, put it behind a lock: a
/// window costs well under a microsecond.
///
/// ```
/// use phase_detect::{CodeVector, Detector};
///
/// let mut detector = Detector::default(); // leader-follower, run lengths, 64-bit thread numbers
/// detector.on_phase_change(|d| println!("thread {} is in phase {:?}", d.thread, d.phase));
/// let mut code = CodeVector::new(32, 1)?;
/// for window in 0..10_u64 {
///     code.add(if window < 5 { 0x401000 } else { 0x55f730 }, 1.0);
///     let seen = detector.observe(7, &code.finish()?)?;
///     assert_eq!(seen.changed, window == 5);
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
pub struct Detector<C = LeaderFollower, H = PrivateHistories<RunLengthMarkov>, T = u64> {
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
    windows: u64, // at least 1
    phase: Option<PhaseId>,
    rate: Option<DynamicRate>,
}

impl Default for Detector {
    /// Leader-follower clustering and a run-length predictor for each thread, with their default parameters.
    fn default() -> Self {
        Self::new(
            LeaderFollower::with_checked(LeaderFollowerConfig::default()),
            PrivateHistories::new(RunLengthMarkov::default()),
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

    /// Calls `f` after every window whose phase is another than that of its thread's window before.
    pub fn on_phase_change(&mut self, f: impl FnMut(&Detection<T>) + Send + 'static) {
        self.on_change = Some(Box::new(f));
    }

    /// Takes a window of `thread` that has just ended.
    ///
    /// # Errors
    /// Those of the clusterer, for a signature of the wrong kind or length. The detector stays as it was.
    pub fn observe(&mut self, thread: T, signature: &Signature) -> Result<Detection<T>, Error> {
        let known = self.threads.get(&thread).copied();
        let mut rate = known.map_or(self.rate, |t| t.rate);
        let (phase, classification) = match &rate {
            Some(rate) if !rate.learning() => (self.matched(signature, rate.config().match_threshold)?, None),
            _ => {
                let classification = self.clusterer.classify(signature)?;
                (Some(classification.phase), Some(classification))
            }
        };
        if let Some(phase) = phase {
            self.histories.observe(thread, phase);
        }
        let prediction = self.histories.predict(thread);
        let in_transition = classification.is_some_and(|c| c.in_transition);
        let sample_factor = rate.as_mut().map_or(1, |r| r.observe(phase, in_transition, prediction));
        let window = known.map_or(0, |t| t.windows);
        self.threads.insert(thread, Thread { windows: window + 1, phase, rate });
        let detection = Detection {
            thread,
            window,
            phase,
            classification,
            changed: known.is_some_and(|t| t.phase != phase),
            prediction,
            sample_factor,
        };
        if let Some(callback) = &mut self.on_window {
            callback(&detection);
        }
        if let Some(callback) = self.on_change.as_mut().filter(|_| detection.changed) {
            callback(&detection);
        }
        Ok(detection)
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
const FORMAT: u32 = 1;

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
