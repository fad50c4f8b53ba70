//! The chip's caches against brute force: per set, a plain list of (tag, time in, time of last touch, bit).
#![allow(clippy::needless_pass_by_value)] // as quickcheck calls properties

use examples::machines::chip::{Cache, Geometry, Index, Policy};
use quickcheck::{Arbitrary, Gen, QuickCheck};
use reuse_sampler::LineSize;

/// One line of an oracle's set, at a way that it keeps until it is evicted.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u64,
    came: u64,
    touched: u64,
    bit: bool,
    age: u8, // re-reference prediction
}

/// A cache kept as literally as the policies are written down.
struct Oracle {
    policy: Policy,
    index: Index,
    ways: usize,
    sets: Vec<Vec<Option<Entry>>>,
    used: Vec<Vec<u64>>, // when each way was used last, whatever was in it
    time: u64,
}

impl Oracle {
    fn new(sets: usize, ways: usize, policy: Policy, index: Index) -> Self {
        let (sets, used) = (vec![vec![None; ways]; sets], vec![vec![0; ways]; sets]);
        Self { policy, index, ways, sets, used, time: 0 }
    }

    fn set_of(&self, tag: u64) -> usize {
        set_of(self.index, tag, self.sets.len() as u64) as usize
    }

    fn set(&mut self, tag: u64) -> &mut Vec<Option<Entry>> {
        let index = self.set_of(tag);
        &mut self.sets[index]
    }

    fn update_bits(policy: Policy, set: &mut [Option<Entry>], touched: usize) {
        if !matches!(policy, Policy::Nehalem | Policy::NehalemWorstCase) {
            return;
        }
        set[touched].as_mut().unwrap().bit = true;
        if set.iter().all(|e| e.is_some_and(|e| e.bit)) {
            for entry in set.iter_mut().flatten() {
                entry.bit = false;
            }
            // With a single way, sparing it would leave no victim.
            set[touched].as_mut().unwrap().bit = policy == Policy::Nehalem && set.len() > 1;
        }
    }

    fn touch(&mut self, tag: u64) -> bool {
        self.time += 1;
        let (time, policy) = (self.time, self.policy);
        let set = self.set(tag);
        let Some(way) = set.iter().position(|e| e.is_some_and(|e| e.tag == tag)) else { return false };
        set[way].as_mut().unwrap().touched = time;
        set[way].as_mut().unwrap().age = 0;
        Self::update_bits(policy, set, way);
        self.use_way(tag, way);
        true
    }

    fn insert(&mut self, tag: u64) -> Option<u64> {
        self.time += 1;
        let (time, policy, ways) = (self.time, self.policy, self.ways);
        let used = self.used[self.set_of(tag)].clone();
        let set = self.set(tag);
        let oldest = |key: fn(&Entry) -> u64, set: &[Option<Entry>]| {
            (0..ways).min_by_key(|&way| key(set[way].as_ref().unwrap())).unwrap()
        };
        let way = match set.iter().position(Option::is_none) {
            Some(empty) => empty,
            None => match policy {
                Policy::Lru => oldest(|e| e.touched, set),
                Policy::Fifo => oldest(|e| e.came, set),
                Policy::Nehalem | Policy::NehalemWorstCase => {
                    set.iter().position(|e| e.is_some_and(|e| !e.bit)).unwrap()
                }
                Policy::Srrip => loop {
                    if let Some(old) = set.iter().position(|e| e.is_some_and(|e| e.age == 3)) {
                        break old;
                    }
                    for entry in set.iter_mut().flatten() {
                        entry.age += 1;
                    }
                },
                Policy::TreePlru => half_used_longest_ago(&used, ways.next_power_of_two()),
                Policy::Random { .. } => unreachable!("random victims are checked otherwise"),
            },
        };
        let victim = set[way].replace(Entry { tag, came: time, touched: time, bit: false, age: 2 });
        Self::update_bits(policy, set, way);
        self.use_way(tag, way);
        victim.map(|e| e.tag)
    }

    fn use_way(&mut self, tag: u64, way: usize) {
        let index = self.set_of(tag);
        self.used[index][way] = self.time;
    }

