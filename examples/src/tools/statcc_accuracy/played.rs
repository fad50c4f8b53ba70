//! Traces on the chip: each alone, all together, and what the model says of it.

use serde::Serialize;
use statcc::walk;

use super::distances::{Distances, Pass};
use super::model::Model;
use super::steady::{self, Steady};
use super::subject::{Known, cache, dispersion};
use super::truth::{Machine, Solo};
use crate::cli::Failure;
use crate::machines::chip::corun::Until;
use crate::machines::testbed::programs::Recorded;
use crate::parallel::on_each;

/// Shortest window that is worth a profile of its own, in accesses.
const SHORTEST_WINDOW: u64 = 500;

/// A program's speed and misses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Shared-cache misses per memory access.
    pub miss_ratio: f64,
    /// Cycles per instruction.
    pub cpi: f64,
}

/// The same beside other programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SharedFigures {
    /// Shared-cache misses per memory access.
    pub miss_ratio: f64,
    /// Cycles per instruction.
    pub cpi: f64,
    /// Lines of the shared cache held, averaged over time.
    pub share_lines: f64,
}

/// What became of one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// Name of the trace.
    pub name: String,
    /// Memory accesses per instruction.
    pub mix: f64,
    /// Accesses in the trace.
    pub accesses: u64,
    /// Alone on the chip.
    pub solo: Figures,
    /// Together with the others, as predicted.
    pub predicted: SharedFigures,
    /// Its lowest and highest CPI in slightly smaller to slightly larger caches.
    pub predicted_range: (f64, f64),
    /// Whether those are so far apart that the range is to be used, not the number.
    pub flagged: bool,
    /// And as simulated.
    pub simulated: SharedFigures,
    /// As predicted from one profile of the whole trace.
    pub steady: Steady,
}

/// A program alone.
struct Subject {
    solo: Solo,
    known: Known,
}

/// Plays `programs` alone and together, and predicts the latter from the former, in up to `windows` windows each;
/// from the misses `counted` alone, too, or from profiles only.
///
/// # Errors
/// [`Failure`] if the chip cannot be built.
pub fn play(
    programs: &[Recorded],
    machine: &Machine,
    model: Model,
    windows: u64,
    counted: bool,
) -> Result<Vec<Played>, Failure> {
    let geometry = machine.chip.shared.geometry;
    let subjects = on_each(programs, &|| false, |program| {
        let distances = Distances::of(&program.recording, machine.prefetching());
        let window = distances.references().div_ceil(windows).max(SHORTEST_WINDOW);
        let solo = machine.alone(program, window, 2)?;
        let (first, later) =
            (distances.profiles(window, Pass::First), distances.profiles(window, Pass::Later));
        let dispersion = dispersion(&program.recording, geometry)?;
        let mut known = Known::new(machine, program.mix, &solo, window, dispersion, &first, &later)?;
        if counted {
            known = known.counted(machine, model.replacement(), &solo, 2)?;
        }
        Ok(Subject { solo, known })
    })?;
    let known: Vec<&Known> = subjects.iter().map(|subject| &subject.known).collect();
    let windowed: Vec<_> = known.iter().map(|known| &known.windowed).collect();
    let (cache, replacement) = (cache(machine)?, model.replacement());
    let predicted = walk::walk(&windowed, cache, replacement, walk::Until::AllEnded, &[])?;
    let ranges = walk::outlook(&windowed, cache, replacement, walk::Until::AllEnded, &predicted)?;
    let simulated = machine.together(&programs.iter().collect::<Vec<_>>(), Until::AllEnded)?;
    let steady = steady::solve(&known, geometry.lines(), model.replacement())?;
    let together = subjects.iter().zip(predicted.iter().zip(&ranges)).zip(simulated).zip(steady);
    let played = programs.iter().zip(together).map(
        |(program, (((subject, (predicted, range)), simulated), steady))| {
            let solo = subject.solo.counters;
            Played {
                name: program.name.clone(),
                mix: program.mix,
                accesses: solo.accesses,
                solo: Figures { miss_ratio: solo.miss_ratio(), cpi: solo.cpi() },
                predicted: SharedFigures {
                    miss_ratio: predicted.miss_ratio(),
                    cpi: predicted.cpi(),
                    share_lines: predicted.lines(),
                },
                predicted_range: (range.lowest_cpi, range.highest_cpi),
                flagged: range.cliff,
                simulated: SharedFigures {
                    miss_ratio: simulated.counters.miss_ratio(),
                    cpi: simulated.counters.cpi(),
                    share_lines: simulated.lines,
                },
                steady,
            }
        },
    );
    Ok(played.collect())
}
