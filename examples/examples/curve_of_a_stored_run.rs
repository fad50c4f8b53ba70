//! What does each phase of a recorded run miss? From the `profile.json` of an argument, or an example, to miss ratios.

use std::error::Error;

use reuse_sampler::file::PhaseProfile;
use reuse_sampler::{CacheLines, CacheModel};
use statstack::StatStack;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../reuse-sampler/tests/data/phase-profile-v1.json");

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| EXAMPLE.to_owned());
    let run = PhaseProfile::read(std::fs::File::open(path)?)?;
    println!("{}, in {} windows", run.program, run.windows.len());
    for described in run.described_phases()? {
        let model = StatStack::fit(described.profile)?;
        let lines = |bytes| CacheLines::from_bytes(bytes, run.line_size());
        let [small, large] = [32 << 10, 2 << 20].map(|bytes| 100.0 * model.miss_ratio(lines(bytes)));
        println!(
            "{}: misses {small:.2} % of its accesses in 32 KiB, {large:.2} % in 2 MiB",
            described.phase.phase
        );
    }
    Ok(())
}
