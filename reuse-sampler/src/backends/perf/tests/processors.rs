//! The sampler on processors with few counters and kernels that refuse much: it samples, or says why not.

use super::*;
use crate::SamplerError;
use crate::perf::events::TABLE;
use crate::perf::group::{self, Group};
use crate::perf::kernel::Opening;
use crate::perf::simulated::{COUNTERS, Counters, Limits};

const EINVAL: i32 = 22;

fn limits(counters: &Counters, hyper_threading: bool, linux: (u32, u32)) -> Limits {
    let short = counters.name.starts_with("Intel Nehalem")
        || counters.name.starts_with("Intel Haswell") && linux >= (6, 10);
    let general = if hyper_threading { counters.shared } else { counters.alone };
    Limits { general, fixed: true, shortest: if short { 32 } else { 1 }, linux }
}

/// What the processor has by the table of events.
fn everything(name: &str) -> Abilities {
    let entry = TABLE.into_iter().flatten().find(|entry| entry.name == name).unwrap();
    let selectors = if entry.precise.is_empty() { [None; 2] } else { PRECISE };
    Abilities { selectors, ..abilities() }
}

fn fit(name: &str, limits: Limits, keep_code: bool) -> Option<(Abilities, Vec<String>)> {
    let opens = |leader: Opening, siblings: &[Opening]| {
        let group: Vec<Opening> = [leader].iter().chain(siblings).copied().collect();
        let opened = group.iter().all(|opening| limits.opens(opening)) && limits.hold(&group);
        if opened { Ok(()) } else { Err(std::io::Error::from_raw_os_error(EINVAL)) }
    };
    group::fit(everything(name), keep_code, opens).ok()
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
        ("Intel Haswell", true, code, choice),      // 4
        ("Intel Haswell", false, nothing, nothing), // 8, of which 4 count loads and stores
        ("Intel Skylake-SP or Cascade Lake", true, code, choice),
        ("Intel Skylake-SP or Cascade Lake", false, nothing, nothing),
        ("Intel Ice Lake-SP", true, nothing, nothing), // 8
        ("Intel Sapphire Rapids", true, nothing, nothing),
        ("Intel Alder Lake-N", false, nothing, nothing), // 6
        ("Intel Goldmont", false, code, choice),         // 4
        ("Intel Nehalem", true, choice, choice),         // 4, and it chooses none
        ("Intel Ivy Bridge-EP", true, choice, choice),
        ("Intel Silvermont", false, None, None), // 2
        ("Intel Knights Landing", true, None, None),
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
            assert!(done.samples().len() > 100, "{}", counters.name);
            done.check_against_the_trace(0);
            assert_eq!(done.windows.iter().map(|w| w.instructions).sum::<u64>(), 20_000);
            assert_eq!(done.windows[0].code.is_empty(), !left.code);
            ran += 1;
        }
    }
    assert!(ran > 60, "{ran}");
}

#[test]
fn a_group_that_does_not_fit_and_an_old_kernel_are_refused_as_what_they_are() {
    let haswell = limits(found("Intel Haswell"), true, (6, 1));
    let whole = everything("Intel Haswell");
    let group = Group::new(&whole, Some(100));
    assert!(group.gap.is_none() && group.code.is_some());
    for (limits, says) in [(haswell, "counters for all"), (Limits { linux: (4, 18), ..haswell }, "5.13")] {
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
    assert!(fit("Intel Haswell", Limits { linux: (4, 18), ..haswell }, false).is_none());
}

/// Instruction-based sampling takes multiples of 16 from 144 on; before Linux 6.15 it rounds silently.
#[test]
fn periods_of_instruction_based_sampling_are_such_as_it_takes() {
    for linux in [(6, 1), (6, 15)] {
        let abilities = Abilities { selectors: APART, ..abilities() };
        let mut sim = Sim::new(1, abilities, walk(50), 400_000);
        sim.limits = Some(Limits { general: [0b11_1111; 3], fixed: false, shortest: 1, linux });
        let done = run(sim, settings(100_000, 1), |_| every(1_000.0));
        // One operation in 1,000, of which a third access memory; five standard errors.
        assert!(done.samples().len().abs_diff(133) < 60, "{}", done.samples().len());
        done.check_against_the_trace(0);
    }
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
