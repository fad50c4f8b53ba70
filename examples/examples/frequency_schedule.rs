//! At which clock frequency should each phase run? From counts taken at one frequency to a schedule with least energy.

use std::error::Error;

use powersleuth::analysis::{Analysis, Goal, Objective, Profile};
use powersleuth::performance::{Counts, StallBased};
use powersleuth::power::{OperatingPoint, OperatingPoints, PowerModel, nehalem};
use powersleuth::{Cycles, Hertz, Seconds, Volts, Watts};

fn main() -> Result<(), Box<dyn Error>> {
    // What the machine can do: frequency in GHz, voltage, static power.
    let settings = [(1.6, 0.95, 5.0), (2.13, 1.05, 6.5), (2.66, 1.2, 9.0)];
    let points = OperatingPoints::new(settings.map(|(ghz, volts, watts)| OperatingPoint {
        frequency: Hertz::from_ghz(ghz),
        voltage: Volts(volts),
        static_power: Watts(watts),
    }))?;
    // A model fitted by hand for a Nehalem. `power::TrainingSet` fits one to your machine.
    let power = PowerModel::new("an example", points, nehalem::effective_capacitance()?);

    // Intervals counted at 2.66 GHz: the phase, cycles that waited for memory, misses of the last-level cache.
    let intervals = [("waits", 8e7, 5e5), ("waits", 8e7, 5e5), ("computes", 1e6, 1e3), ("mixed", 4e7, 2e5)];
    let mut profile = Profile::new(Hertz::from_ghz(2.66), power.capacitance().events().to_vec())?;
    for (phase, stalls, misses) in intervals {
        let counts = Counts::new(1e8, Cycles(1e8), Cycles(stalls), misses)?;
        let power_counts = [
            ("UOPS_EXECUTED.PORT_234_CORE", 3e7),
            ("L2_RQSTS.MISS", misses),
            ("L2_RQSTS.REFERENCES.ANY", 2e6),
            ("RESOURCE_STALLS.ANY", stalls),
            ("FP_COMP_OPS_EXE.SSE_FP", 1e6),
            ("BR_MISP_EXEC.ANY", 1e5),
        ];
        profile.push_named(phase, counts, &power_counts)?;
    }

    let frequencies: Vec<Hertz> = power.points().frequencies().collect();
    let memory = StallBased::new(Seconds::from_ns(65.0))?;
    let analysis = Analysis::predict(&profile, &memory, &power, &frequencies)?;
    for (name, objective) in [("energy", Objective::Energy), ("energy x delay", Objective::Edp)] {
        println!("least {name}, no phase more than 10 % slower than at 2.66 GHz");
        let schedule = analysis.schedule(&Goal::least(objective).within(0.1)?);
        for phase in ["computes", "mixed", "waits"] {
            let frequency = schedule.frequency(&phase).ok_or("every phase has a frequency")?;
            println!("{phase:>10}: {:.2} GHz", frequency.ghz());
        }
    }
    Ok(())
}
