//! How much slower a program runs beside others that share its cache, and how much that varies from run to run.
//!
//! ```text
//! cargo run --release --example corun_variability                                   # two embedded programs
//! cargo run --release --example corun_variability -- --trace a.din --trace b.din --mix 0.3,0.4 --json
//! cargo run --release --example corun_variability -- record -o a.json -- sort words.txt                # once for each
//! cargo run --release --example corun_variability -- predict a.json b.json --json
//! cargo run --release --example corun_variability -- --out report a/profile.json b/curve.json
//! cargo run --release --example corun_variability -- --evaluate --llc-size 256KiB --l1-size 4KiB   # the paper's table IV.1
//! ```

use std::process::ExitCode;

use examples::cli;
use examples::tools::corun_variability;

fn main() -> ExitCode {
    cli::main(corun_variability::run)
}
