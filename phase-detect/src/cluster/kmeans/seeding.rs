//! k-means++ seeding, one centre at a time.
//!
//! The first centre is a random point, each further one a point drawn with a probability proportional to its squared
//! distance from the nearest centre so far. The seeds for k centres are a prefix of those for k + 1, so that a search
//! over k seeds only once; and since every point meets every seed, its nearest and second nearest centre, from which
//! the iteration starts, come for free.

use super::Points;
use crate::cluster::distance::squared_euclidean;
use crate::rng::SplitMix64;

#[derive(Clone, Debug)]
pub(crate) struct Seeding<'a> {
    points: &'a Points,
    rng: SplitMix64,
    // indices of points, all at different places
    pub(super) centres: Vec<usize>,
    // per point: its nearest centre, the distance to it, and to the second nearest
    pub(super) label: Vec<u32>,
    pub(super) nearest: Vec<f64>,
    pub(super) second: Vec<f64>,
}

impl<'a> Seeding<'a> {
    /// With the first centre chosen, if there are points.
    pub(crate) fn new(points: &'a Points, seed: u64) -> Self {
        let mut seeding = Self {
            points,
            rng: SplitMix64::new(seed),
            centres: Vec::new(),
            label: vec![0; points.len()],
            nearest: vec![f64::INFINITY; points.len()],
            second: vec![f64::INFINITY; points.len()],
        };
        if points.len() > 0 {
            let first = (seeding.rng.unit() * points.len() as f64) as usize;
            seeding.add(first.min(points.len() - 1));
        }
        seeding
    }

    /// Number of centres chosen.
    pub(crate) fn chosen(&self) -> usize {
        self.centres.len()
    }

    /// Chooses one more centre; false if every point already lies on one.
    pub(crate) fn choose(&mut self) -> bool {
        let total: f64 = self.nearest.iter().map(|d| d * d).sum();
        if self.centres.is_empty() || total <= 0.0 {
            return false;
        }
        let mut left = self.rng.unit() * total;
        let mut chosen = None;
        for (index, distance) in self.nearest.iter().enumerate() {
            if *distance > 0.0 {
                chosen = Some(index);
                left -= distance * distance;
                if left < 0.0 {
                    break;
                }
            }
        }
        chosen.is_some_and(|index| {
            self.add(index);
            true
        })
    }

    fn add(&mut self, index: usize) {
        let number = self.centres.len() as u32;
        self.centres.push(index);
        let centre = self.points.row(index);
        for (i, row) in self.points.rows().enumerate() {
            let distance = squared_euclidean(row, centre).sqrt();
            if distance < self.nearest[i] {
                self.second[i] = self.nearest[i];
                self.nearest[i] = distance;
                self.label[i] = number;
            } else if distance < self.second[i] {
                self.second[i] = distance;
            }
        }
    }
}
