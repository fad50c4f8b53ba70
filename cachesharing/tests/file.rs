//! The cache-curve file against its description.
#![cfg(feature = "serde")]
#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cachesharing::file::ProgramFile;
use cachesharing::{CacheCurve, CurvePoint, Error, Program, ReuseTimes, SetReuse, TimeUnit, Window};

/// The example of docs/cache-curve-format.md, with phase and window points filled in.
const EXAMPLE: &str = r#"{
  "format": "cache-curve", "version": 1, "name": "btree", "work": "instruction", "time": "cycle",
  "line_size": 64, "mix": 0.35, "cache_bytes": 2097152, "comment": "unknown fields are ignored",
  "points": [
    {"bytes":  131072, "cpi": 3.91, "miss_ratio": 0.052, "fetch_ratio": 0.060,
     "hit_rate": 0.0021, "bandwidth": 0.344, "trusted": true},
    {"bytes": 1048576, "cpi": 9.0, "miss_ratio": 0.9, "trusted": false},
    {"bytes": 2097152, "cpi": 1.72, "miss_ratio": 0.004}
  ],
  "phases": [ {"phase": 0, "mix": 0.41, "points": [ {"bytes": 2097152, "cpi": 2.0, "miss_ratio": 0.01} ]} ],
  "windows": [
    {"work": 1000000, "phase": 0},
    {"work": 1000000, "phase": 1, "mix": 0.30, "points": [ {"bytes": 2097152, "cpi": 4.0, "miss_ratio": 0.02} ]},
    {"work": 500000, "phase": null},
    {"work": 250000, "phase": 7}
  ]
}"#;

fn read(text: &str) -> Result<Program<u64>, Error> {
    serde_json::from_str::<ProgramFile>(text).unwrap().into_program("unnamed", false)
}

#[test]
fn the_documented_example_is_read_as_documented() {
    let program = read(EXAMPLE).unwrap();
    assert_eq!(program.name(), "btree");
    assert_eq!(program.units().time, TimeUnit::Cycle);
    let windows: Vec<_> = program
        .windows()
        .map(|(work, phase, curve)| (work, program.phases()[phase].0, curve.cpi(2_097_152.0), curve.mix()))
        .collect();
    let expected = [
        (1e6, 0, 2.0, 0.41),    // its phase's curve
        (1e6, 1, 4.0, 0.30),    // its own
        (5e5, 0, 2.0, 0.41),    // null is phase 0
        (2.5e5, 7, 1.72, 0.35), // an unlisted phase: the file's
    ];
    assert_eq!(windows, expected);
    let whole = &program.phases().iter().find(|(p, _)| *p == 7).unwrap().1;
    let points: Vec<_> = whole.points().iter().map(|p| (p.bytes, p.fetch_ratio, p.hit_rate)).collect();
    // The untrusted point is left out; the fetch ratio defaults to the miss ratio.
    assert_eq!(points, [(131_072, 0.060, Some(0.0021)), (2_097_152, 0.004, None)]);
}

#[test]
fn untrusted_points_are_there_for_who_asks() {
    let file: ProgramFile = serde_json::from_str(EXAMPLE).unwrap();
    let program = file.into_program("", true).unwrap();
    assert_eq!(program.phases().iter().find(|(p, _)| *p == 7).unwrap().1.points().len(), 3);
}

#[test]
fn the_least_file_is_one_steady_phase() {
    let text = r#"{"format": "cache-curve", "version": 1, "line_size": 64,
                   "points": [{"bytes": 4096, "cpi": 1.5, "miss_ratio": 0.1}]}"#;
    let program = read(text).unwrap();
    assert_eq!((program.name(), program.window_count(), program.phases().len()), ("unnamed", 1, 1));
    assert_eq!(program.phases()[0].1.mix(), 1.0);
    assert_eq!(program.units().work, "instruction");
}

