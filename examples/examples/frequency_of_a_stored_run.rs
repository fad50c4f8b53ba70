//! At which clock frequency should each phase of a recorded run execute? From the `profile.json` of an argument, or an
//! example, to a schedule, on a core that takes a cycle per instruction and waits for each miss.

use std::error::Error;

use powersleuth::analysis::{Analysis, Goal, Objective, Profile};
use powersleuth::performance::{Counts, StallBased};
use powersleuth::power::{OperatingPoint, OperatingPoints, PowerModel, nehalem};
use powersleuth::{Cycles, Hertz, Seconds, Volts, Watts};
use reuse_sampler::file::PhaseProfile;
use reuse_sampler::{CacheLines, CacheModel};
use statstack::StatStack;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../reuse-sampler/tests/data/phase-profile-v1.json");
const MEMORY_NS: f64 = 65.0;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| EXAMPLE.to_owned());
    let run = PhaseProfile::read(std::fs::File::open(path)?)?;
    let points = [(1.6, 0.95, 5.0), (2.13, 1.05, 6.5), (2.66, 1.2, 9.0)].map(|(ghz, volts, watts)| {
        OperatingPoint { frequency: Hertz::from_ghz(ghz), voltage: Volts(volts), static_power: Watts(watts) }
    });
    let power =
        PowerModel::new("an example", OperatingPoints::new(points)?, nehalem::effective_capacitance()?);

    // What each window would count at 2.66 GHz, from the misses of its phase in 32 KiB, 256 KiB and 2 MiB.
    let mut profile = Profile::new(Hertz::from_ghz(2.66), power.capacitance().events().to_vec())?;
    for window in run.windows.iter().filter(|window| window.instructions > 0) {
        let phase = run.phase(&window.phase).ok_or("a window without a phase")?;
        let Some(described) = run.described_by(phase) else { continue };
        let mix = phase.accesses_per_instruction.or(described.accesses_per_instruction).unwrap_or(0.3);
        let (model, instructions) = (StatStack::fit(&described.profile)?, window.instructions as f64);
        let accesses = instructions * mix;
        let [l1, l2, llc] = [512, 4096, 32_768].map(|lines| accesses * model.miss_ratio(CacheLines(lines)));
        let stalls = llc * MEMORY_NS * 2.66;
        let counts = Counts::new(instructions, Cycles(instructions + stalls), Cycles(stalls), llc)?;
        profile.push(window.phase.as_str(), counts, &[accesses, l2, l1, stalls, 0.0, 0.0])?;
    }

    let frequencies: Vec<Hertz> = power.points().frequencies().collect();
    let memory = StallBased::new(Seconds::from_ns(MEMORY_NS))?;
    let analysis = Analysis::predict(&profile, &memory, &power, &frequencies)?;
    let schedule = analysis.schedule(&Goal::least(Objective::Edp).within(0.1)?);
    for phase in &run.phases {
        let Some(frequency) = schedule.frequency(&phase.phase.as_str()) else { continue };
        println!("{}: {:.2} GHz", phase.phase, frequency.ghz());
    }
    Ok(())
}
