//! The pipeline `miss_ratio_curve` as its users meet it: arguments in, result, messages and exit status out.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support::curve::{json, ratios, run, run_with};
use crate::support::{Folder, uniform};
use examples::cli::invoke;
use examples::tools::miss_ratio_curve::{Args, run_until};
use serde_json::Value;

/// 50 rounds over 100 lines, as din.
fn cyclic() -> String {
    (0..5000).map(|i| format!("{} {:x}\n", i % 2, 0x1000 + 64 * (i % 100))).collect()
}

#[test]
fn a_cyclic_scan_misses_always_or_only_once() {
    let folder = Folder::new();
    let trace = folder.file("scan.din", cyclic());
    for model in ["exact-lru", "statstack"] {
        let object =
            json(&["--trace", &trace, "--model", model, "--sizes", "6400,6336,64KiB", "--windows", "1"]);
        assert_eq!(object["model"], model);
        assert_eq!(object["line_size"], 64);
        assert_eq!((&object["accesses"], &object["samples"]), (&5000.into(), &5000.into()));
        assert_eq!((&object["incomplete"], &object["source"]), (&false.into(), &trace.as_str().into()));
        let sizes: Vec<(u64, u64)> = object["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| (point["bytes"].as_u64().unwrap(), point["lines"].as_u64().unwrap()))
            .collect();
        assert_eq!(sizes, [(6336, 99), (6400, 100), (65_536, 1024)]);
        // LRU with one line too few misses every time, with enough of them 100 times in 5,000 accesses.
        for (ratio, expected) in ratios(&object).into_iter().zip([1.0, 0.02, 0.02]) {
            assert!((ratio - expected).abs() < 1e-9, "{model}: {ratio} instead of {expected}");
        }
    }
}

/// A run is modelled in few parts where its samples show no difference, in more where they do, or in as many as are asked for.
#[test]
fn parts_that_are_alike_are_modelled_as_one() {
    let folder = Folder::new();
    let mut state = 1;
    let mut parts = |lines: [u64; 2]| {
        let mut text = String::new();
        for lines in lines {
            uniform(&mut text, &mut state, 0x10_0000, lines, 600_000);
        }
        let trace = folder.file("run.din", text);
        // Where every access is measured, first touches set the first part apart.
        let words = ["--trace", &trace, "--sample-rate", "0.01", "--draws", "0"];
        assert_eq!(json(&[&words[..], &["--windows", "7"]].concat())["windows"], 7);
        json(&words)["windows"].as_u64().unwrap()
    };
    // Samples that are open at the end and the window of the change may be parts of their own.
    let (steady, changing) = (parts([300, 300]), parts([300, 5000]));
    assert!(steady <= 2 && steady < changing && changing <= 6, "{steady} {changing}");
}

#[test]
fn random_replacement_is_modelled_as_it_is_simulated() {
    let folder = Folder::new();
    // Long enough that the filling of the cache does not show.
    let text: String = (0..200_000).map(|i| format!("0 {:x}\n", 64 * (i % 400))).collect();
    let trace = folder.file("scan.din", text);
    let curve = |model| ratios(&json(&["--trace", &trace, "--model", model, "--sizes", "8K,16K,24K"]));
    let (simulated, modelled) = (curve("exact-random"), curve("statcache"));
    for (simulated, modelled) in simulated.into_iter().zip(modelled) {
        // In a scan of 400 lines through 128 to 384 lines evictions are nearly independent, as the model assumes.
        assert!((simulated - modelled).abs() < 0.01, "{simulated} {modelled}");
        assert!(simulated > 0.02 && simulated < 1.0);
    }
}

#[test]
fn every_format_and_compression_gives_the_same_curve() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folder = Folder::new();
    let record = |i: u64| (i % 3 % 2, (i * i * 64) % (1 << 20)); // as the files in tests/data were made
    let din: String =
        (0..3000).map(record).map(|(label, address)| format!("{label} {address:x}\r\n")).collect();
    let lackey: String = (0..3000)
        .map(record)
        .map(|(label, address)| {
            format!("I  400000,4\n {} {address:08x},1\n", if label == 0 { 'L' } else { 'S' })
        })
        .collect();
    let plain = folder.file("trace.din", din);
    let expected = json(&["--trace", &plain, "--model", "exact-lru"]);
    assert_eq!(expected["accesses"], 3000);
    let lackey = folder.file("trace.lackey", &lackey);
    // Content decides: a name that lies does not matter where the format is given.
    let misnamed = folder.file("trace.txt", fs::read(data.join("trace.din.xz")).unwrap());
    let files = ["trace.din.gz", "trace.din.xz", "trace.din.zst"].map(|name| data.join(name));
    let mut commands: Vec<Vec<&str>> = files.iter().map(|file| vec![file.to_str().unwrap()]).collect();
    commands.push(vec![&lackey]);
    commands.push(vec![&misnamed, "--format", "din"]);
    for command in commands {
        let object = json(&[&["--model", "exact-lru", "--trace"][..], &command].concat());
        assert_eq!(object["points"], expected["points"], "{command:?}");
    }
}

