//! Against caches of one size each that carry MESI states, line by line.

use std::collections::{BTreeMap, BTreeSet};

use quickcheck::quickcheck;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Modified,
    Exclusive,
    Shared,
}

/// A cache of one thread: lines with their states, most recent last; and why others are not there.
#[derive(Default)]
struct Direct {
    lines: Vec<(u64, State)>,
    evicted: BTreeSet<u64>,
    invalidated: BTreeMap<u64, BTreeSet<u64>>, // with the bytes that others wrote since
}

/// Caches of one size, all protocol actions spelt out. Answers the misses by thread.
fn direct(size: u64, line_size: LineSize, steps: &[(u32, Access)]) -> BTreeMap<u32, MesiMisses> {
    use State::{Exclusive, Modified, Shared};
    let mut caches: BTreeMap<u32, Direct> = BTreeMap::new();
    let mut found: BTreeMap<u32, MesiMisses> = BTreeMap::new();
    for (thread, access) in steps {
        let touched: Vec<u64> = (access.address..access.address + u64::from(access.bytes.max(1))).collect();
        for Line(line) in line_size.lines(access) {
            let bytes: Vec<u64> =
                touched.iter().copied().filter(|&byte| line_size.line_of(byte) == Line(line)).collect();
            let misses = found.entry(*thread).or_insert_with(|| MesiMisses::new(CacheLines(size)));
            misses.accesses += 1;
            caches.entry(*thread).or_default();
            let held = caches[thread].lines.iter().find(|held| held.0 == line).map(|held| held.1);
            let store = access.kind == AccessKind::Store;
            let mut others = false;
            for (_, other) in caches.iter_mut().filter(|(other, _)| *other != thread) {
                let place = other.lines.iter().position(|held| held.0 == line);
                others |= place.is_some();
                if store {
                    if let Some(place) = place {
                        other.lines.remove(place);
                        other.invalidated.insert(line, BTreeSet::new());
                    }
                    if let Some(written) = other.invalidated.get_mut(&line) {
                        written.extend(&bytes);
                    }
                } else if let (Some(place), None) = (place, held) {
                    other.lines[place].1 = Shared;
                }
            }
            let own = caches.get_mut(thread).unwrap();
            let state = match (held, store) {
                (Some(state), false) => state,
                (Some(state), true) => {
                    misses.upgrades += u64::from(state == Shared);
                    Modified
                }
                (None, _) => {
                    if let Some(written) = own.invalidated.remove(&line) {
                        let is_true = bytes.iter().any(|byte| written.contains(byte));
                        *(if is_true { &mut misses.true_sharing } else { &mut misses.false_sharing }) += 1;
                    } else if own.evicted.remove(&line) {
                        misses.capacity += 1;
                    } else {
                        misses.cold += 1;
                    }
                    match (store, others) {
                        (true, _) => Modified,
                        (false, true) => Shared,
                        (false, false) => Exclusive,
                    }
                }
            };
            own.lines.retain(|held| held.0 != line);
            own.lines.push((line, state));
            if own.lines.len() as u64 > size {
                own.evicted.insert(own.lines.remove(0).0);
            }
        }
    }
    found
}

fn agrees(sizes: &[u64], line_size: LineSize, steps: &[(u32, Access)]) {
    let lines: Vec<_> = sizes.iter().map(|&size| CacheLines(size)).collect();
    let mut caches = MesiCaches::new(&lines, line_size).unwrap();
    for (thread, access) in steps {
        caches.access(ThreadId(*thread), access);
    }
    let found = caches.by_thread();
    for (at, &size) in sizes.iter().enumerate() {
        let expected = direct(size, line_size, steps);
        let found: BTreeMap<u32, MesiMisses> = found.iter().map(|(id, misses)| (id.0, misses[at])).collect();
        assert_eq!(found, expected, "in {size} lines");
    }
    let [mut of_lines, largest] = [[0; 2]; 2];
    for line in caches.lines() {
        of_lines = [of_lines[0] + line.true_sharing, of_lines[1] + line.false_sharing];
    }
    let most = caches.total().into_iter().max_by_key(|misses| misses.size);
    let expected = most.map_or(largest, |misses| [misses.true_sharing, misses.false_sharing]);
    assert_eq!(of_lines, expected, "the lines add up");
}

quickcheck! {
    fn agrees_with_direct_simulation(
        steps: Vec<(u8, u16, u8, bool)>, threads: u8, footprint: u8, repeat: u8, shift: u8
    ) -> bool {
        let line_size = LineSize::new(1 << (shift % 7)).unwrap();
        let bytes = u64::from(line_size.bytes()) * (u64::from(footprint % 40) + 1);
        let steps: Vec<(u32, Access)> = (0..=repeat % 8)
            .flat_map(|round| steps.iter().map(move |&step| (round, step)))
            .map(|(round, (thread, address, size, store))| {
                let address = (u64::from(address) + 3 * u64::from(round)) % bytes;
                let bytes = u32::from(size % 11);
                let access = if store { Access::store(address, bytes) } else { Access::load(address, bytes) };
                (u32::from(thread % (threads % 5 + 1)) * 7, access)
            })
            .collect();
        agrees(&[3, 1, 2, 5, 8, 13, 34], line_size, &steps);
        true
    }
}

/// Long runs in which threads share some lines and keep most to themselves, so that stacks are compacted.
#[test]
fn agrees_with_direct_simulation_in_long_runs() {
    for (stores, own) in [(8, 20), (2, 400), (30, 200)] {
        let mut random = 7_u64;
        let steps: Vec<(u32, Access)> = (0..60_000)
            .map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = random >> 20;
                let thread = draw as u32 % 4;
                let line = match draw >> 4 & 3 {
                    0 => (draw >> 8) % 20,
                    _ => 100 * u64::from(thread) * own + (draw >> 8) % own,
                };
                let address = 64 * line + 8 * (draw >> 30 & 7);
                let store = (draw >> 33) % 100 < stores;
                (thread, if store { Access::store(address, 8) } else { Access::load(address, 8) })
            })
            .collect();
        agrees(&[4, 16, 64, 150, 1000], LineSize::B64, &steps);
    }
}

#[test]
fn bytes_of_long_lines_are_64ths() {
    let line_size = LineSize::new(256).unwrap();
    assert_eq!(bytes_of(line_size, Line(1), &Access::load(256 + 4, 8)), 0b110);
    assert_eq!(bytes_of(line_size, Line(1), &Access::load(250, 7)), 1);
    assert_eq!(bytes_of(line_size, Line(0), &Access::load(250, 1000)), 0b11 << 62);
    assert_eq!(bytes_of(LineSize::B64, Line(2), &Access::load(100, 200)), u64::MAX);
}

#[test]
fn impossible_sizes_are_refused() {
    let refused = |sizes: Vec<u64>| {
        let sizes: Vec<_> = sizes.into_iter().map(CacheLines).collect();
        MesiCaches::new(&sizes, LineSize::B64).err()
    };
    assert_eq!(refused(vec![]), Some(MesiSizesError::Count { sizes: 0 }));
    assert_eq!(refused((1..=65).collect()), Some(MesiSizesError::Count { sizes: 65 }));
    assert_eq!(refused(vec![4, 0]), Some(MesiSizesError::Empty));
    assert_eq!(refused((1..=64).collect()), None);
}
