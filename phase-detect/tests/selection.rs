//! Counter selection on a machine whose counters are known to be good, bad or useless.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/random.rs"]
mod random;

use phase_detect::selection::{CounterSelection, ForestConfig};
use phase_detect::{Error, Signature};
use random::Random;

fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut random = Random(seed);
    move || random.next()
}

const COUNTERS: usize = 10;

/// 300 windows of 5 phases on a machine with and without prefetchers. Counters 0 to 2 are event mixes of the phase with
/// 2 % noise that the machine does not change; 3 is one with 60 % noise; 4 and 5 are misses, which tell phases apart
/// well and change with the prefetcher; 6 to 9 are unrelated to phases (7 constant, 8 always 0).
fn machine() -> (Vec<Signature>, Vec<Signature>, Vec<usize>) {
    let mut next = random(11);
    let mixes: Vec<Vec<f64>> = (0..5).map(|_| (0..6).map(|_| 1e3 + 1e5 * next()).collect()).collect();
    let labels: Vec<usize> = (0..300).map(|w| w / 9 % 5).collect();
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for &phase in &labels {
        let m = &mixes[phase];
        let mut noisy = |value: f64, noise: f64| value * (1.0 + noise * (2.0 * next() - 1.0));
        let base = vec![
            noisy(m[0], 0.02),
            noisy(m[1], 0.02),
            noisy(m[2], 0.02),
            noisy(m[3], 0.6),
            noisy(m[4], 0.02),
            noisy(m[5], 0.02),
            noisy(5e4, 0.9),
            7e4,
            0.0,
            noisy(1e4, 0.5),
        ];
        let mut changed = base.clone();
        changed[4] *= 1.5;
        changed[5] *= 1.02;
        changed[9] *= 1.0001;
        on.push(Signature::raw(base).unwrap());
        off.push(Signature::raw(changed).unwrap());
    }
    (on, off, labels)
}

#[test]
fn the_pipeline_keeps_what_is_invariant_and_telling() {
    let (on, off, labels) = machine();
    let config = CounterSelection { keep: 3, ..CounterSelection::default() };
    let found = config.select(&on, &[&off], &labels).unwrap();
    // 1.5 against 1 is 0.5 / 1.25; 1.02 against 1 is 0.02 / 1.01
    assert!((found.changes[4] - 0.4).abs() < 1e-12 && (found.changes[5] - 0.02 / 1.01).abs() < 1e-12);
    assert_eq!(found.changes[8], 0.0);
    let ranked: Vec<usize> = found.ranked.iter().map(|r| r.counter).collect();
    assert!(!ranked.contains(&4) && !ranked.contains(&5) && ranked.len() == COUNTERS - 2);
    let mut chosen = found.chosen.clone();
    chosen.sort_unstable();
    assert_eq!(chosen, [0, 1, 2]);
    assert_eq!(found.ranked[0].score, 100.0);
    assert!(found.ranked.windows(2).all(|pair| pair[0].score >= pair[1].score));
    assert!(found.accuracy > 0.98, "{}", found.accuracy);
    // what cannot be split by is never important
    for dead in [7, 8] {
        assert_eq!(found.ranked.iter().find(|r| r.counter == dead).unwrap().score, 0.0);
    }
    let projected = found.project(&on[0]).unwrap();
    assert_eq!(projected.values()[0], on[0].values()[found.chosen[0]]);
    assert!(matches!(found.project(&projected), Err(Error::Length { .. })));
}

