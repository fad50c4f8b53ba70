//! Processors that notice overflows late.

use reuse_sampler::perf::probe;
use reuse_sampler::{Clock, LineSize, Outcome, ReuseProfile};

use super::targets::{FAR_LINES, LINES, MIXED};
use super::{Checked, conserved, expect, observe, options, skid, sparse};

/// How often a program stops for each instruction that is chosen, and whether late stops prefer some accesses: a loop has two
/// loads, one of which is reused after [`LINES`] rounds and the other after [`FAR_LINES`], and each makes half of the samples.
pub fn choices() -> Checked {
    const GAP: f64 = 5_000.0;
    let run = observe("mixed 5000000", &options(1 << 40), sparse(GAP)?)?;
    conserved(&run)?;
    let instructions: u64 = run.windows.iter().map(|window| window.instructions).sum();
    let chosen = instructions as f64 / GAP;
    // Where watchpoints cannot report once, the touch that ends a sample is a stop of its own.
    let samples = || run.windows.iter().flat_map(|window| &window.samples);
    let touches = samples().filter(|sample| matches!(sample.outcome, Outcome::Reused(_))).count();
    let stops = run.stops as f64 - if probe().once { 0.0 } else { touches as f64 };
    let per_choice = stops / chosen;
    // What chance does to their number, five times.
    expect(per_choice <= 2.0 * (1.0 + 5.0 / chosen.sqrt()), || format!("{per_choice:.2} stops a choice"))?;
    let mut profile = ReuseProfile::with_clock(LineSize::B64, run.windows[0].clock);
    samples().for_each(|sample| profile.record(sample.outcome, sample.weight));
    let mut lines = Vec::new();
    // Both loads reuse their lines beyond the first of these distances, one of them beyond the second.
    let round = if run.windows[0].clock == Clock::Accesses { 2 } else { MIXED };
    for (rounds, truth) in [(LINES / 2, 1.0), (LINES.midpoint(FAR_LINES), 0.5)] {
        let d = rounds * round;
        let estimate = profile.distribution().beyond(d);
        let followed = samples().filter(|sample| match sample.outcome {
            Outcome::Censored { at_least } => at_least >= d,
            _ => true,
        });
        let deviation: f64 = ((1.0 - truth) / truth / followed.count() as f64).sqrt();
        let error = estimate / truth - 1.0;
        lines.push(format!("P(D > {d}) {:+.1} +- {:.1} %", 100.0 * error, 100.0 * deviation));
        expect(error.abs() <= 0.03 + 2.0 * deviation, || lines.join(", "))?;
    }
    Ok(format!(
        "{} late: {per_choice:.2} stops for each of {chosen:.0} choices, {} samples of {:.0}; {}",
        skid(),
        run.started,
        chosen * 2.0 / MIXED as f64,
        lines.join(", ")
    ))
}
