//! Nothing is allocated while windows are built, classified and predicted, once every phase has been founded.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use phase_detect::signature::{
    BlockTable, BranchVector, Branches, CounterVector, MappedCodeVector, Metric, MetricPart, StrideConfig,
    StrideVector, WorkingSet, WorkingSetForm,
};
use phase_detect::{
    Clusterer, CodeVector, LeaderFollower, LeaderFollowerConfig, Pop, PopConfig, Ppm, Predictor,
    RunLengthMarkov, Signature, Wavelet, WaveletConfig,
};

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

/// Runs `window` once to warm up and then asserts that a hundred more runs allocate nothing.
fn assert_frugal(what: &str, mut window: impl FnMut(u64)) {
    for warm_up in 0..4 {
        window(warm_up);
    }
    let before = ALLOCATIONS.with(Cell::get);
    for number in 0..100 {
        window(number);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{what}");
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(vec![1]));
    assert_eq!(ALLOCATIONS.with(Cell::get), before + 1);
}

#[test]
fn building_classifying_and_predicting() {
    let mut code = CodeVector::new(32, 1).unwrap();
    let mut signature = Signature::frequency(vec![1.0; 32]).unwrap();
    let mut clusterer = LeaderFollower::new(LeaderFollowerConfig::default()).unwrap();
    let mut predictor = RunLengthMarkov::default();
    let mut next = Ppm::new(64).unwrap(); // of its full size from the beginning
    assert_frugal("code vector to prediction", |number| {
        for i in 0..50 {
            code.add(number % 4 * 4096 + i * 16, 10.0);
        }
        code.finish_into(&mut signature).unwrap();
        let phase = clusterer.classify(&signature).unwrap().phase;
        predictor.observe(phase);
        next.observe(phase);
        assert!(predictor.predict().is_some() && next.predict().is_some());
    });
}

#[test]
fn every_builder() {
    let mut signature = Signature::frequency(vec![1.0; 1024]).unwrap();
    let mut branches = BranchVector::new(Branches::Conditional, 32, 1).unwrap();
    assert_frugal("branch vector", |n| {
        branches.add(n, true);
        branches.finish_into(&mut signature).unwrap();
    });
    let table = BlockTable::new((0..100).map(|b| (b * 16, 16))).unwrap();
    let mut mapped = MappedCodeVector::new(table, 32, 1).unwrap();
    assert_frugal("mapped code vector", |n| {
        mapped.add(n);
        mapped.finish_into(&mut signature).unwrap();
    });
    let mut set = WorkingSet::new(WorkingSetForm::Frequency, 64, 64, 1).unwrap();
    assert_frugal("working set", |n| {
        set.add(n * 64);
        set.finish_into(&mut signature).unwrap();
    });
    let mut strides = StrideVector::new(StrideConfig::default()).unwrap();
    assert_frugal("strides", |n| {
        strides.add(3, n * 8);
        strides.add(3, n * 8 + 4);
        strides.finish_into(&mut signature).unwrap();
    });
    let mut wavelet = Wavelet::new(WaveletConfig::default(), 100).unwrap();
    assert_frugal("wavelet", |n| {
        wavelet.add(n * 64, n);
        wavelet.finish_into(&mut signature).unwrap();
    });
    let mut counters = CounterVector::new(8).unwrap();
    let mut pop = Pop::new(PopConfig::default()).unwrap();
    assert_frugal("counters and POP", |n| {
        counters.add(0, 100 * (1 + n % 2)).unwrap();
        counters.finish_per_into(10, &mut signature).unwrap();
        pop.classify(&signature).unwrap();
    });
    let part = MetricPart::new(vec![Metric { full_scale: 4.0 }], 0.5).unwrap();
    let code = Signature::frequency(vec![1.0; 32]).unwrap();
    assert_frugal("metrics", |n| part.append_into(&code, &[n as f64 / 100.0], &mut signature).unwrap());
}
