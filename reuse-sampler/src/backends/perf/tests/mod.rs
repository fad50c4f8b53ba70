//! The sampler on a simulated machine: everything it reports is held against the whole trace.

mod children;
mod processors;
mod profile;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::kernel::{Abilities, Operand, Source};
use super::registers::Coverage;
use super::session::{Session, Settings};
use super::simulated::{APART, Faults, PRECISE, PROFILER, Program, Sim, abilities, execution, load, store};
use crate::engine::gaps::Rate;
use crate::engine::random::Random;
use crate::engine::tracker::Mode;
use crate::{AccessCount, Clock, LineSize, Outcome, ReuseProfile, ReuseSample, Window};

fn settings(window: u64, seed: u64) -> Settings {
    Settings {
        window,
        line_size: LineSize::B64,
        seed,
        code_samples: 10,
        coverage: Coverage::Line,
        reclaim_random: false,
        densest: 100.0,
        skid: 0,
        profile_every: None,
        counters: Vec::new(),
    }
}

fn every(mean: f64) -> Mode {
    Mode::Sample(Rate::Sparse { mean })
}

struct Done {
    windows: Vec<Window>,
    session: Session<Sim>,
}

fn run(sim: Sim, settings: Settings, plan: impl Fn(usize) -> Mode) -> Done {
    let abilities = sim.abilities;
    let mut session = Session::new(sim, settings, abilities, Arc::default());
    let mut windows = Vec::new();
    while let Some(window) = session.next_window(plan(windows.len())).unwrap() {
        windows.push(window);
    }
    Done { windows, session }
}

impl Done {
    fn samples(&self) -> Vec<ReuseSample> {
        self.windows.iter().flat_map(|w| w.samples.iter().copied()).collect()
    }

    /// Holds each sample of a run of one thread without accidents against the trace; `slack` is how much a distance
    /// may be too long by.
    fn check_against_the_trace(&self, slack: u64) {
        let trace = &self.session.kernel.trace[&(100, 0)];
        let counted = self.session.clocks().1 == Clock::Accesses;
        for sample in self.samples() {
            let began = execution(sample.begin.pc);
            let line = |o: &Operand| o.address >> 6;
            let candidates: Vec<u64> = trace[began].iter().map(line).collect();
            assert!(!candidates.is_empty(), "an instruction without an access was chosen");
            let truth: Vec<Option<u64>> = candidates
                .iter()
                .map(|wanted| {
                    let mut passed = 0;
                    for instruction in &trace[began + 1..] {
                        if let Some(at) = instruction.iter().position(|o| line(o) == *wanted) {
                            return Some(if counted { passed + at as u64 } else { passed });
                        }
                        passed += if counted { instruction.len() as u64 } else { 1 };
                    }
                    None
                })
                .collect();
            let right = truth.iter().any(|truth| match (sample.outcome, truth) {
                (Outcome::Reused(found), Some(truth)) => found.0 >= *truth && found.0 <= truth + slack,
                (Outcome::Censored { at_least }, Some(truth)) => at_least <= *truth,
                (Outcome::Censored { .. } | Outcome::Dangling, None) => true,
                _ => false,
            });
            assert!(right, "{sample:?} is {truth:?}");
        }
    }
}

/// Walks over `lines` lines again and again, with two instructions that do not access memory between two accesses.
fn walk(lines: u64) -> Program {
    Arc::new(move |i| if i % 3 == 0 { vec![load(0x10_0000 + i / 3 % lines * 64)] } else { Vec::new() })
}

/// Random lines, loads and stores mixed, some instructions without an access.
fn random(lines: usize, seed: u64) -> Program {
    Arc::new(move |i| {
        let mut random = Random::new(seed, i);
        let address =
            |random: &mut Random| 0x20_0000 + 64 * random.below(lines) as u64 + 8 * random.below(8) as u64;
        match random.below(4) {
            0 => Vec::new(),
            1 => vec![store(address(&mut random))],
            _ => vec![load(address(&mut random))],
        }
    })
}

