//! The whole chip against a second one written for nothing but plainness: lists instead of arrays, one access
//! at a time, the next core found by sorting.
#![allow(clippy::needless_pass_by_value)] // as quickcheck calls properties

use std::collections::VecDeque;
use std::sync::Arc;

use examples::machines::chip::corun::{self, Until};
use examples::machines::chip::{
    CacheSettings, ChipSettings, CoreSettings, CoreTiming, Counters, Inclusion, Index, Latencies, Player,
    Policy, Recording,
};
use quickcheck::{Arbitrary, Gen, QuickCheck};
use reuse_sampler::LineSize;

/// A set is a queue of (core, line): the front leaves first.
struct PlainCache {
    sets: Vec<VecDeque<(usize, u64)>>,
    ways: usize,
    lru: bool,
    index: Index,
}

impl PlainCache {
    fn new(settings: CacheSettings) -> Self {
        let geometry = settings.geometry;
        Self {
            sets: vec![VecDeque::new(); geometry.sets() as usize],
            ways: geometry.ways() as usize,
            lru: settings.policy == Policy::Lru,
            index: geometry.index(),
        }
    }

    fn set(&mut self, line: u64) -> &mut VecDeque<(usize, u64)> {
        let sets = self.sets.len();
        let turned = match self.index {
            Index::Modulo => 0,
            // The golden section of 2^64, and of that the sets' part.
            Index::Hashed => {
                let product = (line as u128 / sets as u128) * 11_400_714_819_323_198_485 % (1 << 64);
                (product * sets as u128 / (1 << 64)) as usize
            }
        };
        &mut self.sets[(line as usize + turned) % sets]
    }

    fn hit(&mut self, who: (usize, u64)) -> bool {
        let lru = self.lru;
        let set = self.set(who.1);
        let Some(at) = set.iter().position(|&x| x == who) else { return false };
        if lru {
            set.remove(at);
            set.push_back(who);
        }
        true
    }

    fn fill(&mut self, who: (usize, u64)) -> Option<(usize, u64)> {
        let ways = self.ways;
        let set = self.set(who.1);
        let leaves = if set.len() == ways { set.pop_front() } else { None };
        set.push_back(who);
        leaves
    }

    fn drop(&mut self, who: (usize, u64)) -> bool {
        let set = self.set(who.1);
        let before = set.len();
        set.retain(|&x| x != who);
        set.len() < before
    }
}

#[derive(Clone, Debug)]
struct Case {
    settings: ChipSettings,
    programs: Vec<(Vec<u64>, f64, f64, f64)>, // lines, mix, base CPI, start
}

impl Arbitrary for Case {
    fn arbitrary(g: &mut Gen) -> Self {
        let cache = |g: &mut Gen, sets: &[u64], ways: &[u64]| {
            let (sets, ways) = (*g.choose(sets).unwrap(), *g.choose(ways).unwrap());
            let policy = *g.choose(&[Policy::Lru, Policy::Fifo]).unwrap();
            CacheSettings::lru(sets * ways * 64, ways, LineSize::B64).unwrap().with_policy(policy)
        };
        let mut settings = ChipSettings {
            l1: cache(g, &[1, 2], &[1, 2]),
            l2: bool::arbitrary(g).then(|| cache(g, &[2, 4], &[1, 2])),
            shared: cache(g, &[2, 3, 4], &[2, 4, 8]),
            inclusion: *g.choose(&[Inclusion::None, Inclusion::Inclusive]).unwrap(),
            latencies: Latencies { l1: 1.0, l2: 4.0, shared: 10.0, memory: 130.0 },
            prefetcher: None,
            frames: None,
            lines_per_cycle: *g.choose(&[None, Some(0.02), Some(1.0)]).unwrap(),
        };
        let index = *g.choose(&[Index::Modulo, Index::Hashed]).unwrap();
        settings.shared.geometry = settings.shared.geometry.with_index(index);
        let programs = (0..=(u64::arbitrary(g) % 4))
            .map(|_| {
                let (length, span) = (1 + u64::arbitrary(g) % 200, 1 + u64::arbitrary(g) % 40);
                let mut at = 0;
                let lines = (0..length)
                    .map(|_| {
                        at = if u8::arbitrary(g) < 128 { at + 1 } else { u64::arbitrary(g) } % span;
                        at
                    })
                    .collect();
                let mix = *g.choose(&[0.1, 0.35, 0.5, 2.0]).unwrap();
                (lines, mix, *g.choose(&[0.25, 1.0]).unwrap(), *g.choose(&[0.0, 0.0, 50.5]).unwrap())
            })
            .collect();
        Self { settings, programs }
    }
}

