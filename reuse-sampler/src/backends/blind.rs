//! What keeps this process from looking at others by their numbers.

use std::fs;

/// Why this process cannot look at others, if it cannot.
pub(super) fn blind() -> Option<&'static str> {
    let own = fs::read_link("/proc/self").ok();
    let own = own.as_deref().and_then(|own| own.to_str()?.parse().ok());
    if own == Some(std::process::id()) {
        return None;
    }
    Some(if own.is_some() {
        "/proc belongs to another namespace of processes: mount this one's (unshare --mount-proc; mount -t proc proc /proc)"
    } else {
        "/proc is not mounted: mount -t proc proc /proc"
    })
}
