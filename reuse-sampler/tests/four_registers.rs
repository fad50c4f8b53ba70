//! Four debug registers and more samples than they hold: which of the ways to give them up leaves the distribution of
//! reuse distances as it is.
//!
//! The streams and the policies are simulated here; profiles and the product-limit estimate are the library's. All
//! policies see the same accesses chosen. What a policy estimates is compared with the truth, by a closed form where
//! accesses are independent, by looking at every access where they are not, over independent streams.
//!
//! # Tolerance
//! The standard error of the mean over the streams is known from their spread. "Without bias" is within four of them,
//! which with 16 streams one comparison in some thousand exceeds by chance; seeds are fixed. None of them may exceed
//! 5 %, so that an estimate that is off by 20 % is found.
//!
//! # What came out
//! Giving up and reporting it is without bias where lines do not depend on each other. Where they do, the oldest came
//! out 14 % too small at the largest distance that it still reaches (a stack), where holding one of the four makes that 4 %;
//! a random one 5 % too small beyond 300 (phases), where holding one makes nothing worse; with data used once the oldest
//! 8 % too large at twice the longest distance, and 12 % with one that is held. Where everything is 50 gaps away, the
//! oldest and random ones see nothing, and of the samples of which one is held 0.5 % grow old enough. Reservoir replacement that reports nothing is far too small everywhere. Dropping new samples is without
//! bias as long as registers become free again, with errors more than twice as large; data that are used once
//! hold the registers for ever, and what comes later is never seen.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use reuse_sampler::{LineSize, Outcome, ReuseDistance, ReuseProfile};

const REGISTERS: usize = 4;
const MEAN_GAP: u64 = 300;
const ACCESSES: u64 = 1_500_000;
const STREAMS: u64 = 16;
const DISTANCES: [u64; 4] = [30, 300, 1_000, 3_000];

/// The xorshift64* generator: the same numbers everywhere.
struct Dice(u64);

impl Dice {
    /// Stream `n` of the numbers for `purpose`: similar seeds would give similar numbers at first.
    fn new(n: u64, purpose: u64) -> Self {
        let mut dice = Self((2 * n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose << 32);
        for _ in 0..32 {
            dice.next();
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// In [0, 1).
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.share() * n as f64) as usize
    }

    /// Accesses from one sample to the next, at least 1.
    fn gap(&mut self) -> u64 {
        1 + ((1.0 - self.share()).ln() / (1.0 - 1.0 / MEAN_GAP as f64).ln()) as u64
    }
}

/// What happens to a sample for which there is no register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    /// The oldest but for one that is held gives way, or that one with probability 1 / (n + 1) at the n-th time, and is
    /// reported as censored: what the backend does.
    Held,
    /// The oldest gives way and is reported as censored.
    Oldest,
    /// A random one gives way and is reported as censored: what it does on request.
    Random,
    /// The new one is not started.
    Drop,
    /// The k-th sample since a register was free is started with probability 4/k in the place of a random one, of
    /// which nothing is reported.
    Reservoir,
}

const POLICIES: [Policy; 5] = [Policy::Held, Policy::Oldest, Policy::Random, Policy::Drop, Policy::Reservoir];
const HELD: usize = 0;
const OLDEST: usize = 1;
const RANDOM: usize = 2;
const DROP: usize = 3;
const RESERVOIR: usize = 4;

struct Registers {
    policy: Policy,
    open: Vec<(u32, u64)>, // line and time, oldest first
    waiting: usize,        // samples since a register was free
    held: Option<u64>,     // when the sample that is held began
    challenges: usize,     // samples that gave way since it is held
    profile: ReuseProfile,
}

impl Registers {
    fn new(policy: Policy) -> Self {
        let profile = ReuseProfile::new(LineSize::B64);
        Self { policy, open: Vec::new(), waiting: 0, held: None, challenges: 0, profile }
    }

    fn touch(&mut self, line: u32, now: u64) {
        if let Some(slot) = self.open.iter().position(|open| open.0 == line) {
            let (_, at) = self.open.remove(slot);
            self.profile.record(Outcome::Reused(ReuseDistance(now - at - 1)), MEAN_GAP);
        }
    }

