//! SimPoint on programs whose phases are known, and its files.
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // as quickcheck calls properties

#[path = "support/random.rs"]
mod random;

use phase_detect::metrics::adjusted_rand_index;
use phase_detect::simpoint::{
    BlockVector, Projection, SimPoint, SimPointConfig, bb_windows, read_labels, read_points, read_simpoints,
    simpoints_file, weights_file, write_bb,
};
use phase_detect::{Clusterer, Error, PhaseId, Signature};
use random::Random;

fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut random = Random(seed);
    move || random.next()
}

fn read_bb(file: &[u8]) -> Result<Vec<BlockVector>, Error> {
    bb_windows(file).collect()
}

fn fit(config: SimPointConfig, windows: &[BlockVector]) -> Result<SimPoint, Error> {
    config.fit_blocks(windows.iter().map(Ok))
}

/// Windows of a program with `phases` phases, each a mix of its own over 200 blocks, disturbed by up to `noise`.
fn program(phases: usize, noise: f64, seed: u64) -> (Vec<BlockVector>, Vec<usize>) {
    let mut next = random(seed);
    let mixes: Vec<Vec<f64>> = (0..phases)
        .map(|_| (0..200).map(|_| if next() < 0.1 { 1000.0 * next() } else { 0.0 }).collect())
        .collect();
    let truth: Vec<usize> = (0..300).map(|w| w / 15 % phases).collect();
    let windows = truth
        .iter()
        .map(|&p| {
            let counts = mixes[p].iter().enumerate();
            BlockVector::new(
                counts.map(|(b, c)| (b as u64, (c * (1.0 + noise * (2.0 * next() - 1.0))).round())),
            )
            .unwrap()
        })
        .collect();
    (windows, truth)
}

#[test]
fn finds_the_phases_of_synthetic_programs() {
    for phases in [2, 4, 7] {
        for seed in 1..4 {
            let (windows, truth) = program(phases, 0.1, seed);
            let config = SimPointConfig { max_clusters: 20, seed, ..SimPointConfig::default() };
            let found = fit(config, &windows).unwrap();
            assert_eq!(found.points().len(), phases, "seed {seed}");
            assert_eq!(adjusted_rand_index(found.labels(), &truth).unwrap(), 1.0);
            for point in found.points() {
                assert_eq!(found.labels()[point.window], point.phase);
                let members = found.labels().iter().filter(|l| **l == point.phase).count();
                assert!((point.weight - members as f64 / 300.0).abs() < 1e-15);
                // no member is nearer the centre
                let best = found.distances()[point.window];
                assert!(
                    found
                        .labels()
                        .iter()
                        .zip(found.distances())
                        .all(|(l, d)| *l != point.phase || *d >= best)
                );
            }
            // a value that is constant within phases is estimated exactly
            let mean = truth.iter().map(|&t| t as f64).sum::<f64>() / 300.0;
            assert!((found.estimate(|w| truth[w] as f64) - mean).abs() < 1e-12);
        }
    }
}

/// The rule is relative to the range of scores, so that it says least where there is least to find. Noise that is the
/// same in all directions is still recognised as one phase: every further cluster costs more than it explains.
#[test]
fn one_phase_of_even_noise_is_not_split() {
    let mut next = random(4);
    let windows: Vec<Signature> = (0..400)
        .map(|_| Signature::frequency((0..64).map(|_| 1.0 + 0.2 * next()).collect::<Vec<_>>()).unwrap())
        .collect();
    let config = SimPointConfig { dimensions: 4, max_clusters: 10, ..SimPointConfig::default() };
    assert_eq!(config.fit(&windows).unwrap().points().len(), 1);
}

/// Windows that repeat exactly have no variance at all; the number of phases is still the number of different ones.
#[test]
fn exact_repetition_is_no_trouble() {
    let (windows, truth) = program(5, 0.0, 1);
    let found = fit(SimPointConfig::default(), &windows).unwrap();
    assert_eq!(adjusted_rand_index(found.labels(), &truth).unwrap(), 1.0);
    assert_eq!(found.points().len(), 5);
    let one = fit(SimPointConfig::default(), &windows[..1]).unwrap();
    assert_eq!(one.points().len(), 1);
}

#[test]
fn classifies_further_windows() {
    let mut next = random(8);
    let windows: Vec<Signature> = (0..60)
        .map(|w| {
            let values: Vec<f64> =
                (0..32).map(|e| if e / 8 == w / 20 { 1.0 + next() } else { 0.01 }).collect();
            Signature::frequency(values).unwrap()
        })
        .collect();
    let mut found = SimPointConfig::default().fit(&windows).unwrap();
    assert_eq!(found.points().len(), 3);
    for (window, label) in windows.iter().zip(found.labels().to_vec()) {
        assert_eq!(found.classify(window).unwrap().phase, label);
        assert_eq!(found.nearest(window).unwrap().unwrap().0, label);
    }
    let short = Signature::frequency([1.0]).unwrap();
    assert!(matches!(found.classify(&short), Err(Error::Length { .. })));
    let raw = Signature::raw([1.0; 32]).unwrap();
    assert!(matches!(found.classify(&raw), Err(Error::Kind { .. })));
}

