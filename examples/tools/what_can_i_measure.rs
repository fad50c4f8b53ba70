//! What can be measured on this machine, and what to change to measure more.
//!
//! ```text
//! cargo run --release --example what_can_i_measure
//! cargo run --release --example what_can_i_measure -- --json
//! cargo run --release --example what_can_i_measure -- --report machine.json
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::what_can_i_measure;

fn main() -> ExitCode {
    if std::env::var_os(what_can_i_measure::WALK).is_some() {
        what_can_i_measure::walk();
        return ExitCode::SUCCESS;
    }
    cli::main(what_can_i_measure::run)
}
