//! Compiles the program with threads that `compare_detectors` observes, for the target.

use std::env;
use std::path::Path;
use std::process::{Command, exit};

fn main() {
    let source = "programs/threaded.rs";
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={source}");
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    let mut command = Command::new(variable("RUSTC"));
    command
        .args(["--edition", "2024", "--crate-name", "threaded", "-C", "opt-level=2", "--target"])
        .arg(variable("TARGET"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={}", linker.to_string_lossy()));
    }
    command.arg("-o").arg(Path::new(&variable("OUT_DIR")).join("threaded")).arg(source);
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!("{source} does not compile");
        exit(1);
    }
}
