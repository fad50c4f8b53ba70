//! What prediction by partial matching foresees of real and of made-up programs, and how sure it is.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // as quickcheck calls properties

#[path = "support/random.rs"]
mod random;

use std::collections::HashMap;

use phase_detect::metrics::{PredictionScore, score_predictor};
use phase_detect::{Error, LastValue, PhaseId, Ppm, Predictor, RunLengthMarkov};
use random::Random;

/// Programs that no constant of the predictor was chosen on.
const HELD_OUT: [&str; 5] = ["cc1", "bzip2", "python3", "sqlite3", "sort"];

fn programs() -> Vec<(&'static str, Vec<PhaseId>)> {
    let mut programs: Vec<(&str, Vec<PhaseId>)> = Vec::new();
    for line in include_str!("phases_of_programs.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_suffix(':') {
            programs.push((name, Vec::new()));
            continue;
        }
        for run in line.split(' ') {
            let (phase, windows) = run.split_once('*').unwrap_or((run, "1"));
            let phase = PhaseId::new(phase.parse().unwrap());
            let phases = &mut programs.last_mut().unwrap().1;
            phases.extend(std::iter::repeat_n(phase, windows.parse().unwrap()));
        }
    }
    programs
}

fn score(predictor: &mut impl Predictor, phases: &[PhaseId]) -> PredictionScore {
    score_predictor(predictor, phases.iter().copied())
}

/// Share of all changes that were foreseen.
fn foreseen(scores: &[PredictionScore]) -> f64 {
    let of = |count: fn(&PredictionScore) -> u64| scores.iter().map(count).sum::<u64>() as f64;
    of(|score| score.right_changes) / of(|score| score.changes)
}

#[test]
fn a_quarter_of_the_changes_of_real_programs() {
    let (mut ppm, mut runs) = (Vec::new(), Vec::new());
    for (name, phases) in programs() {
        let got = score(&mut Ppm::default(), &phases);
        let last = score(&mut LastValue::new(), &phases);
        let (got_right, last_right) = (got.accuracy().unwrap(), last.accuracy().unwrap());
        assert!(got_right >= last_right - 0.01, "{name}: {got_right} against {last_right} of the last value");
        if HELD_OUT.contains(&name) {
            ppm.push(got);
            runs.push(score(&mut RunLengthMarkov::default(), &phases));
        }
    }
    let (ppm, runs) = (foreseen(&ppm), foreseen(&runs));
    assert!(ppm >= 0.25, "{ppm}");
    assert!(ppm >= 2.0 * runs, "{ppm} against {runs} by run lengths");
}

/// Of predictions that are 60 to 70 % sure, 60 to 70 % come true; so in every tenth.
#[test]
fn its_confidence_is_the_share_that_comes_true() {
    let mut tenths = [(0.0, 0.0, 0.0); 10]; // predictions, their confidence, those that came true
    for (_, phases) in programs().into_iter().filter(|program| HELD_OUT.contains(&program.0)) {
        let mut next = Ppm::default();
        for phase in phases {
            if let Some(prediction) = next.predict() {
                let tenth = &mut tenths[((prediction.confidence * 10.0) as usize).min(9)];
                tenth.0 += 1.0;
                tenth.1 += prediction.confidence;
                tenth.2 += f64::from(u8::from(prediction.phase == phase));
            }
            next.observe(phase);
        }
    }
    for (count, confidence, right) in tenths.into_iter().filter(|tenth| tenth.0 >= 100.0) {
        let (confidence, right) = (confidence / count, right / count);
        assert!((confidence - right).abs() <= 0.05, "{confidence:.3} sure, {right:.3} right, {count} times");
    }
}

/// A range given for nine in ten holds nine in ten.
#[test]
fn changes_come_within_the_windows_given() {
    let (mut within, mut all) = (0, 0);
    for (_, phases) in programs().into_iter().filter(|program| HELD_OUT.contains(&program.0)) {
        let mut next = Ppm::default();
        for at in 0..phases.len() {
            let left = phases[at..].iter().position(|phase| *phase != phases[at.saturating_sub(1)]);
            if let Some(left) = left.filter(|_| at > 0 && at % 16 == 0) {
                all += 1;
                within +=
                    usize::from(next.windows_to_change(0.9).is_none_or(|windows| left < windows as usize));
            }
            next.observe(phases[at]);
        }
    }
    let share = within as f64 / all as f64;
    assert!(share >= 0.88, "{share} of {all}");
}

/// What repeats is foreseen from its second or third round on; with runs a window longer or shorter at random, much of it.
#[test]
fn what_repeats_is_foreseen() {
    let round = [(0, 3), (1, 7), (2, 1), (0, 5), (3, 4), (1, 2)];
    for (noise, least) in [(0, 0.9), (1, 0.5)] {
        let (mut random, mut phases) = (Random(1), Vec::new());
        for _ in 0..40 {
            for (phase, windows) in round {
                let change = [-1, 0, 0, 0, 1][random.below(5)] * noise;
                phases.extend((0..(windows + change).max(1)).map(|_| PhaseId::new(phase)));
            }
        }
        let got = score(&mut Ppm::default(), &phases).change_accuracy().unwrap();
        assert!(got >= least, "noise {noise}: {got}");
    }
}

