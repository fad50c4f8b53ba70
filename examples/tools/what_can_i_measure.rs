//! What can be measured on this machine, and what to change to measure more.
//!
//! ```text
//! cargo run --release --example what_can_i_measure
//! cargo run --release --example what_can_i_measure -- --json
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::what_can_i_measure;

fn main() -> ExitCode {
    cli::main(what_can_i_measure::run)
}
