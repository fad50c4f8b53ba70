//! The reference chip by hand-worked traces and by laws of conservation.

use std::sync::Arc;

use examples::machines::chip::corun::{self, Until};
use examples::machines::chip::{
    Activity, CacheSettings, Chip, ChipError, ChipSettings, CoreSettings, CoreTiming, Driven, Event, Frames,
    Inclusion, Latencies, Player, Policy, PrefetcherSettings, PrivateCaches, Program, Recording, Reference,
};
use quickcheck::{QuickCheck, TestResult};
use reuse_sampler::{Access, AccessKind, LineSize};

/// L1 of 2 lines, shared cache of 4 lines, both one set; 1, 10 and 130 cycles.
fn tiny() -> ChipSettings {
    ChipSettings {
        l1: CacheSettings::lru(128, 2, LineSize::B64).unwrap(),
        shared: CacheSettings::lru(256, 4, LineSize::B64).unwrap(),
        ..ChipSettings::paper().unwrap()
    }
}

fn player(lines: &[u64]) -> Player {
    Player::new(Arc::new(Recording::of_lines(lines.iter().copied(), LineSize::B64).unwrap()), 0.5).unwrap()
}

fn core(lines: &[u64]) -> CoreSettings<Player> {
    CoreSettings::new(player(lines))
}

#[test]
fn a_trace_alone_by_hand() {
    // L1 (2 lines): misses 1 2, hit 2, miss 3 (1 leaves), miss 1 (2 leaves), miss 4, miss 5, miss 2.
    // Shared (4 lines): misses 1 2 3, hit 1, miss 4, miss 5 (2 leaves, the oldest), miss 2.
    let alone = corun::alone(&tiny(), core(&[1, 2, 2, 3, 1, 4, 5, 2])).unwrap();
    assert_eq!((alone.accesses, alone.l1_misses, alone.shared_accesses, alone.shared_misses), (8, 7, 7, 6));
    assert_eq!(alone.instructions, 16.0);
    // Two instructions per access, then 6 times memory, once the shared cache, once the L1.
    assert_eq!(alone.cycles, 16.0 + 6.0 * 130.0 + 10.0 + 1.0);
    assert_eq!(alone.cpi(), 807.0 / 16.0);
    assert_eq!((alone.stall_cycles, alone.memory_stall_cycles), (6.0 * 130.0 + 10.0, 6.0 * 130.0));
    assert_eq!((alone.miss_ratio(), alone.mix(), alone.passes), (0.75, 0.5, 1));
}

#[test]
fn two_programs_by_hand() {
    // Both miss their first line at cycle 0 and their second at 132; the shared cache is then full (a1 b1 a2
    // b2). At 264 core 0 misses a3 and evicts a1; core 1 hits b2 in its L1 and is done at 264 + 2 + 1.
    let cores = vec![core(&[1, 2, 3]), core(&[1, 2, 2])];
    let mut chip = Chip::new(&tiny(), cores).unwrap();
    assert_eq!(chip.advance(&[]), Event::Ended { core: 1 });
    assert_eq!((chip.time(0), chip.time(1)), (396.0, 267.0));
    assert_eq!((chip.occupancy(0).0, chip.occupancy(1).0), (2, 2));
    assert_eq!((chip.counters(0).shared_misses, chip.counters(1).shared_misses), (3, 2));
}

