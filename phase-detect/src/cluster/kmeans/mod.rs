//! k-means: the best `k` centres for windows that are all known.
//!
//! Lloyd's iteration from k-means++ seeds, the best of several restarts. The result does not depend on the order of
//! windows except through the random seeds.

mod lloyd;
mod points;
mod seeding;

pub(crate) use lloyd::{Fit, lloyd};
pub(crate) use points::Points;
pub(crate) use seeding::Seeding;

use super::{Distance, Frozen, Shape};
use crate::cores::on_all_cores;
use crate::rng::mix;
use crate::{Error, PhaseId, Signature};

/// Parameters of k-means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KMeans {
    /// Phases wanted, at least 1 and at most the number of windows.
    pub clusters: usize,
    /// How often to start anew from other seeds; the best result is kept. At least 1.
    pub restarts: usize,
    /// Iterations after which a start is ended though windows still change phase. At least 1.
    pub max_iterations: usize,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Default for KMeans {
    /// 10 phases as in the wavelet paper, 5 restarts, at most 100 iterations.
    fn default() -> Self {
        Self { clusters: 10, restarts: 5, max_iterations: 100, seed: 0 }
    }
}

/// What a batch clustering found.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Batch {
    /// The phase of each window. Phases are numbered in the order they first appear.
    pub labels: Vec<PhaseId>,
    /// Assigns further windows to the same phases.
    pub clusterer: Frozen,
    /// Sum of squared Euclidean distances of the windows from the centres of their phases.
    pub inertia: f64,
}

impl KMeans {
    /// Clusters `signatures` by Euclidean distance.
    ///
    /// If the windows have fewer than `clusters` different signatures there are only as many phases.
    ///
    /// ```
    /// use phase_detect::{KMeans, Signature};
    ///
    /// let windows = [[1.0, 0.0], [9.0, 9.0], [1.0, 1.0], [9.0, 8.0]].map(Signature::raw);
    /// let windows = windows.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let found = KMeans { clusters: 2, ..KMeans::default() }.fit(&windows)?;
    /// assert_eq!(found.labels.iter().map(|p| p.number()).collect::<Vec<_>>(), [0, 1, 0, 1]);
    /// assert_eq!(found.inertia, 1.0); // each window is 1/2 from its centre
    /// # Ok::<(), phase_detect::Error>(())
    /// ```
    ///
    /// # Formula
    /// Minimises `sum_w |s_w - c(phase of w)|^2` over centres `c`; finds a local minimum.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a parameter of 0, [`Error::TooFewWindows`] if there are fewer windows than phases
    /// wanted, [`Error::Kind`] and [`Error::Length`] if the signatures do not compare, [`Error::TooLarge`] if raw
    /// entries are so large that squared distances overflow.
    ///
    /// # Cost
    /// A few iterations of at most windows times phases distances; bounds on distances (Hamerly) avoid most of them. The
    /// restarts run on all cores; their number does not change the result.
    ///
    /// # References
    /// Arthur, Vassilvitskii, *k-means++: the advantages of careful seeding*, SODA 2007; Hamerly, *Making k-means even
    /// faster*, SDM 2010; k = 10 for wavelets: Huffmire, Sherwood, PACT 2006, 3.3.
    pub fn fit(&self, signatures: &[Signature]) -> Result<Batch, Error> {
        self.check()?;
        let shape = Shape::of(signatures.first().ok_or(Error::NoWindows)?);
        for signature in signatures {
            shape.check(signature)?;
        }
        if signatures.len() < self.clusters {
            return Err(Error::TooFewWindows { clusters: self.clusters, windows: signatures.len() });
        }
        let points = Points::new(shape.len, signatures.iter().map(Signature::values))?;
        let fit = self.best(&points);
        let clusterer = Frozen::new(
            Distance::Euclidean,
            shape.kind,
            1.0,
            fit.phases().map(|(id, members, centre)| (id, members, centre[..shape.len].to_vec())),
        )?;
        Ok(Batch { labels: fit.labels(), inertia: fit.inertia(), clusterer })
    }

    fn check(&self) -> Result<(), Error> {
        at_least_one("clusters", self.clusters)?;
        at_least_one("restarts", self.restarts)?;
        at_least_one("max_iterations", self.max_iterations)
    }

    fn best(&self, points: &Points) -> Fit {
        let fits = on_all_cores(points.len(), 0..self.restarts, |restart| {
            let mut seeding = Seeding::new(points, restart_seed(self.seed, restart));
            while seeding.chosen() < self.clusters && seeding.choose() {}
            lloyd(points, &seeding, self.max_iterations)
        });
        let best = fits.into_iter().min_by(|a, b| a.inertia().total_cmp(&b.inertia()));
        best.unwrap_or_else(|| lloyd(points, &Seeding::new(points, self.seed), self.max_iterations))
    }
}

/// The seed of one restart: unrelated to that of the next.
pub(crate) fn restart_seed(seed: u64, restart: usize) -> u64 {
    mix(seed ^ mix(restart as u64 + 1))
}

pub(crate) fn at_least_one(name: &'static str, value: usize) -> Result<(), Error> {
    if value == 0 {
        return Err(Error::Parameter { name, value: 0.0, limit: "it must be at least 1" });
    }
    Ok(())
}
