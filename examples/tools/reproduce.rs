//! The figures of the papers beside ours, technique by technique.
//!
//! ```text
//! cargo run --release --example reproduce -- --quick              # about a minute
//! cargo run --release --example reproduce -- --out results        # writes results/RESULTS.md
//! cargo run --release --example reproduce -- --full
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    examples::cli::main(examples::tools::reproduce::run)
}
