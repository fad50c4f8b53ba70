//! The code of a phase.

/// How much was executed in each block, over all windows that were added: what
/// [`distinct_code`](super::distinct_code) asks of each phase.
///
/// Adding costs a small part of what a map takes where windows have their blocks in order, as those of samplers mostly
/// have. At most three times as many blocks are held as there are, or 4,096 more.
///
/// ```
/// use phase_detect::metrics::CodeTotals;
///
/// let mut code = CodeTotals::default();
/// code.extend([(0x40_1000, 700.0), (0x40_2000, 200.0)]); // the first window's blocks, and instructions in each
/// code.extend([(0x40_1000, 100.0)]);
/// assert_eq!(code.blocks(), [(0x40_1000, 800.0), (0x40_2000, 200.0)]);
/// assert_eq!(code.hottest(), Some((0x40_1000, 0.8)));
/// ```
#[derive(Clone, Debug)]
pub struct CodeTotals<B> {
    blocks: Vec<(B, f64)>,
    settled: usize, // from there on blocks are in no order, and as often as they were added
}

const UNSETTLED: usize = 4096;

impl<B> Default for CodeTotals<B> {
    fn default() -> Self {
        Self { blocks: Vec::new(), settled: 0 }
    }
}

impl<B: Clone + Ord> CodeTotals<B> {
    /// The blocks in order, with what was executed in each.
    pub fn blocks(&self) -> Vec<(B, f64)> {
        let mut all = self.clone();
        all.settle();
        all.blocks
    }

    /// The block in which most was executed, the first of several, with its share of all, from 0 to 1.
    pub fn hottest(&self) -> Option<(B, f64)> {
        let blocks = self.blocks();
        let all: f64 = blocks.iter().map(|(_, weight)| weight).sum();
        let (block, most) =
            blocks.into_iter().reduce(|most, next| if next.1 > most.1 { next } else { most })?;
        (all > 0.0).then(|| (block, most / all))
    }

    fn settle(&mut self) {
        // A stable sort takes sequences that are in order as they are, and weights are added in the order they came.
        self.blocks.sort_by(|a, b| a.0.cmp(&b.0));
        self.blocks.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.settled = self.blocks.len();
    }
}

impl<B: Clone + Ord> Extend<(B, f64)> for CodeTotals<B> {
    fn extend<I: IntoIterator<Item = (B, f64)>>(&mut self, blocks: I) {
        self.blocks.extend(blocks);
        if self.blocks.len() > self.settled + self.settled.max(UNSETTLED / 2) * 2 {
            self.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    #[test]
    fn totals_are_those_of_a_map_and_take_little_more_room() {
        fn law(windows: Vec<Vec<(u8, u16)>>, times: u8) -> bool {
            let (mut code, mut map) = (CodeTotals::default(), BTreeMap::new());
            for window in std::iter::repeat_n(&windows, times.into()).flatten() {
                let window = window.iter().map(|&(block, weight)| (block, f64::from(weight) / 3.0));
                for (block, weight) in window.clone() {
                    *map.entry(block).or_default() += weight;
                }
                code.extend(window);
                assert!(code.blocks.len() <= (3 * map.len()).max(UNSETTLED + map.len()));
            }
            code.blocks() == map.into_iter().collect::<Vec<_>>()
        }
        quickcheck(law as fn(Vec<Vec<(u8, u16)>>, u8) -> bool);
    }
}
