//! The miss ratio of a cache over its size.
//!
//! ```text
//! cargo run --release --example miss_ratio_curve                                    # an embedded workload
//! cargo run --release --example miss_ratio_curve -- --trace trace.din.gz --sizes 32KiB,256KiB,1MiB --json
//! valgrind --tool=lackey --trace-mem=yes --log-file=ls.lackey ls
//! cargo run --release --example miss_ratio_curve -- --trace ls.lackey --out curve
//! cargo run --release --example miss_ratio_curve -- --side instruction --sizes 32KiB -- ls
//! ```

use std::process::ExitCode;

use examples::tools::miss_ratio_curve::{Args, run};

fn main() -> ExitCode {
    examples::cli::main(|args: &Args, out, messages| run(args, out, messages))
}
