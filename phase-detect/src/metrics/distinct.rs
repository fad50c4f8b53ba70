//! The code that sets a phase apart.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::Hash;

/// A block of code, and how much more of a phase it is than of the rest of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DistinctCode<B> {
    /// The block.
    pub block: B,
    /// Its share of the phase's instructions, from 0 to 1.
    pub share: f64,
    /// Its share of the instructions of all other phases together, from 0 to 1; 0 if there are none.
    pub elsewhere: f64,
}

/// The blocks whose share of a phase exceeds their share of the rest of the run by most, at most `most` of them per phase,
/// the largest difference first. Ties go to the smaller block.
///
/// `phases` gives the weight of each block in each phase, such as instructions executed. The hottest block of the whole
/// run is often the hottest of every phase; the distinct blocks differ from phase to phase. In a run of one phase they
/// are the hottest.
///
/// ```
/// use phase_detect::metrics::distinct_code;
///
/// // both phases spend most time in `memcpy`
/// let phases = [
///     ("parse", vec![("memcpy", 70.0), ("next_token", 30.0)]),
///     ("write", vec![("memcpy", 75.0), ("deflate", 25.0)]),
/// ];
/// let distinct = distinct_code(&phases, 1);
/// assert_eq!(distinct["parse"][0].block, "next_token");
/// assert_eq!(distinct["write"][0].block, "deflate");
/// assert_eq!(distinct["write"][0].share, 0.25);
/// ```
pub fn distinct_code<P, B>(phases: &[(P, Vec<(B, f64)>)], most: usize) -> BTreeMap<P, Vec<DistinctCode<B>>>
where
    P: Clone + Ord,
    B: Clone + Ord + Hash,
{
    let weight = |blocks: &[(B, f64)]| blocks.iter().map(|&(_, weight)| weight).sum::<f64>();
    let mut overall: HashMap<&B, f64> = HashMap::new();
    for (block, weight) in phases.iter().flat_map(|(_, blocks)| blocks) {
        *overall.entry(block).or_default() += *weight;
    }
    let all: f64 = phases.iter().map(|(_, blocks)| weight(blocks)).sum();
    let share = |part: f64, of: f64| if of > 0.0 { (part / of).clamp(0.0, 1.0) } else { 0.0 };
    let of_phase = |blocks: &[(B, f64)]| {
        let own = weight(blocks);
        let mut blocks: Vec<DistinctCode<B>> = blocks
            .iter()
            .map(|(block, weight)| DistinctCode {
                block: block.clone(),
                share: share(*weight, own),
                elsewhere: share(overall[block] - weight, all - own),
            })
            .collect();
        let more = |code: &DistinctCode<B>| code.share - code.elsewhere;
        blocks.sort_unstable_by(|a, b| more(b).total_cmp(&more(a)).then(a.block.cmp(&b.block)));
        blocks.truncate(most);
        blocks
    };
    phases.iter().map(|(phase, blocks)| (phase.clone(), of_phase(blocks))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_phase_is_distinguished_by_its_hottest_code() {
        let found = distinct_code(&[(0, vec![(7, 1.0), (8, 3.0)])], 2);
        let expected =
            [(8, 0.75), (7, 0.25)].map(|(block, share)| DistinctCode { block, share, elsewhere: 0.0 });
        assert_eq!(found[&0], expected);
    }

    #[test]
    fn a_phase_without_code_has_none() {
        let found = distinct_code::<u8, u64>(&[(0, vec![]), (1, vec![(9, 2.0)])], 3);
        assert_eq!(found[&0], []);
        assert_eq!((found[&1][0].share, found[&1][0].elsewhere), (1.0, 0.0));
    }
}
