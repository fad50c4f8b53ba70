//! Phases with similar code, taken together for a table.

use std::collections::BTreeMap;

use super::{check_centres, check_share};
use crate::Error;

/// Takes phases with similar code together until at most `rows` families hold at least `share` of the run.
///
/// `phases` gives the weight of each phase, such as its windows; `centres` their mean signatures, all of one length. Two
/// families at a time become one: those that this brings the least away from their mean signatures, by Manhattan distance
/// and weight. So rare phases join what is most like them, and large ones that differ stay apart. Where `rows` of the
/// phases hold enough as they are, each is a family by itself. So is one without a centre, always.
///
/// Returns the families by weight, the largest first, and in each the phases in the same order; ties go to the smaller
/// phase.
///
/// This is for display: a compiler has a hundred phases, and none of them is wrong. Labels, predictions and curves stay
/// those of the phases. Cost: O(phases² x entries).
///
/// # Errors
/// [`Error::Parameter`] for a share outside 0..=1 or a weight that is negative or not finite, [`Error::Length`] for
/// centres of different lengths.
///
/// ```
/// use phase_detect::metrics::families;
///
/// let centres = [('a', vec![1.0, 0.0]), ('b', vec![0.9, 0.1]), ('c', vec![0.0, 1.0])].into();
/// let phases = [('a', 50.0), ('b', 20.0), ('c', 30.0)];
/// assert_eq!(families(&phases, &centres, 2, 0.8)?, [vec!['a'], vec!['c'], vec!['b']]);
/// assert_eq!(families(&phases, &centres, 2, 0.9)?, [vec!['a', 'b'], vec!['c']]);
/// # Ok::<(), phase_detect::Error>(())
/// ```
pub fn families<P: Clone + Ord>(
    phases: &[(P, f64)],
    centres: &BTreeMap<P, Vec<f64>>,
    rows: usize,
    share: f64,
) -> Result<Vec<Vec<P>>, Error> {
    check_share(share)?;
    check_centres(centres)?;
    if let Some(&(_, value)) = phases.iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) {
        return Err(Error::Parameter { name: "weight", value, limit: "it is at least 0" });
    }
    let mut families = singles(phases, centres);
    let all: f64 = families.iter().map(|family| family.weight).sum();
    for at in 0..families.len() {
        families[at].nearest = nearest(&families, at);
    }
    // The families are in order: the rows are the first ones.
    while families.iter().take(rows).map(|family| family.weight).sum::<f64>() < (share - 1e-9) * all {
        let cost = |at: &usize| families[*at].nearest.map_or(f64::INFINITY, |(cost, _)| cost);
        let pair = (0..families.len()).min_by(|a, b| cost(a).total_cmp(&cost(b)));
        let Some((at, (_, other))) = pair.and_then(|at| Some((at, families[at].nearest?))) else { break };
        merge(&mut families, at.min(other), at.max(other));
    }
    let names = |family: Family<'_, P>| family.phases.into_iter().cloned().collect();
    Ok(families.into_iter().map(names).collect())
}

struct Family<'a, P> {
    phases: Vec<&'a P>,
    weight: f64,
    centre: Option<Vec<f64>>,
    nearest: Option<(f64, usize)>, // what joining costs least, and with which family
}

/// Each phase by itself, the largest first.
fn singles<'a, P: Ord>(phases: &'a [(P, f64)], centres: &BTreeMap<P, Vec<f64>>) -> Vec<Family<'a, P>> {
    let mut phases: Vec<&(P, f64)> = phases.iter().collect();
    phases.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let single = |(phase, weight): &'a (P, f64)| Family {
        phases: vec![phase],
        weight: *weight,
        centre: centres.get(phase).cloned(),
        nearest: None,
    };
    phases.into_iter().map(single).collect()
}

/// What joining two families costs: how far their windows would be from the mean of both, but for what they are now.
fn cost<P>(a: &Family<'_, P>, b: &Family<'_, P>) -> Option<f64> {
    let (own, other) = (a.centre.as_ref()?, b.centre.as_ref()?);
    let distance: f64 = own.iter().zip(other).map(|(own, other)| (own - other).abs()).sum();
    let both = a.weight + b.weight;
    Some(if both > 0.0 { distance * a.weight * b.weight / both } else { 0.0 })
}

