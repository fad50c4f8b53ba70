//! What a thread did lately, as the keys of a table.

use crate::rng::mix;

/// Pasts of one window, the shortest first.
pub(super) const CONTEXTS: usize = 5;

/// Windows in a row of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Run {
    phase: u32,
    length: u32, // 0: no run
}

/// The run under way and the two before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Past {
    runs: [Run; 3],
}

impl Past {
    /// The phase of the last window.
    pub(super) fn phase(&self) -> Option<u32> {
        (self.runs[0].length > 0).then_some(self.runs[0].phase)
    }

    /// Whether the keys are others now.
    pub(super) fn advance(&mut self, phase: u32) -> bool {
        if self.phase() == Some(phase) {
            let length = &mut self.runs[0].length;
            let before = rounded(*length);
            *length = length.saturating_add(1);
            rounded(*length) != before
        } else {
            self.runs = [Run { phase, length: 1 }, self.runs[0], self.runs[1]];
            true
        }
    }

    /// Keys of: the phase; its run's length; the phase before; the one before that; those two runs' lengths. Never 0.
    pub(super) fn tags(&self) -> [u64; CONTEXTS] {
        let [now, before, earlier] = self.runs;
        let name = |run: Run| if run.length == 0 { u64::from(u32::MAX) + 1 } else { u64::from(run.phase) };
        let lengths = u64::from(rounded(before.length)) << 32 | u64::from(rounded(earlier.length));
        let mut tag = 0;
        [name(now), u64::from(rounded(now.length)), name(before), name(earlier), lengths].map(|part| {
            tag = mix(tag ^ mix(part.wrapping_add(0x9e37_79b9_7f4a_7c15)));
            tag | 1
        })
    }
}

/// A length: exact to 16, then to within an eighth.
fn rounded(length: u32) -> u32 {
    let shift = (length | 15).ilog2() - 3;
    if length <= 16 { length } else { length >> shift << shift }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_down_by_at_most_an_eighth() {
        for length in (0..3000).chain([u32::MAX - 1, u32::MAX]) {
            let near = rounded(length);
            assert!(near <= length && (length - near) * 8 <= length, "{length}: {near}");
            assert!(length > 16 || near == length, "{length}: {near}");
        }
    }

    /// Two pasts that differ in one part have different keys from that part's on, and equal ones before it.
    #[test]
    fn longer_keys_see_more() {
        let past = |phases: &[u32]| {
            let mut past = Past::default();
            for &phase in phases {
                past.advance(phase);
            }
            past.tags()
        };
        let plain = past(&[1, 1, 2, 2, 3]);
        for (other, from) in [
            (&[1, 1, 2, 2, 4][..], 0),
            (&[1, 1, 2, 2, 3, 3], 1),
            (&[1, 1, 5, 5, 3], 2),
            (&[5, 5, 2, 2, 3], 3),
            (&[2, 2, 3], 3),
            (&[1, 1, 2, 2, 2, 3], 4),
            (&[1, 2, 2, 3], 4),
        ] {
            let other = past(other);
            assert_eq!((0..CONTEXTS).position(|key| plain[key] != other[key]), Some(from), "{other:?}");
        }
    }
}
