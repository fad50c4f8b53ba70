//! The stored form of a fitted model, with a version.

use reuse_sampler::{LineSize, ReuseDistribution, Scope};
use serde::{Deserialize, Serialize};

use super::{Law, StatStack};
use crate::Error;
use crate::correction::{Correction, Knot};

/// Newest version of the format, and the only one so far.
const VERSION: u32 = 1;

/// What a model was fitted from. Sums over it are computed again, as the fit does: they come out the same to the last bit.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    line_size: LineSize,
    #[serde(default, skip_serializing_if = "is_private")]
    scope: Scope,
    sum: Law,
    distribution: ReuseDistribution,
    deviations: Vec<Knot>,
    /// What refits draw them towards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    usual: Vec<Knot>,
}

/// Whether it need not be written: what is read without a scope is private.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
fn is_private(scope: &Scope) -> bool {
    *scope == Scope::Private
}

impl From<StatStack> for Saved {
    fn from(model: StatStack) -> Self {
        Self {
            version: VERSION,
            line_size: model.line_size,
            scope: model.scope,
            sum: model.asked,
            deviations: model.correction.knots().to_vec(),
            usual: model.correction.usual().to_vec(),
            distribution: model.distribution,
        }
    }
}

impl TryFrom<Saved> for StatStack {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { version, line_size, scope, sum, distribution, deviations, usual } = saved;
        if version != VERSION {
            return Err(Error::FormatVersion { found: version, known: VERSION });
        }
        if distribution == ReuseDistribution::default() {
            return Err(Error::EmptyProfile);
        }
        let is_corrected = !deviations.is_empty();
        if sum != Law::Corrected && (is_corrected || !usual.is_empty()) {
            let number = deviations.len() + usual.len();
            let what = format!("{number} deviations of a model without a correction");
            return Err(Error::Damaged { what });
        }
        let correction = Correction::of_knots(deviations, usual).map_err(|what| Error::Damaged { what })?;
        let mut model = Self { distribution, correction, ..Self::unfitted(line_size, scope, sum) };
        model.sum_up();
        if is_corrected {
            model.correct();
        }
        Ok(model)
    }
}