#[test]
fn a_program_played_stretch_by_stretch_counts_the_same() {
    let lru = |bytes| CacheSettings::lru(bytes, 4, LineSize::B64).unwrap();
    let (l2, shared) = (lru(1024), lru(2048));
    let plain = ChipSettings { shared, ..tiny() };
    let mut state = 5_u64;
    // Near lines more often than far ones, so that every level serves some.
    let references: Vec<Reference> = (0..20_000)
        .map(|number| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let line = (state >> 40) % (1 << (state >> 61));
            let kind = if number % 3 == 0 { AccessKind::Store } else { AccessKind::Load };
            Reference { line, kind, instructions: (number % 5) as f64, dependent: false }
        })
        .collect();
    for settings in [
        plain.clone(),
        ChipSettings { l2: Some(l2), ..plain.clone() },
        ChipSettings { lines_per_cycle: Some(1.0 / 256.0), l2: Some(l2), ..plain.clone() },
        ChipSettings { shared: shared.with_policy(Policy::Srrip), ..plain.clone() },
    ] {
        let chip = || Chip::new(&settings, vec![CoreSettings::new(Driven)]).unwrap();
        let (mut expected, mut played) = (chip(), chip());
        let mut private = PrivateCaches::new(&settings);
        assert!(PrivateCaches::stand_alone(&settings, CoreTiming::default()));
        // In parts, of which each ends with a stretch that may not go beyond the private caches.
        for part in references.chunks(777) {
            part.iter().for_each(|&reference| expected.reference(0, reference));
            private.play(part, |stretch| played.stretch(0, &stretch));
            assert_eq!(played.counters(0), expected.counters(0));
            assert_eq!(played.occupancy(0), expected.occupancy(0));
        }
        let counted = played.counters(0);
        assert!(counted.shared_misses > 100 && counted.shared_accesses - counted.shared_misses > 100);
        assert!(settings.l2.is_none() || counted.l1_misses > counted.shared_accesses + 100);
        assert!(settings.lines_per_cycle.is_none() || counted.bandwidth_stall > 0.0);
    }
    let ooo = CoreTiming::OutOfOrder { base_cpi: 0.25, reorder_buffer: 128, outstanding: 10 };
    assert!(!PrivateCaches::stand_alone(&plain, ooo));
    let inclusive = ChipSettings { inclusion: Inclusion::Inclusive, ..plain };
    assert!(!PrivateCaches::stand_alone(&inclusive, CoreTiming::default()));
}

#[test]
fn inclusion_takes_a_line_out_of_its_owners_l1() {
    // The program keeps hitting line 1 in its L1, so the shared cache sees it once and evicts it when the
    // fifth line comes; only without inclusion is the last access still a hit.
    let lines = [1, 2, 1, 3, 1, 4, 1, 5, 1];
    let misses = |inclusion| {
        let alone = corun::alone(&ChipSettings { inclusion, ..tiny() }, core(&lines)).unwrap();
        (alone.shared_misses, alone.inclusion_victims)
    };
    assert_eq!(misses(Inclusion::None), (5, 0));
    assert_eq!(misses(Inclusion::Inclusive), (6, 1));
}

#[test]
fn a_victim_cache_holds_what_the_private_one_does_not() {
    // A loop over six lines: the L1's two and the victim cache's four hold them all, and each touch of the loop
    // brings a line back from the victim cache. The same loop fits no cache of four.
    let lines: Vec<u64> = (0..6).cycle().take(600).collect();
    let alone = |inclusion| corun::alone(&ChipSettings { inclusion, ..tiny() }, core(&lines)).unwrap();
    let victim = alone(Inclusion::Victim);
    assert_eq!((victim.l1_misses, victim.shared_misses), (600, 6));
    assert_eq!(alone(Inclusion::None).shared_misses, 600);
    let seven: Vec<u64> = (0..7).cycle().take(700).collect();
    let settings = ChipSettings { inclusion: Inclusion::Victim, ..tiny() };
    assert_eq!(corun::alone(&settings, core(&seven)).unwrap().shared_misses, 700);
}

#[test]
fn page_frames_leave_sets_uneven() {
    // 256 sets of 4 ways are four pages wide: 16 pages in a row lie four deep and fit. Scattered at random, hardly ever
    // do just four share their sets.
    let lines: Vec<u64> = (0..1024).cycle().take(10 * 1024).collect();
    let misses = |frames| {
        let shared = CacheSettings::lru(1024 * 64, 4, LineSize::B64).unwrap();
        corun::alone(&ChipSettings { shared, frames, ..tiny() }, core(&lines)).unwrap().shared_misses
    };
    assert_eq!(misses(None), 1024);
    let scattered: Vec<u64> = (0..20).map(|seed| misses(Some(Frames { seed }))).collect();
    // Whole pages fit or do not: 64 lines that are fetched once, or ten times.
    assert!(scattered.iter().all(|misses| misses % 64 == 0 && *misses >= 1024), "{scattered:?}");
    assert!(scattered.iter().filter(|&&misses| misses > 1024).count() >= 15, "{scattered:?}");
}