/// With as many phases as windows nothing varies within a phase, and such a fit looks perfect.
#[test]
fn few_windows_are_not_a_phase_each() {
    for seed in 1..6 {
        let (windows, truth) = program(2, 0.1, seed);
        let found = fit(SimPointConfig::default(), &windows[..19]).unwrap();
        assert_eq!(found.scores().len(), 10);
        let (phases, of) = (found.points().len(), adjusted_rand_index(found.labels(), &truth[..19]).unwrap());
        assert!(phases <= 4 && of > 0.5, "{phases} phases, {of}");
    }
}

#[test]
fn parameters_are_checked() {
    let (windows, _) = program(2, 0.1, 1);
    let good = SimPointConfig::default();
    for bad in [
        SimPointConfig { dimensions: 0, ..good },
        SimPointConfig { max_clusters: 0, ..good },
        SimPointConfig { restarts: 0, ..good },
        SimPointConfig { max_iterations: 0, ..good },
        SimPointConfig { sample: 0, ..good },
        SimPointConfig { bic_share: 1.5, ..good },
        SimPointConfig { bic_share: f64::NAN, ..good },
    ] {
        assert!(matches!(fit(bad, &windows), Err(Error::Parameter { .. })), "{bad:?}");
    }
    assert!(matches!(fit(good, &[]), Err(Error::NoWindows)));
    assert!(matches!(good.fit(&[]), Err(Error::NoWindows)));
    assert!(Projection::new(0, 1).is_err());
}

#[test]
fn bb_files_survive_a_round_trip() {
    fn law(windows: Vec<Vec<(u64, u32)>>) -> bool {
        let windows: Vec<BlockVector> = windows
            .into_iter()
            .filter_map(|w| BlockVector::new(w.into_iter().map(|(b, c)| (b, f64::from(c)))).ok())
            .collect();
        let mut file = Vec::new();
        write_bb(&mut file, &windows).unwrap();
        read_bb(&file[..]).unwrap() == windows
    }
    quickcheck::quickcheck(law as fn(Vec<Vec<(u64, u32)>>) -> bool);
}

/// A line as valgrind's exp-bbv writes it, with comments, blank lines and Windows line ends around it.
#[test]
fn bb_files_of_other_tools() {
    let file = "# a comment\n\nT:12:300   :7:20 \r\nD skipped :1:2\n:1:2\n  T :1:5\nT:1:0 :2:7.5\n";
    let windows = read_bb(file.as_bytes()).unwrap();
    assert_eq!(windows[0].blocks(), [(12, 300.0), (7, 20.0)]);
    assert_eq!(windows[0].total(), 320.0);
    assert_eq!(windows[1].blocks(), [(1, 5.0)]);
    assert_eq!(windows[2].blocks(), [(2, 7.5)]);
    assert_eq!(windows.len(), 3);
}

#[test]
fn malformed_bb_files_name_line_and_column() {
    for (file, line, column) in [
        ("T:1:2 3:4\n", 1, 7),
        ("T:1:2 :3\n", 1, 9),
        ("T:1:2 :3:\n", 1, 10),
        ("T:1:2 :x:4\n", 1, 8),
        ("T:1:2 :-3:4\n", 1, 8),
        ("T:1:2 :3:-4\n", 1, 10),
        ("T:1:2 :3:nan\n", 1, 10),
        ("T:1:2 :3:inf\n", 1, 10),
        ("T:1:2 :99999999999999999999:1\n", 1, 8),
        ("T:1:2\nT\n", 2, 1),
        ("T:1:0\n", 1, 1),
        ("T:1:1e308 :2:1e308\n", 1, 1),
        ("T:1:2 :\u{e9}:4\n", 1, 8),
    ] {
        match read_bb(file.as_bytes()) {
            Err(Error::Parse { line: l, column: c, .. }) => assert_eq!((l, c), (line, column), "{file:?}"),
            other => panic!("{file:?} gave {other:?}"),
        }
    }
    assert!(matches!(read_bb(&b"T:1:2 \xff\n"[..]), Err(Error::Parse { line: 1, column: 7, .. })));
}

