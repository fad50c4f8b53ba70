//! What `--hot-spots` advises, applied: every hint is held against an exact simulation of a hierarchy of set-associative
//! caches, before and after.

use std::collections::BTreeMap;

use examples::machines::chip::{Cache, Geometry, Policy};
use examples::workloads::{Block, Tracer, Workload, matmul_blocked, matmul_naive};
use reuse_sampler::replay::{Event, ReplayOptions, ReplaySampler, Strides, WindowLength};
use reuse_sampler::{
    Access, AccessKind, Advice, CacheLines, Hint, HotSpots, LineSize, ReusePlan, ReuseProfile, SampleGap,
    Sampler, WindowPlan,
};
use statstack::StatStack;

type Site = (u64, AccessKind);

/// Bytes and ways of the levels: all of them matter to kernels of 0.4 to 3 MiB.
const LEVELS: [(u64, u64); 3] = [(32 << 10, 8), (256 << 10, 8), (1 << 20, 16)];
/// Misses that a level may have more after a hint, by those before: sets fill a little differently.
const SAME: f64 = 0.001;
/// One access in so many is sampled, as `--hot-spots` does by default on a stream ten times as long.
const GAP: u64 = 10;

fn is_site(access: &Access) -> Site {
    (access.pc, access.kind)
}

/// The hints for a stream and the stride of each site.
fn advise(events: &[Event]) -> (Vec<Advice<Site>>, Strides) {
    let options = ReplayOptions::windows_of(WindowLength::Accesses(65_536)).seed(3).strides(GAP);
    let mut sampler = ReplaySampler::new(events.iter().copied(), options).unwrap();
    let plan = WindowPlan::new(ReusePlan::Sparse(SampleGap::mean(GAP as f64).unwrap()));
    let (mut spots, mut strides) = (HotSpots::new(), Strides::default());
    let mut profile = ReuseProfile::new(LineSize::B64);
    while let Some(window) = sampler.next_window(&plan).unwrap() {
        strides.add(&window.strides);
        spots.add(&window, |site| (site.pc, site.kind)).unwrap();
        for sample in &window.samples {
            profile.record(sample.outcome, sample.weight);
        }
    }
    let model = StatStack::fit(&profile).unwrap();
    let levels = LEVELS.map(|(bytes, _)| CacheLines(bytes / 64));
    let advice = spots.advise(&model, &levels, |site| strides.of(site.0)).unwrap();
    (advice, strides)
}

/// Misses at each level where the sites in `hints` do as they are told: prefetched lines come into all levels, others are
/// kept out of all but the first.
fn misses(events: &[Event], hints: &[&Advice<Site>], strides: &Strides) -> [f64; 3] {
    let geometry = |(bytes, ways)| Geometry::new(bytes, ways, LineSize::B64).unwrap();
    let mut caches = LEVELS.map(|level| Cache::new(geometry(level), Policy::Lru));
    let mut by_site: BTreeMap<Site, Vec<&Hint<Site>>> = BTreeMap::new();
    hints.iter().for_each(|advice| by_site.entry(advice.site).or_default().push(&advice.hint));
    let mut missed = [0.0; 3];
    let mut touch = |line: u64, into: usize, missed: Option<&mut [f64; 3]>| {
        let found = caches.iter_mut().position(|cache| cache.touch(line)).unwrap_or(3);
        if let Some(missed) = missed {
            missed[..found].iter_mut().for_each(|level| *level += 1.0);
        }
        for cache in &mut caches[..found.min(into)] {
            cache.insert(line);
        }
    };
    for event in events {
        let Event::Access(access) = event else { continue };
        let hints = by_site.get(&is_site(access)).map_or(&[][..], Vec::as_slice);
        let keeps_out = hints.contains(&&Hint::NonTemporal);
        for line in LineSize::B64.lines(access) {
            touch(line.0, if keeps_out { 1 } else { 3 }, Some(&mut missed));
        }
        for hint in hints {
            if let Hint::Prefetch { ahead } = hint {
                let bytes = strides.of(access.pc).unwrap().bytes * *ahead as i64;
                touch(access.address.wrapping_add_signed(bytes) / 64, if keeps_out { 1 } else { 3 }, None);
            }
        }
    }
    missed
}

/// Share of what a prefetch says it removes, at least: the shares are of misses as the model has them, which knows no sets.
const LEAST: f64 = 0.75;

fn harmless(name: &str, events: &[Event]) -> Vec<Advice<Site>> {
    held_against(name, events, LEAST)
}