#[test]
fn requests_for_objects_are_counted_in_objects() {
    let folder = Folder::new();
    // Neighbouring numbers are different objects, not bytes of one line.
    let requests = (0..5000_u64).map(|i| 7_000_000_000 + i % 100);
    let record = |object: u64| [&1_u32.to_le_bytes()[..], &object.to_le_bytes(), &[9; 12]].concat();
    let trace = folder.file("w.oracleGeneral.bin", requests.flat_map(record).collect::<Vec<u8>>());
    let object = json(&["--trace", &trace, "--model", "exact-lru", "--sizes", "99,100"]);
    assert_eq!((&object["line_size"], &object["accesses"]), (&1.into(), &5000.into()));
    assert_eq!(object["points"][0]["lines"], 99);
    assert_eq!(ratios(&object), [1.0, 0.02]); // as in the cyclic scan
    let refused = run(&["--trace", &trace, "--line-size", "64"]);
    assert_eq!(refused.status, 2);
    assert!(refused.messages.contains("leave out --line-size"), "{}", refused.messages);
    let cut = folder.file("cut.oracle-general", &fs::read(&trace).unwrap()[..24 * 10 + 5]);
    let cut = run(&["--trace", &cut]);
    assert_eq!(cut.status, 1);
    assert!(
        cut.messages.contains("cut.oracle-general: oracle-general trace, byte 240: the file ends within")
    );
}

/// Of one size, objects take as many bytes as they are; otherwise each takes its own.
#[test]
fn sizes_of_objects_count_in_bytes() {
    let folder = Folder::new();
    let record = |object: u64, bytes: u32| {
        [&1_u32.to_le_bytes()[..], &object.to_le_bytes(), &bytes.to_le_bytes(), &[0xff; 8]].concat()
    };
    // A cyclic scan of 10 objects of 1 KiB and one of 90 KiB.
    let scan = (0..1100_u64).flat_map(|i| record(i % 11, if i % 11 == 10 { 90 << 10 } else { 1 << 10 }));
    let trace = folder.file("scan.oracleGeneral", scan.collect::<Vec<u8>>());
    let sized = |model: &[&str]| {
        run(&[&["--trace", &trace, "--unit", "bytes", "--sizes", "11KiB,50KiB,100KiB"], model].concat())
    };
    let table = sized(&["--model", "exact-lru"]);
    assert!(table.out.contains("1100 requests for objects"), "{}", table.out);
    assert!(!table.out.contains("lines"), "{}", table.out);
    let object = sized(&["--model", "exact-lru", "--json"]).objects().remove(0);
    assert_eq!(object["unit"], "bytes");
    // The large object fits into the largest cache only, and beside the others.
    let found = ratios(&object);
    let expected = [110.0 / 1100.0, 110.0 / 1100.0, 11.0 / 1100.0];
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    let bytes = object["points"][2]["byte_miss_ratio"].as_f64().unwrap();
    assert!((bytes - 0.01).abs() < 1e-12, "{bytes}");
    let bytes = object["points"][0]["byte_miss_ratio"].as_f64().unwrap();
    assert!((bytes - (10.0 + 90.0 * 100.0) / (100.0 * 100.0)).abs() < 1e-12, "{bytes}");
    let refused = sized(&[]);
    assert_eq!(refused.status, 2);
    assert!(refused.messages.contains("--unit bytes needs --model exact-lru"), "{}", refused.messages);
    let memory = folder.file("a.din", "0 40\n");
    let refused = run(&["--trace", &memory, "--unit", "objects"]);
    assert!(refused.messages.contains("needs a trace of objects"), "{}", refused.messages);
}

