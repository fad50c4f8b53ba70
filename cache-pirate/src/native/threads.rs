//! The threads of a process, as the kernel lists them.

use std::fs;

/// Threads of a process; only the process itself if they cannot be listed.
pub(super) fn threads_of(pid: i32) -> Vec<i32> {
    let listed: Vec<i32> = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    if listed.is_empty() { vec![pid] } else { listed }
}
