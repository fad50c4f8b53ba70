//! What programs do to each other in a shared cache: predicted by StatCC, and simulated.
//!
//! ```text
//! cargo run --release --example statcc_accuracy                       # ten embedded programs, all pairs
//! cargo run --release --example statcc_accuracy -- --trace a.din --trace b.din --mix 0.35,0.4 --json
//! cargo run --release --example statcc_accuracy -- --inclusion inclusive --out accuracy   # the paper's chip
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::statcc_accuracy;

fn main() -> ExitCode {
    cli::main(statcc_accuracy::run)
}
