//! The processes that a process has started, and their end.
//!
//! `/proc` lists them by their parents, so that a process whose parent has ended belongs to nobody any more. Forked
//! children that run no other program are caught all the same: they see [`ending`](super::layout::Header::ending).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::fs;

const KILL: c_int = 9;
const STOP: c_int = 19;

unsafe extern "C" {
    #[link_name = "kill"]
    fn send(process: c_int, signal: c_int) -> c_int;
}

/// Sends a signal; whether there is such a process.
pub fn signal(process: i32, signal: i32) -> bool {
    const EPERM: i32 = 1;
    // SAFETY: passes numbers.
    let sent = unsafe { send(process, signal) } == 0;
    sent || std::io::Error::last_os_error().raw_os_error() == Some(EPERM)
}

/// The fields of a process from its state on.
fn stat(process: i32) -> Option<String> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    line.get(line.rfind(')')? + 1..).map(str::to_owned)
}

fn parent(process: i32) -> Option<i32> {
    stat(process)?.split_whitespace().nth(1)?.parse().ok()
}

/// When a process that lives was started, which distinguishes it from a later one of the same number.
#[must_use]
pub fn started(process: i32) -> Option<u64> {
    let fields = stat(process)?;
    let mut fields = fields.split_whitespace();
    let lives = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    fields.nth(18)?.parse().ok().filter(|_| lives)
}

/// Whether a process runs or could.
#[must_use]
pub fn lives(process: i32) -> bool {
    started(process).is_some()
}

/// The processes that descend from `root`, without it.
#[must_use]
pub fn below(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((process, parent)) = process.and_then(|process| Some((process, parent(process)?))) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut next = children.remove(&root).unwrap_or_default();
    while let Some(process) = next.pop() {
        next.extend(children.remove(&process).unwrap_or_default());
        found.push(process);
    }
    found
}

/// Kills the processes that descend from `root`. Each is stopped before any is killed, so that none can fork meanwhile.
pub fn kill_below(root: i32) {
    let mut found = BTreeSet::new();
    loop {
        let fresh: Vec<i32> = below(root).into_iter().filter(|&process| found.insert(process)).collect();
        if fresh.is_empty() {
            break;
        }
        for process in fresh {
            signal(process, STOP);
        }
    }
    for process in found {
        signal(process, KILL);
    }
}

/// Kills the calling process and all that descend from it.
pub fn kill_own() {
    let own = std::process::id() as i32;
    kill_below(own);
    signal(own, KILL);
}
