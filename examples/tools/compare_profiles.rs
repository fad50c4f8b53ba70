//! Did a change help? Two runs' phase profiles: what became of the misses, overall and phase by phase, and how sure that is.
//!
//! ```text
//! cargo run --release --example phase_guided_cache -- --out before -- ./program      # then change it
//! cargo run --release --example phase_guided_cache -- --out after -- ./program
//! cargo run --release --example compare_profiles -- before/profile.json after/profile.json
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    examples::cli::main(examples::tools::compare_profiles::run)
}
