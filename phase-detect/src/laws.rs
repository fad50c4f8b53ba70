//! What every [`Clusterer`] and [`Predictor`] must do, for implementations of your own: call these from a test.
//!
//! ```
//! use phase_detect::{LastValue, LeaderFollower, LeaderFollowerConfig, SignatureKind, laws};
//!
//! for seed in 0..10 {
//!     let make = || LeaderFollower::new(LeaderFollowerConfig::default()).expect("the default is valid");
//!     laws::clusterer(make, SignatureKind::Frequency, seed)?;
//!     laws::predictor(LastValue::new, seed)?;
//! }
//! # Ok::<(), laws::Violation>(())
//! ```

use crate::rng::SplitMix64;
use crate::{Clusterer, Error, PhaseId, Predictor, Signature, SignatureKind};

/// Windows in a sequence.
const WINDOWS: usize = 200;
/// Entries of its signatures.
const ENTRIES: usize = 8;

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{law}: seed {seed}, window {window}: {found}")]
#[non_exhaustive]
pub struct Violation {
    /// The law.
    pub law: &'static str,
    /// Seed of the sequence of windows.
    pub seed: u64,
    /// The window at which it was violated, from 0.
    pub window: usize,
    /// What was found instead.
    pub found: String,
}

struct At {
    seed: u64,
    window: usize,
}

impl At {
    fn must(&self, holds: bool, law: &'static str, found: impl FnOnce() -> String) -> Result<(), Violation> {
        let Self { seed, window } = *self;
        if holds { Ok(()) } else { Err(Violation { law, seed, window, found: found() }) }
    }
}

/// Checks the clusterers that `make` returns, all alike, on a seeded sequence of windows of `kind` and 8 entries.
///
/// # Laws
/// Equal clusterers classify equally. `nearest` changes nothing. Frequencies of counts that are all a thousand times as
/// large are of the same phases. A distance is finite and not negative, and 0 if the window founded the phase. A phase
/// that is founded has a number of its own. After a window there is a nearest phase. A refused signature changes nothing.
///
/// # Errors
/// The first [`Violation`].
pub fn clusterer<C: Clusterer>(
    mut make: impl FnMut() -> C,
    kind: SignatureKind,
    seed: u64,
) -> Result<(), Violation> {
    let (mut plain, mut asked, mut scaled, mut disturbed) = (make(), make(), make(), make());
    let mut seen: Vec<PhaseId> = Vec::new();
    for (window, counts) in windows(seed).into_iter().enumerate() {
        let at = At { seed, window };
        let refused = |error: Error| Violation {
            law: "valid signatures are accepted",
            seed,
            window,
            found: error.to_string(),
        };
        let signature = build(kind, counts.clone()).map_err(refused)?;
        let got = plain.classify(&signature).map_err(refused)?;

        let before = asked.nearest(&signature).map_err(refused)?;
        let again = asked.nearest(&signature).map_err(refused)?;
        at.must(before == again, "nearest changes nothing", || format!("{before:?}, then {again:?}"))?;
        let same = asked.classify(&signature).map_err(refused)?;
        at.must(same == got, "nearest changes nothing", || format!("{same:?} instead of {got:?}"))?;

        if kind == SignatureKind::Frequency {
            let larger = counts.iter().map(|count| count * 1000.0).collect();
            let same = scaled.classify(&build(kind, larger).map_err(refused)?).map_err(refused)?;
            at.must(same.phase == got.phase, "only shares count", || format!("{same:?}, not {got:?}"))?;
        }

        let misfits = [build(kind, vec![1.0; ENTRIES + 1]), build(other(kind), vec![1.0; ENTRIES])];
        for misfit in misfits.into_iter().flatten().filter(|_| window > 0) {
            let taken = disturbed.classify(&misfit);
            at.must(taken.is_err(), "a signature of another kind or length is refused", || {
                format!("{taken:?}")
            })?;
        }
        let same = disturbed.classify(&signature).map_err(refused)?;
        at.must(same == got, "a refused signature changes nothing", || format!("{same:?}, not {got:?}"))?;

        at.must(got.distance >= 0.0 && got.distance.is_finite(), "distances are finite", || {
            format!("{got:?}")
        })?;
        if got.founded {
            at.must(got.distance == 0.0, "a founder is its phase's centre", || format!("{got:?}"))?;
            at.must(!seen.contains(&got.phase), "numbers are not used twice", || format!("{got:?}"))?;
        }
        seen.push(got.phase);
        let nearest = plain.nearest(&signature).map_err(refused)?;
        at.must(nearest.is_some(), "after a window there is a nearest phase", || format!("{got:?}"))?;
    }
    Ok(())
}