    fn but_for_one(&mut self, dice: &mut Dice) -> usize {
        let Some(held) = self.open.iter().position(|open| Some(open.1) == self.held) else {
            (self.held, self.challenges) = (Some(self.open[0].1), 0);
            return 1;
        };
        let oldest = usize::from(held == 0);
        self.challenges += 1;
        if dice.below(self.challenges + 1) > 0 {
            return oldest;
        }
        (self.held, self.challenges) = (Some(self.open[oldest].1), 0);
        held
    }

    fn sample(&mut self, line: u32, now: u64, dice: &mut Dice) {
        if self.open.len() == REGISTERS {
            self.waiting += 1;
            let gives_way = match self.policy {
                Policy::Held => self.but_for_one(dice),
                Policy::Oldest => 0,
                Policy::Random => dice.below(REGISTERS),
                Policy::Drop => return,
                Policy::Reservoir => {
                    let slot = dice.below(REGISTERS + self.waiting);
                    if slot >= REGISTERS {
                        return;
                    }
                    slot
                }
            };
            let (_, at) = self.open.remove(gives_way);
            if self.policy != Policy::Reservoir {
                self.profile.record(Outcome::Censored { at_least: now - at - 1 }, MEAN_GAP);
            }
        } else {
            self.waiting = 0;
        }
        self.open.push((line, now));
    }
}

/// What each policy estimates of P(D > d) on the stream that `line_at` gives.
fn observe(seed: u64, line_at: &mut dyn FnMut(u64) -> u32) -> Vec<[f64; DISTANCES.len()]> {
    let mut dice = Dice::new(seed, 5);
    let mut all: Vec<Registers> = POLICIES.into_iter().map(Registers::new).collect();
    let mut next = dice.gap();
    for now in 0..ACCESSES {
        let line = line_at(now);
        for registers in &mut all {
            registers.touch(line, now);
        }
        if now == next {
            next += dice.gap();
            for registers in &mut all {
                registers.sample(line, now, &mut dice);
            }
        }
    }
    // What is still open has been followed until here. These four are a thousandth of all.
    for registers in &mut all {
        for &(_, at) in &registers.open {
            registers.profile.record(Outcome::Censored { at_least: ACCESSES - at - 1 }, MEAN_GAP);
        }
    }
    all.iter().map(|registers| DISTANCES.map(|d| registers.profile.distribution().beyond(d))).collect()
}

/// Mean over the streams, relative to the truth, less 1; and its standard error.
fn errors(truth: &[[f64; 4]], estimates: &[Vec<[f64; 4]>], policy: usize) -> [(f64, f64); 4] {
    std::array::from_fn(|d| {
        let ratio = |(run, truth): (&Vec<[f64; 4]>, &[f64; 4])| run[policy][d] / truth[d] - 1.0;
        let all: Vec<f64> = estimates.iter().zip(truth).map(ratio).collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt())
    })
}

fn all_errors(truth: &[[f64; 4]], estimates: &[Vec<[f64; 4]>]) -> Vec<[(f64, f64); 4]> {
    let all: Vec<_> = (0..POLICIES.len()).map(|policy| errors(truth, estimates, policy)).collect();
    println!("P(D > d), d = {DISTANCES:?}: {:.5?}", truth[0]);
    for (policy, errors) in POLICIES.iter().zip(&all) {
        println!("{policy:?}: {errors:+.4?}");
    }
    all
}

const FAR: usize = 3; // in DISTANCES

fn assert_unbiased(policy: &str, errors: &[(f64, f64); 4]) {
    for (d, (error, deviation)) in DISTANCES.iter().zip(errors) {
        assert!(*deviation <= 0.05, "{policy} at {d}: too few samples to tell, {error} +- {deviation}");
        assert!(error.abs() <= 4.0 * deviation, "{policy} at {d}: {error} +- {deviation}");
    }
}

