//! The phases of a program, and its miss ratio at every moment and every cache size.
//!
//! ```text
//! cargo run --release --example phase_guided_cache                          # an embedded workload
//! cargo run --release --example phase_guided_cache -- --out report -- xz -k file
//! ```

use std::process::ExitCode;

use clap::Parser;
use examples::pipelines::phase_guided_cache::{Args, run};

fn main() -> ExitCode {
    run(&Args::parse(), &mut std::io::stdout().lock())
}
