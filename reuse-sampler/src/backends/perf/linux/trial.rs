//! What the probe tries on the calling thread.

use std::io;

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::event::OpenEvent;
use super::mapping::Ring;
use super::no_room;
use crate::perf::kernel::{Change, Opening, Output, Reading, Source};

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

/// What events count of `pairs` loads and as many stores of the calling thread, on a core that counts all of it: those of a
/// hybrid processor count on some, and on the others nothing. 0 where none does.
pub(in crate::backends::perf) fn counted(sources: &[Source], pairs: u64) -> io::Result<u64> {
    on_some_core(|| {
        let readings = match count(sources, pairs) {
            Ok(readings) => readings,
            Err(error) => return Some(Err(error)),
        };
        let all = readings.iter().all(|reading| reading.running > 0 && reading.running == reading.enabled);
        let values = readings.iter().flat_map(|reading| &reading.values);
        all.then(|| Ok(values.map(|(_, count)| count).sum()))
    })
    .unwrap_or(Ok(0))
}

/// What `of` says, here or else on the first core that this thread may run on where it says something. The thread may run
/// afterwards where it might before.
fn on_some_core<T>(mut of: impl FnMut() -> Option<T>) -> Option<T> {
    if let Some(said) = of() {
        return Some(said);
    }
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).ok()?;
    let said = (0..CpuSet::count()).filter(|&core| allowed.is_set(core) == Ok(true)).find_map(|core| {
        let mut only = CpuSet::new();
        (only.set(core).is_ok() && sched_setaffinity(this, &only).is_ok()).then(&mut of).flatten()
    });
    let _ = sched_setaffinity(this, &allowed);
    said
}

fn count(sources: &[Source], pairs: u64) -> io::Result<Vec<Reading>> {
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
    events.iter_mut().map(OpenEvent::read).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As the cores of a hybrid processor, of which only the last one counts.
    #[test]
    fn what_only_one_core_says_is_heard_and_the_thread_is_let_go() {
        let here = || {
            // SAFETY: asks for a number.
            unsafe { libc::sched_getcpu() }
        };
        let allowed = || std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let list =
            |text: String| text.lines().find(|line| line.starts_with("Cpus_allowed:")).map(str::to_owned);
        let (before, mut seen) = (list(allowed()), std::collections::BTreeSet::new());
        assert_eq!(on_some_core(|| seen.insert(here()).then_some(()).filter(|()| false)), None);
        let last = seen.last().copied();
        assert_eq!(on_some_core(|| Some(here()).filter(|&core| Some(core) == last)), last);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        assert_eq!((seen.len() >= cores, list(allowed())), (true, before));
    }

    /// A clock is no counter of accesses, but counts.
    #[test]
    fn a_reading_of_this_thread_is_whole() {
        let readings = count(&[Source::TASK_CLOCK], 4096);
        let whole = |reading: &Reading| reading.running == reading.enabled && reading.values[0].1 > 0;
        assert!(readings.is_err() || readings.is_ok_and(|readings| readings.iter().all(whole)));
        assert!(
            counted(&[Source::TASK_CLOCK], 4096).is_ok_and(|counted| counted > 0)
                || can_open(&Opening::of(Source::TASK_CLOCK)).is_err()
        );
    }
}
