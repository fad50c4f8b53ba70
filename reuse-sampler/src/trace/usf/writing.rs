//! Writes USF for tests.

use super::record::StoredAccess;

/// A file without records: flags TRACE (1) or BURST (2), the time base, the mask of line sizes.
pub(super) fn header(flags: u32, delta: bool, time_base: u32, line_sizes: u32) -> Vec<u8> {
    let flags = flags | u32::from(delta) << 2 | time_base << 4 | 1 << 7;
    let numbers =
        [&2_u16.to_le_bytes()[..], &[0; 2], &flags.to_le_bytes(), &[0; 16], &line_sizes.to_le_bytes()];
    let arguments = b"prog\0arg\0";
    let length = 32 + arguments.len() as u32;
    [b"USF1\0", &length.to_le_bytes()[..], &numbers.concat(), &2_u32.to_le_bytes(), arguments].concat()
}

pub(super) fn access(a: &StoredAccess) -> Vec<u8> {
    let numbers = [a.pc, a.address, a.time].map(u64::to_le_bytes).concat();
    let short = [a.thread, a.length].map(u16::to_le_bytes).concat();
    [numbers, short, vec![a.kind]].concat()
}

/// `a` as what differs from `last`, which becomes `a`.
pub(super) fn delta_access(a: &StoredAccess, last: &mut StoredAccess) -> Vec<u8> {
    let mut bytes = vec![0];
    let pairs = [(a.pc, last.pc), (a.address, last.address), (a.time, last.time)];
    for (bit, (now, before)) in pairs.into_iter().enumerate() {
        match i8::try_from(now.wrapping_sub(before) as i64) {
            Ok(difference) => {
                bytes[0] |= 1 << bit;
                bytes.extend(difference.to_le_bytes());
            }
            Err(_) => bytes.extend(now.to_le_bytes()),
        }
    }
    for (bit, (now, before)) in [(4, (a.thread, last.thread)), (5, (a.length, last.length))] {
        if now == before {
            bytes[0] |= 1 << bit;
        } else {
            bytes.extend(now.to_le_bytes());
        }
    }
    if a.kind == last.kind {
        bytes[0] |= 1 << 6;
    } else {
        bytes.push(a.kind);
    }
    *last = *a;
    bytes
}
