//! What the processor profiles by itself.

use super::*;

/// Holds what the processor profiled by itself against the trace: how many operations it reported.
fn check_profile(session: &Session<Sim>) -> usize {
    let trace = &session.kernel.trace[&(100, 0)];
    for profiled in &session.profiled {
        let access = profiled.operation.access().expect("only accesses are traced");
        let truth = trace[execution(access.pc)][0];
        assert_eq!((access.address, access.kind), (truth.address, truth.kind), "{profiled:?}");
    }
    session.profiled.len()
}

/// One operation in 50 of a program of which three in four access memory; reported at the end of the run, in order.
#[test]
fn what_the_processor_profiles_by_itself_is_what_the_program_did() {
    let abilities = Abilities { profiler: Some(PROFILER), ..abilities() };
    let settings = Settings { profile_every: Some(50), ..settings(10_000, 1) };
    let done = run(Sim::new(1, abilities, random(300, 1), 100_000), settings, |_| every(1000.0));
    let told = check_profile(&done.session);
    let trace = &done.session.kernel.trace[&(100, 0)];
    let expected = trace.iter().skip(49).step_by(50).filter(|operands| !operands.is_empty()).count();
    assert_eq!(told, expected);
    let profiled = &done.session.profiled;
    assert!(profiled.is_sorted_by_key(|profiled| profiled.operation.timestamp));
    assert!(profiled.is_sorted_by_key(|profiled| profiled.operation.offset));
    let losses = done.session.profile_losses;
    assert!(losses.parts > 10, "{losses:?}");
    assert_eq!((losses.truncated, losses.collided, losses.malformed, losses.lost_parts), (0, 0, 0, 0));
    // Nobody is stopped for it.
    let sim = Sim::new(1, abilities, random(300, 1), 100_000);
    let quiet = run(sim, self::settings(10_000, 1), |_| every(1000.0));
    assert_eq!(quiet.session.stops, done.session.stops);
    assert!(quiet.session.profiled.is_empty());
}

/// Memory that is full, operations that are not followed, parts that nobody is told of: less is told, and nothing wrong.
#[test]
fn a_profile_with_gaps_has_nothing_wrong_and_says_that_it_has_gaps() {
    let abilities = Abilities { profiler: Some(PROFILER), ..abilities() };
    let told = |faults: Faults| {
        let mut sim = Sim::new(1, abilities, random(300, 1), 100_000);
        sim.faults = faults;
        let settings = Settings { profile_every: Some(50), ..settings(10_000, 1) };
        let done = run(sim, settings, |_| every(1000.0));
        assert_eq!(done.session.profile_losses.malformed, 0);
        (check_profile(&done.session), done.session.profile_losses)
    };
    let (all, _) = told(Faults::default());
    // Room for 20 records, of some 15 between two samples.
    let (fewer, losses) = told(Faults { trace: 20 * 64, ..Faults::default() });
    assert!(fewer < all && losses.truncated > 0 && losses.collided == 0, "{fewer} of {all}, {losses:?}");
    let (fewer, losses) = told(Faults { collisions: 10, ..Faults::default() });
    assert!(fewer * 10 > all * 8 && fewer < all, "{fewer} of {all}");
    assert!(losses.collided > 0 && losses.truncated == 0, "{losses:?}");
    let (fewer, losses) = told(Faults { lost: 2, ..Faults::default() });
    assert!(fewer < all && losses.lost_parts > 0, "{fewer} of {all}, {losses:?}");
}
