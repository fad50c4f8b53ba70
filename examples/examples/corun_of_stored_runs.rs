//! How fast is each phase of one recorded run beside each phase of another? From two `profile.json`, or an example
//! beside itself, to cycles per instruction.

use std::error::Error;

use reuse_sampler::CacheLines;
use reuse_sampler::file::{DescribedPhase, PhaseProfile};
use statcc::{CoRun, LinearLatency, PrivateLevel, Program};
use statstack::StatStack;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../reuse-sampler/tests/data/phase-profile-v1.json");

/// The phase on an in-order core: a cycle per instruction, and the latencies of L1, shared cache and memory.
fn program(phase: &DescribedPhase<'_>) -> Result<Program, Box<dyn Error>> {
    let mix = phase.accesses_per_instruction;
    let mix = mix.ok_or("a phase whose accesses per instruction are not known")?;
    let l1 = PrivateLevel { hit_ratio: 0.6, latency: 1.0 };
    Ok(Program::in_order(phase.profile, mix, LinearLatency::new(1.0, mix, &[l1], 10.0, 130.0)?)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = |number| std::env::args().nth(number).unwrap_or_else(|| EXAMPLE.to_owned());
    let [first, second] = [path(1), path(2)]
        .map(|path| -> Result<_, Box<dyn Error>> { Ok(PhaseProfile::read(std::fs::File::open(path)?)?) });
    let (first, second) = (first?, second?);
    let cache = CacheLines::from_bytes(2 << 20, first.line_size());
    for phase in &first.described_phases()? {
        let alone = CoRun::new(vec![program(phase)?])?.solve(cache, StatStack::fit)?;
        for beside in &second.described_phases()? {
            let both = CoRun::new(vec![program(phase)?, program(beside)?])?;
            let (alone, cpi) =
                (alone.programs()[0].cpi, both.solve(cache, StatStack::fit)?.programs()[0].cpi);
            println!("{} beside {}: CPI {cpi:.2}, alone {alone:.2}", phase.phase.phase, beside.phase.phase);
        }
    }
    Ok(())
}