/// Checks the predictors that `make` returns, all alike, on a seeded sequence of phases.
///
/// # Laws
/// Nothing is predicted before the first window. Equal predictors predict equally, as often as they are asked. Only
/// phases that were observed are predicted, with a confidence from 0 to 1. A phase that has lasted for 200 windows is
/// predicted to last.
///
/// # Errors
/// The first [`Violation`].
pub fn predictor<P: Predictor>(mut make: impl FnMut() -> P, seed: u64) -> Result<(), Violation> {
    let (mut one, mut two) = (make(), make());
    let start = At { seed, window: 0 };
    let early = one.predict();
    start.must(early.is_none(), "nothing is predicted before the first window", || format!("{early:?}"))?;
    let mut random = SplitMix64::new(seed);
    let mut seen: Vec<PhaseId> = Vec::new();
    let mut phase = PhaseId::new(0);
    for window in 0..2 * WINDOWS {
        let at = At { seed, window };
        if window < WINDOWS && random.unit() < 0.3 {
            phase = PhaseId::new((random.unit() * 5.0) as u32);
        }
        seen.push(phase);
        one.observe(phase);
        two.observe(phase);
        let (got, again, other) = (one.predict(), one.predict(), two.predict());
        at.must(got == again && got == other, "equal predictors predict equally", || {
            format!("{got:?}, {again:?} and {other:?}")
        })?;
        if let Some(prediction) = got {
            at.must(seen.contains(&prediction.phase), "only observed phases are predicted", || {
                format!("{prediction:?}")
            })?;
            at.must((0.0..=1.0).contains(&prediction.confidence), "a confidence is from 0 to 1", || {
                format!("{prediction:?}")
            })?;
        }
    }
    let last = one.predict().map(|prediction| prediction.phase);
    let at = At { seed, window: 2 * WINDOWS };
    at.must(last == Some(phase), "a lasting phase is predicted to last", || format!("{last:?}"))
}

/// Counts of windows from three mixes, with noise and some windows of no mix at all.
fn windows(seed: u64) -> Vec<Vec<f64>> {
    let mut random = SplitMix64::new(seed);
    let mut mix = || -> Vec<f64> { (0..ENTRIES).map(|_| 1.0 + (1000.0 * random.unit()).floor()).collect() };
    let mixes = [mix(), mix(), mix()];
    let mut window = |_| {
        if random.unit() < 0.05 {
            return (0..ENTRIES).map(|_| 1.0 + (1000.0 * random.unit()).floor()).collect();
        }
        let base = &mixes[(random.unit() * 3.0) as usize];
        base.iter().map(|count| count * (0.95 + 0.1 * random.unit())).collect()
    };
    (0..WINDOWS).map(&mut window).collect()
}

fn build(kind: SignatureKind, counts: Vec<f64>) -> Result<Signature, Error> {
    match kind {
        SignatureKind::Frequency => Signature::frequency(counts),
        SignatureKind::Raw => Signature::raw(counts),
    }
}

fn other(kind: SignatureKind) -> SignatureKind {
    match kind {
        SignatureKind::Frequency => SignatureKind::Raw,
        SignatureKind::Raw => SignatureKind::Frequency,
    }
}