#[test]
fn every_distance_of_a_walk_is_the_number_of_other_lines() {
    for after in [true, false] {
        for (clock, accesses) in
            [(Clock::Accesses, abilities().accesses), (Clock::Instructions, [None, None])]
        {
            let abilities = Abilities { hit_after: after, accesses, ..abilities() };
            let done = run(Sim::new(1, abilities, walk(50), 100_000), settings(10_000, 1), |_| every(100.0));
            assert_eq!(done.windows.len(), 11); // the last one is empty
            let distance = if clock == Clock::Accesses { 49 } else { 149 };
            let mut reused = 0;
            for sample in done.samples() {
                match sample.outcome {
                    Outcome::Reused(found) => {
                        assert_eq!(found.0, distance, "{after} {clock:?}");
                        reused += 1;
                    }
                    Outcome::Censored { at_least } => assert!(at_least < distance),
                    Outcome::Dangling | Outcome::Invalidated(_) => {}
                }
            }
            // One access in 100 of 33,333, less than a tenth of them reclaimed; five standard errors.
            assert!((240..420).contains(&reused), "{reused}");
            done.check_against_the_trace(0);
            for window in &done.windows[..10] {
                assert_eq!(
                    (window.instructions, window.clock, window.length),
                    (10_000, clock, Clock::Instructions)
                );
                assert!(!window.losses.any() && window.losses.overshoot == 0);
                assert_eq!(window.code.iter().map(|c| c.1).sum::<u64>(), 10_000);
                match window.accesses {
                    AccessCount::Measured(n) => assert!((3333..=3334).contains(&n)),
                    AccessCount::Estimated(n) => assert!((2500..=4300).contains(&n), "{n}"),
                    AccessCount::Unknown => assert!(done.windows[0].index == window.index),
                }
            }
        }
    }
}

#[test]
fn random_accesses_on_every_kind_of_machine() {
    for seed in 0..40 {
        let whole_line = seed % 2 == 0;
        let hit_after = seed % 4 < 2;
        let once = seed % 8 < 4;
        let early = [0, 3, 10][seed as usize % 3];
        let abilities = Abilities { whole_line, hit_after, once, early, ..abilities() };
        let mut sim = Sim::new(seed, abilities, random(300, seed), 60_000);
        sim.faults.skid = early as usize;
        let settings = Settings { coverage: Coverage::Line, ..settings(7_000, seed) };
        let done = run(sim, settings, |n| if n % 5 == 4 { Mode::Watch } else { every(60.0) });
        assert!(done.samples().len() > 100);
        if whole_line {
            done.check_against_the_trace(0);
        }
        let total: u64 = done.windows.iter().map(|w| w.instructions).sum();
        assert_eq!(total, 60_000);
        // What a window is too long by, the next is short by.
        for (n, window) in done.windows.iter().enumerate().take(8) {
            let end: u64 = done.windows[..=n].iter().map(|w| w.instructions).sum();
            assert_eq!(end, 7_000 * (n as u64 + 1) + window.losses.overshoot);
        }
    }
}

/// Random words of 400 lines, half of each line watched: what is not watched is made up for, whether or not touches
/// stop the thread.
#[test]
fn lines_that_are_watched_in_part_are_reused_as_often_as_they_are() {
    const LINES: usize = 400;
    for once in [true, false] {
        let abilities = Abilities { whole_line: false, once, ..abilities() };
        let mut sim = Sim::new(1, abilities, random(LINES, 1), 1_000_000);
        (sim.recording, sim.code) = (false, 4);
        let done = run(sim, settings(100_000, 1), |_| every(1_200.0));
        let mut profile = ReuseProfile::new(LineSize::B64);
        done.windows.iter().for_each(|window| profile.record_window(window).unwrap());
        assert!(profile.samples() > 550 && done.session.losses.lost_hits == 0);
        for d in [200, 400] {
            let truth = (1.0 - 1.0 / LINES as f64).powi(d + 1);
            let found = profile.distribution().beyond(d as u64);
            // Half of the touches would leave the square root. Three standard errors of 600 samples, some censored.
            let tolerance = 0.05 + 3.0 * ((1.0 - truth) / truth / 400.0).sqrt();
            assert!((found / truth - 1.0).abs() < tolerance, "{once} {d}: {found} is {truth}");
            assert!((truth.sqrt() / truth - 1.0).abs() > tolerance);
        }
    }
}

