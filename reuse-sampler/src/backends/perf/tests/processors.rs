//! The sampler on processors with few counters and kernels that refuse much: it samples, or says why not.

use std::io;

use super::*;
use crate::SamplerError;
use crate::perf::events::TABLE;
use crate::perf::group::{self, Group};
use crate::perf::kernel::Opening;
use crate::perf::simulated::{ACCESSES, COUNTERS, Counters, Limits};

const EINVAL: i32 = 22;

fn limits(counters: &Counters, hyper_threading: bool, linux: (u32, u32)) -> Limits {
    let short = counters.name.starts_with("Intel Nehalem")
        || counters.name.starts_with("Intel Haswell") && linux >= (6, 10);
    let general = if hyper_threading { counters.shared } else { counters.alone };
    let errata = ["Intel Sandy Bridge", "Intel Ivy Bridge", "Intel Haswell"];
    let halved = hyper_threading && errata.iter().any(|name| counters.name.starts_with(name));
    let fixed = counters.name.starts_with("Intel");
    Limits { general, fixed, shortest: if short { 32 } else { 1 }, linux, halved }
}

/// What the processor has by the table of events.
fn everything(name: &str) -> Abilities {
    let entry = TABLE.iter().find(|entry| entry.name == name).unwrap();
    let selectors = match entry.precise.as_slice() {
        [] => [None; 2],
        [precise, ..] => {
            if precise.unit.is_some() {
                APART
            } else {
                PRECISE
            }
        }
    };
    let accesses = if entry.accesses.len() == 1 { [Some(ACCESSES), None] } else { abilities().accesses };
    Abilities { selectors, accesses, hit_after: !name.starts_with("Arm"), ..abilities() }
}

fn fit(name: &str, limits: Limits, keep_code: bool) -> Option<(Abilities, Vec<String>)> {
    let opens = |leader: Opening, siblings: &[Opening]| {
        let group: Vec<Opening> = [leader].iter().chain(siblings).copied().collect();
        let opened = group.iter().all(|opening| limits.opens(opening)) && limits.hold(&group);
        let refused =
            if opened { io::ErrorKind::ResourceBusy.into() } else { io::Error::from_raw_os_error(EINVAL) };
        if opened && limits.count(&group) { Ok(()) } else { Err(refused) }
    };
    let mut wanted = everything(name);
    // As the probe finds it.
    if !wanted.selectors.iter().flatten().all(|selector| limits.opens(&selector.opening())) {
        wanted.selectors = [None; 2];
    }
    group::fit(wanted, keep_code, opens).ok()
}

fn found(name: &str) -> &'static Counters {
    COUNTERS.iter().find(|counters| counters.name == name).unwrap()
}

/// By the manuals: general counters of a hyper-thread beside one of its own for instructions; the group counts instructions
/// three times, loads and stores, and twice instead of once where the processor chooses accesses.
#[test]
fn what_a_processor_has_no_counters_for_is_given_up_in_order() {
    let (nothing, code, choice) = (Some((true, true)), Some((false, true)), Some((true, false)));
    for (name, hyper_threading, first, keeping_code) in [
        ("Intel Haswell", true, None, None), // 4, halved where accesses are counted
        ("Intel Haswell", false, nothing, nothing), // 8, of which 4 count loads and stores
        ("Intel Broadwell", true, code, choice), // 4
        ("Intel Skylake-SP or Cascade Lake", true, code, choice),
        ("Intel Skylake-SP or Cascade Lake", false, nothing, nothing),
        ("Intel Ice Lake-SP", true, nothing, nothing), // 8
        ("Intel Sapphire Rapids", true, nothing, nothing),
        ("Intel Alder Lake-N", false, nothing, nothing), // 6
        ("Intel Goldmont", false, code, choice),         // 4
        ("Intel Nehalem", true, choice, choice),         // 4, and it chooses none
        ("Intel Sandy Bridge", true, None, None),
        ("Intel Ivy Bridge-EP", true, None, None),
        ("Intel Ivy Bridge-EP", false, choice, choice), // 8
        ("Intel Silvermont", false, None, None),        // 2
        ("Intel Knights Landing", true, None, None),
        ("AMD Zen or Zen 2", true, nothing, nothing), // 6, and others that choose
        ("AMD Zen 5", true, nothing, nothing),
        ("Arm Neoverse N1", false, choice, choice), // 6
        ("Arm Neoverse V1", false, choice, choice),
        ("Arm Cortex-A53", false, choice, choice),
    ] {
        for (keep_code, expected) in [(false, first), (true, keeping_code)] {
            let fitted = fit(name, limits(found(name), hyper_threading, (6, 18)), keep_code);
            let left = fitted.as_ref().map(|(left, _)| (left.code, left.selects()));
            assert_eq!(left, expected, "{name} {hyper_threading} {keep_code}");
            let (chooses, lost) = (everything(name).selects(), fitted.map_or(0, |(_, lost)| lost.len()));
            let given_up =
                left.map_or(0, |(code, choice)| usize::from(!code) + usize::from(chooses && !choice));
            assert_eq!(lost, given_up, "what is lost is said");
        }
    }
}

