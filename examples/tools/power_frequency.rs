//! Time, power and energy of each phase of a program at any clock frequency, and which one to run it at.
//!
//! ```text
//! cargo run --release --example power_frequency                         # an embedded workload on a simulated core
//! cargo run --release --example power_frequency -- --out report -- xz -k file
//! cargo run --release --example power_frequency -- --accuracy           # predictions against the truth
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::power_frequency;

fn main() -> ExitCode {
    cli::main(power_frequency::run)
}
