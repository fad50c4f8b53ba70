//! At which clock frequency should each phase of a recorded run execute? From the `profile.json` of an argument, or an
//! example, to a schedule, on a core that takes a cycle per instruction and waits for each miss.

use std::error::Error;

use powersleuth::analysis::{Analysis, Goal, Objective, Profile};
use powersleuth::performance::{InOrderCore, StallBased};
use powersleuth::power::nehalem;
use powersleuth::{Hertz, Seconds};
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::{CacheLines, CacheModel};
use statstack::StatStack;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../reuse-sampler/tests/data/phase-profile-v1.json");
/// Bytes of the three levels of cache.
const LEVELS: [u64; 3] = [32 << 10, 256 << 10, 2 << 20];
const CORE: InOrderCore = InOrderCore {
    frequency: Hertz::from_ghz(2.66),
    cycles_per_instruction: 1.0,
    memory_latency: Seconds::from_ns(65.0),
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| EXAMPLE.to_owned());
    let run = PhaseProfile::read(std::fs::File::open(path)?)?;
    let power = nehalem::example()?;
    let mut profile = Profile::new(CORE.frequency, power.capacitance().events().to_vec())?;
    for described in run.described_phases()?.iter().filter(|of| of.instructions > 0) {
        let model = StatStack::fit(described.profile)?;
        let accesses = described.accesses().ok_or("accesses per instruction are not known")?;
        let sizes = LEVELS.map(|bytes| CacheLines::from_bytes(bytes, run.line_size()));
        let [l1, l2, llc] = sizes.map(|size| accesses * model.miss_ratio(size));
        let counts = CORE.counts(described.instructions as f64, llc)?;
        let power_counts = nehalem::traffic(accesses, l1, l2, counts.stall_cycles());
        profile.push_named(&*described.phase.phase, counts, &power_counts)?;
    }
    let frequencies: Vec<Hertz> = power.points().frequencies().collect();
    let analysis = Analysis::predict(&profile, &StallBased::exact_stalls(), &power, &frequencies)?;
    let schedule = analysis.schedule(&Goal::least(Objective::Edp).within(0.1)?);
    for (phase, frequency) in schedule.frequencies() {
        println!("{phase}: {:.2} GHz", frequency.ghz());
    }
    Ok(())
}
