//! The phase of every window of a program, and the phase predicted for the next one.
//!
//! ```text
//! cargo run --release --example detect_phases                                  # an embedded workload
//! valgrind --tool=exp-bbv --interval-size=1000000 --bb-out-file=ls.bb ls
//! cargo run --release --example detect_phases -- --bbv ls.bb --json
//! cargo run --release --example detect_phases -- --bbv ls.bb --clusterer simpoint --out points
//! cargo run --release --example detect_phases -- --out report -- xz -k file    # a real program
//! ```

use std::process::ExitCode;

use examples::tools::detect_phases::{Args, run};

fn main() -> ExitCode {
    examples::cli::main(|args: &Args, out, messages| run(args, out, messages))
}
