//! SimPoint: the few windows that represent a whole run.
//!
//! Signatures are projected to a few dimensions and clustered for every number of phases; the Bayesian information
//! criterion says which number is enough; and of each phase the window nearest its centre is the one to simulate,
//! with the share of the phase as its weight. Variable-length intervals and early points are left out.

mod bic;
mod files;
mod projection;

use std::borrow::Borrow;
use std::io::BufRead;

pub use files::{BlockVector, LabelledWindow, bb_windows, read_labels, read_simpoints, write_bb};
pub use projection::Projection;

use crate::cluster::kmeans::{Fit, Points, Seeding, at_least_one, lloyd, restart_seed};
use crate::cluster::{Classification, Clusterer, Distance, Frozen, Shape};
use crate::cores::on_all_cores;
use crate::rng::{SplitMix64, mix};
use crate::{Error, PhaseId, Signature, SignatureKind};

/// Parameters of the search for simulation points. The defaults are those of the published tool.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SimPointConfig {
    /// Dimensions the signatures are projected to, at least 1.
    pub dimensions: usize,
    /// Largest number of phases tried, at least 1. The search also ends at half the number of windows, rounded up: of
    /// phases with a window or so each nothing shows how much a phase varies, and each window would be one.
    pub max_clusters: usize,
    /// Random starts of k-means for each number of phases, at least 1.
    pub restarts: usize,
    /// The smallest number of phases is chosen whose score reaches this share of the range of scores. In 0..=1.
    pub bic_share: f64,
    /// Iterations after which a start of k-means is ended, at least 1.
    pub max_iterations: usize,
    /// Windows that k-means looks at, at least 1. Of a longer run so many are drawn, and each of the others joins the
    /// nearest phase afterwards, which bounds the time of the search.
    pub sample: usize,
    /// Seed of the projection, of k-means and of the sample.
    pub seed: u64,
}

impl Default for SimPointConfig {
    /// 15 dimensions, up to 30 phases, 5 restarts, 90 % of the range of scores, 100 iterations, 20,000 windows.
    fn default() -> Self {
        Self {
            dimensions: 15,
            max_clusters: 30,
            restarts: 5,
            bic_share: 0.9,
            max_iterations: 100,
            sample: 20_000,
            seed: 0,
        }
    }
}

/// One window to simulate for a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SimulationPoint {
    /// The phase it represents.
    pub phase: PhaseId,
    /// The window nearest the centre of the phase, from 0; the earliest of several.
    pub window: usize,
    /// Share of all windows that belong to the phase. Weights of all points sum to 1.
    pub weight: f64,
}

/// Score of a number of phases.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BicScore {
    /// The number of phases asked of k-means.
    pub clusters: usize,
    /// The best score of all restarts. Higher is better; only differences mean anything.
    pub score: f64,
}

/// The phases and simulation points of a run; a frozen [`Clusterer`] for signatures like those it was fitted to.
///
/// # References
/// Sherwood, Perelman, Hamerly, Calder, *Automatically Characterizing Large Scale Program Behavior*, ASPLOS 2002;
/// Hamerly, Perelman, Lau, Calder, *SimPoint 3.0: Faster and More Flexible Program Analysis*, Workshop on
/// Modeling, Benchmarking and Simulation 2005.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SimPoint {
    projection: Projection,
    // shape of the signatures it was fitted to; none if it was fitted to block vectors
    shape: Option<Shape>,
    // of projected signatures
    centres: Frozen,
    labels: Vec<PhaseId>,
    distances: Vec<f64>,
    points: Vec<SimulationPoint>,
    scores: Vec<BicScore>,
}