fn assert_reclaiming_is_unbiased(errors: &[[(f64, f64); 4]]) {
    assert_unbiased("held", &errors[HELD]);
    assert_unbiased("oldest", &errors[OLDEST]);
    assert_unbiased("random", &errors[RANDOM]);
}

fn assert_forgetting_is_biased(errors: &[[(f64, f64); 4]]) {
    let (error, deviation) = errors[RESERVOIR][FAR];
    assert!(error < -0.2 && error < -4.0 * deviation, "forgetting: {error} +- {deviation}");
}

/// Lines of three kinds, accessed independently: (lines, share of the accesses).
const KINDS: [(u32, f64); 3] = [(32, 0.90), (512, 0.07), (5_000, 0.03)];

fn independent(dice: &mut Dice) -> u32 {
    let mut share = dice.share();
    let mut first = 0;
    for (lines, part) in KINDS {
        if share < part {
            return first + (share / part * f64::from(lines)) as u32;
        }
        share -= part;
        first += lines;
    }
    first - 1
}

#[test]
fn independent_accesses() {
    // A line of probability q is left alone during d accesses, and the next, with probability (1 - q)^(d + 1).
    let exact = DISTANCES.map(|d| {
        KINDS.iter().map(|&(lines, part)| part * (1.0 - part / f64::from(lines)).powi(d as i32 + 1)).sum()
    });
    let truth = vec![exact; STREAMS as usize];
    let estimates: Vec<_> = (0..STREAMS)
        .map(|seed| {
            let mut dice = Dice::new(seed, 2);
            observe(seed, &mut |_| independent(&mut dice))
        })
        .collect();
    let errors = all_errors(&truth, &estimates);
    assert_reclaiming_is_unbiased(&errors);
    assert_forgetting_is_biased(&errors);
}

/// Two sweeps with the accesses to a few lines between them: distances of 2,399 and 31,999, and short ones.
fn sweeping(now: u64, dice: &mut Dice) -> u32 {
    match now % 64 {
        0 => 1_000 + (now / 64 % 500) as u32,
        at if at % 16 == 8 => 2_000 + (now / 16 % 150) as u32,
        _ => dice.below(64).min(dice.below(64)) as u32,
    }
}

/// P(D > d) over all accesses after which the stream is long enough to tell.
fn by_looking(lines: &[u32]) -> [f64; 4] {
    let told = lines.len() - *DISTANCES.last().unwrap() as usize - 1;
    let mut next = vec![u64::MAX; 1 + *lines.iter().max().unwrap() as usize];
    let mut beyond = [0.0; 4];
    for (now, &line) in lines.iter().enumerate().rev() {
        let distance = next[line as usize].saturating_sub(now as u64 + 1);
        next[line as usize] = now as u64;
        if now < told {
            for (count, d) in beyond.iter_mut().zip(DISTANCES) {
                *count += f64::from(u8::from(distance > d));
            }
        }
    }
    beyond.map(|count| count / told as f64)
}

/// The same few lines throughout, and in every fifth stretch of 20,000 accesses a sweep of distance 3,199 among them.
fn phased(now: u64, dice: &mut Dice) -> u32 {
    if now / 20_000 % 5 == 4 && now % 2 == 0 {
        return 1_000 + (now / 2 % 1_600) as u32;
    }
    dice.below(64) as u32
}

/// Back and forth over 1,600 lines, as a stack is used, with accesses to a few lines between.
fn back_and_forth(now: u64, dice: &mut Dice) -> u32 {
    if now % 2 == 1 {
        return dice.below(64) as u32;
    }
    let step = (now / 2 % 3_200) as u32;
    1_000 + step.min(3_199 - step)
}

fn errors_of(stream: fn(u64, &mut Dice) -> u32) -> Vec<[(f64, f64); 4]> {
    let (mut truth, mut estimates) = (Vec::new(), Vec::new());
    for seed in 0..STREAMS {
        let mut dice = Dice::new(seed, 2);
        let lines: Vec<u32> = (0..ACCESSES).map(|now| stream(now, &mut dice)).collect();
        truth.push(by_looking(&lines));
        estimates.push(observe(seed, &mut |now| lines[now as usize]));
    }
    all_errors(&truth, &estimates)
}

