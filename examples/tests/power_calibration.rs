//! A simulated machine of which nothing is known, calibrated through its files, on kernels that it never saw.
//!
//! Constants (five weights of stalls and their ridge penalty, the penalties tried for power, the coverage of intervals)
//! were chosen on cores 2, 4 and 6 wide with the programs of the suite, seeds 0 and 1. They are judged here on cores 3
//! and 8 wide, with more noise, a room that warms up, other voltages and other kernels.

use std::sync::atomic::AtomicBool;

use examples::machines::ooo::{CoreSettings, PackageSettings, nehalem_points};
use examples::tools::power_frequency::bench::Simulated;
use examples::tools::power_frequency::judge::kept;
use examples::tools::power_frequency::unknown::{Row, Unknown};
use examples::workloads::{Kernel, Segment, Workload};
use powersleuth::power::{OperatingPoint, OperatingPoints};
use powersleuth::{Kelvin, Volts, Watts};

/// Programs of kernels in sizes that neither the calibration nor the suite has.
fn programs(seed: u64) -> Vec<(&'static str, Workload)> {
    let sequence = |kernels: &[Kernel]| {
        let order = [0, 1, 0, 2, 1, 2, 0, 1];
        let segment =
            |&k: &usize| Segment { kernel: kernels[k % kernels.len()], region: k as u16, repeat: 1 };
        Workload::new(order.iter().map(segment).collect(), seed)
    };
    vec![
        (
            "sorts and joins",
            sequence(&[
                Kernel::Quicksort { keys: 18 << 10 },
                Kernel::HashJoin { build: 24 << 10, probe: 40 << 10 },
                Kernel::Mergesort { keys: 20 << 10 },
            ]),
        ),
        (
            "matrices and streams",
            sequence(&[
                Kernel::MatmulBlocked { n: 72, tile: 24 },
                Kernel::Stream { length: 128 << 10, passes: 1 },
                Kernel::MatmulNaive { n: 56 },
            ]),
        ),
        (
            "graphs",
            sequence(&[
                Kernel::PageRank { vertices: 24 << 10, degree: 5, iterations: 1 },
                Kernel::Bfs { vertices: 24 << 10, degree: 8 },
                Kernel::PageRank { vertices: 64 << 10, degree: 3, iterations: 1 },
            ]),
        ),
        (
            "look-ups",
            sequence(&[
                Kernel::BTree { keys: 24 << 10, lookups: 12 << 10 },
                Kernel::KeyValue { keys: 24 << 10, requests: 24 << 10, skew_percent: 70 },
                Kernel::Gather { length: 512 << 10, picks: 96 << 10 },
            ]),
        ),
        (
            "lists",
            sequence(&[
                Kernel::PointerChase { nodes: 160 << 10, hops: 128 << 10 },
                Kernel::PointerChase { nodes: 12 << 10, hops: 128 << 10 },
                Kernel::Gather { length: 48 << 10, picks: 96 << 10 },
            ]),
        ),
    ]
}

/// Every other operating point, with voltages and leakage that no model knows.
fn points(volts: f64, leakage: f64) -> OperatingPoints {
    let known = nehalem_points().unwrap();
    let changed = known.as_slice().iter().step_by(2).map(|point| OperatingPoint {
        voltage: Volts(volts + 0.6 * point.voltage.0),
        static_power: Watts(leakage * point.static_power.0),
        ..*point
    });
    OperatingPoints::new(changed).unwrap()
}

fn judged(width: f64, points: OperatingPoints, package: PackageSettings, seed: u64, keeps: f64) {
    let core = CoreSettings { width, ..CoreSettings::default() };
    let machine = Simulated { core, points, package };
    let model = machine.calibrate(seed, &AtomicBool::new(false)).unwrap();
    let unknown = Unknown::judge(&machine, &model, programs(seed + 1), seed + 1).unwrap();
    let time = unknown.mean(|row| row.time.mean);
    let power = [0, 1].map(|at| unknown.mean(|row| row.power[at].mean));
    let inside = [0, 1].map(|of| unknown.mean(|row| row.inside[of]));
    let kept = kept(unknown.rows.iter().map(|row| &row.regret));
    let violations = |row: &Row| row.regret.violations.iter().map(|(_, by)| *by).fold(0.0, f64::max);
    let broken = unknown.rows.iter().map(violations).fold(0.0, f64::max);
    println!(
        "{width} wide: time {time:.4}, power {power:.4?}, inside {inside:.4?}, {:.4?}, kept {kept:.3}, broken {broken:.4}",
        unknown.promised
    );
    assert!(time <= 0.025, "{unknown:?}");
    assert!(power.iter().all(|&error| error <= 0.03), "{unknown:?}");
    assert!(inside.iter().all(|&share| share >= 0.95), "{unknown:?}");
    // A schedule with the calibration's margin, against one from the truth.
    assert!(kept >= keeps && broken <= 0.005, "{kept} {broken} {unknown:?}");
    // An interval of a third would be no news.
    assert!(
        unknown.promised.iter().all(|[mean, interval]| mean < interval && *interval < 0.3),
        "{unknown:?}"
    );
}

#[test]
fn a_narrow_core_in_a_room_that_warms_up() {
    let package = PackageSettings { noise: 0.03, drift: Kelvin(15.0), ..PackageSettings::default() };
    judged(3.0, points(0.4, 1.3), package, 21, 0.8);
}

#[test]
fn a_wide_core_with_a_bad_meter_and_without_a_thermometer() {
    let package = PackageSettings {
        noise: 0.05,
        drift: Kelvin(15.0),
        thermometer: false,
        // Wraps every few seconds.
        range: 60_000_000,
        ..PackageSettings::default()
    };
    // Less than elsewhere is kept: of five frequencies the next one costs a lot, and power is known less well.
    judged(8.0, points(0.45, 0.7), package, 22, 0.7);
}