/// A thread that stops up to 200 instructions late: at most one step more for each choice, each with its exact distance,
/// all accesses alike.
#[test]
fn late_stops_take_one_step_at_most_and_choose_alike() {
    for skid in [0, 10, 200] {
        let abilities = Abilities { once: true, ..abilities() };
        let mut sim = Sim::new(1, abilities, random(300, 1), 400_000);
        sim.faults.skid = skid;
        let done = run(sim, settings(100_000, 1), |_| every(400.0));
        done.check_against_the_trace(0);
        let (stops, tested) = (done.session.stops, done.session.tested);
        assert!(stops <= 2 * tested + done.windows.len() as u64, "{skid}: {stops} stops of {tested}");
        assert!(skid > 0 || stops <= tested + done.windows.len() as u64);
        let samples = done.samples();
        let stores = samples.iter().filter(|s| s.begin.kind == crate::AccessKind::Store).count();
        // One in 400 of 300,000 accesses, of which a third are stores. Three per cent and four standard errors.
        let samples = samples.len() as f64;
        assert!((samples / 750.0 - 1.0).abs() < 0.03 + 4.0 * 0.037, "{skid}: {samples}");
        assert!((stores as f64 * 3.0 / samples - 1.0).abs() < 0.03 + 4.0 * 0.05, "{skid}: {stores}");
        assert!(done.session.losses.late <= tested);
    }
}

#[test]
fn an_access_that_its_own_instruction_follows_up_is_reused_at_once() {
    let program: Program = Arc::new(|i| {
        let address = 0x1000 + i % 100 * 64;
        vec![load(address), store(address)]
    });
    let done = run(Sim::new(3, abilities(), program, 50_000), settings(10_000, 2), |_| every(50.0));
    let at_once =
        done.samples().iter().filter(|s| s.outcome == Outcome::Reused(crate::ReuseDistance(0))).count();
    let later = done.samples().len() - at_once;
    // Half of the accesses chosen are the loads. Five standard errors of 1,000.
    assert!((at_once as i64 - later as i64).abs() < 160, "{at_once} {later}");
    assert!(done.samples().iter().all(|s| s.weight == 100));
    for sample in done.samples() {
        if let Outcome::Reused(distance) = sample.outcome {
            // The record of a load and store shows both: one too many.
            assert!([0, 198, 199].contains(&distance.0), "{distance:?}");
        }
    }
}

#[test]
fn precise_events_report_the_address_themselves() {
    let abilities = Abilities { selectors: PRECISE, ..abilities() };
    let done = run(Sim::new(1, abilities, walk(50), 100_000), settings(10_000, 1), |_| every(100.0));
    assert!(done.samples().len() > 240);
    done.check_against_the_trace(0);
    assert!(
        done.samples().iter().filter(|s| matches!(s.outcome, Outcome::Reused(d) if d.0 == 49)).count() > 200
    );
}

#[test]
fn loads_and_stores_are_chosen_alike_by_events_of_their_own() {
    let abilities = Abilities { selectors: PRECISE, ..abilities() };
    let done = run(Sim::new(1, abilities, random(300, 1), 200_000), settings(10_000, 1), |_| every(100.0));
    done.check_against_the_trace(0);
    let trace = &done.session.kernel.trace[&(100, 0)];
    let (mut stores, samples) = (0, done.samples());
    for sample in &samples {
        assert_eq!(sample.begin.kind, trace[execution(sample.begin.pc)][0].kind);
        stores += usize::from(sample.begin.kind == crate::AccessKind::Store);
    }
    // One access in 100 of 150,000, of which a third are stores; five standard errors.
    assert!(samples.len().abs_diff(1500) < 200 && stores.abs_diff(500) < 115, "{} {stores}", samples.len());
}

