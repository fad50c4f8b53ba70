//! The stored form of a fitted model, with a version.

use reuse_sampler::{LineSize, ReuseDistribution};
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
    distribution: ReuseDistribution,
    in_time: Option<InTime>,
}

impl From<StatCache> for Saved {
    fn from(model: StatCache) -> Self {
        let StatCache { line_size, distribution, in_time, .. } = model;
        Self { version: VERSION, line_size, distribution, in_time }
    }
}

impl TryFrom<Saved> for StatCache {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { version, line_size, distribution, in_time } = saved;
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
        let mut model = Self { line_size, distribution, pieces: Vec::new(), taken: Vec::new(), in_time };
        model.split();
        Ok(model)
    }
}
