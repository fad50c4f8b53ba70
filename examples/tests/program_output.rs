//! Standard output belongs to the program that a command runs.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Folder, binary};
use serde_json::Value;

fn emulator() -> bool {
    let found = Command::new("qemu-x86_64").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: qemu-user is not installed");
    }
    found && cfg!(target_arch = "x86_64")
}

/// Runs `command flags -- xz -c input`, with standard output in a file: what the file holds, and the rest.
fn compress(command: &str, flags: &[&str], folder: &Folder, input: &str) -> (Vec<u8>, Output) {
    let path = folder.path(&format!("{command}.xz"));
    let ended = Command::new(binary(command))
        .args(flags)
        .args(["--", "xz", "-0", "--threads=1", "-c", input])
        .stdout(File::create(&path).unwrap())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    (fs::read(path).unwrap(), ended)
}

const COMMANDS: [(&str, &[&str]); 5] = [
    ("phase_guided_cache", &["--backend", "qemu", "--window", "1000000"]),
    ("detect_phases", &["--backend", "qemu", "--window", "1000000"]),
    ("miss_ratio_curve", &["--sample-rate", "0.001"]),
    ("phase_guided_vs_periodic", &["--brief", "--window", "1000000"]),
    ("power_frequency", &["--modelled", "--window", "1000000"]),
];

#[test]
fn the_output_of_a_program_is_uncorrupted() {
    if !emulator() {
        return;
    }
    let folder = Folder::new();
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let input = folder.file("input", &fs::read(lock).unwrap()[..20_000]);
    let native = Command::new("xz").args(["-0", "--threads=1", "-c", &input]).output().unwrap().stdout;
    for (command, flags) in COMMANDS {
        // The table goes to standard error.
        let (written, ended) = compress(command, flags, &folder, &input);
        assert!(written == native, "{command}");
        assert!(!ended.stderr.is_empty(), "{command}");
        // Or into a file, as JSON, too.
        let result = folder.path("result.json");
        let more = [flags, &["--json", "-o", result.to_str().unwrap()]].concat();
        let (written, _) = compress(command, &more, &folder, &input);
        assert!(written == native, "{command}");
        for line in fs::read_to_string(&result).unwrap().lines() {
            let _: Value = serde_json::from_str(line).unwrap();
        }
        // With --json alone, standard output is JSON, and the program's output is on standard error.
        let (json, ended) = compress(command, &[flags, &["--json"]].concat(), &folder, &input);
        for line in String::from_utf8(json).unwrap().lines() {
            let _: Value = serde_json::from_str(line).unwrap();
        }
        assert!(ended.stderr.windows(native.len()).any(|part| part == native), "{command}");
    }
}

#[test]
fn files_that_cannot_be_written_leave_the_result_on_the_terminal() {
    let folder = Folder::new();
    let input = folder.file("input.din", (0..2000).map(|i| format!("0 {:x}\n", i * 64)).collect::<String>());
    // A directory in the place of a file cannot be replaced.
    fs::create_dir_all(folder.path("out/curve.csv/full")).unwrap();
    let out = folder.path("out");
    let ended = Command::new(binary("miss_ratio_curve"))
        .args(["--trace", &input, "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let (table, message) =
        (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
    assert!(table.contains("4 KiB"), "{table}");
    assert!(message.contains("curve.csv") && message.contains("printed above"), "{message}");
}