/// An independent measure of importance: how much worse the forest classifies other windows once one counter's values
/// are shuffled among them. Eight phases, told apart by three counters together (each says one bit, with noise that
/// overlaps more from one to the next), beside three of noise. Both measures must give the same order.
#[test]
fn agrees_with_permutation_importance() {
    let mut next = random(3);
    let mut windows = || -> (Vec<Vec<f64>>, Vec<usize>) {
        let labels: Vec<usize> = (0..400).map(|w| w % 8).collect();
        let mut columns: Vec<Vec<f64>> = (0..3)
            .map(|bit| {
                let spread = [1.0, 1.6, 2.4][bit];
                labels.iter().map(|l| (l >> bit & 1) as f64 + spread * (next() - 0.5)).collect()
            })
            .collect();
        columns.extend((0..3).map(|_| (0..400).map(|_| next()).collect::<Vec<f64>>()));
        (columns, labels)
    };
    let (train, labels) = windows();
    let (test, truth) = windows();
    let forest = ForestConfig::default().grow(&train, &labels).unwrap();
    let right = |columns: &[Vec<f64>]| -> f64 {
        let hits = (0..truth.len()).filter(|&w| {
            let row: Vec<f64> = columns.iter().map(|c| c[w]).collect();
            forest.predict(&row).unwrap() == truth[w]
        });
        hits.count() as f64
    };
    let whole = right(&test);
    let lost: Vec<f64> = (0..6)
        .map(|c| {
            let sum: f64 = (0..5)
                .map(|seed| {
                    let (mut shuffled, mut next) = (test.clone(), random(100 + seed));
                    for at in (1..truth.len()).rev() {
                        shuffled[c].swap(at, (next() * (at + 1) as f64) as usize);
                    }
                    whole - right(&shuffled)
                })
                .sum();
            sum / 5.0
        })
        .collect();
    let order = |scores: &[f64]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..6).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order.truncate(3);
        order
    };
    assert_eq!(order(&lost), [0, 1, 2], "shuffling costs {lost:?} of {whole} windows");
    assert_eq!(order(forest.importance()), [0, 1, 2], "{:?}", forest.importance());
    assert!((forest.importance().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    // windows it was not grown from are recognised about as well as the out-of-bag estimate says: the difference of two
    // shares of 400 has a standard error below 4 %
    assert!((forest.out_of_bag_accuracy() - whole / 400.0).abs() < 0.12);
}

#[test]
fn the_same_seed_gives_the_same_forest() {
    let (on, off, labels) = machine();
    let run = |seed| {
        let forest = ForestConfig { seed, trees: 10, ..ForestConfig::default() };
        CounterSelection { forest, ..CounterSelection::default() }.select(&on, &[&off], &labels).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn bad_input_is_refused() {
    let (on, off, labels) = machine();
    let good = CounterSelection::default();
    assert!(matches!(good.select(&[], &[], &labels), Err(Error::NoWindows)));
    assert!(matches!(good.select(&on, &[&off], &labels[1..]), Err(Error::Windows { .. })));
    assert!(matches!(good.select(&on, &[&off[1..]], &labels), Err(Error::Windows { .. })));
    let short: Vec<Signature> = off.iter().map(|_| Signature::raw([1.0]).unwrap()).collect();
    assert!(matches!(good.select(&on, &[&short], &labels), Err(Error::Length { .. })));
    let double: Vec<Signature> = on
        .iter()
        .map(|s| Signature::raw(s.values().iter().map(|v| 2.0 * v + 1.0).collect::<Vec<_>>()).unwrap())
        .collect();
    match good.select(&on, &[&double], &labels) {
        Err(Error::NoInvariantCounter { least, limit }) => assert!(least > 0.5 && limit == 0.01),
        other => panic!("{other:?}"),
    }
    for bad in [
        CounterSelection { max_change: 0.0, ..good },
        CounterSelection { max_change: f64::NAN, ..good },
        CounterSelection { keep: 0, ..good },
    ] {
        assert!(matches!(bad.select(&on, &[&off], &labels), Err(Error::Parameter { .. })));
    }
    let forest = ForestConfig::default();
    for bad in [
        ForestConfig { trees: 0, ..forest },
        ForestConfig { features_per_split: Some(0), ..forest },
        ForestConfig { max_depth: 0, ..forest },
        ForestConfig { min_leaf: 0, ..forest },
    ] {
        assert!(matches!(bad.grow(&[vec![1.0]], &[1]), Err(Error::Parameter { .. })));
    }
    assert!(matches!(forest.grow::<u8>(&[], &[1]), Err(Error::NoEntries)));
    assert!(matches!(forest.grow::<u8>(&[vec![]], &[]), Err(Error::NoWindows)));
    assert!(matches!(forest.grow(&[vec![f64::NAN]], &[1]), Err(Error::BadValue { .. })));
    assert!(matches!(forest.grow(&[vec![1.0, 2.0]], &[1]), Err(Error::Windows { .. })));
    assert!(matches!(forest.grow(&[vec![1.0]], &[1]).unwrap().predict(&[]), Err(Error::Length { .. })));
}
