//! What the pirate's curves are held against: the target alone in a cache that really has that size.

use crate::machines::chip::{Chip, ChipError, ChipSettings, CoreSettings, Counters, Event, Policy, Program};

/// Plays `target` alone on the chip with `ways` of its shared cache's ways, and counts `measured` accesses after
/// `skipped` ones.
///
/// # Errors
/// As [`Chip::new`].
pub fn alone_with_ways<P: Program>(
    settings: &ChipSettings,
    ways: u64,
    target: CoreSettings<P>,
    skipped: u64,
    measured: u64,
) -> Result<Counters, ChipError> {
    let mut settings = settings.clone();
    settings.shared.geometry = settings.shared.geometry.with_ways(ways)?;
    let mut chip = Chip::new(&settings, vec![target])?;
    let run = |chip: &mut Chip<P>, until| while matches!(chip.advance(&[until]), Event::Ended { .. }) {};
    run(&mut chip, skipped);
    let before = chip.counters(0);
    run(&mut chip, skipped + measured);
    Ok(chip.counters(0) - before)
}

/// A chip in the proportions of the paper's machine (table 1: 8 MiB shared in 16 ways, inclusive), with a shared
/// cache of `bytes` and a private first level of a 64th of it.
///
/// Memory delivers a line every 14 cycles, about 10 GB/s at 2.26 GHz. The private second level is left out: it
/// would be as large as a way of the scaled cache.
///
/// # Errors
/// [`ChipError::Geometry`] unless `bytes` is a multiple of 512 lines.
pub fn scaled_nehalem(bytes: u64, policy: Policy) -> Result<ChipSettings, ChipError> {
    use crate::machines::chip::{CacheSettings, Inclusion};
    use reuse_sampler::LineSize;

    Ok(ChipSettings {
        l1: CacheSettings::lru(bytes / 64, 8, LineSize::B64)?,
        shared: CacheSettings::lru(bytes, 16, LineSize::B64)?.with_policy(policy),
        inclusion: Inclusion::Inclusive,
        lines_per_cycle: Some(1.0 / 14.0),
        ..ChipSettings::paper()?
    })
}
