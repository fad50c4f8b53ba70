//! How far StatStack and StatCache are from exact simulation.
//!
//! ```text
//! valgrind --tool=lackey --trace-mem=yes --log-file=sort.lackey sort /usr/share/dict/words > /dev/null
//! cargo run --release --example model_accuracy -- sort.lackey                # every access measured
//! cargo run --release --example model_accuracy -- --one-in 100 sort.lackey   # one sample in 100 accesses
//! cargo run --release --example model_accuracy -- --workload matmul_naive --json
//! cargo run --release --example model_accuracy -- --limit 12000000 --command "sort words.txt" --ways 4,8,16
//! ```

use std::process::ExitCode;

use examples::reference::accuracy::{Args, run};

fn main() -> ExitCode {
    examples::cli::main(|args: &Args, out, messages| run(args, out, messages))
}
