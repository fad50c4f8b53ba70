//! How much the pirate can hold when nobody competes with it.
//!
//! A pirate that walks more lines than the cache has never holds them, with or without a target, and nothing
//! that happens beside the target shows it: its time per line is always the same. So before the target runs, the
//! pirate walks growing sizes alone. Sizes beyond what it held are not trusted; and if it could not even hold half
//! of the cache, then the cache is smaller than stated, and no size is; nor is one if it held more than the cache. Where
//! only the time of an access shows whether a line was held, that may be true, or look true, for a moment: half of the
//! cache is walked once more in the end.

use crate::counts::PirateCounts;
use crate::plan::Plan;
use crate::testbed::{Evidence, LinePlacement, Order, Testbed, Until, Who};
use crate::trust::{Distrust, Trust};

/// Largest share of lines that may outlive a scan. LRU keeps none, in scattered pages those of the few sets that the scan
/// hardly reaches; tree pseudo-LRU keeps 3/8 to 7/16, re-reference prediction half or more.
const SCAN_LIMIT: f64 = 0.46;
/// Above this the target's lines, too, may be kept from the pirate's walk, or not.
const PROTECTS: f64 = 0.25;

/// Largest share of lines that an LRU cache may keep of a cycle that does not fit.
const CYCLE_LIMIT: f64 = 0.02;
/// Walks until a cycle that does not fit keeps the same share of its lines.
const SETTLING: u32 = 4;
/// Ways of a cache whose ways are not known.
const WAYS: u32 = 16;

/// What the pirate held alone.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Capacity {
    /// Largest size held, in bytes, of those tried: the plan's and half of the cache.
    pub held: u64,
    /// Smallest size that was not held; `None` if all were.
    pub not_held: Option<u64>,
    /// Size of the cache in bytes.
    pub cache: u64,
    /// Bytes that each thread of the pirate holds in its private caches instead of the shared one, which is
    /// exclusive: it walks so many more. Otherwise 0.
    pub hidden: u64,
    /// Whether an exclusive cache that is full of the pirate's lines, with those that its private caches hold, loses some:
    /// sets then hold more of them now than then.
    pub uneven: bool,
    /// Share of lines touched twice that outlive as many others as fill the cache: 0 under LRU. `None` where fetches
    /// are not counted.
    pub kept_through_scan: Option<f64>,
    /// Share of lines that are still there when a way more than the cache is walked over and over: 0 under LRU, which
    /// evicts each just before its turn. `None` where fetches are not counted, or pages are scattered.
    pub kept_in_cycle: Option<f64>,
    /// Whether it held more than the cache: a way more where fetches are counted, half as much again where they are timed.
    pub holds_more: bool,
}

impl Capacity {
    /// In which order lines are replaced, as far as it is known: in scattered pages it is not.
    pub(super) fn order(self) -> Order {
        let Some(cycle) = self.kept_in_cycle else { return Order::LastTouch };
        if self.kept_through_scan.is_some_and(|kept| kept > PROTECTS) {
            Order::Protecting
        } else if cycle > CYCLE_LIMIT {
            Order::Other
        } else {
            Order::LastTouch
        }
    }