fn nearest<P>(families: &[Family<'_, P>], at: usize) -> Option<(f64, usize)> {
    let others = (0..families.len()).filter(|&other| other != at);
    let costs = others.filter_map(|other| Some((cost(&families[at], &families[other])?, other)));
    costs.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Makes one family of two, and puts it where it belongs among the others.
fn merge<P: Ord>(families: &mut Vec<Family<'_, P>>, first: usize, second: usize) {
    let joining = families.remove(second);
    let mut family = families.remove(first);
    let both = family.weight + joining.weight;
    if let (Some(own), Some(other)) = (&mut family.centre, &joining.centre) {
        let part = if both > 0.0 { joining.weight / both } else { 0.5 };
        for (own, other) in own.iter_mut().zip(other) {
            *own += part * (other - *own);
        }
    }
    family.weight = both;
    family.phases.extend(joining.phases);
    let to = families.partition_point(|other| other.weight >= both);
    families.insert(to, family);
    for at in 0..families.len() {
        let near = families[at].nearest.filter(|_| at != to);
        let moved = near.filter(|&(_, other)| other != first && other != second).map(|(least, other)| {
            let other = other - usize::from(other > first) - usize::from(other > second);
            let other = other + usize::from(other >= to);
            let joined = cost(&families[at], &families[to]).map(|cost| (cost, to));
            joined.filter(|joined| joined.0 < least).unwrap_or((least, other))
        });
        families[at].nearest = moved.or_else(|| nearest(families, at));
    }
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    /// Without anything remembered from one step to the next.
    fn simply(
        phases: &[(u8, f64)],
        centres: &BTreeMap<u8, Vec<f64>>,
        rows: usize,
        share: f64,
    ) -> Vec<Vec<u8>> {
        let mut families = singles(phases, centres);
        let all: f64 = phases.iter().map(|(_, weight)| weight).sum();
        while families.iter().take(rows).map(|f| f.weight).sum::<f64>() < (share - 1e-9) * all {
            let pairs = (0..families.len()).flat_map(|a| (0..a).map(move |b| (b, a)));
            let costs = pairs.filter_map(|(a, b)| Some((cost(&families[a], &families[b])?, a, b)));
            let Some((_, a, b)) = costs.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            merge(&mut families, a, b);
        }
        families.into_iter().map(|family| family.phases.into_iter().copied().collect()).collect()
    }

    quickcheck! {
        fn what_is_remembered_changes_nothing(given: Vec<(u8, u8, u8, u8)>, rows: u8, share: u8) -> bool {
            // distinct costs, so that no tie is decided by the order of looking
            let mut number = 0.0;
            let mut odd = || { number += 1.0; 1.0 / (7.0 + number) };
            let centres: BTreeMap<u8, Vec<f64>> = given
                .iter()
                .take(24)
                .map(|&(phase, a, b, _)| (phase, vec![f64::from(a) + odd(), f64::from(b) + odd()]))
                .collect();
            let weights: BTreeMap<u8, f64> =
                given.iter().take(24).map(|&(phase, .., w)| (phase, f64::from(w) + 1.0 + odd())).collect();
            let phases: Vec<(u8, f64)> = weights.into_iter().collect();
            let (rows, share) = (1 + usize::from(rows % 5), f64::from(share) / 255.0);
            let found = families(&phases, &centres, rows, share).unwrap();
            let held: f64 = found.iter().take(rows).flatten().map(|p| phases.iter().find(|q| q.0 == *p).unwrap().1).sum();
            let all: f64 = phases.iter().map(|phase| phase.1).sum();
            let mut every: Vec<u8> = found.iter().flatten().copied().collect();
            every.sort_unstable();
            held >= (share - 1e-6) * all
                && every == phases.iter().map(|phase| phase.0).collect::<Vec<_>>()
                && found == simply(&phases, &centres, rows, share)
        }
    }

    #[test]
    fn phases_without_a_centre_stay_alone() {
        let centres = [('a', vec![1.0]), ('b', vec![1.0])].into();
        let phases = [('a', 1.0), ('b', 1.0), ('x', 1.0), ('y', 1.0)];
        assert_eq!(families(&phases, &centres, 1, 1.0).unwrap(), [vec!['a', 'b'], vec!['x'], vec!['y']]);
    }

    #[test]
    fn bad_input_is_refused() {
        let centres = [('a', vec![1.0]), ('b', vec![1.0])].into();
        for (weight, share) in [(1.0, 1.5), (1.0, f64::NAN), (-1.0, 0.5), (f64::NAN, 0.5)] {
            let refused = families(&[('a', weight)], &centres, 1, share);
            assert!(matches!(refused, Err(Error::Parameter { .. })), "{weight} {share}");
        }
        let uneven = [('a', vec![1.0]), ('b', vec![0.5, 0.5])].into();
        assert!(matches!(
            families(&[('a', 1.0)], &uneven, 1, 0.5),
            Err(Error::Length { expected: 1, got: 2 })
        ));
        assert_eq!(families::<u8>(&[], &BTreeMap::new(), 1, 0.5).unwrap(), Vec::<Vec<u8>>::new());
    }
}