    fn remove(&mut self, tag: u64) -> bool {
        let set = self.set(tag);
        match set.iter().position(|e| e.is_some_and(|e| e.tag == tag)) {
            Some(way) => set[way].take().is_some(),
            None => false,
        }
    }
}

/// The set of a line as the formula has it, in fractions of 2^64.
fn set_of(index: Index, line: u64, sets: u64) -> u64 {
    let turned = match index {
        Index::Modulo => 0,
        Index::Hashed => {
            let golden = 11_400_714_819_323_198_485_u128; // 2^64 / 1.618...
            u128::from(line / sets) * golden % (1 << 64) * u128::from(sets) / (1 << 64)
        }
    };
    ((u128::from(line) + turned) % u128::from(sets)) as u64
}

/// Where a binary tree over `width` ways (a power of two), of which only those of `used` are there, leads when it goes
/// to the half not used last.
fn half_used_longest_ago(used: &[u64], width: usize) -> usize {
    let half = width / 2;
    if width == 1 {
        0
    } else if used.len() <= half {
        half_used_longest_ago(used, half)
    } else {
        let (left, right) = used.split_at(half);
        let go_left = left.iter().max() < right.iter().max();
        if go_left { half_used_longest_ago(left, half) } else { half + half_used_longest_ago(right, half) }
    }
}

/// A small cache and what is done to it.
#[derive(Clone, Debug)]
struct Case {
    sets: u64,
    ways: u64,
    index: Index,
    steps: Vec<(bool, u64)>, // (take out, tag); all others are looked up and brought in if missing
}

impl Arbitrary for Case {
    fn arbitrary(g: &mut Gen) -> Self {
        let sets = *g.choose(&[1, 2, 3, 4, 6, 8]).unwrap();
        let ways = *g.choose(&[1, 2, 3, 4, 6, 8, 16]).unwrap();
        let tags = sets * ways * 3 / 2 + 1;
        let steps = (0..40 * sets * ways).map(|_| (u8::arbitrary(g) < 8, u64::arbitrary(g) % tags)).collect();
        let index = *g.choose(&[Index::Modulo, Index::Hashed]).unwrap();
        Self { sets, ways, index, steps }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let case = self.clone();
        Box::new(self.steps.shrink().map(move |steps| Self { steps, ..case.clone() }))
    }
}

fn cache(case: &Case, policy: Policy) -> Cache {
    let bytes = case.sets * case.ways * 64;
    Cache::new(Geometry::new(bytes, case.ways, LineSize::B64).unwrap().with_index(case.index), policy)
}

#[test]
fn agrees_with_the_oracle_step_by_step() {
    fn agrees(case: Case) -> bool {
        let policies = [
            Policy::Lru,
            Policy::Fifo,
            Policy::Nehalem,
            Policy::NehalemWorstCase,
            Policy::Srrip,
            Policy::TreePlru,
        ];
        policies.into_iter().all(|policy| {
            let mut cache = cache(&case, policy);
            let mut oracle = Oracle::new(case.sets as usize, case.ways as usize, policy, case.index);
            case.steps.iter().all(|&(take_out, tag)| {
                if take_out {
                    return cache.remove(tag) == oracle.remove(tag);
                }
                let hit = cache.touch(tag);
                hit == oracle.touch(tag)
                    && (hit || cache.insert(tag) == oracle.insert(tag))
                    && cache.contains(tag)
            })
        })
    }
    QuickCheck::new().tests(300).quickcheck(agrees as fn(Case) -> bool);
}

#[test]
fn random_replacement_evicts_only_residents_of_a_full_set() {
    fn consistent(case: Case, seed: u64) -> bool {
        let mut cache = cache(&case, Policy::Random { seed });
        let mut sets = vec![Vec::new(); case.sets as usize];
        case.steps.iter().all(|&(take_out, tag)| {
            let set = &mut sets[set_of(case.index, tag, case.sets) as usize];
            let here = set.iter().position(|&t| t == tag);
            if take_out {
                here.map(|way| set.swap_remove(way));
                return cache.remove(tag) == here.is_some();
            }
            if cache.touch(tag) {
                return here.is_some();
            }
            let full = set.len() as u64 == case.ways;
            let victim = cache.insert(tag);
            let left = victim.and_then(|v| set.iter().position(|&t| t == v)).map(|way| set.swap_remove(way));
            set.push(tag);
            here.is_none() && victim.is_some() == full && left == victim
        })
    }
    QuickCheck::new().tests(200).quickcheck(consistent as fn(Case, u64) -> bool);
}

