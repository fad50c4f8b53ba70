//! Work to calibrate with, from computing to waiting for memory: each kernel works one part of a core and little else.
//!
//! Each unit of a kernel is as much work as the one before, some hundred thousand to a million instructions, and goes on
//! where that ended in its table. Tables fit the first, second or last level of cache, or none.

use std::hint::black_box;

/// Work of one kind.
#[derive(Clone, Debug)]
pub struct Kernel {
    name: String,
    kind: Kind,
    words: Vec<u64>,
    at: usize, // in the table
    state: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Integers,
    Chain,
    Floats,
    Divisions,
    Branches,
    Read,
    Write,
    Copy,
    Chase,
    Gather,
}

/// Steps of a unit.
const STEPS: usize = 200_000;
/// Tables in bytes, with a name.
const SIZES: [(usize, &str); 4] =
    [(16 << 10, "16 KiB"), (192 << 10, "192 KiB"), (4 << 20, "4 MiB"), (128 << 20, "128 MiB")];

/// All kernels: five that compute, and five that access memory in four sizes each. Together their tables take some
/// 700 MiB; make them one after the other, by their number.
#[must_use]
pub fn all() -> Vec<fn() -> Kernel> {
    macro_rules! of_sizes {
        ($($kind:ident),*) => {
            vec![
                || Kernel::new("integers", Kind::Integers, 0),
                || Kernel::new("chain", Kind::Chain, 0),
                || Kernel::new("floats", Kind::Floats, 0),
                || Kernel::new("divisions", Kind::Divisions, 0),
                || Kernel::new("branches", Kind::Branches, 0),
                $(
                    || Kernel::sized(Kind::$kind, 0), || Kernel::sized(Kind::$kind, 1),
                    || Kernel::sized(Kind::$kind, 2), || Kernel::sized(Kind::$kind, 3),
                )*
            ]
        };
    }
    of_sizes!(Read, Write, Copy, Chase, Gather)
}

impl Kernel {
    fn sized(kind: Kind, size: usize) -> Self {
        let (bytes, name) = SIZES[size];
        Self::new(&format!("{kind:?} {name}").to_lowercase(), kind, bytes / 8)
    }

    fn new(name: &str, kind: Kind, words: usize) -> Self {
        let words = match kind {
            Kind::Chase => one_cycle(words),
            _ => (0..words as u64).collect(),
        };
        Self { name: name.to_owned(), kind, words, at: 0, state: 1 }
    }

    /// What it does.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one unit.
    pub fn run(&mut self) {
        let Self { words, at, state, .. } = self;
        match self.kind {
            Kind::Integers => {
                let mut sums = [1_u64, 2, 3, 4];
                for step in 0..STEPS as u64 {
                    sums =
                        [sums[0] ^ step, sums[1].wrapping_add(step), sums[2] | step, sums[3] ^ (step << 1)];
                    black_box(&mut sums);
                }
            }
            Kind::Chain => {
                for _ in 0..STEPS {
                    *state = black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
                }
            }
            Kind::Floats => {
                let mut sums = [1.0_f64; 8];
                for step in 0..STEPS {
                    let factor = 1.0 + 1e-9 * step as f64;
                    for sum in &mut sums {
                        *sum = *sum * factor + 1e-9;
                    }
                }
                black_box(sums);
            }
            Kind::Divisions => {
                let mut value = 1e300_f64;
                for step in 1..=STEPS / 8 {
                    value = black_box(value / (1.0 + 1.0 / step as f64)).sqrt() + 1.0;
                }
            }
            Kind::Branches => {
                let mut counts = [0_u64; 2];
                for _ in 0..STEPS {
                    if draw(state) & 1 == 0 {
                        counts[0] = black_box(counts[0] + 1);
                    } else {
                        counts[1] = black_box(counts[1] ^ 5);
                    }
                }
            }
            Kind::Read => {
                for part in parts(at, words.len()) {
                    black_box(words[part].iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
                }
            }
            Kind::Write => {
                for part in parts(at, words.len()) {
                    words[part].fill(black_box(7));
                }
            }
            Kind::Copy => {
                let half = words.len() / 2;
                let (from, to) = words.split_at_mut(half);
                for part in parts(at, half) {
                    to[part.clone()].copy_from_slice(&from[part]);
                    black_box(&mut *to);
                }
            }
            Kind::Chase => {
                for _ in 0..STEPS / 8 {
                    *at = words[*at] as usize;
                }
                black_box(at);
            }
            Kind::Gather => {
                let mut sum = 0_u64;
                for _ in 0..STEPS / 4 {
                    sum = sum.wrapping_add(words[draw(state) as usize % words.len()]);
                }
                black_box(sum);
            }
        }
    }
}

/// Marsaglia's xorshift, whose bits no branch predictor guesses.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Consecutive parts of a table of `length` words from `at` on, a fixed number of words together, around its end.
fn parts(at: &mut usize, length: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let part = length.min(STEPS);
    (0..4 * STEPS / part).map(move |_| {
        let begin = if *at + part > length { 0 } else { *at };
        *at = begin + part;
        begin..*at
    })
}

/// A permutation that is one cycle through all words: Sattolo's.
fn one_cycle(words: usize) -> Vec<u64> {
    let mut next: Vec<u64> = (0..words as u64).collect();
    let mut state = 0x9e37_79b9_u64;
    for last in (1..words).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        next.swap(last, ((state >> 33) % last as u64) as usize);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_visits_every_word_and_a_walk_goes_around() {
        let next = one_cycle(1000);
        let (mut at, mut seen) = (0, vec![false; next.len()]);
        for _ in 0..next.len() {
            at = next[at] as usize;
            assert!(!std::mem::replace(&mut seen[at], true));
        }
        let (mut at, length) = (0, 3 * STEPS);
        let first: Vec<_> = parts(&mut at, length).collect();
        assert_eq!(first, [0..STEPS, STEPS..2 * STEPS, 2 * STEPS..3 * STEPS, 0..STEPS]);
        assert_eq!(parts(&mut at, length).next(), Some(STEPS..2 * STEPS));
    }

    #[test]
    fn each_kernel_has_a_name_of_its_own_and_runs() {
        let mut names = std::collections::BTreeSet::new();
        for make in all() {
            let mut kernel = make();
            kernel.run();
            kernel.run();
            assert!(names.insert(kernel.name().to_owned()), "{}", kernel.name());
        }
        assert_eq!(names.len(), 25);
    }
}