#[test]
fn what_is_written_is_read_back() {
    let curve = |cpi: f64, hits| {
        let point = |bytes, cpi: f64| {
            let mut point = CurvePoint::new(bytes, cpi, 0.1).with_fetch_ratio(0.2);
            (point.hit_rate, point.stall_rate) = (hits, hits);
            point
        };
        CacheCurve::new(vec![point(1000, cpi), point(2000, 0.5 * cpi)], 0.4, 64).unwrap()
    };
    let timed = |cpi: f64, accesses: f64| {
        let reuse = |distance, accesses| SetReuse { distance, accesses, count: 3.0 };
        let times =
            ReuseTimes::new(500, vec![0.5, 0.75], [reuse(1, accesses), reuse(3, accesses), reuse(0, 7.0)]);
        curve(cpi, Some(0.01)).with_reuse_times(times.unwrap()).unwrap()
    };
    let windows = vec![
        Window::measured(4.0, 5, timed(2.0, 1000.0)),
        Window::measured(5.0, 8, timed(2.5, 3000.0)),
        Window::of_phase(3.0, 5),
        Window::measured(2.0, 5, curve(7.0, None)),
        Window::measured(1.0, 6, curve(9.0, Some(0.01))),
    ];
    let program = Program::new("p", [(5, curve(3.0, Some(0.02)))], windows).unwrap();
    for program in [program.clone().with_uncertainty(0.25).unwrap(), program] {
        let text = serde_json::to_string(&ProgramFile::from_program(&program).unwrap()).unwrap();
        assert_eq!(read(&text).unwrap(), program);
    }
}

#[test]
fn bad_files_are_refused() {
    let with = |from: &str, to: &str| read(&EXAMPLE.replace(from, to)).unwrap_err();
    assert!(matches!(with("\"version\": 1", "\"version\": 2"), Error::Format { version: 2, known: 1, .. }));
    assert!(matches!(with("\"cache-curve\"", "\"other\""), Error::Format { .. }));
    assert!(matches!(with("\"cycle\"", "\"second\""), Error::TimeUnit { unit } if unit == "second"));
    assert!(matches!(with("\"work\": 500000", "\"work\": 0"), Error::Value { .. }));
    assert!(matches!(with("2097152, \"cpi\": 1.72", "131072, \"cpi\": 1.72"), Error::Sizes { .. }));
    assert!(matches!(with("\"cpi\": 2.0", "\"cpi\": -2.0"), Error::Point { what: "a CPI", .. }));
    assert!(matches!(with("\"line_size\": 64", "\"line_size\": 65"), Error::LineSize { bytes: 65 }));
    let nothing = r#"{"format": "cache-curve", "version": 1, "line_size": 64, "windows": [{"work": 1.0}]}"#;
    assert!(matches!(read(nothing), Err(Error::NoCurve { window: 0, .. })));
    let times = r#"{"format": "cache-curve", "version": 1, "line_size": 64,
                    "points": [{"bytes": 4096, "cpi": 1.5, "miss_ratio": 0.1}],
                    "reuse": {"way_bytes": 256, "variances": [0.5], "reuses": [[0, -1.0, 1.0]]}}"#;
    assert!(matches!(read(times), Err(Error::Value { what: "a reuse time in accesses", .. })));
    // Numbers that are finite and whose products are not: they gave shares of the cache that were no number.
    let one = |point: &str, work: &str| {
        let windows = format!(r#""windows": [{{"work": {work}}}, {{"work": 1.0}}]"#);
        let head = r#"{"format": "cache-curve", "version": 1, "line_size": 64, "mix": 0.3"#;
        let last = r#"{"bytes": 8192, "cpi": 1.5, "miss_ratio": 0.1, "hit_rate": 0.01}"#;
        read(&format!(r#"{head}, "points": [{point}, {last}], {windows}}}"#))
    };
    let usual = r#"{"bytes": 4096, "cpi": 2.0, "miss_ratio": 0.2, "hit_rate": 0.01}"#;
    assert!(one(usual, "1e18").is_ok());
    assert!(matches!(one(usual, "1e300"), Err(Error::Value { what: "the work of a window", .. })));
    let hits = r#"{"bytes": 4096, "cpi": 4294967296, "miss_ratio": 0.2, "hit_rate": 64}"#;
    assert!(matches!(one(hits, "1"), Err(Error::Point { what: "a miss ratio", bytes: 0, .. })));
    let fast = r#"{"bytes": 4096, "cpi": 1e-320, "miss_ratio": 0.2}"#;
    assert!(matches!(one(fast, "1"), Err(Error::Point { what: "a CPI", bytes: 4096, .. })));
    let apart = r#"{"bytes": 4096, "cpi": 1e12, "miss_ratio": 0.2}"#;
    assert!(matches!(one(apart, "1"), Err(Error::Point { what: "a CPI", .. })));
    let untrusted = r#"{"format": "cache-curve", "version": 1, "line_size": 64,
                        "points": [{"bytes": 4096, "cpi": 1.5, "miss_ratio": 0.1, "trusted": false}]}"#;
    assert!(matches!(read(untrusted), Err(Error::NoPoints)));
}