#[test]
fn sweeps() {
    let errors = errors_of(sweeping);
    assert_reclaiming_is_unbiased(&errors);
    assert_forgetting_is_biased(&errors);
}

#[test]
fn phases() {
    let errors = errors_of(phased);
    assert_unbiased("held", &errors[HELD]);
    assert_unbiased("oldest", &errors[OLDEST]);
    // A random one may be young, and in the stretches with the sweep, where samples give way, the young ones are not
    // like those elsewhere: -5 % here.
    let random = errors[RANDOM][FAR].0;
    assert!(random.abs() < 0.1, "random: {random}");
    assert_forgetting_is_biased(&errors);
    let (reclaiming, dropping) = (errors[HELD][FAR].1, errors[DROP][FAR].1);
    assert!(dropping > 1.5 * reclaiming, "{dropping} {reclaiming}");
}

#[test]
fn stack() {
    let errors = errors_of(back_and_forth);
    assert_unbiased("random", &errors[RANDOM]);
    // Few of the oldest reach 3,000, and those that do had lucky neighbours, which here are like them: -15 %.
    for (d, (error, _)) in DISTANCES.iter().zip(errors[OLDEST]) {
        assert!(error.abs() < if *d < 3_000 { 0.05 } else { 0.25 }, "oldest at {d}: {error}");
    }
    // With one that is held more of them do: -4 %.
    for (d, (error, _)) in DISTANCES.iter().zip(errors[HELD]) {
        assert!(error.abs() < if *d < 3_000 { 0.05 } else { 0.08 }, "held at {d}: {error}");
    }
    assert_forgetting_is_biased(&errors);
}

/// A sweep whose distance is 50 gaps, and no other accesses: only what is held is ever reused.
#[test]
fn all_far_away() {
    let lines = 50 * MEAN_GAP as u32;
    let estimates: Vec<_> = (0..STREAMS)
        .map(|seed| {
            let mut dice = Dice::new(seed, 5);
            let mut all = [Policy::Held, Policy::Oldest, Policy::Random].map(Registers::new);
            let mut next = dice.gap();
            for now in 0..2 * ACCESSES {
                let line = (now % u64::from(lines)) as u32;
                all.iter_mut().for_each(|registers| registers.touch(line, now));
                if now == next {
                    next += dice.gap();
                    all.iter_mut().for_each(|registers| registers.sample(line, now, &mut dice));
                }
            }
            all.map(|registers| {
                let distribution = registers.profile.distribution();
                [u64::from(lines) - 400, u64::from(lines) + 400].map(|d| distribution.beyond(d))
            })
        })
        .collect();
    for [held, oldest, random] in estimates {
        assert_eq!(held, [1.0, 0.0]);
        // Among the 10,000 random ones hardly any survives 50 others of four.
        assert!(oldest == [1.0, 1.0] && random[0] == 1.0, "{oldest:?} {random:?}");
    }
}

/// One access in 16 is to a line that is never touched again; a sweep of distance 1,599 begins after a third.
fn streaming(now: u64, dice: &mut Dice) -> u32 {
    match now {
        _ if now % 16 == 1 => 10_000 + (now / 16) as u32,
        _ if now > ACCESSES / 3 && now % 4 == 0 => 1_000 + (now / 4 % 400) as u32,
        _ => dice.below(64) as u32,
    }
}

#[test]
fn data_used_once() {
    let errors = errors_of(streaming);
    for policy in [HELD, OLDEST, RANDOM] {
        for (d, (error, deviation)) in DISTANCES.iter().zip(errors[policy]).take(FAR) {
            assert!(error.abs() <= 4.0 * deviation, "{policy} at {d}: {error} +- {deviation}");
        }
        // Before the sweep begins, fewer samples compete, so that more of those that are never reused grow this old.
        let far = errors[policy][FAR].0;
        assert!(far.abs() < 0.2, "{policy}: {far}");
    }
    let (error, deviation) = errors[DROP][2];
    assert!(error < -0.3 && error < -4.0 * deviation, "dropping: {error} +- {deviation}");
}
