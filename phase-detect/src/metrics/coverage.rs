//! How many phases matter, and how long they last.

use std::collections::BTreeMap;

use super::{check_lengths, check_share};
use crate::Error;

/// The least number of phases that together hold at least `share` of the windows.
///
/// All phases would count the many short transitions between phases; 80 and 90 % are usual.
///
/// # Errors
/// [`Error::NoWindows`] without windows, [`Error::Parameter`] unless `share` is in 0..=1.
///
/// # References
/// Paper II, II.4.2, figure II.4.
pub fn phases_for_coverage<P: Ord>(labels: &[P], share: f64) -> Result<usize, Error> {
    check_lengths("labels", labels.len(), labels.len())?;
    check_share(share)?;
    let mut counts: BTreeMap<&P, usize> = BTreeMap::new();
    for label in labels {
        *counts.entry(label).or_default() += 1;
    }
    let mut sizes: Vec<usize> = counts.into_values().collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // 0.9 of 10 windows are 9, not the 9.000000000000001 that rounding may make of them
    let needed = share * labels.len() as f64 - 1e-9 * labels.len() as f64;
    let mut covered = 0;
    let mut phases = 0;
    for size in sizes {
        if covered as f64 >= needed {
            break;
        }
        covered += size;
        phases += 1;
    }
    Ok(phases)
}

/// Mean number of windows in a row that belong to the same phase.
///
/// # Errors
/// [`Error::NoWindows`] without windows.
///
/// # References
/// Sembrant, thesis 2012, 2.5.1, figure 2.2.
pub fn mean_run_length<P: Ord>(labels: &[P]) -> Result<f64, Error> {
    check_lengths("labels", labels.len(), labels.len())?;
    let changes = labels.windows(2).filter(|pair| pair[0] != pair[1]).count();
    Ok(labels.len() as f64 / (changes + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_largest_phases_first() {
        // 6, 3 and 1 of 10 windows
        let labels = [2, 0, 0, 0, 1, 0, 1, 0, 1, 0];
        for (share, phases) in [(0.0, 0), (0.5, 1), (0.6, 1), (0.61, 2), (0.9, 2), (0.91, 3), (1.0, 3)] {
            assert_eq!(phases_for_coverage(&labels, share).unwrap(), phases, "{share}");
        }
        assert!(phases_for_coverage(&labels, 1.1).is_err());
        assert!(phases_for_coverage::<u8>(&[], 0.9).is_err());
    }

    #[test]
    fn run_lengths() {
        assert_eq!(mean_run_length(&[1, 1, 1, 2, 2, 1]).unwrap(), 2.0);
        assert_eq!(mean_run_length(&[7]).unwrap(), 1.0);
        assert!(mean_run_length::<u8>(&[]).is_err());
    }
}
