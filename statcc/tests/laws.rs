//! What must hold for any programs: laws on drawn profiles, with the model of LRU and that of random
//! replacement.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// quickcheck hands its cases over by value.
#![allow(clippy::needless_pass_by_value)]

use quickcheck::{Arbitrary, Gen, QuickCheck};
use reuse_sampler::{CacheLines, CacheModel, LineSize, Outcome, ReuseDistance, ReuseProfile};
use statcache::StatCache;
use statcc::{CoRun, LinearLatency, PrivateLevel, Program};
use statstack::StatStack;

/// A program with a handful of distances between 0 and a million.
#[derive(Clone, Debug)]
struct Drawn {
    samples: Vec<(u64, u64)>, // distance, weight
    dangling: u64,
    mix: f64,
}

impl Arbitrary for Drawn {
    fn arbitrary(g: &mut Gen) -> Self {
        let samples = (0..=u8::arbitrary(g) % 12)
            .map(|_| {
                let octave = u32::arbitrary(g) % 20;
                (u64::arbitrary(g) % (2 << octave), 1 + u64::arbitrary(g) % 1000)
            })
            .collect();
        let dangling = *g.choose(&[0, 1, 50, 1000]).unwrap();
        Self { samples, dangling, mix: *g.choose(&[0.1, 0.35, 1.0, 1.7]).unwrap() }
    }
}

impl Drawn {
    fn profile(&self) -> ReuseProfile {
        let mut profile = ReuseProfile::new(LineSize::B64);
        for &(distance, weight) in &self.samples {
            profile.record(Outcome::Reused(ReuseDistance(distance)), weight);
        }
        profile.record(Outcome::Dangling, self.dangling);
        profile
    }

    fn program(&self) -> Program {
        let l1 = PrivateLevel { hit_ratio: 0.0, latency: 1.0 };
        let cpi = LinearLatency::new(1.0, self.mix, &[l1], 10.0, 130.0).unwrap();
        Program::in_order(&self.profile(), self.mix, cpi).unwrap()
    }
}

fn corun(drawn: &[&Drawn]) -> CoRun {
    CoRun::new(drawn.iter().map(|d| d.program()).collect()).unwrap()
}

const SIZES: [u64; 4] = [16, 300, 4096, 1 << 17];

fn size(choice: u8) -> CacheLines {
    CacheLines(SIZES[usize::from(choice) % SIZES.len()])
}

#[test]
fn a_program_alone_gets_what_its_model_says() {
    fn alone(drawn: Drawn, choice: u8) -> bool {
        let size = size(choice);
        let solution = |stack: bool| {
            let corun = corun(&[&drawn]);
            if stack {
                corun.solve(size, StatStack::fit).unwrap()
            } else {
                corun.solve(size, StatCache::fit).unwrap()
            }
        };
        let stack = StatStack::fit(&drawn.profile()).unwrap().miss_ratio(size);
        let random = StatCache::fit(&drawn.profile()).unwrap().miss_ratio(size);
        // Weights are rounded to 2^-50 of the total. Near its double root StatCache's equation magnifies that.
        [(solution(true), stack, 1e-9), (solution(false), random, 1e-5)].iter().all(
            |(prediction, expected, tolerance)| {
                let share = prediction.programs()[0];
                let cpi = 1.0 + drawn.mix * (10.0 + 120.0 * expected);
                prediction.is_certain()
                    && (share.miss_ratio - expected).abs() <= *tolerance
                    && (share.cpi - cpi).abs() <= 200.0 * tolerance
                    && (share.misses_per_cycle * share.cpi - share.miss_ratio * drawn.mix).abs() < 1e-12
            },
        )
    }
    QuickCheck::new().tests(400).quickcheck(alone as fn(Drawn, u8) -> bool);
}

#[test]
fn what_was_counted_alone_is_where_predictions_start() {
    fn starts(a: Drawn, b: Drawn, choice: u8, counted: u8) -> bool {
        let size = size(choice);
        let counted = f64::from(counted) / 255.0;
        let alone = |program: Program| {
            CoRun::new(vec![program]).unwrap().solve(size, StatStack::fit).unwrap().programs()[0].miss_ratio
        };
        let told = |drawn: &Drawn, misses: f64| drawn.program().counted_alone(misses).unwrap();
        // Alone it is the answer; and told what the model says anyway, nothing changes beside others either.
        let same = [&a, &b].map(|drawn| told(drawn, alone(drawn.program())));
        let pair = corun(&[&a, &b]).solve(size, StatStack::fit).unwrap();
        let told_pair = CoRun::new(same.to_vec()).unwrap().solve(size, StatStack::fit).unwrap();
        let near = pair.programs().iter().zip(told_pair.programs());
        // The pace alone, from which solving starts, may differ in its last digits.
        let near = near.map(|(one, other)| (one.miss_ratio - other.miss_ratio).abs()).fold(0.0, f64::max);
        // Beside others it misses no less than was counted, to within the solver's resolution.
        let other = CoRun::new(vec![told(&a, counted), b.program()]).unwrap();
        let beside = other.solve(size, StatStack::fit).unwrap().programs()[0].miss_ratio;
        (alone(told(&a, counted)) - counted).abs() < 1e-9 && near < 1e-3 && beside > counted - 1e-2
    }
    QuickCheck::new().tests(300).quickcheck(starts as fn(Drawn, Drawn, u8, u8) -> bool);
}