impl SimPointConfig {
    /// Finds the phases of windows given as frequency signatures.
    ///
    /// ```
    /// use phase_detect::{Signature, simpoint::SimPointConfig};
    ///
    /// // 30 windows of one loop, 10 of another, 30 of the first again
    /// let windows = (0..70)
    ///     .map(|w| Signature::frequency(if (30..40).contains(&w) { [9.0, 1.0] } else { [2.0, 8.0] }))
    ///     .collect::<Result<Vec<_>, _>>()?;
    /// let found = SimPointConfig::default().fit(&windows)?;
    /// assert_eq!(found.points().len(), 2);
    /// assert_eq!(found.points()[0].window, 0);
    /// assert!((found.points()[0].weight - 6.0 / 7.0).abs() < 1e-12);
    /// # Ok::<(), phase_detect::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range, [`Error::NoWindows`] without windows, [`Error::Kind`]
    /// for a raw signature, [`Error::Length`] if the signatures differ in length.
    ///
    /// # Cost
    /// For each number of phases and restart a few iterations of k-means, most of whose distances are avoided by
    /// bounds; seeds are shared between numbers of phases.
    pub fn fit(&self, signatures: &[Signature]) -> Result<SimPoint, Error> {
        let first = signatures.first().ok_or(Error::NoWindows)?;
        let shape = Shape { kind: SignatureKind::Frequency, len: first.len() };
        for signature in signatures {
            shape.check(signature)?;
        }
        self.check()?;
        let projection = Projection::new(self.dimensions, self.seed)?;
        let matrix = projection.matrix(shape.len);
        let mut points = Points::empty(self.dimensions);
        signatures.iter().try_for_each(|s| points.push(&matrix.project(s.values())))?;
        self.search(projection, Some(shape), &points)
    }

    /// Finds the phases of windows given as block vectors, one after the other: `bb_windows(reader)` need not be held
    /// in memory.
    ///
    /// ```
    /// use phase_detect::simpoint::{SimPointConfig, bb_windows};
    ///
    /// let file = "T:1:900 :2:100\nT:1:890 :2:110\nT:3:1000\nT:3:990 :1:10\n";
    /// let found = SimPointConfig::default().fit_blocks(bb_windows(file.as_bytes()))?;
    /// assert_eq!(found.points().len(), 2);
    /// # Ok::<(), phase_detect::Error>(())
    /// ```
    ///
    /// Each is divided by its sum before it is projected, so that only the mix of blocks counts.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range, [`Error::NoWindows`] without windows, and the first error
    /// among the windows.
    ///
    /// # Cost
    /// Memory: 8 bytes for each window and dimension. The restarts run on all cores; their number does not change the
    /// result.
    pub fn fit_blocks<W: Borrow<BlockVector>>(
        &self,
        windows: impl IntoIterator<Item = Result<W, Error>>,
    ) -> Result<SimPoint, Error> {
        let mut run = self.begin()?;
        for window in windows {
            run.push(window?.borrow());
        }
        run.find()
    }

    /// A run without windows yet, for one whose windows are not all there at the same time.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter outside its range.
    pub fn begin(&self) -> Result<SimPointRun, Error> {
        self.check()?;
        let projection = Projection::new(self.dimensions, self.seed)?;
        Ok(SimPointRun { config: *self, projection, points: Points::empty(self.dimensions) })
    }

    fn check(&self) -> Result<(), Error> {
        at_least_one("dimensions", self.dimensions)?;
        at_least_one("max_clusters", self.max_clusters)?;
        at_least_one("restarts", self.restarts)?;
        at_least_one("max_iterations", self.max_iterations)?;
        at_least_one("sample", self.sample)?;
        if (0.0..=1.0).contains(&self.bic_share) {
            Ok(())
        } else {
            Err(Error::Parameter {
                name: "bic_share",
                value: self.bic_share,
                limit: "it is a share of the range of scores, from 0 to 1",
            })
        }
    }

