//! All phase detectors and all signatures on the same windows, and the papers' experiments.
//!
//! ```text
//! cargo run --release --example compare_detectors                                   # embedded workloads
//! cargo run --release --example compare_detectors -- --experiment all --out compared
//! cargo run --release --example compare_detectors -- --limit 200 -- xz -k -c file   # a real program, under valgrind
//! ```

use std::process::ExitCode;

use examples::tools::compare_detectors::{Args, run};

fn main() -> ExitCode {
    examples::cli::main(|args: &Args, out, messages| run(args, out, messages))
}
