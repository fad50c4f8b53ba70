//! The phases of a program, and its miss ratio at every moment and every cache size.
//!
//! ```text
//! cargo run --release --example phase_guided_cache                          # an embedded workload
//! cargo run --release --example phase_guided_cache -- --out report -- xz -k file
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::phase_guided_cache;

fn main() -> ExitCode {
    cli::main(phase_guided_cache::run)
}
