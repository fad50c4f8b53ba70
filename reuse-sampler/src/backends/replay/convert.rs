//! Between the engine's plain numbers and the vocabulary's types.

use crate::engine::bins;
use crate::engine::gaps::Rate;
use crate::engine::report::{Backward, Closed, Fate, Report};
use crate::engine::tracker::Mode;
use crate::{
    AccessCount, AccessKind, Arrivals, LineSize, Outcome, ReuseCount, ReuseDistance, ReuseOverlap, ReusePlan,
    ReuseProfile, ReuseSample, Site, ThreadId, Window, WindowIndex,
};

/// The engine's mode for a plan.
pub(crate) fn mode_of(plan: &ReusePlan) -> Mode {
    match *plan {
        ReusePlan::Off => Mode::Off,
        ReusePlan::Watch => Mode::Watch,
        ReusePlan::Every => Mode::Every,
        ReusePlan::Sparse(gap) => Mode::Sample(Rate::Sparse { mean: gap.accesses() }),
        ReusePlan::Hierarchical(h) => Mode::Sample(Rate::Hierarchical {
            burst: h.burst(),
            hibernation: h.hibernation(),
            samples: h.samples(),
        }),
    }
}

/// A window with the engine's report in it. `seen` says whether accesses were counted.
pub(crate) fn window_from(
    report: Report,
    index: WindowIndex,
    thread: ThreadId,
    line_size: LineSize,
    seen: bool,
) -> Window {
    let mut window = Window::new(index, thread, line_size);
    if seen {
        window.accesses = AccessCount::Measured(report.accesses);
    }
    window.samples = report.closed.iter().map(|closed| sample(closed, thread)).collect();
    window.counts = report
        .counts
        .iter()
        .map(|c| ReuseCount { outcome: outcome(c.fate), started_in: WindowIndex(c.window), count: c.samples })
        .collect();
    window.overlaps = report
        .overlaps
        .iter()
        .filter_map(|o| {
            let (low, high) = bins::coarse_bounds(o.bin)?;
            Some(ReuseOverlap {
                started_in: WindowIndex(o.window),
                shortest: ReuseDistance(low),
                longest: ReuseDistance(high),
                weight: o.weight,
                samples: o.samples,
                open: o.open,
                pairs: o.pairs,
            })
        })
        .collect();
    window.arrivals = report.arrivals.map(|[loads, stores]| Arrivals {
        loads: backward(&loads, line_size),
        stores: backward(&stores, line_size),
    });
    window.strides = report.strides;
    window.open_samples = report.open;
    window.refetched = report.refetched;
    window
}

fn outcome(fate: Fate) -> Outcome {
    match fate {
        Fate::Reused(distance) => Outcome::Reused(ReuseDistance(distance)),
        Fate::Invalidated(distance) => Outcome::Invalidated(ReuseDistance(distance)),
        Fate::Dangling => Outcome::Dangling,
        Fate::Censored(at_least) => Outcome::Censored { at_least },
    }
}

fn sample(closed: &Closed, thread: ThreadId) -> ReuseSample {
    ReuseSample {
        outcome: outcome(closed.fate),
        started_in: WindowIndex(closed.window),
        thread,
        begin: site(closed.begin),
        end: closed.end.map(site),
        weight: closed.weight,
    }
}

fn site((pc, store): (u64, bool)) -> Site {
    Site { pc, kind: if store { AccessKind::Store } else { AccessKind::Load } }
}

fn backward(fates: &Backward, line_size: LineSize) -> ReuseProfile {
    let mut profile = ReuseProfile::new(line_size);
    for &(fate, count) in fates {
        profile.record_many(outcome(fate), count, 1);
        profile.add_accesses(count);
    }
    profile
}