/// Whatever fits is opened by the sampler too, on every processor and kernel, and what it then reports is right.
#[test]
fn what_fits_samples_rightly() {
    let mut ran = 0;
    for (n, counters) in COUNTERS.iter().enumerate() {
        for (hyper_threading, keep_code) in [(true, true), (true, false), (false, false)] {
            let linux = [(5, 13), (6, 1), (6, 12), (6, 18)][n % 4];
            let limits = limits(counters, hyper_threading, linux);
            let Some((left, _)) = fit(counters.name, limits, keep_code) else { continue };
            let mut sim = Sim::new(n as u64, left, random(300, n as u64), 20_000);
            sim.limits = Some(limits);
            let done = run(sim, settings(3_000, n as u64), |_| every(60.0));
            // A gap is 144 at least where operations are chosen.
            assert!(done.samples().len() > 70, "{}: {}", counters.name, done.samples().len());
            done.check_against_the_trace(0);
            assert_eq!(done.windows.iter().map(|w| w.instructions).sum::<u64>(), 20_000);
            assert_eq!(done.windows[0].code.is_empty(), !left.code);
            ran += 1;
        }
    }
    assert!(ran > 110, "{ran}");
}

#[test]
fn a_group_that_does_not_fit_and_an_old_kernel_are_refused_as_what_they_are() {
    let broadwell = limits(found("Intel Broadwell"), true, (6, 1));
    let whole = everything("Intel Broadwell");
    let group = Group::new(&whole, Some(100));
    assert!(group.gap.is_none() && group.code.is_some());
    for (limits, says) in [(broadwell, "counters for all"), (Limits { linux: (4, 18), ..broadwell }, "5.13")]
    {
        let mut sim = Sim::new(1, whole, walk(50), 1_000);
        sim.limits = Some(limits);
        let leaks = Arc::clone(&sim.leaks);
        let mut session = Session::new(sim, settings(500, 1), whole, Arc::default());
        let error = session.next_window(every(50.0)).unwrap_err();
        assert!(
            matches!(&error, SamplerError::Unsupported { missing, .. } if missing.contains(says)),
            "{error}"
        );
        drop(session);
        assert!(!leaks.load(Ordering::SeqCst));
    }
    assert!(fit("Intel Broadwell", Limits { linux: (4, 18), ..broadwell }, false).is_none());
}

/// Instruction-based sampling takes multiples of 16 from 144 on; before Linux 6.15 it rounds silently.
#[test]
fn periods_of_instruction_based_sampling_are_such_as_it_takes() {
    for linux in [(6, 2), (6, 15)] {
        let abilities = Abilities { selectors: APART, ..abilities() };
        let mut sim = Sim::new(1, abilities, walk(50), 400_000);
        sim.limits = Some(limits(found("AMD Zen 5"), true, linux));
        let done = run(sim, settings(100_000, 1), |_| every(1_000.0));
        // One operation in 1,000, of which a third access memory; five standard errors.
        assert!(done.samples().len().abs_diff(133) < 60, "{}", done.samples().len());
        done.check_against_the_trace(0);
    }
}

