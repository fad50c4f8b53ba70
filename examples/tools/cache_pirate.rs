//! CPI, miss ratio, fetch ratio and bandwidth of a program as a function of the cache it has.
//!
//! ```text
//! cargo run --release --example cache_pirate                                     # an embedded workload, simulated
//! cargo run --release --example cache_pirate -- --trace trace.din --mix 0.3 --json
//! cargo run --release --example cache_pirate -- --out curves -- xz -k file       # a real program, this machine
//! ```

use std::process::ExitCode;

use examples::tools::cache_pirate::{Args, run};

fn main() -> ExitCode {
    examples::cli::main(|args: &Args, out, messages| run(args, out, messages))
}