/// Holds each hint that needs no other loops, and all of them together, against the simulation. Returns the hints.
fn held_against(name: &str, events: &[Event], least: f64) -> Vec<Advice<Site>> {
    let (advice, strides) = advise(events);
    let before = misses(events, &[], &strides);
    let local: Vec<_> =
        advice.iter().filter(|a| matches!(a.hint, Hint::Prefetch { .. } | Hint::NonTemporal)).collect();
    let sets = local.iter().map(|hint| vec![*hint]).chain([local.clone()]).filter(|set| !set.is_empty());
    for set in sets {
        let after = misses(events, &set, &strides);
        let removed: Vec<f64> = (0..3).map(|k| (before[k] - after[k]) / before[k].max(1.0)).collect();
        let what: Vec<_> = set.iter().map(|a| (a.site.0, &a.hint, &a.removes)).collect();
        eprintln!("{name}: {what:x?}: {removed:.4?} of {before:?}");
        for level in 0..3 {
            assert!(after[level] <= before[level] * (1.0 + SAME), "{name} {what:?}: {before:?} {after:?}");
        }
        // What is kept out helps others, of which the model knows less.
        if let [Advice { hint: Hint::Prefetch { .. }, removes, .. }] = set[..] {
            for level in 0..3 {
                assert!(
                    removed[level] > least * removes[level] - 0.01,
                    "{name} {what:?}: {removed:?} of {before:?}"
                );
            }
        }
    }
    advice
}

/// The same kernel with its loops rearranged, as the hint says.
fn rearranged(name: &str, before: &[Event], after: &[Event], block: bool) {
    let advice = harmless(name, before);
    let is_it =
        |hint: &Hint<Site>| if block { *hint == Hint::Block } else { matches!(hint, Hint::Fuse { .. }) };
    assert!(advice.iter().any(|advice| is_it(&advice.hint)), "{name}: {advice:?}");
    let none = Strides::default();
    let (before, after) = (misses(before, &[], &none), misses(after, &[], &none));
    eprintln!("{name}: {before:?} {after:?}");
    assert!((0..3).all(|level| after[level] <= before[level] * (1.0 + SAME)), "{name}: {before:?} {after:?}");
    assert!(after[0] < 0.8 * before[0], "{name}: {before:?} {after:?}");
}