#[test]
fn samples_that_were_taken_elsewhere_are_modelled() {
    let folder = Folder::new();
    // A cyclic scan of 100 lines, of which every seventh access was sampled and the last 100 dangle.
    let access = |time: u64| {
        let numbers = [0x400, 64 * (time % 100), time].map(u64::to_le_bytes).concat();
        [&numbers[..], &[0, 0, 8, 0, 0]].concat()
    };
    let header =
        [&b"USF1\0\x20\0\0\0\x02\0\0\0\x80\0\0\0"[..], &[0; 16], &64_u32.to_le_bytes(), &[0; 4]].concat();
    let sample = |time| match time {
        0..4900 => [&[0][..], &access(time), &access(time + 100), &[6]].concat(),
        _ => [&[1][..], &access(time), &[6]].concat(),
    };
    let samples: Vec<u8> = (0..5000).step_by(7).flat_map(sample).collect();
    let file = folder.file("scan.usf", [&header[..], &samples].concat());
    let object = json(&["--trace", &file, "--sizes", "6336,6400"]);
    assert_eq!((&object["accesses"], &object["samples"]), (&4999.into(), &715.into())); // the last one at 4998
    let dangling = (4900..5000).filter(|time| time % 7 == 0).count() as f64 / 715.0;
    let found = ratios(&object);
    assert!((found[0] - 1.0).abs() < 1e-9 && (found[1] - dangling).abs() < 1e-9, "{found:?}");
    // They need not be those of a run from its beginning.
    let random = json(&["--trace", &file, "--sizes", "6336", "--model", "statcache"]);
    assert_eq!(random["in_time"], false);
    let exact = run(&["--trace", &file, "--model", "exact-lru"]);
    assert!(
        exact.status == 2 && exact.messages.contains("needs every access in order"),
        "{}",
        exact.messages
    );
}