#[test]
fn re_reference_prediction_keeps_lines_through_a_scan() {
    // Lines 1 and 2 are touched again (age 0), then a scan of lines touched once displaces itself.
    let shared = tiny().shared.with_policy(Policy::Srrip);
    let l1 = CacheSettings::lru(64, 1, LineSize::B64).unwrap();
    let lines = [1, 2, 1, 2, 3, 4, 5, 6, 1, 2];
    let misses =
        |shared| corun::alone(&ChipSettings { shared, l1, ..tiny() }, core(&lines)).unwrap().shared_misses;
    assert_eq!((misses(shared), misses(tiny().shared)), (6, 8));
}

#[test]
fn nehalem_by_hand() {
    // Four ways, all bits unset. 1 2 3 set their bits; 4 would set the last, so the others are cleared. 5
    // takes the first unset way (1's), 2 is touched; 6 takes 3's way: with 5, 2, 6 and 4 all set, only 6's
    // stays. 7 takes 5's. In the worst case 4's arrival clears all four, and 6 finds only 3's and 4's unset.
    let lines = [1, 2, 3, 4, 5, 2, 6, 7, 4, 2];
    let misses = |policy| {
        let shared = tiny().shared.with_policy(policy);
        let l1 = CacheSettings::lru(64, 1, LineSize::B64).unwrap();
        corun::alone(&ChipSettings { shared, l1, ..tiny() }, core(&lines)).unwrap().shared_misses
    };
    // 7 cold misses; 4 and 2 survive: contents are 7 2 6 4.
    assert_eq!(misses(Policy::Nehalem), 7);
    // After 4: no bit set. 5 evicts 1, 2 is touched, 6 evicts 3 (bits 5 2 6), 7 evicts 4 and clears all; 4
    // then evicts 5, and 2 is still there.
    assert_eq!(misses(Policy::NehalemWorstCase), 8);
}

#[test]
fn memory_bandwidth_is_shared_first_come_first_served() {
    // A line every 100 cycles: two programs that miss together wait in turns.
    let settings = ChipSettings { lines_per_cycle: Some(0.01), ..tiny() };
    let mut chip = Chip::new(&settings, vec![core(&[1, 2]), core(&[1, 2])]).unwrap();
    chip.advance(&[]);
    // Core 0: out at 2, back at 132; out at 134, but core 1's line has the channel from 102 to 202.
    assert_eq!(chip.counters(0).bandwidth_stall, 202.0 - 134.0);
    assert_eq!(chip.time(0), 202.0 + 130.0);
    assert_eq!(chip.counters(1).bandwidth_stall, 100.0 + (302.0 - 234.0));
}

#[test]
fn prefetches_are_fetches_but_not_misses() {
    let settings = ChipSettings {
        prefetcher: Some(PrefetcherSettings { streams: 2, ahead: 4 }),
        ..ChipSettings::paper().unwrap()
    };
    // One page of 64 lines in order: lines 0, 1 and 2 miss (a stream is known at its third line), then each
    // line was fetched before; nothing beyond the page is.
    let up: Vec<u64> = (0..64).collect();
    let down: Vec<u64> = (64..128).rev().collect();
    for lines in [up, down] {
        let alone = corun::alone(&settings, core(&lines)).unwrap();
        assert_eq!((alone.shared_misses, alone.prefetches, alone.fetches()), (3, 61, 64));
    }
    // A step of half a page each time is no stream.
    let wide: Vec<u64> = (0..64).map(|i| i * 32).collect();
    assert_eq!(corun::alone(&settings, core(&wide)).unwrap().prefetches, 0);
}

#[test]
fn prefetches_do_not_exceed_the_bandwidth() {
    let bandwidth = 0.01;
    let settings = ChipSettings {
        prefetcher: Some(PrefetcherSettings::default()),
        lines_per_cycle: Some(bandwidth),
        ..ChipSettings::paper().unwrap()
    };
    let lines: Vec<u64> = (0..100_000).collect();
    let alone = corun::alone(&settings, core(&lines)).unwrap();
    let rate = alone.fetches() as f64 / alone.cycles;
    // The backlog left at the end is at most some lines; each page begins with misses that nothing overlaps.
    assert!(rate <= bandwidth * 1.001 && rate > bandwidth * 0.9, "{rate} lines per cycle");
}