    fn search(&self, projection: Projection, shape: Option<Shape>, all: &Points) -> Result<SimPoint, Error> {
        if all.len() == 0 {
            return Err(Error::NoWindows);
        }
        let drawn = (self.sample < all.len()).then(|| all.select(&sample(all.len(), self.sample, self.seed)));
        let points = drawn.as_ref().unwrap_or(all);
        let most = self.max_clusters.min(points.len().div_ceil(2));
        let mut seedings: Vec<Seeding<'_>> = (0..self.restarts)
            .map(|restart| Seeding::new(points, restart_seed(self.seed, restart)))
            .collect();
        let floor = bic::variance_floor(points, self.dimensions);
        let mut scores = Vec::new();
        let mut fits: Vec<Fit> = Vec::new();
        for clusters in 1..=most {
            let runs = on_all_cores(points.len(), seedings.iter_mut(), |seeding| {
                // a seeding that has run out of different points has nothing new to offer
                (seeding.chosen() >= clusters || seeding.choose()).then(|| {
                    let fit = lloyd(points, seeding, self.max_iterations);
                    (bic::score(&fit, points.len(), self.dimensions, floor), fit)
                })
            });
            let Some((score, fit)) = runs.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0)) else {
                break;
            };
            scores.push(BicScore { clusters, score });
            fits.push(fit);
        }
        let chosen = bic::smallest_sufficient(&scores, self.bic_share);
        SimPoint::new(projection, shape, all, &fits[chosen], scores)
    }
}

/// `count` different numbers below `of`, ascending.
///
/// Reference: Knuth, *The Art of Computer Programming*, volume 2, 3.4.2, algorithm S.
fn sample(of: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = SplitMix64::new(mix(seed ^ of as u64));
    let mut chosen = Vec::with_capacity(count);
    for index in 0..of {
        if rng.unit() * ((of - index) as f64) < (count - chosen.len()) as f64 {
            chosen.push(index);
        }
    }
    chosen
}

/// The windows of a run, as they come: what [`SimPointConfig::fit_blocks`] does of an iterator.
///
/// ```
/// use phase_detect::simpoint::{BlockVector, SimPointConfig};
///
/// let mut run = SimPointConfig::default().begin()?;
/// for window in 0..40 {
///     let block = if window < 30 { 7 } else { 9 }; // mostly one loop, at last another
///     run.push(&BlockVector::new([(block, 900.0), (1, 100.0)])?);
/// }
/// assert_eq!(run.find()?.points().len(), 2);
/// # Ok::<(), phase_detect::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimPointRun {
    config: SimPointConfig,
    projection: Projection,
    points: Points,
}

impl SimPointRun {
    /// Takes the next window, of which it keeps 8 bytes for each dimension.
    pub fn push(&mut self, window: &BlockVector) {
        // of shares that sum to 1 no projection is large
        self.points.push_small(&self.projection.project_blocks(window));
    }

    /// Finds the phases of all windows.
    ///
    /// # Errors
    /// [`Error::NoWindows`] without windows.
    pub fn find(self) -> Result<SimPoint, Error> {
        self.config.search(self.projection, None, &self.points)
    }
}

impl SimPoint {
    fn new(
        projection: Projection,
        shape: Option<Shape>,
        points: &Points,
        fit: &Fit,
        scores: Vec<BicScore>,
    ) -> Result<Self, Error> {
        let dimensions = projection.dimensions();
        let mut number: Vec<Option<PhaseId>> = vec![None; fit.clusters()];
        let mut phases: Vec<(PhaseId, u64, Vec<f64>)> = Vec::new();
        let mut nearest: Vec<usize> = Vec::new();
        let mut labels = Vec::with_capacity(points.len());
        let mut distances: Vec<f64> = Vec::with_capacity(points.len());
        for (window, row) in points.rows().enumerate() {
            let (cluster, distance) = fit.nearest(row);
            let phase = *number[cluster].get_or_insert_with(|| {
                phases.push((
                    PhaseId::new(phases.len() as u32),
                    0,
                    fit.centre(cluster)[..dimensions].to_vec(),
                ));
                nearest.push(window);
                PhaseId::new(phases.len() as u32 - 1)
            });
            phases[phase.index()].1 += 1;
            labels.push(phase);
            distances.push(distance);
            let best = &mut nearest[phase.index()];
            if distance < distances[*best] {
                *best = window;
            }
        }
        let weight = |members: u64| members as f64 / labels.len() as f64;
        let simulation_points = phases
            .iter()
            .zip(nearest)
            .map(|(&(phase, members, _), window)| SimulationPoint { phase, window, weight: weight(members) })
            .collect();
        Ok(Self {
            projection,
            shape,
            centres: Frozen::new(Distance::Euclidean, SignatureKind::Raw, 1.0, phases)?,
            labels,
            distances,
            points: simulation_points,
            scores,
        })
    }

