//! Traces from one format to another.
//!
//! ```text
//! valgrind --tool=lackey --trace-mem=yes --log-file=/dev/fd/3 ls 3>&1 >/dev/null | \
//!   cargo run --release --example convert_trace -- --from lackey --to din | gzip > ls.din.gz
//! cargo run --release --example convert_trace -- ls.din.gz --to profile --out profiles --json
//! ```

use std::process::ExitCode;

use examples::tools::convert_trace::{Args, run};

fn main() -> ExitCode {
    examples::cli::main(|args: &Args, out, messages| run(args, out, messages))
}