#[test]
fn each_bad_input_is_one_clear_line_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let good = folder.file("good.din", cyclic());
    let bad = folder.file("bad.din", "0 10\n1 20\n0 zz\n0 30\n");
    let text = folder.file("bad.lackey", " L 10,4\nSegmentation fault\n");
    let empty = folder.file("empty.din", "");
    let only_code = folder.file("code.din", "2 400000\n2 400004\n");
    let compressed = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace.din.gz")).unwrap();
    let truncated = folder.file("half.din.gz", &compressed[..3000]);
    let unnamed = folder.file("trace.dat", cyclic());
    let missing = folder.path("missing.din");
    let missing = missing.to_str().unwrap();
    let out = folder.path("out");
    let out = out.to_str().unwrap();
    let no_folder = format!("{good}/below-a-file");
    let cases: &[(&[&str], u8, &str)] = &[
        (&["--trace", &bad], 1, "bad.din: din trace, line 3: expected a hexadecimal address"),
        (&["--trace", &bad], 1, "\"0 zz\""),
        (&["--trace", &bad, "--model", "exact-lru"], 1, "line 3"),
        (&["--trace", &bad, "--model", "exact-random"], 1, "line 3"),
        (&["--trace", &text], 1, "lackey trace, line 2: expected 'I  address,size'"),
        (&["--trace", &good, "--format", "lackey"], 1, "lackey trace, line 1"),
        (&["--trace", &empty], 1, "empty.din: din trace: no memory access in it"),
        (&["--trace", &only_code, "--model", "exact-lru"], 1, "no memory access in it"),
        (
            &["--trace", &truncated],
            1,
            "half.din.gz: read din trace: gzip data end early: the file is truncated",
        ),
        (&["--trace", missing], 1, "missing.din: No such file or directory"),
        (&["--trace", &unnamed], 2, "cannot determine the format of"),
        (&["--trace", "-"], 2, "give --format csv, din, lackey, oracle-general or usf"),
        (&["--trace", &good, "--format", "xml"], 2, "invalid value 'xml' for '--format"),
        (&["--format", "din"], 2, "--trace <FILE>"),
        (&["--trace", &good, "--sizes", "0"], 2, "a cache of no bytes"),
        (&["--trace", &good, "--sizes", "4KiB,100"], 2, "100 bytes is not a whole number of 64-byte lines"),
        (&["--trace", &good, "--sizes", "4KiB,many"], 2, "\"many\" is not a size"),
        (&["--trace", &good, "--sizes", ""], 2, "is not a size"),
        (&["--trace", &good, "--line-size", "48"], 2, "give a power of two"),
        (&["--trace", &good, "--sample-rate", "100"], 2, "for one access in 100, give 1.000e-2"),
        (&["--trace", &good, "--sample-rate", "0"], 2, "above 0 and at most 1"),
        (&["--trace", &good, "--sample-rate", "NaN"], 2, "above 0 and at most 1"),
        (
            &["--trace", &good, "--sample-rate", "1e-9"],
            1,
            "none of 5000 accesses was sampled: raise --sample-rate",
        ),
        (&["--trace", &good, "--draws", "10"], 2, "give a level between 0 and 1, and at least 100 draws"),
        (&["--trace", &good, "--ways", "0"], 2, "0 is not in 1..=64"),
        (&["--trace", &good, "--ways", "65"], 2, "65 is not in 1..=64"),
        (
            &["--trace", &good, "--ways", "4", "--sizes", "4160", "--model", "exact-lru"],
            2,
            "4160 bytes in 4 ways",
        ),
        (&["--trace", &good, "--windows", "0"], 2, "0 is not in 1..=10000"),
        (&["--trace", &good, "--model", "fifo"], 2, "invalid value 'fifo' for '--model"),
        (&["--trace", &good, "--", "ls"], 2, "cannot be used with"),
        (&["--workload", "nonesuch"], 2, "no embedded workload \"nonesuch\"; there are quicksort,"),
    ];
    for (arguments, status, message) in cases {
        let ended = run(&[arguments, &["--json", "--out", out][..]].concat_options());
        assert_eq!(ended.status, *status, "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.contains(message), "{arguments:?}: {}", ended.messages);
        assert!(ended.messages.starts_with("miss_ratio_curve: "), "{arguments:?}: {}", ended.messages);
        assert_eq!(
            (ended.messages.lines().count(), ended.out.as_str()),
            (1, ""),
            "{arguments:?}: {}",
            ended.messages
        );
        let left = fs::read_dir(out).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{arguments:?} left a file");
    }
    // Found before the run: the trace is not even looked at.
    let ended = run(&["--trace", missing, "--out", &no_folder]);
    assert_eq!(ended.status, 2);
    assert!(ended.messages.contains("give a directory that can be written to"), "{}", ended.messages);
}

/// Options come before the program's own arguments.
trait ConcatOptions {
    fn concat_options(&self) -> Vec<&str>;
}

impl ConcatOptions for [&[&str]; 2] {
    fn concat_options(&self) -> Vec<&str> {
        let place = self[0].iter().position(|&a| a == "--").unwrap_or(self[0].len());
        [&self[0][..place], self[1], &self[0][place..]].concat()
    }
}

#[test]
fn an_interrupted_run_reports_so_far_and_says_so() {
    let folder = Folder::new();
    let out = folder.path("out");
    for model in ["statstack", "statcache", "exact-lru", "exact-random"] {
        let arguments = ["--model", model, "--json", "--out", out.to_str().unwrap()];
        let ended = run_with(&arguments, true);
        assert_eq!(ended.status, 130);
        assert!(ended.messages.contains("interrupted"), "{}", ended.messages);
        let object: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(object["incomplete"], true);
        let accesses = object["accesses"].as_u64().unwrap();
        assert!(accesses > 10_000 && accesses < 500_000, "{accesses}"); // of 3 million
        assert!(ratios(&object).iter().all(|ratio| (0.0..=1.0).contains(ratio)));
    }
    assert!(fs::read_to_string(out.join("curve.svg")).unwrap().contains("(incomplete)"));
}