/// Of random phases nothing can be foreseen, and little is lost by trying.
#[test]
fn chance_is_not_mistaken_for_order() {
    for seed in 1..=20_u64 {
        let mut random = Random(seed);
        let stays = 1 + seed as usize % 13;
        let mut phase = 0;
        let phases: Vec<PhaseId> = (0..5000)
            .map(|_| {
                if random.below(stays) == 0 {
                    phase = random.below(6) as u32;
                }
                PhaseId::new(phase)
            })
            .collect();
        let right = |score: PredictionScore| score.accuracy().unwrap();
        let (got, last) =
            (right(score(&mut Ppm::default(), &phases)), right(score(&mut LastValue::new(), &phases)));
        assert!(got >= last - 0.01, "seed {seed}: {got} against {last}");
    }
}

/// The formulas over maps that forget nothing, keyed by the pasts themselves.
#[derive(Default)]
struct Naive {
    seen: Vec<u32>,
    table: HashMap<Vec<u32>, Vec<u32>>, // what followed
}

impl Naive {
    fn runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &phase in &self.seen {
            match runs.last_mut().filter(|run| run.0 == phase) {
                Some(run) => run.1 += 1,
                None => runs.push((phase, 1)),
            }
        }
        runs.reverse();
        runs.resize(runs.len().max(3), (99, 0));
        runs
    }

    fn pasts(&self) -> [Vec<u32>; 5] {
        let runs = self.runs();
        let (now, before, earlier) = (runs[0], runs[1], runs[2]);
        [
            vec![now.0],
            vec![now.0, now.1],
            vec![now.0, now.1, before.0],
            vec![now.0, now.1, before.0, earlier.0],
            vec![now.0, now.1, before.0, earlier.0, before.1, earlier.1],
        ]
    }

    fn observe(&mut self, phase: u32) {
        if !self.seen.is_empty() {
            for past in self.pasts() {
                self.table.entry(past).or_default().push(phase);
            }
        }
        self.seen.push(phase);
    }

    /// The chance of a change, and of each phase then.
    fn outlook(&self) -> (f64, Vec<f64>) {
        let last = *self.seen.last().unwrap();
        let (mut change, mut shares) = (0.1, vec![0.0; 4]);
        for followers in self.pasts().iter().filter_map(|past| self.table.get(past)) {
            let changes: Vec<u32> = followers.iter().copied().filter(|&phase| phase != last).collect();
            change = (changes.len() as f64 + change) / (followers.len() as f64 + 1.0);
            let count = |phase| changes.iter().filter(|&&other| other == phase).count() as f64;
            let kinds = (0..4).filter(|&phase| count(phase) > 0.0).count() as f64;
            if kinds > 0.0 {
                for phase in 0..4 {
                    let share = &mut shares[phase as usize];
                    *share = (count(phase) + kinds * *share) / (changes.len() as f64 + kinds);
                }
            }
        }
        (change, shares)
    }
}

/// Short sequences, whose counts do not fade: a prediction is the likelier of staying and of the likeliest other phase, and a
/// change is announced only while announcements have been right more often than wrong.
#[test]
fn equals_the_formulas_over_unlimited_maps() {
    fn law(runs: Vec<(u8, u8)>) -> bool {
        let mut naive = Naive::default();
        let mut next = Ppm::new(1 << 16).unwrap();
        let (mut balance, mut announced) = (0_i32, None);
        for phase in runs
            .iter()
            .flat_map(|&(phase, length)| (0..=length % 3).map(move |_| u32::from(phase % 4)))
            .take(28)
        {
            if let (Some(announced), Some(&last)) = (announced, naive.seen.last()) {
                balance = (balance + i32::from(announced == phase) - i32::from(last == phase)).clamp(-2, 8);
            }
            naive.observe(phase);
            next.observe(PhaseId::new(phase));
            let (change, shares) = naive.outlook();
            let best = (0..4).fold(0, |best, phase| if shares[phase] > shares[best] { phase } else { best });
            let chance = change * shares[best];
            if (chance - (1.0 - change)).abs() < 1e-6 {
                return true; // as likely as not: rounding decides
            }
            let close = (0..4).any(|phase| phase != best && shares[best] - shares[phase] < 1e-6);
            if close && chance > 1.0 - change {
                return true;
            }
            announced = (chance > 1.0 - change).then_some(best as u32);
            let expected = announced.filter(|_| balance >= 1).unwrap_or(phase);
            let got = next.predict().unwrap().phase.number();
            if got != expected {
                eprintln!("{:?}: {got}, not {expected}", naive.seen);
                return false;
            }
        }
        true
    }
    quickcheck::QuickCheck::new().tests(300).quickcheck(law as fn(Vec<(u8, u8)>) -> bool);
}

#[test]
fn parameters_are_checked() {
    for bad in [0, 8, 17, 100, 1 << 21] {
        assert!(matches!(Ppm::new(bad), Err(Error::Parameter { .. })), "{bad}");
    }
}
