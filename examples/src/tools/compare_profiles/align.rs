//! Which phase of one run is which of another: by the names of their code.

use reuse_sampler::file::ProfiledPhase;

/// Least share of their listed code that two phases have in common if they are the same.
const ALIKE: f64 = 0.3;

/// Pairs of indices into `before` and `after`; each phase is in one pair at most. Those with most of both runs'
/// instructions in common come first: of several phases with the same functions the large ones are matched.
pub(super) fn align(before: &[ProfiledPhase], after: &[ProfiledPhase]) -> Vec<(usize, usize)> {
    let (ours, theirs) = (weights(before), weights(after));
    let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
    for (i, one) in before.iter().enumerate() {
        for (j, other) in after.iter().enumerate() {
            let common = in_common(one, other);
            if common >= ALIKE {
                let share = (weight(one) / ours).min(weight(other) / theirs);
                candidates.push((share * common, i, j));
            }
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (_, i, j) in candidates {
        if pairs.iter().all(|&(k, l)| k != i && l != j) {
            pairs.push((i, j));
        }
    }
    pairs
}

/// How much of a run a phase is: instructions, or windows where none are counted.
pub(super) fn weight(phase: &ProfiledPhase) -> f64 {
    match phase.instructions {
        0 => phase.windows as f64,
        counted => counted as f64,
    }
}

pub(super) fn weights(phases: &[ProfiledPhase]) -> f64 {
    phases.iter().map(weight).sum::<f64>().max(1.0)
}

/// Share of the listed code that is of the same name: the sum of the smaller shares. A profile lists the hottest blocks
/// of a phase; of an interpreter or a compiler that may be a tenth of its instructions.
fn in_common(one: &ProfiledPhase, other: &ProfiledPhase) -> f64 {
    let (one, other) = (by_function(one), by_function(other));
    let shared = one.iter().map(|(name, share)| {
        let there = other.iter().find(|(known, _)| known == name);
        there.map_or(0.0, |(_, there)| share.min(*there))
    });
    let listed = |code: &[(&str, f64)]| code.iter().map(|(_, share)| share).sum::<f64>();
    shared.sum::<f64>() / listed(&one).max(listed(&other)).max(f64::MIN_POSITIVE)
}

/// Shares by function: offsets and lines within it change with every compilation.
fn by_function(phase: &ProfiledPhase) -> Vec<(&str, f64)> {
    let mut functions: Vec<(&str, f64)> = Vec::new();
    for (name, share) in &phase.code {
        let name = name.split("+0x").next().unwrap_or(name);
        let name = name.split(" (").next().unwrap_or(name);
        match functions.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += share,
            None => functions.push((name, *share)),
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use reuse_sampler::{LineSize, ReuseProfile};

    use super::*;

    fn phase(code: &[(&str, f64)]) -> ProfiledPhase {
        let mut phase = ProfiledPhase::new("", ReuseProfile::new(LineSize::B64));
        phase.windows = 1;
        phase.code = code.iter().map(|&(name, share)| (name.to_owned(), share)).collect();
        phase
    }

    #[test]
    fn phases_of_the_same_functions_are_the_same() {
        let before = [
            phase(&[("sort+0x10", 0.5), ("sort+0x30", 0.4)]),
            phase(&[("hash", 0.6), ("sort", 0.4)]),
            phase(&[("gone", 1.0)]),
        ];
        let after = [phase(&[("hash+0x8", 0.7), ("new", 0.2)]), phase(&[("sort+0x14", 0.8)])];
        assert_eq!(align(&before, &after), [(0, 1), (1, 0)]);
        assert_eq!(align(&before, &[]), []);
        // Of code that is spread widely, little is listed.
        let spread = [phase(&[("eval+0x10", 0.06), ("lookup", 0.05), ("eval+0x90", 0.04)])];
        let other =
            [phase(&[("collect", 0.09), ("lookup", 0.03)]), phase(&[("eval", 0.08), ("lookup", 0.06)])];
        assert_eq!((align(&spread, &spread), align(&spread, &other)), (vec![(0, 0)], vec![(0, 1)]));
        assert_eq!(align(&[phase(&[])], &[phase(&[])]), []);
        // Two phases of one function: by size.
        let of_size = |windows| {
            let mut phase = phase(&[("sort", 0.9)]);
            phase.windows = windows;
            phase
        };
        assert_eq!(align(&[of_size(9), of_size(1)], &[of_size(1), of_size(8)]), [(0, 1), (1, 0)]);
    }
}
