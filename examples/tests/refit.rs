//! Fitting StatStack and StatCache anew. A scheduler's loop allocates nothing: a window is added, the model fitted anew and its curve evaluated.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Debug;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reuse_sampler::{
    CacheLines, CacheModel, LineSize, Outcome, Reuse, ReuseDistance, ReuseOverlap, ReuseProfile, WindowIndex,
};
use statcache::StatCache;
use statstack::StatStack;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches a thread-local number without
// a destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are those the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(what: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    what();
    ALLOCATIONS.with(Cell::get) - before
}

/// A window of samples over seven octaves, with overlaps that tell of bursts.
fn window(random: &mut StdRng) -> ReuseProfile {
    let mut profile = ReuseProfile::new(LineSize::B64);
    for k in 0..2_000 {
        let octave = random.random_range(3..15);
        let distance = random.random_range(0..1u64 << octave);
        profile.record(
            if k % 50 == 0 { Outcome::Dangling } else { Outcome::Reused(ReuseDistance(distance)) },
            10,
        );
        let open = distance / random.random_range(20..40);
        profile.record_overlap(&ReuseOverlap {
            started_in: WindowIndex(0),
            shortest: ReuseDistance(distance),
            longest: ReuseDistance(distance),
            weight: 10,
            samples: 1,
            open,
            pairs: open * open.saturating_sub(1),
        });
    }
    profile.add_accesses(20_000);
    profile
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1]))), 1);
}

/// A model, a way to fit it and a way to fit it again.
struct Fitting<M, E> {
    fit: fn(&ReuseProfile) -> Result<M, E>,
    refit: fn(&mut M, &ReuseProfile) -> Result<(), E>,
}

impl<M: CacheModel, E: Debug> Fitting<M, E> {
    fn allocates_nothing(&self) {
        let mut random = StdRng::seed_from_u64(1);
        // Every distance has been seen once the first windows were added; no window brings a new one to the fit.
        let windows: Vec<ReuseProfile> = (0..20).map(|_| window(&mut random)).collect();
        let sizes: Vec<CacheLines> = (0..24).map(|octave| CacheLines(1 << octave)).collect();
        let mut all = windows[0].clone();
        windows.iter().for_each(|window| all.merge(window).unwrap());
        let mut model = (self.fit)(&all).unwrap();
        let mut curve = model.curve(&sizes);
        let mut profile = all.clone();
        for window in &windows {
            let allocated = allocations(|| {
                profile.merge(window).unwrap();
                (self.refit)(&mut model, &profile).unwrap();
                model.curve_into(&mut curve);
                model.miss_probability(Reuse::Distance(ReuseDistance(1_000)), CacheLines(512));
            });
            assert_eq!(allocated, 0);
            // What was fitted anew is what a new fit gives.
            let new = (self.fit)(&profile).unwrap();
            assert_eq!(curve, new.curve(&sizes));
            for distance in [0, 100, 1_000, 10_000] {
                let reuse = Reuse::Distance(ReuseDistance(distance));
                let found = model.miss_probability(reuse, CacheLines(512));
                assert_eq!(found, new.miss_probability(reuse, CacheLines(512)));
                // Prepared, it may be interpolated between points a thirty-second of an octave apart.
                assert!((found - new.at(CacheLines(512)).miss_probability(reuse)).abs() < 1e-3);
            }
        }
    }

    fn refusal_leaves_the_model_as_it_was(&self) {
        let window = window(&mut StdRng::seed_from_u64(2));
        let mut model = (self.fit)(&window).unwrap();
        let before = model.curve(&[CacheLines(64)]);
        assert!((self.refit)(&mut model, &ReuseProfile::new(LineSize::B64)).is_err());
        assert_eq!(model.curve(&[CacheLines(64)]), before);
    }
}

fn statstack() -> impl Iterator<Item = Fitting<StatStack, statstack::Error>> {
    let fits = [StatStack::fit, StatStack::fit_distances, StatStack::fit_published];
    fits.into_iter().map(|fit| Fitting { fit, refit: StatStack::refit })
}

fn statcache() -> impl Iterator<Item = Fitting<StatCache, statcache::Error>> {
    [Fitting { fit: StatCache::fit, refit: StatCache::refit }].into_iter()
}

#[test]
fn adding_a_window_and_evaluating_again_allocates_nothing() {
    statstack().for_each(|fitting| fitting.allocates_nothing());
    statcache().for_each(|fitting| fitting.allocates_nothing());
}

#[test]
fn a_profile_that_is_refused_leaves_the_model_as_it_was() {
    statstack().for_each(|fitting| fitting.refusal_leaves_the_model_as_it_was());
    statcache().for_each(|fitting| fitting.refusal_leaves_the_model_as_it_was());
}
