//! The stored form of a profile, with a version.

use serde::{Deserialize, Serialize};

use super::overlap::Sums;
use super::{Clock, ReuseProfile, Scope, add, occupied};
use crate::engine::bins;
use crate::{Error, LineSize};

/// Newest version of the format, and the only one so far.
const VERSION: u32 = 1;

/// Bins as (smallest distance of the bin, weight) pairs, ascending.
type Bins = Vec<(u64, u64)>;

#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    version: u32,
    line_size: u32,
    clock: Clock,
    #[serde(default, skip_serializing_if = "Scope::is_private")]
    scope: Scope,
    samples: u64,
    accesses: u64,
    reused: Bins,
    /// Missing where no thread's stores were followed, as in all profiles before this existed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    invalidated: Bins,
    censored: Bins,
    dangling: u64,
    /// Sums over overlapping samples as (coarse bin, sums) pairs, ascending.
    #[serde(default)]
    overlaps: Vec<(usize, Sums)>,
}

impl From<ReuseProfile> for Stored {
    fn from(profile: ReuseProfile) -> Self {
        let bins = |bins: &[u64]| occupied(bins).map(|(low, _, weight)| (low, weight)).collect();
        Self {
            version: VERSION,
            line_size: profile.line_size.bytes(),
            clock: profile.clock,
            scope: profile.scope,
            samples: profile.samples,
            accesses: profile.accesses,
            reused: bins(&profile.reused),
            invalidated: bins(&profile.invalidated),
            censored: bins(&profile.censored),
            dangling: profile.dangling,
            overlaps: profile.overlaps.into_iter().enumerate().filter(|(_, sums)| !sums.is_empty()).collect(),
        }
    }
}

impl TryFrom<Stored> for ReuseProfile {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        if stored.version != VERSION {
            return Err(Error::FormatVersion { found: stored.version, known: VERSION });
        }
        let mut profile = Self::with_units(LineSize::new(stored.line_size)?, stored.clock, stored.scope);
        profile.reused = read_bins("reused", &stored.reused)?;
        profile.invalidated = read_bins("invalidated", &stored.invalidated)?;
        profile.censored = read_bins("censored", &stored.censored)?;
        profile.dangling = stored.dangling;
        profile.samples = stored.samples;
        profile.accesses = stored.accesses;
        for &(bin, sums) in &stored.overlaps {
            if bin >= 256 || bin < profile.overlaps.len() || sums.is_empty() {
                return Err(Error::MalformedProfile { what: format!("overlaps of bin {bin} {sums:?}") });
            }
            profile.overlaps.resize(bin + 1, Sums::default());
            profile.overlaps[bin] = sums.completed();
        }
        let weight = profile.total_weight();
        if (stored.samples == 0) != (weight == 0) || stored.samples > weight {
            return Err(Error::MalformedProfile {
                what: format!("{} samples that stand for {weight} accesses", stored.samples),
            });
        }
        Ok(profile)
    }
}

fn read_bins(which: &str, stored: &[(u64, u64)]) -> Result<Vec<u64>, Error> {
    let malformed = |what: String| Error::MalformedProfile { what };
    let mut read = Vec::new();
    for &(distance, weight) in stored {
        let bin = bins::bin_of(distance);
        if weight == 0 {
            return Err(malformed(format!("{which} bin {distance} of weight 0")));
        }
        if bin < read.len() {
            return Err(malformed(format!("{which} bin {distance} out of order")));
        }
        add(&mut read, bin, weight);
    }
    Ok(read)
}
