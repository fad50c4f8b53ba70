//! The stored form of a fitted model, with a version.

use reuse_sampler::{LineSize, ReuseDistribution, Scope};
use serde::{Deserialize, Serialize};

use super::{InTime, StatCache};
use crate::Error;
use crate::course::Course;

/// Newest version of the format, and the only one so far.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    line_size: LineSize,
    #[serde(default, skip_serializing_if = "is_private")]
    scope: Scope,
    distribution: ReuseDistribution,
    in_time: Option<InTime>,
}

/// Whether it need not be written: what is read without a scope is private.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
fn is_private(scope: &Scope) -> bool {
    *scope == Scope::Private
}

impl From<StatCache> for Saved {
    fn from(model: StatCache) -> Self {
        let StatCache { line_size, scope, distribution, in_time, .. } = model;
        Self { version: VERSION, line_size, scope, distribution, in_time }
    }
}

impl TryFrom<Saved> for StatCache {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { version, line_size, scope, distribution, in_time } = saved;
        if version != VERSION {
            return Err(Error::FormatVersion { found: version, known: VERSION });
        }
        if distribution == ReuseDistribution::default() {
            return Err(Error::EmptyProfile);
        }
        if let Some(InTime { course, lowest }) = &in_time {
            let courses = [Some(course), lowest.as_ref()];
            let checked = courses.into_iter().flatten().try_for_each(Course::check);
            checked.map_err(|what| Error::Damaged { what })?;
        }
        let mut model =
            Self { line_size, scope, distribution, pieces: Vec::new(), taken: Vec::new(), in_time };
        model.split();
        Ok(model)
    }
}
