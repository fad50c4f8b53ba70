//! Where threads run, and with what priority.

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::PirateError;

/// The processors that a thread may run on; 0 is the caller.
pub(super) fn get(thread: i32) -> Result<CpuSet, PirateError> {
    sched_getaffinity(Pid::from_raw(thread)).map_err(|errno| refused("read the affinity of", thread, errno))
}

/// Lets a thread run only on these.
pub(super) fn set(thread: i32, cpus: &CpuSet) -> Result<(), PirateError> {
    sched_setaffinity(Pid::from_raw(thread), cpus)
        .map_err(|errno| refused("set the affinity of", thread, errno))
}

/// The processors that threads of this process may be moved to: those of its cpuset, whatever it is pinned to.
pub(super) fn allowed() -> Result<Vec<usize>, PirateError> {
    // A thread of its own, so that the caller stays where it is. The kernel ignores processors of the mask that are
    // offline or outside the cpuset.
    let asked = std::thread::spawn(|| {
        let mut all = CpuSet::new();
        for cpu in 0..CpuSet::count() {
            // Within the range by construction.
            let _ = all.set(cpu);
        }
        set(0, &all)?;
        get(0)
    });
    let set = asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// One processor.
pub(super) fn one(cpu: usize) -> Result<CpuSet, PirateError> {
    let mut set = CpuSet::new();
    set.set(cpu)
        .map_err(|_| PirateError::Machine { cpu, reason: "cannot be pinned to: its number is too high" })?;
    Ok(set)
}

/// Pins the calling thread.
pub(super) fn pin_here(cpu: usize) -> Result<(), PirateError> {
    set(0, &one(cpu)?)
}

/// Gives the calling thread precedence over all ordinary ones of its processor.
#[allow(unsafe_code)]
pub(super) fn real_time_here() -> Result<(), PirateError> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter outlives the call, which only reads it; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } == 0 {
        return Ok(());
    }
    let (source, remedy) =
        (std::io::Error::last_os_error(), "grant CAP_SYS_NICE or raise the limit RLIMIT_RTPRIO");
    Err(PirateError::system("run under SCHED_FIFO:", "the pirate", source, remedy))
}

fn refused(operation: &'static str, thread: i32, errno: nix::errno::Errno) -> PirateError {
    let remedy = "run as the target's owner, and name a processor that is online and allowed";
    PirateError::system(operation, format!("thread {thread}"), errno, remedy)
}