#[test]
fn a_suspended_core_keeps_its_lines_and_spends_no_time() {
    let mut chip = Chip::new(&tiny(), vec![core(&[1, 2]), core(&[1])]).unwrap();
    chip.suspend(1);
    assert_eq!(chip.activity(1), Activity::Suspended);
    assert_eq!(chip.advance(&[4]), Event::Ended { core: 0 });
    assert_eq!(chip.advance(&[4]), Event::Limit { core: 0 });
    assert_eq!((chip.counters(1).accesses, chip.occupancy(0).0), (0, 2));
    chip.resume(1);
    let at = chip.time(0);
    assert_eq!(chip.time(1), at);
    chip.suspend(0);
    assert_eq!(chip.advance(&[u64::MAX, 1]), Event::Limit { core: 1 });
    assert_eq!(chip.counters(1).cycles, 132.0);
    chip.resume(0);
    // Alone, core 1 hits its L1 from now on; the other core's clock goes along, its cycles do not.
    let cycles = chip.counters(0).cycles;
    let made = chip.counters(1).accesses;
    chip.suspend(0);
    while chip.advance(&[u64::MAX, made + 1000]) == (Event::Ended { core: 1 }) {}
    chip.resume(0);
    assert_eq!(chip.counters(1).accesses, made + 1000);
    assert_eq!(chip.time(1), at + 132.0 + 3000.0);
    assert!(chip.time(0) >= chip.time(1));
    assert_eq!(chip.counters(0).cycles, cycles);
}

/// A program whose behaviour is changed while it runs: walks `span` lines for ever.
struct Walk {
    at: u64,
    span: u64,
}

impl Program for Walk {
    fn next_reference(&mut self) -> Option<Reference> {
        self.at = (self.at + 1) % self.span.max(1);
        Some(Reference { line: self.at, kind: AccessKind::Load, instructions: 2.0, dependent: false })
    }

    fn restart(&mut self) {
        self.at = 0;
    }
}

#[test]
fn a_co_runner_can_change_what_it_does() {
    let settings = ChipSettings { l1: CacheSettings::lru(64, 1, LineSize::B64).unwrap(), ..tiny() };
    let walks = [2, 2].map(|span| CoreSettings::new(Walk { at: 0, span }));
    let mut chip = Chip::new(&settings, walks.into()).unwrap();
    chip.advance(&[100]);
    let before = chip.counters(0);
    assert_eq!((before.shared_misses, chip.occupancy(0).0, chip.occupancy(1).0), (2, 2, 2));
    // Now one walks four lines, while the other's two are touched too often to leave: in the two places that
    // remain the walker misses always.
    chip.program_mut(1).span = 4;
    chip.advance(&[1_000]);
    let before = [chip.counters(0), chip.counters(1)];
    chip.advance(&[2_000]);
    assert_eq!((chip.counters(0) - before[0]).miss_ratio(), 0.0);
    assert_eq!((chip.counters(1) - before[1]).miss_ratio(), 1.0);
}

#[test]
fn a_program_that_does_not_restart_stops() {
    let mut only = core(&[1, 2]);
    only.restarts = false;
    let mut chip = Chip::new(&tiny(), vec![only]).unwrap();
    assert_eq!(chip.advance(&[]), Event::Ended { core: 0 });
    assert_eq!((chip.activity(0), chip.advance(&[])), (Activity::Stopped, Event::Idle));
    assert_eq!(chip.advance(&[10]), Event::Idle);
    // Nor does one that has nothing to play.
    let mut chip = Chip::new(&tiny(), vec![CoreSettings::new(Driven)]).unwrap();
    assert_eq!(chip.advance(&[10]), Event::Ended { core: 0 });
    assert_eq!((chip.counters(0).accesses, chip.activity(0)), (0, Activity::Stopped));
}