fn events_of(kernel: impl FnOnce(&mut Tracer<'_, Vec<Event>>)) -> Vec<Event> {
    let mut events = Vec::new();
    kernel(&mut Tracer::new(&mut events, 0));
    events
}

fn embedded(name: &str) -> Vec<Event> {
    Workload::by_name(name, 7, 1).unwrap().events().unwrap().collect()
}

const LOOPS: [Block; 4] = [
    Block::new(40, 0, "first", 4),
    Block::new(40, 1, "second", 4),
    Block::new(40, 2, "third", 4),
    Block::new(40, 3, "fourth", 4),
];

/// A table that is picked from while vectors stream by: one that is read, or written.
fn beside_a_stream(table: usize, stores: bool) -> Vec<Event> {
    events_of(|t| {
        let (picked, mut stream) = (t.place(vec![1_u64; table]), t.place(vec![0_u64; 600_000]));
        let mut state = 1_u64;
        for i in 0..600_000 {
            t.block(LOOPS[0]);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = t.load(&picked, (state >> 33) as usize % table);
            t.block(LOOPS[1]);
            if stores {
                t.store(&mut stream, i, value);
            } else {
                t.load(&stream, i);
            }
        }
    })
}

/// The four loops of STREAM, one after another or as one.
fn vectors(fused: bool) -> Vec<Event> {
    const LENGTH: usize = 100_000;
    events_of(|t| {
        let [mut a, mut b, mut c] = [0.0; 3].map(|x: f64| t.place(vec![x; LENGTH]));
        let mut each = |number: usize, i: usize| {
            t.block(LOOPS[number]);
            match number {
                0 => t.load(&a, i),
                1 => t.load(&c, i),
                2 => t.load(&a, i) + t.load(&b, i),
                _ => t.load(&b, i) + t.load(&c, i),
            };
            match number {
                0 | 2 => t.store(&mut c, i, 1.0),
                1 => t.store(&mut b, i, 1.0),
                _ => t.store(&mut a, i, 1.0),
            }
        };
        for pass in 0..4 * LENGTH {
            if fused { each(pass % 4, pass / 4) } else { each(pass / LENGTH, pass % LENGTH) }
        }
    })
}

/// A square matrix is copied with rows for columns, in tiles.
fn transposed(tile: usize) -> Vec<Event> {
    const N: usize = 720; // rows, and tiles, of whole lines, that spread over all sets
    events_of(|t| {
        let (from, mut to) = (t.place(vec![1_u64; N * N]), t.place(vec![0_u64; N * N]));
        for rows in (0..N).step_by(tile) {
            for columns in (0..N).step_by(tile) {
                for i in rows..(rows + tile).min(N) {
                    for j in columns..(columns + tile).min(N) {
                        t.block(LOOPS[0]);
                        let value = t.load(&from, j * N + i);
                        t.store(&mut to, i * N + j, value);
                    }
                }
            }
        }
    })
}

/// Eight passes over an array, each over parts of so many elements.
fn passes(part: usize) -> Vec<Event> {
    const LENGTH: usize = 200_000;
    events_of(|t| {
        let array = t.place(vec![1_u64; LENGTH]);
        for start in (0..LENGTH).step_by(part) {
            for _ in 0..8 {
                for i in start..(start + part).min(LENGTH) {
                    t.block(LOOPS[2]);
                    t.load(&array, i);
                }
            }
        }
    })
}

/// One loop writes what the next one reads.
fn produced(fused: bool) -> Vec<Event> {
    const LENGTH: usize = 300_000;
    events_of(|t| {
        let mut array = t.place(vec![1_u64; LENGTH]);
        for step in 0..2 * LENGTH {
            let (reads, i) = if fused { (step % 2 == 1, step / 2) } else { (step >= LENGTH, step % LENGTH) };
            t.block(LOOPS[usize::from(reads)]);
            if reads {
                t.load(&array, i);
            } else {
                t.store(&mut array, i, 1);
            }
        }
    })
}

/// The kernels that the rules were chosen on.
#[test]
fn hints_do_no_harm_where_they_were_chosen() {
    for name in ["stream", "pointer_chase", "key_value", "btree"] {
        harmless(name, &embedded(name));
    }
    let kept = harmless("beside a store", &beside_a_stream(100_000, true));
    assert!(kept.iter().any(|advice| advice.hint == Hint::NonTemporal), "{kept:?}");
    let product = |t: &mut Tracer<'_, Vec<Event>>| drop(matmul_naive(t, 128, 1));
    let tiles = |t: &mut Tracer<'_, Vec<Event>>| drop(matmul_blocked(t, 128, 16, 1));
    rearranged("product", &events_of(product), &events_of(tiles), true);
    rearranged("vectors", &vectors(false), &vectors(true), false);
}

/// Kernels that no rule was chosen on.
#[test]
fn hints_do_no_harm_elsewhere() {
    for name in ["hash_join", "mergesort", "quicksort", "bfs", "pagerank"] {
        harmless(name, &embedded(name));
    }
    let kept = harmless("beside a load", &beside_a_stream(30_000, false));
    assert!(kept.iter().any(|advice| advice.hint == Hint::NonTemporal), "{kept:?}");
    rearranged("transposition", &transposed(720), &transposed(16), true);
    rearranged("passes", &passes(200_000), &passes(1_000), true);
    rearranged("producer", &produced(false), &produced(true), false);
}

/// Passes over an array that add to each element, each over parts of so many elements.
fn increments(part: usize) -> Vec<Event> {
    const LENGTH: usize = 200_000;
    events_of(|t| {
        let mut array = t.place(vec![1_u64; LENGTH]);
        for start in (0..LENGTH).step_by(part) {
            for _ in 0..6 {
                for i in start..(start + part).min(LENGTH) {
                    t.block(LOOPS[0]);
                    let value = t.load(&array, i) + t.load(&array, (i + 1) % LENGTH);
                    t.store(&mut array, i, value);
                }
            }
        }
    })
}

/// Five points of a grid make one of another; then the grids change places.
fn stencil(t: &mut Tracer<'_, Vec<Event>>) {
    const N: usize = 300;
    let mut grids = [0.0, 1.0].map(|x: f64| t.place(vec![x; N * N]));
    for _ in 0..4 {
        let [from, to] = &mut grids;
        for at in (N + 1)..(N * N - N - 1) {
            t.block(LOOPS[0]);
            let sum: f64 = [at - N, at - 1, at, at + 1, at + N].map(|at| t.load(from, at)).iter().sum();
            t.store(to, at, sum / 5.0);
        }
        grids.swap(0, 1);
    }
}

fn histogram(t: &mut Tracer<'_, Vec<Event>>) {
    let values = (0..500_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48).collect();
    let (values, mut counts) = (t.place(values), t.place(vec![0_u32; 1 << 16]));
    for i in 0..500_000 {
        t.block(LOOPS[0]);
        let bin = t.load(&values, i) as usize;
        let count = t.load(&counts, bin);
        t.store(&mut counts, bin, count + 1);
    }
}

/// A matrix of ten elements a row, of which a vector is taken times.
fn sparse_product(t: &mut Tracer<'_, Vec<Event>>) {
    const ROWS: usize = 20_000;
    let columns = (0..10 * ROWS as u64).map(|i| (i * i * 7_919 % 20_011) as u32 % ROWS as u32).collect();
    let (columns, values) = (t.place::<u32>(columns), t.place(vec![1.0_f64; 10 * ROWS]));
    let (x, mut y) = (t.place(vec![1.0_f64; ROWS]), t.place(vec![0.0_f64; ROWS]));
    for row in (0..2 * ROWS).map(|row| row % ROWS) {
        let mut sum = 0.0;
        for k in 10 * row..10 * row + 10 {
            t.block(LOOPS[0]);
            let column = t.load(&columns, k) as usize;
            sum += t.load(&values, k) * t.load(&x, column);
        }
        t.block(LOOPS[1]);
        t.store(&mut y, row, sum);
    }
}

/// Looks for a word of eight letters from its end, skipping by the letter found there.
fn string_search(t: &mut Tracer<'_, Vec<Event>>) {
    let text = (0..1_500_000_u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as u8).collect();
    let (text, skips) = (t.place::<u8>(text), t.place(vec![3_u8; 32]));
    let mut at = 7;
    while at < 1_500_000 {
        t.block(LOOPS[0]);
        let letter = t.load(&text, at);
        if letter == 0 {
            t.block(LOOPS[1]);
            (1..8).take_while(|back| t.load(&text, at - back) == 0).count();
        }
        t.block(LOOPS[2]);
        at += t.load(&skips, letter as usize) as usize;
    }
}

fn heap_sort(t: &mut Tracer<'_, Vec<Event>>) {
    const LENGTH: usize = 60_000;
    let mut heap = t.place((0..LENGTH as u64).map(|i| i * 7_919 % 100_003).collect::<Vec<u64>>());
    let steps = (0..LENGTH / 2).rev().map(|root| (root, LENGTH)).chain((1..LENGTH).rev().map(|end| (0, end)));
    for (mut root, end) in steps {
        t.block(LOOPS[0]);
        let mut moved = t.load(&heap, root);
        if root == 0 && end < LENGTH {
            let last = t.load(&heap, end);
            t.store(&mut heap, end, std::mem::replace(&mut moved, last));
        }
        while 2 * root + 1 < end {
            t.block(LOOPS[1]);
            let mut child = 2 * root + 1;
            let mut value = t.load(&heap, child);
            if child + 1 < end {
                let other = t.load(&heap, child + 1);
                (child, value) = if other > value { (child + 1, other) } else { (child, value) };
            }
            if value <= moved {
                break;
            }
            t.store(&mut heap, root, value);
            root = child;
        }
        t.block(LOOPS[2]);
        t.store(&mut heap, root, moved);
    }
}

/// Factors a matrix in place, without pivots.
fn factored(t: &mut Tracer<'_, Vec<Event>>) {
    const N: usize = 130;
    let matrix = (0..N * N).map(|at| if at % (N + 1) == 0 { 100.0 } else { (at % 7) as f64 });
    let mut matrix = t.place(matrix.collect::<Vec<f64>>());
    for k in 0..N {
        for i in k + 1..N {
            t.block(LOOPS[0]);
            let factor = t.load(&matrix, i * N + k) / t.load(&matrix, k * N + k);
            t.store(&mut matrix, i * N + k, factor);
            for j in k + 1..N {
                t.block(LOOPS[1]);
                let value = t.load(&matrix, i * N + j) - factor * t.load(&matrix, k * N + j);
                t.store(&mut matrix, i * N + j, value);
            }
        }
    }
}

/// A loop that loads and stores one array returns to its own lines: there is no second loop to fuse it with.
#[test]
fn one_loop_is_not_told_to_fuse_with_itself() {
    rearranged("increments", &increments(200_000), &increments(1_000), true);
    for (name, events) in [("increments", increments(200_000)), ("factored", events_of(factored))] {
        let fused = advise(&events).0.into_iter().find(|advice| matches!(advice.hint, Hint::Fuse { .. }));
        assert!(fused.is_none(), "{name}: {fused:?}");
    }
}

/// Kernels that came after the rules.
#[test]
fn hints_do_no_harm_to_kernels_of_others() {
    for (name, kernel) in [
        ("stencil", stencil as fn(&mut Tracer<'_, Vec<Event>>)),
        ("histogram", histogram),
        ("sparse product", sparse_product),
        ("string search", string_search),
        ("heap sort", heap_sort),
        ("factored", factored),
    ] {
        // The array's end, which a heap sort walks down to, misses half as often as accesses of its distances do on average.
        held_against(name, &events_of(kernel), 0.45);
    }
}