#[test]
fn copies_of_a_program_share_equally() {
    fn equally(drawn: Drawn, copies: u8, choice: u8) -> bool {
        let copies = 2 + usize::from(copies % 4);
        let prediction = corun(&vec![&drawn; copies]).solve(size(choice), StatStack::fit).unwrap();
        let shares = prediction.programs();
        let equal = |a: &statcc::Share| {
            (a.cpi / shares[0].cpi - 1.0).abs() < 1e-3 && (a.lines - shares[0].lines).abs() <= 2.0
        };
        // Where a miss ratio jumps there may be no symmetric solution: all copies then have one outlook, which holds each.
        let within = |(a, outlook): (&statcc::Share, &statcc::Outlook)| {
            *outlook == prediction.outlook[0] && outlook.lowest_cpi <= a.cpi && a.cpi <= outlook.highest_cpi
        };
        shares.iter().all(equal) || shares.iter().zip(&prediction.outlook).all(within)
    }
    // Symmetric programs may have unsymmetric solutions; from empty caches they must reach the symmetric one.
    QuickCheck::new().tests(300).quickcheck(equally as fn(Drawn, u8, u8) -> bool);
}

#[test]
fn the_order_of_programs_does_not_matter() {
    fn invariant(a: Drawn, b: Drawn, c: Drawn, choice: u8) -> bool {
        let size = size(choice);
        let forth = corun(&[&a, &b, &c]).solve(size, StatStack::fit).unwrap();
        let back = corun(&[&c, &a, &b]).solve(size, StatStack::fit).unwrap();
        if !(forth.solution().converged && back.solution().converged) {
            return true;
        }
        let order = [1, 2, 0];
        // Both are within the solver's tolerance of a solution; cliffs magnify that.
        forth
            .programs()
            .iter()
            .zip(order)
            .all(|(share, k)| (share.cpi / back.programs()[k].cpi - 1.0).abs() < 1e-2 || !forth.is_certain())
    }
    QuickCheck::new().tests(200).quickcheck(invariant as fn(Drawn, Drawn, Drawn, u8) -> bool);
}

#[test]
fn company_never_lowers_a_miss_ratio() {
    fn never(programs: Vec<Drawn>, choice: u8) -> bool {
        let programs: Vec<&Drawn> = programs.iter().take(4).collect();
        if programs.is_empty() {
            return true;
        }
        let size = size(choice);
        let together = corun(&programs);
        let stack = together.solve(size, StatStack::fit).unwrap();
        let random = together.solve(size, StatCache::fit).unwrap();
        programs.iter().enumerate().all(|(k, drawn)| {
            let stack_alone = StatStack::fit(&drawn.profile()).unwrap().miss_ratio(size);
            let random_alone = StatCache::fit(&drawn.profile()).unwrap().miss_ratio(size);
            // Distances beyond 1,024 are kept within 0.4 %, so that a sample at the very edge may fall to
            // either side of it after stretching, which is at most the weight of that sample's bin.
            let edge = drawn.samples.iter().map(|s| s.1).max().unwrap() as f64
                / drawn.profile().total_weight() as f64;
            stack.solutions.iter().all(|s| s.programs[k].miss_ratio >= stack_alone - edge - 1e-9)
                && random.solutions.iter().all(|s| s.programs[k].miss_ratio >= random_alone - 5e-3)
        })
    }
    QuickCheck::new().tests(200).quickcheck(never as fn(Vec<Drawn>, u8) -> bool);
}

#[test]
fn shares_of_a_full_lru_cache_add_up_to_it() {
    fn add_up(programs: Vec<Drawn>, choice: u8) -> bool {
        let programs: Vec<&Drawn> = programs.iter().take(4).collect();
        let size = size(choice);
        if programs.is_empty() {
            return true;
        }
        let prediction = corun(&programs).solve(size, StatStack::fit).unwrap();
        prediction.solutions.iter().all(|solution| {
            let sum: f64 = solution.programs.iter().map(|s| s.lines).sum();
            // Rounding of stretched distances to bins of 0.8 %, and to whole distances and lines.
            sum <= size.0 as f64 * 1.01 + 2.0 * programs.len() as f64
        })
    }
    QuickCheck::new().tests(300).quickcheck(add_up as fn(Vec<Drawn>, u8) -> bool);
}

#[test]
fn an_error_that_all_cpi_models_share_does_nothing() {
    fn nothing(a: Drawn, b: Drawn, choice: u8) -> bool {
        let size = size(choice);
        let right = corun(&[&a, &b]);
        let wrong = right.clone().with_cpi_errors(&[1.7, 1.7]).unwrap();
        let (right, wrong) =
            (right.solve(size, StatStack::fit).unwrap(), wrong.solve(size, StatStack::fit).unwrap());
        right.programs().iter().zip(wrong.programs()).all(|(r, w)| (r.cpi / w.cpi - 1.0).abs() < 1e-3)
            || !right.is_certain()
    }
    QuickCheck::new().tests(200).quickcheck(nothing as fn(Drawn, Drawn, u8) -> bool);
}