#[test]
fn sampling_takes_the_share_it_was_asked_for_and_stays_close() {
    let object = json(&["--workload", "hash_join", "--sample-rate", "0.01", "--seed", "7"]);
    let (accesses, samples) = (object["accesses"].as_f64().unwrap(), object["samples"].as_f64().unwrap());
    let expected = accesses * 0.01;
    assert!((samples - expected).abs() < 5.0 * expected.sqrt(), "{samples} of {accesses}"); // 5 standard deviations
    let all = json(&["--workload", "hash_join", "--seed", "7"]);
    assert_eq!(all["samples"], all["accesses"]);
    for (sampled, all) in ratios(&object).into_iter().zip(ratios(&all)) {
        // 7,000 samples: a standard error of at most 0.6 points.
        assert!((sampled - all).abs() < 0.03, "{sampled} {all}");
    }
    assert_eq!(json(&["--workload", "hash_join", "--sample-rate", "0.01", "--seed", "7"]), object);
}

/// The intervals of sampled curves hold what the model makes of every access, most of the time: 95 % where the model is
/// unbiased (tested where the intervals are made), here of some 60 points that depend on each other in fives.
#[test]
fn sampled_curves_come_with_intervals() {
    let sizes = "8K,32K,128K,512K";
    let of = |rate, seed| {
        json(&["--workload", "hash_join", "--sample-rate", rate, "--seed", seed, "--sizes", sizes])
    };
    let mut held = 0;
    for seed in ["1", "2", "3", "4", "5"] {
        let (sampled, all) = (of("0.01", seed), of("1", seed));
        assert_eq!(sampled["level"], 0.95);
        let all = all["points"].as_array().unwrap();
        for (point, all) in sampled["points"].as_array().unwrap().iter().zip(all) {
            let ends = ["low", "miss_ratio", "high"];
            let [low, ratio, high] = ends.map(|key| point[key].as_f64().unwrap());
            let [least, truth, most] = ends.map(|key| all[key].as_f64().unwrap());
            let model = most - least;
            assert!(0.0 <= low && low <= ratio && ratio <= high && high <= 1.0, "{point}");
            // At most four standard errors of some 7,000 samples, and what the model gets wrong though all are measured.
            assert!(low < high && high - low < model.hypot(0.05), "{point}");
            held += u32::from(low <= truth && truth <= high);
        }
    }
    assert!(held >= 15, "{held} of 20");
    let without = json(&["--workload", "hash_join", "--sizes", sizes, "--draws", "0"]);
    assert!(without["points"][0].get("low").is_none() && without.get("level").is_none());
}

/// Caches with sets miss more often, and the model in sets comes nearer to their simulation than without.
#[test]
fn ways_are_modelled_as_they_are_simulated() {
    let sizes = "16K,32K,64K,128K,256K";
    let curve = |model, more: &[&str]| {
        let all = [&["--workload", "key_value", "--model", model, "--sizes", sizes], more].concat();
        ratios(&json(&all))
    };
    let error = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 5.0;
    for ways in ["1", "2", "4"] {
        let simulated = curve("exact-lru", &["--ways", ways]);
        let in_sets = error(&curve("statstack", &["--ways", ways]), &simulated);
        let whole = error(&curve("statstack", &[]), &simulated);
        assert!(in_sets < 0.5 * whole, "{ways}: {in_sets} {whole}");
    }
    let random = curve("exact-random", &["--ways", "8"]);
    let error = error(&curve("statcache", &["--ways", "8"]), &random);
    assert!(error < 0.005, "{error}");
}

#[test]
fn the_models_are_close_to_the_exact_caches_on_real_kernels() {
    // The models promise 0.06 (0.25) percentage points on real programs. These kernels are short, and the join
    // builds its table and probes it within one window: a tenth or two leave room for that.
    for (workload, model, exact, tolerance) in [
        ("key_value", "statstack", "exact-lru", 0.001),
        ("hash_join", "statstack", "exact-lru", 0.002),
        // Averaged over windows that take the cache to be full all along, it would be 0.2 points off.
        ("key_value", "statcache", "exact-random", 0.0002),
    ] {
        let sizes = "4K,8K,16K,32K,64K,128K,256K,512K,1M";
        let curve = |model| ratios(&json(&["--workload", workload, "--model", model, "--sizes", sizes]));
        let (modelled, exact) = (curve(model), curve(exact));
        let error: f64 = modelled.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum::<f64>() / 9.0;
        assert!(error < tolerance, "{workload} {model}: {error}");
        assert!(exact[0] > 0.1 && exact[8] < 0.1); // a curve that has something to be wrong about
    }
}