/// A pinned event for which another has what it takes is in error, and its ring stays empty: said, and not taken for a program
/// that accesses no memory.
#[test]
fn whoever_takes_what_chooses_operations_is_noticed() {
    let abilities = Abilities { selectors: APART, ..abilities() };
    let mut sim = Sim::new(1, abilities, walk(50), 100_000);
    sim.operations_taken = true;
    let mut session = Session::new(sim, settings(10_000, 1), abilities, Arc::default());
    let error = session.next_window(every(1_000.0)).unwrap_err();
    assert!(
        matches!(&error, SamplerError::Unsupported { missing, .. } if missing.contains("something else holds")),
        "{error}"
    );
    // Where nothing is to be chosen, nothing is missing.
    let mut sim = Sim::new(1, abilities, walk(50), 100_000);
    sim.operations_taken = true;
    assert_eq!(run(sim, settings(10_000, 1), |_| Mode::Off).windows.len(), 11);
}

/// On Sandy Bridge to Haswell with hyper-threading a group that was opened is never counted.
#[test]
fn a_group_that_is_opened_and_never_counted_is_said_to_be_so() {
    let limits = limits(found("Intel Ivy Bridge"), true, (6, 1));
    let whole = everything("Intel Ivy Bridge");
    let mut sim = Sim::new(1, whole, walk(50), 1_000);
    sim.limits = Some(limits);
    let mut session = Session::new(sim, settings(500, 1), whole, Arc::default());
    let error = session.next_window(every(50.0)).unwrap_err();
    assert!(error.to_string().contains("something else holds"), "{error}");
}

/// Where the counts of a record are those at the interrupt and not at the access, distances are short by what comes between,
/// and a line that is touched in between is seen at its next touch.
#[test]
fn records_written_late_make_distances_short_by_as_much() {
    for late in [1, 6] {
        let abilities = Abilities { selectors: PRECISE, ..abilities() };
        let mut sim = Sim::new(1, abilities, walk(50), 100_000);
        sim.faults.written_late = late;
        let done = run(sim, settings(10_000, 1), |_| every(100.0));
        let mut reused = 0;
        for sample in done.samples() {
            if let Outcome::Reused(distance) = sample.outcome {
                assert!((49 - late as u64 / 3 - 1..=49).contains(&distance.0), "{late}: {distance:?}");
                reused += 1;
            }
        }
        assert!(reused > 200, "{reused}");
    }
}

/// On a hybrid processor a thread is now and then on cores that the group's counters do not belong to: nothing is counted
/// there and no line watched. The time is reported, and no sample has a distance over it.
#[test]
fn time_on_other_cores_is_reported_and_ends_what_is_open() {
    for once in [true, false] {
        let abilities = Abilities { once, ..abilities() };
        let mut sim = Sim::new(1, abilities, walk(200), 1_200_000);
        sim.faults.elsewhere = 4;
        // So seldom that a line is often touched again before the thread stops.
        let done = run(sim, settings(80_000, 1), |_| every(700.0));
        let counted: u64 = done.windows.iter().map(|w| w.instructions).sum();
        assert!(counted.abs_diff(900_000) < 10_000, "{counted}");
        let share = done.session.losses.uncounted as f64 / 1_200_000.0;
        assert!((share - 0.25).abs() < 0.01, "{share}");
        let warnings = done.session.warnings.join("\n");
        assert!(warnings.contains("25 %") && done.session.warnings.len() == 1, "{warnings}");
        let mut ends = [0, 0];
        for sample in done.samples() {
            match sample.outcome {
                Outcome::Reused(distance) => {
                    assert_eq!(distance.0, 199);
                    ends[0] += 1;
                }
                Outcome::Censored { at_least } => {
                    assert!(at_least < 200, "{at_least}");
                    ends[1] += 1;
                }
                _ => {}
            }
        }
        assert!(ends[0] > 50 && ends[1] > 5, "{ends:?}");
    }
}
