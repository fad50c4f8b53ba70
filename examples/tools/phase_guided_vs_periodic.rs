//! Phase-guided against periodic profiling, and SHARDS, on programs that are simulated exactly.
//!
//! ```text
//! cargo run --release --example phase_guided_vs_periodic                    # embedded workloads
//! cargo run --release --example phase_guided_vs_periodic -- --out report -- xz --keep --stdout file
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::phase_guided_vs_periodic;

fn main() -> ExitCode {
    cli::main(phase_guided_vs_periodic::run)
}