#[test]
fn files_hold_what_is_printed() {
    let folder = Folder::new();
    let trace = folder.file("a <b> & c.din", cyclic());
    let out = folder.path("curve");
    let object = json(&["--trace", &trace, "--sizes", "4K,8K,16K", "--out", out.to_str().unwrap()]);
    let csv = fs::read_to_string(out.join("curve.csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("bytes,lines,miss_ratio,low,high"));
    for (line, point) in lines.zip(object["points"].as_array().unwrap()) {
        let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let expected =
            ["bytes", "lines", "miss_ratio", "low", "high"].map(|key| point[key].as_f64().unwrap());
        assert_eq!(fields, expected);
    }
    assert_eq!(csv.lines().count(), 4);
    let svg = fs::read_to_string(out.join("curve.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("&lt;b&gt; &amp; c.din") && svg.contains("cache size"));
    let table = run(&["--trace", &trace, "--sizes", "4K,8K"]);
    assert!(table.status == 0 && table.out.contains("8 KiB") && table.messages.is_empty());
}

#[test]
fn exact_models_say_that_they_do_not_sample() {
    let folder = Folder::new();
    let trace = folder.file("scan.din", cyclic());
    let ended = run(&["--trace", &trace, "--model", "exact-lru", "--sample-rate", "0.1", "--json"]);
    assert_eq!(ended.status, 0);
    assert_eq!(ended.messages, "miss_ratio_curve: exact-lru sees every access: --sample-rate is not used\n");
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&object["samples"], &object["sample_rate"]), (&5000.into(), &1.0.into()));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = Folder::new();
    let trace = folder.file("scan.din", cyclic());
    for form in [&["--json"][..], &[]] {
        let mut messages = Vec::new();
        let arguments = [&["miss_ratio_curve", "--trace", &trace], form].concat();
        let status = invoke(arguments, &mut Closed, &mut messages, |args: &Args, out, messages| {
            run_until(&AtomicBool::new(false), args, out, messages)
        });
        assert_eq!((status, messages.as_slice()), (0, &b""[..]));
    }
}

/// A naive matrix product walks down columns a power of two apart: at 32 KiB in 8 ways it misses half of its accesses, where sets
/// chosen by chance would miss 6 %.
#[test]
fn a_program_whose_lines_crowd_in_few_sets_is_found_out() {
    let object = |model: &str, workload: &str| {
        let sizes = ["--sizes", "32KiB,1MiB", "--ways", "8", "--draws", "100"];
        json(&[&["--workload", workload, "--model", model][..], &sizes].concat())
    };
    for (model, exact) in [("statstack", "exact-lru"), ("statcache", "exact-random")] {
        let modelled = object(model, "matmul_naive");
        let truth = ratios(&object(exact, "matmul_naive"));
        let simulated = modelled["sets_simulated"].as_array().unwrap();
        assert_eq!(simulated.iter().map(|sets| &sets["flagged"]).collect::<Vec<_>>(), [true, false]);
        // 64 sets: all of them are simulated.
        assert!((simulated[0]["miss_ratio"].as_f64().unwrap() - truth[0]).abs() < 0.01, "{truth:?}");
        let point = &modelled["points"][0];
        assert!(point["miss_ratio"].as_f64().unwrap() < truth[0] - 0.3);
        assert!(point["high"].as_f64().unwrap() > truth[0] - 0.01, "{point}");
    }
    let said = run(&["--workload", "matmul_naive", "--sizes", "32KiB", "--ways", "8", "--draws", "0"]).out;
    assert!(said.contains("WARNING") && said.contains("exact-lru"), "{said}");
    let tiled = object("statstack", "matmul_blocked");
    assert!(
        tiled["sets_simulated"].as_array().unwrap().iter().all(|sets| sets["flagged"] == false),
        "{tiled}"
    );
}
