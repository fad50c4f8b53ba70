//! The curve file: written, read back, and refused where it breaks the format.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use cache_pirate::curve::{CurveFile, FileWindow};
use cache_pirate::simple::{SimpleMachine, SimpleTestbed};
use cache_pirate::{CacheCurve, CurvePoint, PirateError, PirateParams, Testbed, measure};

fn measured() -> CacheCurve {
    let machine = SimpleMachine { pirate_hit_time: 40.0, ..SimpleMachine::default() };
    let mut testbed = SimpleTestbed::new(machine, common::random_lines(3000, 1)).unwrap();
    let params = PirateParams { interval: Some(10_000.0), cycles: Some(1), ..PirateParams::default() };
    let plan = params.check(testbed.cache()).unwrap();
    measure(&mut testbed, &plan).unwrap().curve().unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let curve = measured();
    let mut file = curve.to_file(Some("random")).unwrap();
    file.phases.push(curve.to_phase(3).unwrap());
    file.windows.push(FileWindow { work: 1e6, phase: Some(3), mix: None, points: Vec::new() });
    let text = serde_json::to_string(&file).unwrap();
    let back: CurveFile = serde_json::from_str(&text).unwrap();
    assert_eq!((back.name.as_deref(), &back.windows), (Some("random"), &file.windows));
    assert_eq!((back.phases[0].phase, back.phases[0].points.len()), (3, 16));
    let again = back.curve().unwrap();
    assert!(again.trusted().count() < again.points().len(), "an untrusted point among them");
    for (one, other) in curve.points().iter().zip(again.points()) {
        assert_eq!(one.bytes, other.bytes);
        let values = |point: &CurvePoint| {
            [Some(point.cpi), point.miss_ratio, point.fetch_ratio, point.hit_rate, point.bandwidth]
        };
        for (one, other) in values(one).into_iter().zip(values(other)) {
            // The last digit may fall in reading.
            assert!((one.unwrap() - other.unwrap()).abs() <= 4.0 * f64::EPSILON * one.unwrap());
        }
        assert_eq!(one.effective_bytes, other.effective_bytes);
        assert_eq!(one.is_trusted(), other.is_trusted());
        // The bounds are whole bytes.
        let stolen = (curve.cache().bytes - one.bytes).max(1) as f64;
        assert!((one.pirate_fetch_ratio - other.pirate_fetch_ratio).abs() <= 1.0 / stolen);
    }
}

#[test]
fn the_fields_follow_from_each_other_as_the_format_says() {
    let file = measured().to_file(None).unwrap();
    for point in &file.points {
        let bandwidth = point.fetch_ratio.unwrap() * file.mix * 64.0 / point.cpi;
        assert!((point.bandwidth.unwrap() / bandwidth - 1.0).abs() < 1e-9);
        // Every access of the simple machine reaches the shared cache.
        let beyond = point.miss_ratio + point.hit_rate.unwrap() * point.cpi / file.mix;
        assert!((beyond - 1.0).abs() < 1e-9);
    }
}

#[test]
fn the_least_a_file_may_hold_is_enough() {
    let text = r#"{"format":"cache-curve","version":1,"line_size":64,"unknown":[],
        "points":[{"bytes":1024,"cpi":2.0,"miss_ratio":0.5,"also_unknown":1}]}"#;
    let file: CurveFile = serde_json::from_str(text).unwrap();
    let curve = file.curve().unwrap();
    let point = curve.points()[0];
    assert_eq!((point.fetch_ratio, point.hit_rate, point.mix), (None, None, Some(1.0)));
    assert_eq!((file.work.as_str(), curve.cache().bytes), ("instruction", 1024));
    assert!(point.is_trusted());
}

#[test]
fn what_breaks_the_format_is_named() {
    let point =
        |bytes: u64, cpi: &str, miss: &str| format!(r#"{{"bytes":{bytes},"cpi":{cpi},"miss_ratio":{miss}}}"#);
    let read = |format: &str, version: u32, line: u32, points: &str| {
        let text =
            format!(r#"{{"format":"{format}","version":{version},"line_size":{line},"points":[{points}]}}"#);
        serde_json::from_str::<CurveFile>(&text).unwrap().curve().unwrap_err()
    };
    let good = point(64, "1.0", "0.1");
    assert!(matches!(read("other", 1, 64, &good), PirateError::File { what: "format", .. }));
    assert!(matches!(read("cache-curve", 2, 64, &good), PirateError::File { what: "version", .. }));
    assert!(matches!(read("cache-curve", 1, 48, &good), PirateError::File { what: "line_size", .. }));
    assert!(matches!(read("cache-curve", 1, 64, ""), PirateError::NoSizes));
    let negative = point(64, "1.0", "-0.1");
    assert!(matches!(
        read("cache-curve", 1, 64, &negative),
        PirateError::Parameter { what: "miss ratio", .. }
    ));
    let still = point(64, "0.0", "0.1");
    assert!(matches!(read("cache-curve", 1, 64, &still), PirateError::Parameter { what: "CPI", .. }));
    let twice = format!("{good},{good}");
    assert!(matches!(read("cache-curve", 1, 64, &twice), PirateError::Size { bytes: 64, .. }));
}
