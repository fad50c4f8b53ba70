//! Laws that every [`SharingModel`] obeys, on curves drawn from a seed: for tests of models, here and elsewhere.

use thiserror::Error as ThisError;

use crate::variability::uniform;
use crate::{CacheCurve, CurvePoint, Error, Probes, SharedCache, Sharing, SharingModel, share};

/// A law that a model breaks.
#[derive(Clone, Debug, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Violation {
    /// A value outside of what the law allows.
    #[error("seed {seed}, {programs} programs: {law}: {value}, expected {expected}")]
    Value {
        /// Which law.
        law: &'static str,
        /// Seed of the curves.
        seed: u64,
        /// Number of programs.
        programs: usize,
        /// The value found.
        value: f64,
        /// The value required.
        expected: f64,
    },
    /// A curve could not be drawn: an error of this crate.
    #[error("drawing curves: {0}")]
    Curve(#[from] Error),
}

const CACHE: u64 = 1 << 20;
const LARGEST_GROUP: usize = 5;
/// Of the cache: by how much shares may miss it.
const SHARES: f64 = 1e-3;
/// Of a CPI: by how much it may depend on the order of the programs, ten times the models' tolerance.
const ORDER: f64 = 1e-2;

/// Checks `model` on curves drawn from `seed`, for one to five programs.
///
/// Shares are at least 0 and add up to the cache; sticky bytes are part of a share; CPIs are finite, and lie in their
/// ranges; one program alone has the whole cache and the CPI of its curve there; solving twice gives the same; and where
/// the model converges to its only solution, the order of the programs does not matter.
///
/// # Errors
/// The first [`Violation`].
pub fn sharing_model<M: SharingModel + ?Sized>(model: &M, seed: u64) -> Result<(), Violation> {
    let cache = SharedCache::new(CACHE)?;
    let mut draws = Draws { seed, drawn: 0 };
    for programs in 1..=LARGEST_GROUP {
        let curves = (0..programs).map(|_| curve(&mut draws)).collect::<Result<Vec<_>, Error>>()?;
        let list: Vec<&CacheCurve> = curves.iter().collect();
        let check = |law, value: f64, expected: f64, within: f64| {
            if (value - expected).abs() <= within {
                Ok(())
            } else {
                Err(Violation::Value { law, seed, programs, value, expected })
            }
        };
        let (mut sharing, mut again, mut back) = Default::default();
        share(model, &cache, &list, Probes::Cliffs, &mut sharing)?;
        share(model, &cache, &list, Probes::Cliffs, &mut again)?;
        let reversed: Vec<&CacheCurve> = list.iter().rev().copied().collect();
        share(model, &cache, &reversed, Probes::Cliffs, &mut back)?;
        let (sharing, again, back): (Sharing, Sharing, Sharing) = (sharing, again, back);
        let bytes: f64 = sharing.shares().iter().map(|s| s.bytes).sum();
        check("shares add up to the cache", bytes / CACHE as f64, 1.0, SHARES)?;
        let is_certain = sharing.converged() && sharing.solutions() == 1 && !sharing.on_cliff();
        let all = sharing.shares().iter().zip(again.shares()).zip(back.shares().iter().rev());
        for ((share, again), back) in all {
            check("a share is not negative", share.bytes.min(0.0), 0.0, 0.0)?;
            let sticky = share.sticky_bytes.clamp(0.0, share.bytes);
            check("sticky bytes are part of a share", share.sticky_bytes, sticky, 1e-9 * share.bytes)?;
            check(
                "a CPI lies in its range",
                share.cpi.clamp(share.cpi_range.0, share.cpi_range.1),
                share.cpi,
                0.0,
            )?;
            check("a CPI is finite", f64::from(u8::from(share.cpi.is_finite())), 1.0, 0.0)?;
            check("solving twice gives the same", again.cpi, share.cpi, 0.0)?;
            if is_certain && back.cpi.is_finite() {
                check("the order does not matter", back.cpi / share.cpi, 1.0, ORDER)?;
            }
        }
        if let ([share], [curve]) = (sharing.shares(), list.as_slice()) {
            check("one program has the whole cache", share.cpi / curve.cpi(CACHE as f64), 1.0, SHARES)?;
        }
    }
    Ok(())
}

/// A curve of 16 sizes whose misses fall more or less steeply to a floor.
fn curve(draws: &mut Draws) -> Result<CacheCurve, Error> {
    let (reach, mix, knee) = (0.01 + 0.4 * draws.unit(), 0.1 + 0.5 * draws.unit(), 0.05 + 1.2 * draws.unit());
    let (power, floor) = (1.0 + (12.0 * draws.unit()).floor(), reach * draws.unit() * draws.unit());
    let point = |sixteenths: u64| {
        let size = sixteenths as f64 / 16.0;
        let misses = floor + (reach - floor) / (1.0 + (size / knee).powf(power));
        let cpi = 1.0 + mix * (1.0 + 9.0 * reach + 120.0 * misses);
        CurvePoint::new(CACHE / 16 * sixteenths, cpi, misses).with_hit_rate((reach - misses) * mix / cpi)
    };
    CacheCurve::new((1..=16).map(point).collect(), mix, 64)
}

/// Numbers in [0, 1) in turn.
struct Draws {
    seed: u64,
    drawn: usize,
}

impl Draws {
    fn unit(&mut self) -> f64 {
        self.drawn += 1;
        uniform(self.seed, 0, self.drawn)
    }
}
