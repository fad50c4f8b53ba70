//! Detectors: a clustering method on signatures of a source, and what came of it.

use std::collections::BTreeSet;
use std::time::Instant;

use phase_detect::metrics::{
    PredictionScore, Stab, corrected_variation, per_phase_variation, phases_for_coverage, score_predictor,
    weighted_standard_deviation,
};
use phase_detect::online::{DynamicRateConfig, PrivateHistories};
use phase_detect::{
    Clusterer, Detector, Error, KMeans, LeaderFollower, LeaderFollowerConfig, PhaseId, Pop, PopConfig,
    RunLengthMarkov, Signature, SimPointConfig,
};

use super::code::{CodeKind, CodeSource};
use super::recording::{Recording, Window};

/// Phases of k-means: those of the wavelet paper.
const K: usize = 10;
/// Most phases that SimPoint tries here: a run of a few hundred windows has no more that matter.
const MOST: usize = 20;

/// How windows are grouped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Leader-follower at this threshold.
    LeaderFollower(f64),
    KMeans,
    SimPoint,
    Pop,
}

impl Method {
    /// Leader-follower at the threshold for vectors of a few hundred samples.
    pub const SAMPLED: Self = Self::LeaderFollower(phase_detect::cluster::SAMPLED_THRESHOLD);

    pub fn name(self) -> String {
        match self {
            Self::LeaderFollower(threshold) => format!("leader-follower {threshold}"),
            Self::KMeans => format!("k-means {K}"),
            Self::SimPoint => "SimPoint".to_owned(),
            Self::Pop => "POP".to_owned(),
        }
    }

    /// The phase of each window that has a signature.
    pub fn labels(self, signatures: &[Option<Signature>], seed: u64) -> Result<Vec<Option<PhaseId>>, Error> {
        let known: Vec<Signature> = signatures.iter().flatten().cloned().collect();
        if known.is_empty() {
            return Ok(vec![None; signatures.len()]);
        }
        let mut labels = self.cluster(&known, seed)?.into_iter();
        Ok(signatures.iter().map(|s| if s.is_some() { labels.next() } else { None }).collect())
    }

    fn cluster(self, signatures: &[Signature], seed: u64) -> Result<Vec<PhaseId>, Error> {
        match self {
            Self::LeaderFollower(threshold) => {
                let config = LeaderFollowerConfig { threshold, ..LeaderFollowerConfig::default() };
                online(LeaderFollower::new(config)?, signatures)
            }
            Self::Pop => online(Pop::new(PopConfig::default())?, signatures),
            Self::KMeans => {
                let clusters = K.min(signatures.len());
                Ok(KMeans { clusters, seed, ..KMeans::default() }.fit(signatures)?.labels)
            }
            Self::SimPoint => {
                let config = SimPointConfig { max_clusters: MOST, seed, ..SimPointConfig::default() };
                Ok(config.fit(signatures)?.labels().to_vec())
            }
        }
    }
}

fn online(mut clusterer: impl Clusterer, signatures: &[Signature]) -> Result<Vec<PhaseId>, Error> {
    signatures.iter().map(|s| clusterer.classify(s).map(|c| c.phase)).collect()
}

/// A detector's phases on one recording.
pub struct Outcome {
    pub signature: String,
    pub method: String,
    pub labels: Vec<Option<PhaseId>>,
    /// Seconds of a window: building its signature, and finding its phase; where they were measured.
    pub build: Option<f64>,
    pub detect: Option<f64>,
}

impl Outcome {
    /// Times `method` on ready signatures that took `seconds` to build, all together.
    pub fn of(
        name: &str,
        method: Method,
        signatures: &[Option<Signature>],
        seconds: Option<f64>,
        seed: u64,
    ) -> Result<Self, Error> {
        let windows = signatures.len().max(1) as f64;
        let start = Instant::now();
        let labels = method.labels(signatures, seed)?;
        let detect = Some(start.elapsed().as_secs_f64() / windows);
        let build = seconds.map(|seconds| seconds / windows);
        Ok(Self { signature: name.to_owned(), method: method.name(), labels, build, detect })
    }

    pub fn scores(&self, windows: &[Window], interval: u64) -> Result<Scores, Error> {
        Scores::of(&self.labels, windows, interval)
    }
}

