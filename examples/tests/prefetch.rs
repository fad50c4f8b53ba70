//! `miss_ratio_curve --prefetch`: the model against the simulation of the same prefetcher.

use std::fmt::Write as _;

use crate::support::Folder;
use crate::support::curve::{json, ratios, run};

#[test]
fn demand_misses_are_within_a_point_of_the_simulation() {
    for workload in ["key_value", "matmul_blocked"] {
        for prefetch in ["next-line", "stride"] {
            let of =
                |more: &[&str]| json(&[&["--workload", workload, "--prefetch", prefetch], more].concat());
            let exact = of(&["--model", "exact-lru"]);
            for rate in ["1", "0.1"] {
                let modelled = of(&["--sample-rate", rate]);
                assert_eq!(modelled["accesses"], exact["accesses"]);
                assert_eq!(modelled["prefetches"], exact["prefetches"]);
                assert!(exact["prefetches"].as_u64().unwrap() > 0);
                for (found, truth) in ratios(&modelled).into_iter().zip(ratios(&exact)) {
                    assert!(
                        (found - truth).abs() < 0.01,
                        "{workload}, {prefetch}, {rate}: {found}, not {truth}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_scan_is_fetched_ahead_and_a_stride_over_lines_only_by_its_instruction() {
    let folder = Folder::new();
    // A line in each access, five rounds over more lines than fit.
    let text: String = (0..5_000).fold(String::new(), |mut text, i| {
        writeln!(text, "0 {:x}", 0x10_0000 + 64 * (i % 1_000)).unwrap();
        text
    });
    let trace = folder.file("scan.din", text);
    let scan = ["--trace", trace.as_str(), "--sizes", "8KiB"];
    for model in ["statstack", "exact-lru"] {
        let plain = ratios(&json(&[&scan[..], &["--model", model]].concat()));
        let fetched = ratios(&json(&[&scan[..], &["--model", model, "--prefetch", "next-line"]].concat()));
        // The first line of each round is not next to the last.
        assert!(plain[0] > 0.99 && fetched[0] < 0.01, "{model}: {plain:?} {fetched:?}");
    }
    let ended = run(&[&scan[..], &["--prefetch", "stride"]].concat());
    assert!(ended.messages.contains("needs the instruction of each access"), "{}", ended.messages);
    assert_eq!((ended.status, ended.out.as_str()), (2, ""));
    let ended = run(&[&scan[..], &["--prefetch", "next-line", "--model", "statcache"]].concat());
    assert!(ended.messages.contains("give --model statstack or exact-lru"), "{}", ended.messages);
}
