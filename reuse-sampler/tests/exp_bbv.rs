//! The `.bb` reader on a file that valgrind's exp-bbv writes here and now, against the instructions it says it counted.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::process::Command;

use reuse_sampler::trace::{BbWindows, BbWriter};
use reuse_sampler::{Sampler, WindowPlan};

const INTERVAL: u64 = 50_000;

#[test]
fn windows_hold_the_instructions_valgrind_counts() {
    let name =
        |what: &str| std::env::temp_dir().join(format!("reuse-sampler-bbv-{}-{what}", std::process::id()));
    let (vectors, blocks) = (name("bb"), name("pc"));
    let ended = Command::new("valgrind")
        .arg("--tool=exp-bbv")
        .arg(format!("--interval-size={INTERVAL}"))
        .arg(format!("--bb-out-file={}", vectors.display()))
        .arg(format!("--pc-out-file={}", blocks.display()))
        .arg("true")
        .output();
    let read = fs::read(&vectors);
    let _ = (fs::remove_file(&vectors), fs::remove_file(&blocks));
    let (Ok(ended), Ok(file)) = (&ended, read) else {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind: {ended:?}");
        println!("skipped: valgrind does not run here ({ended:?})");
        return;
    };
    let mut windows = BbWindows::new(&file[..]);
    let mut writer = BbWriter::new(Vec::new());
    let mut instructions = Vec::new();
    let mut codes = Vec::new();
    while let Some(window) = windows.next_window(&WindowPlan::count_only()).unwrap() {
        instructions.push(window.instructions);
        writer.window(&window).unwrap();
        codes.push(window.code);
    }
    // A window ends with the block that completes it; what is left at the end is one if it is long enough for valgrind.
    assert!(instructions.len() > 1, "{instructions:?}");
    assert!(instructions[..instructions.len() - 1].iter().all(|&n| n.abs_diff(INTERVAL) < INTERVAL / 10));
    let told = String::from_utf8_lossy(&ended.stderr);
    let total = told.lines().find_map(|line| line.split("Total instructions: ").nth(1)).expect(&told);
    let total: u64 = total.trim().replace(',', "").parse().unwrap();
    let sum: u64 = instructions.iter().sum();
    assert!(
        sum <= total + INTERVAL / 10 && total - sum.min(total) <= INTERVAL,
        "{sum} read, {total} counted"
    );

    // Written and read again it has the same numbers, blocks renamed.
    let written = writer.finish().unwrap();
    let mut again = BbWindows::new(&written[..]);
    for code in codes {
        let window = again.next_window(&WindowPlan::count_only()).unwrap().unwrap();
        let sorted = |code: &[(u64, u64)]| {
            let mut counts: Vec<u64> = code.iter().map(|(_, count)| *count).collect();
            counts.sort_unstable();
            counts
        };
        assert_eq!(sorted(&window.code), sorted(&code));
    }
}