/// An event apart chooses among all operations and tells no counts: distances begin where the thread has stopped.
#[test]
fn accesses_chosen_apart_are_short_by_how_late_the_thread_stops() {
    for late in [0, 6] {
        let abilities = Abilities { selectors: APART, ..abilities() };
        let mut sim = Sim::new(1, abilities, walk(50), 100_000);
        sim.faults.skid = late;
        let done = run(sim, settings(10_000, 1), |_| every(100.0));
        let mut reused = 0;
        for sample in done.samples() {
            if let Outcome::Reused(distance) = sample.outcome {
                // Two instructions of three access nothing.
                assert!((49 - late as u64 / 3 - 1..=49).contains(&distance.0), "{late}: {distance:?}");
                assert!(late > 0 || distance.0 == 49);
                reused += 1;
            }
        }
        // A gap is 144 at least, so that their mean is 168 and not 100; a third of the instructions access memory. Five
        // standard errors.
        assert!((130..270).contains(&reused), "{reused}");
        assert!(done.samples().iter().all(|sample| sample.weight == 168));
        assert_eq!(done.session.losses.undecoded, 0);
    }
}

#[test]
fn branch_records_are_the_signature_where_there_are_any() {
    let abilities = Abilities { branches: true, ..abilities() };
    let done = run(Sim::new(1, abilities, walk(50), 30_000), settings(10_000, 1), |_| Mode::Off);
    assert_eq!(done.windows[0].code.len(), 20); // two branches for each of ten samples
    assert_eq!(done.windows[0].code.iter().map(|c| c.1).sum::<u64>(), 10_000);
}

#[test]
fn what_is_off_costs_nothing_and_censors_what_is_open() {
    let done = run(Sim::new(1, abilities(), random(100_000, 1), 40_000), settings(10_000, 1), |n| {
        if n == 0 { every(20.0) } else { Mode::Off }
    });
    assert!(done.windows[0].open_samples > 0);
    assert!(done.windows[2].samples.is_empty());
    let censored = done.windows[1].samples.iter().filter(|s| matches!(s.outcome, Outcome::Censored { .. }));
    assert_eq!(censored.count() as u64, done.windows[0].open_samples);
    // Boundaries and the end, and nothing else, once nothing is sampled.
    let before = done.session.stops;
    let off = run(Sim::new(1, abilities(), random(100_000, 1), 40_000), settings(10_000, 1), |_| Mode::Off);
    assert!(off.session.stops == 5 && before > 100);
}

#[test]
fn counters_take_turns() {
    let count =
        |n| (format!("event{n}"), if n == 0 { super::simulated::LOADS } else { Source::INSTRUCTIONS });
    let settings = Settings { counters: vec![vec![count(0)], vec![count(1)]], ..settings(3_000, 1) };
    let done = run(Sim::new(1, abilities(), walk(10), 12_000), settings, |_| Mode::Off);
    for (n, window) in done.windows.iter().take(4).enumerate() {
        let expected = if n % 2 == 0 { ("event0".to_owned(), 1_000) } else { ("event1".to_owned(), 3_000) };
        assert_eq!(window.counters, [expected]);
    }
}

#[test]
fn without_registers_samples_say_so() {
    let mut sim = Sim::new(1, abilities(), walk(10), 12_000);
    sim.available = 0;
    let done = run(sim, settings(12_000, 1), |_| every(50.0));
    let window = &done.windows[0];
    assert!(window.losses.no_register > 10 && window.losses.no_register == window.samples.len() as u64);
    assert!(done.session.warnings[0].contains("debug registers"));
}

#[test]
fn stopping_censors_what_is_open_and_leaves_nothing_open() {
    let sim = Sim::new(1, abilities(), random(100_000, 1), 1_000_000);
    let leaks = Arc::clone(&sim.leaks);
    leaks.store(true, Ordering::SeqCst);
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut session = Session::new(sim, settings(10_000, 1), abilities(), Arc::clone(&interrupted));
    let mut told = 0;
    for _ in 0..3 {
        told += session.next_window(every(50.0)).unwrap().unwrap().samples.len() as u64;
    }
    interrupted.store(true, Ordering::Relaxed);
    while let Some(window) = session.next_window(every(50.0)).unwrap() {
        assert!(window.samples.iter().all(|s| s.outcome != Outcome::Dangling));
        told += window.samples.len() as u64;
    }
    assert_eq!(told, session.started);
    drop(session);
    assert!(!leaks.load(Ordering::SeqCst));
}