/// Whatever is fed to the readers, they answer.
#[test]
fn readers_never_panic() {
    fn law(noise: Vec<u8>, picks: Vec<u8>) -> bool {
        const PIECES: [&str; 12] =
            ["T", ":", "1", " ", "\n", "0.5", "-", "nan", "#", "\t", "99999999999", "\u{e9}"];
        let text: String = picks.iter().map(|p| PIECES[usize::from(*p) % 12]).collect();
        for bytes in [&noise[..], text.as_bytes()] {
            let _ = (read_bb(bytes), read_labels(bytes), read_simpoints(bytes), read_points(bytes, bytes));
        }
        true
    }
    quickcheck::QuickCheck::new().tests(2000).quickcheck(law as fn(Vec<u8>, Vec<u8>) -> bool);
}

/// Weights and distances are written with six digits, as SimPoint does.
#[test]
fn simpoint_files_survive_a_round_trip() {
    let (windows, _) = program(4, 0.1, 2);
    let found = fit(SimPointConfig::default(), &windows).unwrap();
    let (simpoints, weights) = (simpoints_file(found.points()), weights_file(found.points()));
    let points = read_points(simpoints.as_bytes(), weights.as_bytes()).unwrap();
    assert_eq!(points.len(), found.points().len());
    for (read, point) in points.iter().zip(found.points()) {
        assert_eq!((read.phase, read.window), (point.phase, point.window));
        assert!((read.weight / point.weight - 1.0).abs() < 1e-5);
    }
    let labels = read_labels(found.labels_file().as_bytes()).unwrap();
    assert_eq!(labels.iter().map(|l| l.phase).collect::<Vec<_>>(), found.labels());
    let distances = labels.iter().map(|l| l.distance.unwrap());
    assert!(distances.zip(found.distances()).all(|(a, b)| (a - b).abs() <= 1e-5 * b));
    assert_eq!(read_labels(&b"3\n"[..]).unwrap()[0].distance, None);
}

/// The largest phases first, until the share is reached.
#[test]
fn coverage_leaves_out_the_smallest_phases() {
    let mut windows = Vec::new();
    for (phase, count) in [(0, 50), (1, 10), (2, 40)] {
        windows.extend((0..count).map(|_| BlockVector::new([(phase, 1.0)]).unwrap()));
    }
    let found = fit(SimPointConfig::default(), &windows).unwrap();
    for (share, starts) in [(1.0, &[0, 50, 60][..]), (0.95, &[0, 50, 60]), (0.9, &[0, 60]), (0.5, &[0])] {
        let points = found.covering(share);
        assert_eq!(points.iter().map(|p| p.window).collect::<Vec<_>>(), starts, "{share}");
        assert!((points.iter().map(|p| p.weight).sum::<f64>() - 1.0).abs() < 1e-12);
    }
    assert!((found.covering(0.9)[0].weight - 50.0 / 90.0).abs() < 1e-12);
}

/// Six clean phases whose windows differ by 0.3 % of their instructions: that is no reason for more phases.
#[test]
fn clean_phases_are_not_split_by_trifles() {
    for seed in 0..5 {
        let (windows, truth) = program(6, 0.003, seed);
        let found = fit(SimPointConfig { seed, ..SimPointConfig::default() }, &windows).unwrap();
        assert_eq!(found.points().len(), 6, "seed {seed}");
        assert_eq!(adjusted_rand_index(found.labels(), &truth).unwrap(), 1.0);
    }
}

/// A tenth of the windows is enough to find the phases of all.
#[test]
fn a_sample_of_the_windows_finds_the_same_phases() {
    for seed in 0..5 {
        let (windows, truth) = program(5, 0.1, seed);
        let config = SimPointConfig { sample: 60, max_clusters: 10, seed, ..SimPointConfig::default() };
        let found = fit(config, &windows).unwrap();
        assert_eq!(found.labels().len(), windows.len());
        assert_eq!(adjusted_rand_index(found.labels(), &truth).unwrap(), 1.0, "seed {seed}");
        assert!((found.points().iter().map(|p| p.weight).sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn malformed_simpoint_files_name_line_and_column() {
    let at = |result: Result<(), Error>| match result {
        Err(Error::Parse { line, column, .. }) => (line, column),
        other => panic!("{other:?}"),
    };
    assert_eq!(at(read_simpoints(&b"1 0\n2 x\n"[..]).map(drop)), (2, 3));
    assert_eq!(at(read_simpoints(&b"1\n"[..]).map(drop)), (1, 2));
    assert_eq!(at(read_simpoints(&b"1 2 3\n"[..]).map(drop)), (1, 5));
    assert_eq!(at(read_labels(&b"1 -2\n"[..]).map(drop)), (1, 3));
    assert_eq!(at(read_points(&b"1 0\n"[..], &b"1.5 0\n"[..]).map(drop)), (1, 1));
    assert!(matches!(read_points(&b"1 0\n"[..], &b""[..]), Err(Error::Windows { .. })));
    match read_points(&b"1 0\n"[..], &b"0.5 1\n"[..]) {
        Err(Error::NoWeight { phase }) => assert_eq!(phase, PhaseId::new(0)),
        other => panic!("{other:?}"),
    }
}
