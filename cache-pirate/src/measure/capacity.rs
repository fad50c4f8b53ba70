//! How much the pirate can hold when nobody competes with it.
//!
//! A pirate that walks more lines than the cache has never holds them, with or without a target, and nothing
//! that happens beside the target shows it: its time per line is always the same. So before the target runs, the
//! pirate walks growing sizes alone. Sizes beyond what it held are not trusted; and if it could not even hold half
//! of the cache, then the cache is smaller than stated, and no size is.

use crate::counts::PirateCounts;
use crate::plan::Plan;
use crate::testbed::{Testbed, Until, Who};
use crate::trust::{Distrust, Trust};

/// What the pirate held alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Largest size held, in bytes, of those tried: the plan's and half of the cache.
    pub held: u64,
    /// Smallest size that was not held; `None` if all were.
    pub not_held: Option<u64>,
    /// Size of the cache in bytes.
    pub cache: u64,
}

impl Capacity {
    /// Whether the pirate may be trusted to hold `stolen` bytes.
    pub(super) fn judge(self, stolen: u64) -> Trust {
        let Some(not_held) = self.not_held else { return Trust::Trusted };
        if stolen >= not_held {
            return Trust::Untrusted(Distrust::NotHeld { held: self.held });
        }
        if stolen > 0 && self.held < self.cache / 2 {
            return Trust::Untrusted(Distrust::CacheTooLarge { held: self.held, cache: self.cache });
        }
        Trust::Trusted
    }
}

/// Lets the pirate walk each of `sizes` bytes and half of the cache, the smallest first, until it does not hold one.
/// It holds a size if a walk fetches no more than the plan's limit; it may make as many walks as in a warm-up.
///
/// # Errors
/// Those of the testbed.
///
/// # Cost
/// The target stands still. Where all sizes are held, one or two walks of each.
pub(super) fn find<T: Testbed>(testbed: &mut T, plan: &Plan, sizes: &[u64]) -> Result<Capacity, T::Error> {
    let line = u64::from(plan.cache.line_size);
    let half = plan.whole() / 2 / line * line;
    let mut sizes: Vec<u64> = sizes.iter().copied().filter(|&bytes| bytes > 0).collect();
    let mut capacity = Capacity { held: 0, not_held: None, cache: plan.whole() };
    if sizes.is_empty() {
        return Ok(capacity);
    }
    sizes.push(half.max(line));
    sizes.sort_unstable();
    sizes.dedup();
    let limit = plan.limits.of(testbed.evidence());
    for bytes in sizes {
        testbed.steal(bytes, 1)?;
        let mut held = false;
        // The first walk brings the lines in.
        for walk in 0..=plan.pirate_warm_up {
            let before = testbed.read()?.pirate;
            testbed.run(Who::Pirate, Until::Walks(1))?;
            let PirateCounts { touches, fetches } = testbed.read()?.pirate - before;
            held = walk > 0 && touches > 0.0 && fetches <= limit * touches;
            if held {
                break;
            }
        }
        if !held {
            capacity.not_held = Some(bytes);
            break;
        }
        capacity.held = bytes;
    }
    testbed.steal(0, 1)?;
    Ok(capacity)
}