/// In a cyclic walk over W lines of a fully associative cache of L < W lines with random replacement, a line
/// survives the m misses between its two touches with probability (1 - 1/L)^m, and m = M (W - 1) with the miss
/// ratio M that follows: M = 1 - (1 - 1/L)^(M (W - 1)).
#[test]
fn random_replacement_of_a_cycle_meets_its_closed_form() {
    let (lines, walk) = (64_u64, 80_u64);
    let geometry = Geometry::new(lines * 64, lines, LineSize::B64).unwrap();
    let mut cache = Cache::new(geometry, Policy::Random { seed: 7 });
    let (rounds, warm) = (20_000, 1_000);
    let mut misses = 0;
    for round in 0..rounds {
        for tag in 0..walk {
            if !cache.touch(tag) {
                cache.insert(tag);
                misses += u64::from(round >= warm);
            }
        }
    }
    let measured = misses as f64 / ((rounds - warm) * walk) as f64;
    let mut expected = 1.0_f64;
    for _ in 0..10_000 {
        expected = 1.0 - (1.0 - 1.0 / lines as f64).powf(expected * (walk - 1) as f64);
    }
    // 1.5 M accesses: a standard error of about 0.0005; the formula's independence of misses is off by
    // something of the order of 1/L.
    assert!((measured - expected).abs() < 0.01, "measured {measured}, expected {expected}");
}

#[test]
fn geometry_that_is_no_whole_number_of_sets_is_refused() {
    for (bytes, ways) in [(0, 1), (64, 0), (65, 1), (64 * 65, 65), (64 * 3, 2)] {
        let error = Geometry::new(bytes, ways, LineSize::B64).unwrap_err();
        assert!(error.to_string().contains(&format!("{bytes} bytes in {ways} ways")), "{error}");
    }
    let geometry = Geometry::new(3 << 20, 16, LineSize::B64).unwrap();
    assert_eq!((geometry.sets(), geometry.lines().0, geometry.bytes()), (3072, 49152, 3 << 20));
    assert_eq!(geometry.with_ways(4).unwrap().sets(), 3072);
    let hashed = geometry.with_index(Index::Hashed);
    assert_eq!(hashed.with_ways(4).unwrap().index(), Index::Hashed);
}

/// How many lines each set gets.
fn filled(index: Index, sets: u64, lines: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut filled = vec![0; sets as usize];
    lines.for_each(|line| filled[index.set(line, sets) as usize] += 1);
    filled
}

#[test]
fn a_hashed_index_spreads_what_lies_together_and_what_lies_sets_apart() {
    for sets in [64, 96, 1000, 2048] {
        // Any aligned run goes once around all sets, by either index, so that what lies together fills a cache evenly.
        for run in [0, 1, 17, (1 << 40) / sets] {
            for index in [Index::Modulo, Index::Hashed] {
                assert_eq!(
                    filled(index, sets, run * sets..(run + 1) * sets),
                    vec![1; sets as usize],
                    "{index:?}"
                );
            }
        }
        // A column of a matrix, and nodes of eight lines of which the first is read: one set, an eighth of all sets.
        for stride in [sets, 2 * sets, 8 * sets, 8] {
            let column = |index| filled(index, sets, (0..8 * sets).map(|row| row * stride));
            let most = |index| column(index).into_iter().max().unwrap();
            let apart = |index| column(index).iter().filter(|&&lines| lines > 0).count() as u64;
            if sets % stride.min(sets) == 0 {
                assert!(apart(Index::Modulo) <= sets / 8 && most(Index::Modulo) >= 64);
            }
            // Eight in each set, if none were preferred.
            assert!(most(Index::Hashed) <= 24, "{sets} {stride}: {}", most(Index::Hashed));
            assert!(apart(Index::Hashed) > sets * 3 / 4, "{sets} {stride}: {}", apart(Index::Hashed));
        }
    }
}