/// Ten thousand schedules of accidents, or as many as an interpreter plays in minutes. Whatever happens, the run ends, each
/// sample that was started is reported once, no event stays open, every signal reaches the program, and windows have
/// different numbers.
#[test]
fn accidents_lose_no_sample_and_leak_nothing() {
    let (mut started, mut losses, mut late) = (0, 0, 0);
    let (schedules, length, window) = if cfg!(miri) { (6, 400, 90) } else { (10_000, 2_500, 700) };
    for seed in 0..schedules {
        let mut dice = Random::new(seed, 7);
        let mut rare = |often: usize| if dice.below(2) == 0 { 0 } else { often * (1 + dice.below(8)) };
        let faults = Faults {
            interrupted: rare(3),
            lost: rare(3),
            throttled: rare(5),
            killed: rare(60),
            exits: rare(30),
            clones: rare(10),
            forks: rare(20),
            execs: rare(60),
            signals: rare(10),
            groups: rare(20),
            collisions: 3,
            trace: 40 * 64,
            blocked: rare(1),
            ticks: rare(4),
            skid: rare(1),
            written_late: rare(1),
            elsewhere: 0,
        };
        let abilities = Abilities {
            hit_after: dice.below(2) == 0,
            once: dice.below(2) == 0,
            whole_line: dice.below(2) == 0,
            early: dice.below(5) as u64,
            selectors: [[None; 2], [None; 2], PRECISE, APART][dice.below(4)],
            accesses: if dice.below(2) == 0 { abilities().accesses } else { [None, None] },
            profiler: (seed % 4 == 0).then_some(PROFILER),
            ..abilities()
        };
        let abilities = if dice.below(4) > 0 {
            abilities
        } else {
            let (windows, accesses, selectors) = (Source::TASK_CLOCK, [None, None], [None; 2]);
            Abilities { windows, accesses, selectors, early: 0, profiler: None, ..abilities }
        };
        let mut sim = Sim::new(seed, abilities, random(1 + dice.below(400), seed), length);
        sim.recording = false;
        sim.available = dice.below(6).min(4);
        sim.faults = faults;
        let leaks = Arc::clone(&sim.leaks);
        leaks.store(true, Ordering::SeqCst);
        let interrupted = Arc::new(AtomicBool::new(false));
        let stop_after = if dice.below(4) == 0 { dice.below(8) } else { usize::MAX };
        let profile_every = abilities.profiler.map(|_| 20);
        let settings =
            Settings { reclaim_random: dice.below(2) == 0, profile_every, ..settings(window, seed) };
        let mut session = Session::new(sim, settings, abilities, Arc::clone(&interrupted));
        let (mut told, mut numbers) = (0, Vec::new());
        let plans = [every(20.0), every(100.0), Mode::Watch, Mode::Off, Mode::Every];
        let mut plan = plans[0];
        while let Some(window) = session.next_window(plan).unwrap() {
            told += window.samples.len() as u64;
            numbers.push(window.index.0);
            assert!(window.samples.iter().all(|s| s.started_in <= window.index), "{seed}");
            plan = plans[dice.below(plans.len())];
            if numbers.len() == stop_after {
                session.stop().unwrap();
            }
            assert!(numbers.len() < 10_000, "{seed} does not end");
        }
        assert!(session.next_window(plan).unwrap().is_none());
        assert_eq!(told, session.started, "seed {seed}");
        let windows = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), windows, "{seed}");
        assert!(session.losses.malformed == 0, "{seed}");
        started += told;
        losses += session.losses.lost_hits;
        late += session.losses.late;
        drop(session);
        assert!(!leaks.load(Ordering::SeqCst), "seed {seed} leaks");
    }
    // The schedules are worth something.
    let worth = if cfg!(miri) { started > 0 } else { started > 200_000 && losses > 1_000 && late > 5_000 };
    assert!(worth, "{started} {losses} {late}");
}