/// Plays until every program has ended once; answers accesses, L1 misses, accesses and misses of the shared
/// cache, inclusion victims, passes, and the time, per program.
fn plain_run(case: &Case) -> Vec<([u64; 6], f64)> {
    let s = &case.settings;
    let cores = case.programs.len();
    let mut l1: Vec<_> = (0..cores).map(|_| PlainCache::new(s.l1)).collect();
    let mut l2: Vec<_> = (0..cores).map(|_| s.l2.map(PlainCache::new)).collect();
    let mut shared = PlainCache::new(s.shared);
    let mut clock: Vec<f64> = case.programs.iter().map(|p| p.3).collect();
    let mut at = vec![0; cores];
    let mut counts = vec![[0_u64; 6]; cores];
    let mut memory_free = 0.0_f64;
    loop {
        let core = (0..cores).min_by(|&a, &b| clock[a].total_cmp(&clock[b]).then(a.cmp(&b))).unwrap();
        let (lines, mix, base_cpi, _) = &case.programs[core];
        let Some(&line) = lines.get(at[core]) else {
            counts[core][5] += 1;
            if counts.iter().all(|c| c[5] > 0) {
                return counts.into_iter().zip(clock).collect();
            }
            at[core] = 0;
            continue;
        };
        at[core] += 1;
        counts[core][0] += 1;
        clock[core] += 1.0 / mix * base_cpi;
        let who = (core, line);
        if l1[core].hit(who) {
            clock[core] += s.latencies.l1;
            continue;
        }
        counts[core][1] += 1;
        if l2[core].as_mut().is_some_and(|l2| l2.hit(who)) {
            clock[core] += s.latencies.l2;
            l1[core].fill(who);
            continue;
        }
        counts[core][2] += 1;
        if shared.hit(who) {
            clock[core] += s.latencies.shared;
        } else {
            counts[core][3] += 1;
            if let Some(out) = shared.fill(who) {
                if s.inclusion == Inclusion::Inclusive {
                    let from_l1 = l1[out.0].drop(out);
                    let from_l2 = l2[out.0].as_mut().is_some_and(|l2| l2.drop(out));
                    counts[out.0][4] += u64::from(from_l1 || from_l2);
                }
            }
            let begins = memory_free.max(clock[core]);
            if let Some(rate) = s.lines_per_cycle {
                memory_free = begins + 1.0 / rate;
                clock[core] = begins;
            }
            clock[core] += s.latencies.memory;
        }
        if let Some(l2) = &mut l2[core] {
            l2.fill(who);
        }
        l1[core].fill(who);
    }
}

fn cores(case: &Case) -> Vec<CoreSettings<Player>> {
    case.programs
        .iter()
        .map(|(lines, mix, base_cpi, start)| {
            let recording = Recording::of_lines(lines.iter().copied(), LineSize::B64).unwrap();
            let mut core = CoreSettings::new(Player::new(Arc::new(recording), *mix).unwrap());
            core.timing = CoreTiming::InOrder { base_cpi: *base_cpi };
            core.start = *start;
            core
        })
        .collect()
}

#[test]
fn agrees_with_the_plain_chip() {
    fn agrees(case: Case) -> bool {
        let counted = corun::together(&case.settings, cores(&case), Until::AllEnded).unwrap();
        counted.iter().zip(plain_run(&case)).zip(&case.programs).all(|((c, (expected, clock)), program)| {
            let counts =
                [c.accesses, c.l1_misses, c.shared_accesses, c.shared_misses, c.inclusion_victims, c.passes];
            // Sums of the same numbers in a different order: rounding only.
            let same_time = (c.cycles + program.3 - clock).abs() <= 1e-9 * clock;
            counts == expected && same_time && (c.instructions * program.1 - c.accesses as f64).abs() < 1e-6
        })
    }
    QuickCheck::new().tests(1500).quickcheck(agrees as fn(Case) -> bool);
}

/// The record of which windows ran together is the run, cut up.
#[test]
fn stretches_add_up_to_the_run() {
    fn adds_up(case: Case, window: u8) -> bool {
        let window = u64::from(window % 60) + 1;
        let whole = corun::together(&case.settings, cores(&case), Until::AllEnded).unwrap();
        let record = corun::recorded(&case.settings, cores(&case), Until::AllEnded, window).unwrap();
        let one_window_each = record.iter().all(|stretch| {
            stretch.counters.iter().zip(&case.programs).zip(&stretch.windows).all(|((c, program), &index)| {
                let length = program.0.len() as u64;
                c.accesses <= window && (c.accesses == 0 || index * window < length)
            })
        });
        let sums_agree = whole.iter().enumerate().all(|(core, whole)| {
            let sum =
                |of: fn(&Counters) -> f64| -> f64 { record.iter().map(|s| of(&s.counters[core])).sum() };
            sum(|c| c.accesses as f64) == whole.accesses as f64
                && sum(|c| c.shared_misses as f64) == whole.shared_misses as f64
                && (sum(|c| c.cycles) - whole.cycles).abs() <= 1e-9 * whole.cycles
        });
        one_window_each && sums_agree
    }
    QuickCheck::new().tests(300).quickcheck(adds_up as fn(Case, u8) -> bool);
}
