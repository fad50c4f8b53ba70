//! What the probe tries on the calling thread.

use std::io;

use nix::libc;

use super::event::OpenEvent;
use super::mapping::Ring;
use super::no_room;
use crate::perf::kernel::{Change, Opening, Output, Source};

/// Whether the processor can watch so many bytes with one register.
pub(in crate::backends::perf) fn can_watch(bytes: u32) -> io::Result<()> {
    OpenEvent::try_watch(u64::from(bytes))
}

/// Whether an event of the calling thread can be opened.
pub(in crate::backends::perf) fn can_open(opening: &Opening) -> io::Result<()> {
    OpenEvent::open(0, opening, None).map(drop)
}

/// Whether the calling thread can be counted by a group: its leader, then the others. That the kernel opens it does
/// not mean that it ever counts it, since others may hold the counters.
pub(in crate::backends::perf) fn counts_together(leader: Opening, siblings: &[Opening]) -> io::Result<()> {
    let mut leader = OpenEvent::open(0, &leader, None)?;
    let open = |opening| OpenEvent::open(0, opening, Some(leader.descriptor()));
    let _siblings = siblings.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    let _ring = Ring::map(leader.descriptor()).map_err(|error| no_room(&error, 1))?;
    leader.change(Change::Enable)?;
    match leader.read() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "something else holds the counters"))
        }
        Err(error) => Err(error),
    }
}

/// What events count of `pairs` loads and as many stores of the calling thread.
pub(in crate::backends::perf) fn counted(sources: &[Source], pairs: u64) -> io::Result<u64> {
    let open = |&source| OpenEvent::open(0, &Opening { enabled: true, ..Opening::of(source) }, None);
    let mut events = sources.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    let mut word = 0_u64;
    for _ in 0..pairs {
        // SAFETY: reads and writes a word that lives.
        unsafe {
            let value = std::ptr::read_volatile(&raw const word);
            std::ptr::write_volatile(&raw mut word, value + 1);
        }
    }
    let mut total = 0;
    for event in &mut events {
        total += event.read()?.values.iter().map(|(_, count)| count).sum::<u64>();
    }
    Ok(total)
}

/// Whether a watchpoint that does not stop its thread reports once, for the touch it is asked for, and can then be set
/// again. Tried on a word of this function's own, since some kernels never enable one again.
pub(in crate::backends::perf) fn reports_once() -> bool {
    let opening = Opening { period: 1, output: Output::Nowhere, ..Opening::of(Source::Watchpoint) };
    let word = Box::new(0_u64);
    let address = (&raw const *word) as u64;
    let Ok(mut event) = OpenEvent::open(0, &opening, None) else { return false };
    let mut counted = 0;
    for touch in [1, 2, 1] {
        let watch = Change::Watch { address, bytes: 8, touch, spent: true };
        if event.change(watch).is_err() {
            return false;
        }
        for _ in 0..5 {
            // SAFETY: reads a word that lives.
            unsafe { std::ptr::read_volatile(&raw const *word) };
        }
        counted += touch;
        let hits = event.read().ok().and_then(|reading| reading.values.first().map(|(_, hits)| *hits));
        if hits != Some(counted) {
            return false;
        }
    }
    true
}

/// Watchpoints that the calling thread can have at once, and why there are no more.
pub(in crate::backends::perf) fn free_registers() -> (usize, io::Error) {
    let mut held = Vec::new();
    let (stops, output) = (true, Output::Nowhere);
    let opening = Opening { period: 1, stops, output, ..Opening::of(Source::Watchpoint) };
    loop {
        match OpenEvent::open(0, &opening, None) {
            Ok(event) if held.len() < 16 => held.push(event),
            Ok(_) => return (held.len(), io::Error::from_raw_os_error(libc::ENOSPC)),
            Err(error) => return (held.len(), error),
        }
    }
}
