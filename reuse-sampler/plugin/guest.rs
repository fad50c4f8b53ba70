//! The program's memory, as the kernel reads it: an address that is not mapped ends a read and does no harm.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::Ordering;

use crate::api::getpid;
use crate::settings;

const PAGE: usize = 4096;

/// Reads from `address` on into `to`. Returns how many bytes could be read.
pub fn read(address: u64, to: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    const PROCESS_VM_READV: c_long = 310;
    #[cfg(not(target_arch = "x86_64"))]
    const PROCESS_VM_READV: c_long = 270;

    #[repr(C)]
    struct Part {
        base: *mut c_void,
        length: usize,
    }
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }

    let base = settings::region().map_or(0, |region| region.guest_base.load(Ordering::Relaxed));
    let from = address.wrapping_add(base) as *mut c_void;
    let local = Part { base: to.as_mut_ptr().cast(), length: to.len() };
    let remote = Part { base: from, length: to.len() };
    // SAFETY: the local part is `to`; the kernel checks the remote one.
    let read = unsafe {
        syscall(PROCESS_VM_READV, c_long::from(getpid() as c_int), &local, 1_usize, &remote, 1_usize, 0_usize)
    };
    read.max(0) as usize
}

/// A number of `N` bytes at `address`, little end first.
pub fn number<const N: usize>(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read(address, &mut bytes[..N]) == N).then(|| u64::from_le_bytes(bytes))
}

/// The string at `address`, without the NUL that ends it; none if it is longer than `limit` or cannot be read.
pub fn string(address: u64, limit: usize) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    let mut from = address;
    // Pieces that do not cross a page, because the next page may not be there.
    while found.len() <= limit {
        let mut piece = [0; PAGE];
        let length = (PAGE - from as usize % PAGE).min(256);
        let read = read(from, &mut piece[..length]);
        if let Some(end) = piece[..read].iter().position(|&byte| byte == 0) {
            found.extend(&piece[..end]);
            return Some(found);
        }
        if read < length {
            return None;
        }
        found.extend(&piece[..read]);
        from = from.wrapping_add(read as u64);
    }
    None
}

/// The strings whose addresses are listed at `address`, up to an address of 0.
pub fn strings(address: u64) -> Option<Vec<Vec<u8>>> {
    const LONGEST: usize = 1 << 17; // the kernel's limit
    const MOST: u64 = 1 << 20;
    let mut found = Vec::new();
    if address == 0 {
        return Some(found);
    }
    for index in 0..MOST {
        match number::<8>(address.wrapping_add(8 * index))? {
            0 => return Some(found),
            text => found.push(string(text, LONGEST)?),
        }
    }
    None
}
