//! Whole experiments on the chip: programs alone, programs together, and which windows ran together.

use super::config::ChipSettings;
use super::core::CoreSettings;
use super::counters::Counters;
use super::machine::{Chip, Event};
use super::program::Program;
use super::{Activity, ChipError};

/// When a co-run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Every program has come to its end at least once: the slowest has run whole, the others started over.
    AllEnded,
    /// The first program has come to its end.
    FirstEnded,
    /// This core's program has come to its end.
    Ended {
        /// Number of the core.
        core: usize,
    },
    /// One of the programs has made this many accesses.
    Accesses(u64),
}

/// A stretch of a co-run in which each program stayed within one of its windows.
#[derive(Clone, Debug, PartialEq)]
pub struct CoWindow {
    /// Per core, the number of the window within the program's pass, from 0.
    pub windows: Vec<u64>,
    /// Per core, what was counted in the stretch. A core may have made no access in it.
    pub counters: Vec<Counters>,
    /// Per core, lines of the shared cache that it held at the end of the stretch.
    pub lines: Vec<u64>,
}

/// Plays one program once, on an otherwise idle chip with cold caches.
///
/// # Errors
/// As [`Chip::new`].
pub fn alone<P: Program>(settings: &ChipSettings, core: CoreSettings<P>) -> Result<Counters, ChipError> {
    let mut chip = Chip::new(settings, vec![core])?;
    chip.advance(&[]);
    Ok(chip.counters(0))
}

/// Plays programs together from cold caches and counts until `until`.
///
/// # Errors
/// As [`Chip::new`].
pub fn together<P: Program>(
    settings: &ChipSettings,
    cores: Vec<CoreSettings<P>>,
    until: Until,
) -> Result<Vec<Counters>, ChipError> {
    let mut chip = Chip::new(settings, cores)?;
    run(&mut chip, until, u64::MAX, |_| {});
    Ok((0..chip.cores()).map(|core| chip.counters(core)).collect())
}

/// The same with a record of which windows of `window` accesses ran together.
///
/// The windows of a program begin anew with each pass, so its last window may be short. A `window` of 0 is
/// taken as 1.
///
/// # Errors
/// As [`Chip::new`].
pub fn recorded<P: Program>(
    settings: &ChipSettings,
    cores: Vec<CoreSettings<P>>,
    until: Until,
    window: u64,
) -> Result<Vec<CoWindow>, ChipError> {
    let mut chip = Chip::new(settings, cores)?;
    let mut record = Vec::new();
    run(&mut chip, until, window, |stretch| record.push(stretch));
    Ok(record)
}

/// Runs `chip` until `until`, from whatever state it is in, and reports each stretch in which no program
/// changed its window.
///
/// Windows are counted from the position each program is at now. Ends at once if no core is running, and when
/// the last one stops.
pub fn run<P: Program>(chip: &mut Chip<P>, until: Until, window: u64, mut stretch: impl FnMut(CoWindow)) {
    let window = window.max(1);
    let read =
        |chip: &Chip<P>| -> Vec<Counters> { (0..chip.cores()).map(|core| chip.counters(core)).collect() };
    let mut last = read(chip);
    let first = last.clone();
    let mut windows = vec![0; chip.cores()];
    let mut boundaries: Vec<u64> = first.iter().map(|c| c.accesses.saturating_add(window)).collect();
    let end = match until {
        Until::Accesses(accesses) => accesses,
        _ => u64::MAX,
    };
    loop {
        let limits: Vec<u64> = boundaries
            .iter()
            .zip(&first)
            .map(|(&boundary, begin)| boundary.min(begin.accesses.saturating_add(end)))
            .collect();
        let event = chip.advance(&limits);
        let now = read(chip);
        if now.iter().zip(&last).any(|(now, last)| now.accesses > last.accesses) {
            let counters = now.iter().zip(&last).map(|(&now, &last)| now - last).collect();
            let lines = (0..now.len()).map(|core| chip.occupancy(core).0).collect();
            stretch(CoWindow { windows: windows.clone(), counters, lines });
        }
        let ended = |core: usize| now[core].passes > first[core].passes;
        match event {
            Event::Limit { core } => {
                if now[core].accesses - first[core].accesses >= end {
                    return;
                }
                windows[core] += 1;
                boundaries[core] = now[core].accesses.saturating_add(window);
            }
            Event::Ended { core } => {
                let over = match until {
                    Until::AllEnded => (0..now.len()).all(ended),
                    Until::FirstEnded => true,
                    Until::Ended { core } => ended(core),
                    Until::Accesses(_) => false,
                };
                if over || (0..now.len()).all(|core| chip.activity(core) != Activity::Running) {
                    return;
                }
                windows[core] = 0;
                boundaries[core] = now[core].accesses.saturating_add(window);
            }
            Event::Idle => return,
        }
        last = now;
    }
}