    /// The phase of each window. Phases are numbered in the order they first appear.
    pub fn labels(&self) -> &[PhaseId] {
        &self.labels
    }

    /// Distance of each window from the centre of its phase, in the projected space.
    pub fn distances(&self) -> &[f64] {
        &self.distances
    }

    /// The window to simulate for each phase, in the order of phases.
    pub fn points(&self) -> &[SimulationPoint] {
        &self.points
    }

    /// The scores of all numbers of phases that were tried.
    pub fn scores(&self) -> &[BicScore] {
        &self.scores
    }

    /// The projection of signatures before clustering.
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The mean over the run of a value that is known for the simulation points only: `value(window)` of each,
    /// weighted.
    pub fn estimate(&self, value: impl Fn(usize) -> f64) -> f64 {
        self.points.iter().map(|p| p.weight * value(p.window)).sum()
    }

    /// The points of the largest phases that together reach `share` of the windows, in the order of phases; their
    /// weights sum to 1 again. SimPoint's `-coveragePct`.
    pub fn covering(&self, share: f64) -> Vec<SimulationPoint> {
        let mut chosen = self.points.clone();
        chosen.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut covered = 0.0;
        // a share that is reached up to rounding is reached
        chosen.retain(|p| {
            covered < share - 1e-9 && {
                covered += p.weight;
                true
            }
        });
        for point in &mut chosen {
            point.weight /= covered;
        }
        chosen.sort_by_key(|p| p.phase);
        chosen
    }

    /// The contents of a `.labels` file: phase and distance from its centre of each window.
    pub fn labels_file(&self) -> String {
        files::lines(self.labels.iter().zip(self.distances.iter().map(|&d| files::general(d))))
    }

    fn project(&self, signature: &Signature) -> Result<Signature, Error> {
        match self.shape {
            Some(shape) => shape.check(signature)?,
            None => crate::cluster::check_kind(SignatureKind::Frequency, signature)?,
        }
        Signature::raw(self.projection.project(signature.values()))
    }
}

impl Clusterer for SimPoint {
    fn classify(&mut self, signature: &Signature) -> Result<Classification, Error> {
        let projected = self.project(signature)?;
        self.centres.classify(&projected)
    }

    fn nearest(&self, signature: &Signature) -> Result<Option<(PhaseId, f64)>, Error> {
        self.centres.nearest(&self.project(signature)?)
    }
}

/// The contents of a `.simpoints` file: window and phase of each point.
pub fn simpoints_file(points: &[SimulationPoint]) -> String {
    files::lines(points.iter().map(|p| (p.window, p.phase)))
}

/// The contents of a `.weights` file: weight, to six digits as SimPoint writes it, and phase of each point.
pub fn weights_file(points: &[SimulationPoint]) -> String {
    files::lines(points.iter().map(|p| (files::general(p.weight), p.phase)))
}

/// Reads a `.simpoints` and a `.weights` file that belong together.
///
/// # Errors
/// As [`read_simpoints`]; [`Error::Windows`] if the files do not name the same number of points.
pub fn read_points(simpoints: impl BufRead, weights: impl BufRead) -> Result<Vec<SimulationPoint>, Error> {
    let windows = read_simpoints(simpoints)?;
    let weights = files::read_weights(weights)?;
    if windows.len() != weights.len() {
        return Err(Error::Windows { what: "weights", expected: windows.len(), got: weights.len() });
    }
    windows
        .into_iter()
        .map(|(window, phase)| {
            let weight = weights.iter().find(|w| w.1 == phase).map(|w| w.0);
            let weight = weight.ok_or(Error::NoWeight { phase })?;
            Ok(SimulationPoint { phase, window, weight })
        })
        .collect()
}
