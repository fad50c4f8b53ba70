//! `miss_ratio_curve --model statcache`: where misses are followed through the run.

use crate::support::Folder;
use crate::support::curve::{json, ratios, run};

/// Misses are followed through the run where the parts are those of one cache from its beginning.
#[test]
fn statcache_is_in_time_and_says_so() {
    let folder = Folder::new();
    let rows = |threads: u64| {
        (0..4000_u64).fold("thread,kind,address,bytes\n".to_owned(), |rows, i| {
            rows + &format!("{},load,{},8\n", i % threads, i * i % 311 * 64)
        })
    };
    let (alone, both) = (folder.file("one.csv", rows(1)), folder.file("two.csv", rows(2)));
    let more = ["--model", "statcache", "--sizes", "4K"];
    for (trace, scope, in_time, said) in [
        (&alone, "private", true, "StatCache in time"),
        (&both, "private", false, "StatCache, averaged over windows"),
        (&both, "shared", true, "StatCache in time"),
    ] {
        let arguments = [&["--trace", trace, "--scope", scope][..], &more].concat();
        let object = json(&arguments);
        assert_eq!((&object["in_time"], object["notes"].as_array()), (&in_time.into(), Some(&vec![])));
        let table = run(&arguments);
        assert!(table.out.contains(said), "{}", table.out);
    }
    assert_eq!(json(&["--trace", &alone, "--sizes", "4K"]).get("in_time"), None);
}

/// A run in one part is modelled from an empty cache, too.
#[test]
fn a_scan_that_ends_early_fills_random_caches_first() {
    let folder = Folder::new();
    let scan: String = (0..20_000).map(|i| format!("0 {:x}\n", 64 * (i % 3000))).collect();
    let trace = folder.file("scan.din", scan);
    let sizes = ["--sizes", "64K,128K,256K", "--draws", "0"];
    let curve = |more: &[&str]| ratios(&json(&[&["--trace", &trace, "--model"], more, &sizes].concat()));
    let exact = curve(&["exact-random"]);
    assert_eq!(exact[2], 3000.0 / 20_000.0);
    for more in [&["--windows", "1"][..], &[]] {
        let modelled = curve(&[&["statcache"], more].concat());
        for (modelled, exact) in modelled.iter().zip(&exact) {
            // Full all along, caches of 128 and 256 KiB would miss 0.07 and 0.18 more.
            assert!((modelled - exact).abs() < 0.01, "{more:?}: {modelled} {exact}");
        }
    }
}

/// Lookups among some lines and scans of many alternate 50 times, which fewer parts mix.
#[test]
fn what_alternates_often_is_modelled_apart() {
    let folder = Folder::new();
    let line = |i: u64| match i % 80_000 {
        at @ 50_000.. => 10_000 + at,
        _ => i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52, // of 4096
    };
    let text: String = (0..4_000_000).map(|i| format!("0 {:x}\n", 64 * line(i))).collect();
    let trace = folder.file("alternating.din", text);
    let sizes = ["--sizes", "128K,256K", "--draws", "0"];
    let curve = |more: &[&str]| ratios(&json(&[&["--trace", &trace, "--model"], more, &sizes].concat()));
    let exact = curve(&["exact-random"]);
    let error = |more: &[&str]| {
        let pairs = curve(&[&["statcache"], more].concat()).into_iter().zip(&exact);
        pairs.map(|(modelled, exact)| (modelled - exact).abs()).fold(0.0, f64::max)
    };
    let (few, many) = (error(&["--windows", "64"]), error(&[]));
    assert!(many < 0.5 * few, "{few} {many}");
}
