//! Recompiles a small program as the documentation of `sancov` says, with the compiler at hand, and runs it: it compares
//! what was recorded with what it is known to do.

#![allow(clippy::pedantic)] // tests follow the lints that catch mistakes, not those of taste
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::{Command, Output};

const PASS: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-trace-loads",
    "-Cllvm-args=-sanitizer-coverage-trace-stores",
];

/// Compiles the example with these arguments and runs it.
fn run(arguments: &[&str]) -> Output {
    // A folder of its own: this test is run by a cargo that uses the other one.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sancov");
    let built = Command::new(env!("CARGO"))
        .args([
            "rustc",
            "--quiet",
            "--offline",
            "--locked",
            "--example",
            "sancov_kernel",
            "--features",
            "sancov",
        ])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder)
        .arg("--")
        .args(arguments)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Command::new(folder.join("debug/examples/sancov_kernel")).output().unwrap()
}

#[test]
fn a_recompiled_kernel_does_what_its_source_says() {
    for more in [&[][..], &["-Cllvm-args=-sanitizer-coverage-trace-pc-guard"]] {
        let ended = run(&[&PASS[..], more].concat());
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && told.contains("as expected: 40000 accesses"), "{told}");
        let edges: u32 = told.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
        assert_eq!(edges > 0, !more.is_empty(), "{told}");
    }
    // Without the pass nothing is recorded, and the example says so.
    let ended = run(&[]);
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(!ended.status.success() && told.contains("was it compiled with the pass?"), "{told}");
}