    /// Whether the pirate may be trusted to hold `stolen` bytes.
    pub(super) fn judge(self, stolen: u64) -> Trust {
        if stolen > 0 && self.holds_more {
            return Trust::Untrusted(Distrust::CacheTooSmall { cache: self.cache });
        }
        if let Some(kept) = self.kept_through_scan.filter(|&kept| stolen > 0 && kept > SCAN_LIMIT) {
            return Trust::Untrusted(Distrust::ScanResistant { kept });
        }
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
/// It holds a size if a walk fetches no more than the plan's limit; it may make as many walks as in a warm-up. Before,
/// where fetches are counted, it finds whether the cache is exclusive and whether it resists scans; in the end, whether
/// it is larger than stated.
///
/// # Errors
/// Those of the testbed.
///
/// # Cost
/// The target stands still. Where all sizes are held, one or two walks of each, and a few of the whole cache and a little
/// more, or where fetches are timed two of half as much again.
pub(super) fn find<T: Testbed>(testbed: &mut T, plan: &Plan, sizes: &[u64]) -> Result<Capacity, T::Error> {
    let half = half(plan);
    let line = u64::from(plan.cache.line_size);
    let mut sizes: Vec<u64> = sizes.iter().copied().filter(|&bytes| bytes > 0).collect();
    let mut capacity = Capacity {
        held: 0,
        not_held: None,
        cache: plan.whole(),
        hidden: 0,
        uneven: false,
        kept_through_scan: None,
        kept_in_cycle: None,
        holds_more: false,
    };
    if sizes.is_empty() {
        return Ok(capacity);
    }
    if testbed.evidence() == Evidence::Confined {
        // Nothing has to be held.
        return Ok(Capacity { held: plan.whole(), ..capacity });
    }
    sizes.push(half);
    sizes.sort_unstable();
    sizes.dedup();
    if testbed.evidence() == Evidence::Counted {
        let private = testbed.placement().private_bytes / line * line;
        // Half of the private caches beyond the shared one fit only if it holds nothing that they hold.
        if private > 0 && holds(testbed, plan, plan.whole() + (private / 2 / line * line).max(line))? {
            capacity.hidden = private;
            capacity.uneven = !holds(testbed, plan, plan.whole() + private)?;
        }
        capacity.kept_through_scan = kept_through_scan(testbed, plan, half, capacity.hidden)?;
        capacity.kept_in_cycle = kept_in_cycle(testbed, plan, capacity.hidden)?;
        // No policy keeps more of such a cycle than the cache has ways.
        let lost = 1.0 / f64::from(testbed.placement().ways.unwrap_or(WAYS) + 1);
        capacity.holds_more = capacity.kept_in_cycle.is_some_and(|kept| kept > 1.0 - lost / 2.0);
    }
    for bytes in sizes {
        if !holds(testbed, plan, bytes + capacity.hidden)? {
            capacity.not_held = Some(bytes);
            break;
        }
        capacity.held = bytes;
    }
    if testbed.evidence() == Evidence::Timed && capacity.not_held.is_none() {
        capacity.holds_more = holds_half_more(testbed, plan)?;
    }
    testbed.steal(0, 1)?;
    Ok(capacity)
}

/// Whether the pirate holds half as much again as the cache and its private caches. Under any policy a third is lost, which
/// a time shows; what is nearer to the cache may look held.
fn holds_half_more<T: Testbed>(testbed: &mut T, plan: &Plan) -> Result<bool, T::Error> {
    let more = plan.whole() + half(plan) + testbed.placement().private_bytes;
    if more > 2 * plan.whole() {
        return Ok(false);
    }
    testbed.steal(more, 1)?;
    walk_once(testbed)?;
    let PirateCounts { touches, fetches } = walk_once(testbed)?;
    Ok(touches > 0.0 && fetches <= plan.limits.of(Evidence::Timed) * touches)
}

/// Half of the cache, in whole lines.
fn half(plan: &Plan) -> u64 {
    let line = u64::from(plan.cache.line_size);
    (plan.whole() / 2 / line * line).max(line)
}

/// What is left of `capacity` once all of `sizes` are measured, where only the time of an access shows whether a line was
/// held: another program on the machine may have taken the cache since, or slowed what the times were compared with.
pub(super) fn confirm<T: Testbed>(
    testbed: &mut T,
    plan: &Plan,
    sizes: &[u64],
    capacity: Capacity,
) -> Capacity {
    let half = half(plan);
    if testbed.evidence() != Evidence::Timed || capacity.not_held.is_some() || capacity.held < half {
        return capacity;
    }
    // Whatever is refused now was not confirmed; what was measured is not lost for it.
    let held = holds(testbed, plan, half).unwrap_or(false) && testbed.steal(0, 1).is_ok();
    if held {
        return capacity;
    }
    let smaller = sizes.iter().copied().filter(|&bytes| bytes < half).max();
    Capacity { held: smaller.unwrap_or(0), not_held: Some(half), ..capacity }
}

/// Whether the pirate holds `bytes` alone.
fn holds<T: Testbed>(testbed: &mut T, plan: &Plan, bytes: u64) -> Result<bool, T::Error> {
    let limit = plan.limits.of(testbed.evidence());
    testbed.steal(bytes, 1)?;
    // The first walk brings the lines in.
    for walk in 0..=plan.pirate_warm_up {
        let PirateCounts { touches, fetches } = walk_once(testbed)?;
        if walk > 0 && touches > 0.0 && fetches <= limit * touches {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Share of `half` the cache's lines, touched twice, that are still there after so many others that the two together
/// are a little more than the cache.
fn kept_through_scan<T: Testbed>(
    testbed: &mut T,
    plan: &Plan,
    half: u64,
    hidden: u64,
) -> Result<Option<f64>, T::Error> {
    let line = u64::from(plan.cache.line_size);
    testbed.steal(half, 1)?;
    walk_once(testbed)?;
    walk_once(testbed)?;
    // The walk of more touches the first half a third time, and then each of the others once.
    let others = plan.whole() / 16 * 17 / line * line + hidden;
    testbed.steal((half + others).min(2 * plan.whole()), 1)?;
    walk_once(testbed)?;
    testbed.steal(half, 1)?;
    let PirateCounts { touches, fetches } = walk_once(testbed)?;
    Ok((touches > 0.0).then(|| 1.0 - (fetches / touches).min(1.0)))
}

/// Share of lines found by walks of a way more than the cache, after as many that settle it.
fn kept_in_cycle<T: Testbed>(testbed: &mut T, plan: &Plan, hidden: u64) -> Result<Option<f64>, T::Error> {
    let LinePlacement { scattered_pages, ways, .. } = testbed.placement();
    if scattered_pages {
        return Ok(None);
    }
    let line = u64::from(plan.cache.line_size);
    let way = plan.whole().div_ceil(u64::from(ways.unwrap_or(WAYS).max(1))).div_ceil(line) * line;
    testbed.steal((plan.whole() + hidden + way).min(2 * plan.whole()), 1)?;
    for _ in 0..SETTLING {
        walk_once(testbed)?;
    }
    let PirateCounts { touches, fetches } = walk_once(testbed)? + walk_once(testbed)?;
    Ok((touches > 0.0).then(|| 1.0 - (fetches / touches).min(1.0)))
}

fn walk_once<T: Testbed>(testbed: &mut T) -> Result<PirateCounts, T::Error> {
    let before = testbed.read()?.pirate;
    testbed.run(Who::Pirate, Until::Walks(1))?;
    Ok(testbed.read()?.pirate - before)
}
