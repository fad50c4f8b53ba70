//! A pipeline as its users meet it: arguments in; output, messages and exit status out.

pub mod curve;

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use examples::cli::{CommandLine, Failure, invoke};
use serde_json::Value;
use tempfile::TempDir;

/// What is left of a run.
pub struct Ended {
    pub status: u8,
    pub out: String,
    pub messages: String,
}

/// Runs `pipeline` on a command line.
pub fn run_pipeline<A: CommandLine>(
    arguments: &[&str],
    pipeline: impl FnOnce(&A, &mut dyn Write, &mut dyn Write) -> Result<u8, Failure>,
) -> Ended {
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let arguments = std::iter::once("pipeline").chain(arguments.iter().copied());
    let status = invoke(arguments, &mut out, &mut messages, pipeline);
    Ended { status, out: String::from_utf8(out).unwrap(), messages: String::from_utf8(messages).unwrap() }
}

impl Ended {
    /// The only line of the output of a run that succeeded, as JSON.
    pub fn object(&self) -> Value {
        let mut objects = self.objects();
        assert_eq!(objects.len(), 1);
        objects.remove(0)
    }

    /// One JSON value for each line of the output of a run that succeeded.
    pub fn objects(&self) -> Vec<Value> {
        assert_eq!(self.status, 0, "{}", self.messages);
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Appends `count` accesses to lines drawn uniformly from `lines`, from byte `base` on.
pub fn uniform(text: &mut String, state: &mut u64, base: u64, lines: u64, count: usize) {
    for _ in 0..count {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        writeln!(text, "0 {:x}", base + 64 * ((*state >> 33) % lines)).unwrap();
    }
}

/// A temporary folder, gone with the value.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The binary of a command, which cargo builds beside the tests.
pub fn binary(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p examples --examples", path.display());
    path
}