#[test]
fn a_start_offset_shifts_the_first_pass_only() {
    let recording = Arc::new(Recording::of_lines(0..10, LineSize::B64).unwrap());
    let mut player = Player::new(recording, 1.0).unwrap().starting_at(17);
    let lines = |player: &mut Player| -> Vec<u64> {
        std::iter::from_fn(|| player.next_reference()).map(|r| r.line).collect()
    };
    assert_eq!(lines(&mut player), [7, 8, 9]);
    player.restart();
    assert_eq!(lines(&mut player), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn an_access_that_straddles_lines_is_one_reference_each() {
    let accesses = [Access::load(60, 8), Access::store(0, 4), Access::load(128, 1)];
    let recording = Recording::new(accesses, LineSize::B64).unwrap();
    let references: Vec<_> = recording.iter().collect();
    let (load, store) = (AccessKind::Load, AccessKind::Store);
    assert_eq!(references, [(0, load), (1, load), (0, store), (2, load)]);
    assert_eq!(recording.lines(1, 3).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(recording.lines(3, 99).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_recording_gives_back_any_lines() {
    fn same(lines: Vec<(u64, bool)>, near: bool) -> TestResult {
        if lines.is_empty() {
            return TestResult::discard();
        }
        // Line numbers of more than 63 bits exist for lines of 1 byte only.
        let span = if near { u64::from(u16::MAX) } else { u64::MAX >> 1 };
        let accesses = lines.iter().map(|&(line, store)| {
            let address = (line & span) << 6;
            if store { Access::store(address, 1) } else { Access::load(address, 1) }
        });
        let recording = Recording::new(accesses.clone(), LineSize::B64).unwrap();
        let played: Vec<_> = recording.iter().map(|(line, kind)| (line << 6, kind)).collect();
        let expected: Vec<_> = accesses.map(|a| (a.address, a.kind)).collect();
        TestResult::from_bool(played == expected && recording.references() == expected.len() as u64)
    }
    QuickCheck::new().tests(300).quickcheck(same as fn(Vec<(u64, bool)>, bool) -> TestResult);
}

/// Lines come in by misses and prefetches and leave by evictions only, whatever the policy.
#[test]
fn lines_are_conserved() {
    fn conserved(streams: Vec<Vec<u8>>, policy: u8, inclusive: bool) -> TestResult {
        if streams.is_empty() || streams.len() > 5 || streams.iter().any(Vec::is_empty) {
            return TestResult::discard();
        }
        let policies = [
            Policy::Lru,
            Policy::Fifo,
            Policy::Random { seed: 3 },
            Policy::Nehalem,
            Policy::NehalemWorstCase,
            Policy::TreePlru,
        ];
        let policy = policies[usize::from(policy) % policies.len()];
        let settings = ChipSettings {
            shared: CacheSettings::lru(64 * 32, 4, LineSize::B64).unwrap().with_policy(policy),
            inclusion: if inclusive { Inclusion::Inclusive } else { Inclusion::None },
            prefetcher: Some(PrefetcherSettings { streams: 2, ahead: 3 }),
            ..tiny()
        };
        let cores: Vec<_> = streams
            .iter()
            .map(|s| core(&s.iter().map(|&line| u64::from(line)).collect::<Vec<_>>()))
            .collect();
        let mut chip = Chip::new(&settings, cores).unwrap();
        for _ in 0..streams.len() * 3 {
            chip.advance(&[]);
        }
        let cores = 0..streams.len();
        let held: u64 = cores.clone().map(|c| chip.occupancy(c).0).sum();
        let fetched: u64 = cores.clone().map(|c| chip.counters(c).fetches()).sum();
        let levels = cores.clone().all(|c| {
            let c = chip.counters(c);
            c.accesses >= c.l1_misses
                && c.l1_misses >= c.shared_accesses
                && c.shared_accesses >= c.shared_misses
        });
        // Sum of latencies and instructions is the time: nothing is lost or counted twice.
        let Latencies { l1, shared, memory, .. } = settings.latencies;
        let timed = cores.clone().all(|core| {
            let c = chip.counters(core);
            let parts = c.instructions
                + l1 * (c.accesses - c.l1_misses) as f64
                + shared * (c.shared_accesses - c.shared_misses) as f64
                + memory * c.shared_misses as f64;
            parts == c.cycles
        });
        TestResult::from_bool(held <= 32 && held <= fetched && levels && timed)
    }
    QuickCheck::new().tests(500).quickcheck(conserved as fn(Vec<Vec<u8>>, u8, bool) -> TestResult);
}

#[test]
fn out_of_order_misses_overlap_within_the_reorder_buffer() {
    let settings = tiny();
    let near =
        |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.02, "{value} {expected}");
    let run = |reorder_buffer, dependent, instructions: f64| {
        struct Misses(u64, bool, f64);
        impl Program for Misses {
            fn next_reference(&mut self) -> Option<Reference> {
                self.0 += 1;
                let (line, dependent, instructions) = (self.0, self.1, self.2);
                (line <= 1000).then_some(Reference { line, kind: AccessKind::Load, instructions, dependent })
            }
            fn restart(&mut self) {
                self.0 = 0;
            }
        }
        let mut core = CoreSettings::new(Misses(0, dependent, instructions));
        core.timing = CoreTiming::OutOfOrder { base_cpi: 0.25, reorder_buffer, outstanding: 64 };
        let alone = corun::alone(&settings, core).unwrap();
        // Whatever is waited for is memory; the rest of the time instructions pass.
        assert_eq!(alone.stall_cycles, alone.memory_stall_cycles);
        near(alone.memory_stall_cycles + 0.25 * instructions * 1000.0, alone.cycles);
        alone.cycles / 1000.0
    };
    // Every 10th instruction misses. A buffer of 100 overlaps 10 misses: 13 cycles each. A chain overlaps none.
    // A buffer of 5 serialises all, hiding 5 instructions of 1/4 cycle; a buffer of 10,000 hides all latency.
    // The first and last misses are not in the pattern: 1 % of tolerance.
    near(run(100, false, 10.0), 13.0);
    near(run(100, true, 10.0), 130.0);
    near(run(5, false, 10.0), 130.0 + 2.5 - 1.25);
    near(run(10_000, false, 100.0), 25.0);
}

#[test]
fn bad_settings_are_refused_with_their_value() {
    let refused = |settings: ChipSettings, core: CoreSettings<Player>| {
        Chip::new(&settings, vec![core]).map(|_| ()).unwrap_err()
    };
    let one = || core(&[1]);
    let latencies = Latencies { memory: f64::NAN, ..Latencies::default() };
    assert!(
        refused(ChipSettings { latencies, ..tiny() }, one()).to_string().contains("memory latency of NaN")
    );
    let error = refused(ChipSettings { lines_per_cycle: Some(0.0), ..tiny() }, one());
    assert!(error.to_string().contains("memory bandwidth of 0"), "{error}");
    let l1 = CacheSettings::lru(128, 1, LineSize::new(32).unwrap()).unwrap();
    assert_eq!(
        refused(ChipSettings { l1, ..tiny() }, one()),
        ChipError::MixedLineSizes { left: 32, right: 64 }
    );
    let mut slow = one();
    slow.timing = CoreTiming::InOrder { base_cpi: -1.0 };
    assert!(refused(tiny(), slow).to_string().contains("base CPI of -1"));
    let mut narrow = one();
    narrow.timing = CoreTiming::OutOfOrder { base_cpi: 1.0, reorder_buffer: 0, outstanding: 1 };
    assert!(refused(tiny(), narrow).to_string().contains("reorder buffer of 0"));
    let prefetcher = Some(PrefetcherSettings { streams: 0, ahead: 1 });
    let error = refused(ChipSettings { prefetcher, ..tiny() }, one());
    assert_eq!(error, ChipError::Prefetcher { streams: 0, ahead: 1 });
    let none = Chip::<Player>::new(&tiny(), Vec::new()).map(|_| ()).unwrap_err();
    assert_eq!(none, ChipError::Cores { cores: 0, limit: 63, line_bytes: 64 });
    assert_eq!(Recording::new([], LineSize::B64).unwrap_err(), ChipError::NoAccesses);
    let recording = Arc::new(Recording::of_lines([1], LineSize::B64).unwrap());
    for mix in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Player::new(recording.clone(), mix).is_err());
    }
    assert!(Player::new(recording, 3.0).is_ok(), "several accesses per instruction are legal");
    // The run that ends with the first program needs no others to end.
    let counted = corun::together(&tiny(), vec![core(&[1]), core(&[1, 2, 3])], Until::FirstEnded).unwrap();
    assert_eq!(counted.iter().map(|c| c.passes).collect::<Vec<_>>(), [1, 0]);
}