/// How good phases are.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    pub windows: usize,
    pub phases: usize,
    /// Phases that hold 90 % of the windows.
    pub cover: usize,
    /// Coefficients of variation of CPI: within phases, and corrected for too many phases.
    pub cov: f64,
    pub ccov: f64,
    /// The same of misses of the second level per access, corrected.
    pub ccov_misses: f64,
    /// STAB at 95 % and 5 %, of CPI: in the paper's form, and with every phase measured twice at least.
    pub stab: f64,
    pub stab_twice: f64,
    /// Weighted standard deviation of misses of the second level per window, and its share of that of all windows as one
    /// phase; 0 where that is 0.
    pub sigma: f64,
    pub sigma_left: f64,
    /// Share of windows predicted right, by run lengths and by the last value.
    pub predicted: Option<f64>,
    pub last_value: Option<f64>,
}

impl Scores {
    pub fn of(labels: &[Option<PhaseId>], windows: &[Window], interval: u64) -> Result<Self, Error> {
        let values = |value: fn(&Window) -> f64| windows.iter().map(value).collect::<Vec<f64>>();
        let cpi = values(Window::cpi);
        let known: Vec<PhaseId> = labels.iter().copied().flatten().collect();
        let misses = values(|w| w.l2_misses as f64);
        let sigma = weighted_standard_deviation(labels, &misses)?;
        let whole = weighted_standard_deviation(&vec![(); misses.len()], &misses)?;
        let runs = score_predictor(&mut RunLengthMarkov::default(), known.iter().copied());
        Ok(Self {
            windows: windows.len(),
            phases: known.iter().collect::<BTreeSet<_>>().len(),
            cover: phases_for_coverage(labels, 0.9)?,
            cov: per_phase_variation(labels, &cpi)?,
            ccov: corrected_variation(labels, &cpi)?,
            ccov_misses: corrected_variation(labels, &values(Window::miss_ratio))?,
            stab: Stab::default().of(labels, &cpi, interval as f64)?,
            stab_twice: Stab { fewest: 2.0, ..Stab::default() }.of(labels, &cpi, interval as f64)?,
            sigma,
            sigma_left: if whole > 0.0 { sigma / whole } else { 0.0 },
            predicted: runs.accuracy(),
            last_value: last_value(&runs),
        })
    }
}

/// How often the phase stayed what it was.
pub fn last_value(score: &PredictionScore) -> Option<f64> {
    (score.windows > 0).then(|| 1.0 - score.changes as f64 / score.windows as f64)
}

/// What a detector with a dynamic sample rate makes of a recording.
pub struct Dynamic {
    pub labels: Vec<Option<PhaseId>>,
    /// For each window, what was predicted before it.
    pub predicted: Vec<Option<PhaseId>>,
    pub mean_samples: f64,
}

/// ScarPhase online: leader-follower clustering, run lengths, and if wanted the dynamic rate.
pub fn scarphase(
    recording: &Recording,
    windows: &[Window],
    samples: u64,
    dynamic: bool,
    seed: u64,
) -> Result<Dynamic, Error> {
    let threshold = phase_detect::cluster::SAMPLED_THRESHOLD;
    let config = LeaderFollowerConfig { threshold, ..LeaderFollowerConfig::default() };
    let clusterer = LeaderFollower::new(config)?;
    let mut detector: Detector<_, _, u64> =
        Detector::new(clusterer, PrivateHistories::new(RunLengthMarkov::default()));
    if dynamic {
        detector = detector.with_dynamic_rate(DynamicRateConfig::default())?;
    }
    let mut source = CodeSource::new(CodeKind::Cbrv, recording, seed)?;
    let (mut labels, mut predictions, mut taken) = (Vec::new(), Vec::new(), 0);
    let (mut factor, mut next) = (1, None);
    for window in windows {
        let now = (samples / factor).max(1);
        taken += now;
        predictions.push(next);
        match source.signature(window, now) {
            None => labels.push(None),
            Some(signature) => {
                let seen = detector.observe(0, &signature)?;
                factor = u64::from(seen.sample_factor);
                next = seen.prediction.map(|p| p.phase);
                labels.push(seen.phase);
            }
        }
    }
    let mean_samples = taken as f64 / windows.len().max(1) as f64;
    Ok(Dynamic { labels, predicted: predictions, mean_samples })
}
