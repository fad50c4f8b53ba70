//! How fast is each phase of one recorded run beside each phase of another? From two `profile.json`, or an example
//! beside itself, to cycles per instruction.

use std::error::Error;

use reuse_sampler::CacheLines;
use reuse_sampler::file::{PhaseProfile, ProfiledPhase};
use statcc::{CoRun, LinearLatency, PrivateLevel, Program};
use statstack::StatStack;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../reuse-sampler/tests/data/phase-profile-v1.json");

/// The phase on an in-order core: a cycle per instruction, and the latencies of L1, shared cache and memory.
fn program(run: &PhaseProfile, phase: &ProfiledPhase) -> Result<Program, Box<dyn Error>> {
    let described = run.described_by(phase).ok_or("a phase without samples")?;
    let mix = phase.accesses_per_instruction.or(described.accesses_per_instruction);
    let mix = mix.ok_or("a phase whose accesses per instruction are not known")?;
    let l1 = PrivateLevel { hit_ratio: 0.6, latency: 1.0 };
    Ok(Program::in_order(&described.profile, mix, LinearLatency::new(1.0, mix, &[l1], 10.0, 130.0)?)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = |number| std::env::args().nth(number).unwrap_or_else(|| EXAMPLE.to_owned());
    let [first, second] = [path(1), path(2)]
        .map(|path| -> Result<_, Box<dyn Error>> { Ok(PhaseProfile::read(std::fs::File::open(path)?)?) });
    let (first, second) = (first?, second?);
    let cache = CacheLines((2 << 20) / u64::from(first.line_size().bytes()));
    for phase in &first.phases {
        let alone = CoRun::new(vec![program(&first, phase)?])?.solve(cache, StatStack::fit)?;
        for beside in &second.phases {
            let both = CoRun::new(vec![program(&first, phase)?, program(&second, beside)?])?;
            let (alone, cpi) =
                (alone.programs()[0].cpi, both.solve(cache, StatStack::fit)?.programs()[0].cpi);
            println!("{} beside {}: CPI {cpi:.2}, alone {alone:.2}", phase.phase, beside.phase);
        }
    }
    Ok(())
}
