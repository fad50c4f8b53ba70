//! `perf_event_open` and what is done with its descriptors.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

use nix::libc;

use crate::perf::kernel::{Change, Opening, Reading, Source, Tid};
use crate::perf::ring::Layout;

/// `struct perf_event_attr` of Linux 5.13 (`PERF_ATTR_SIZE_VER7`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    watch_type: u32,
    config1: u64, // or the watched address
    config2: u64, // or the watched length
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved_2: u16,
    aux_sample_size: u32,
    reserved_3: u32,
    signal_data: u64,
}

const DISABLED: u64 = 1;
const PINNED: u64 = 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const WATERMARK: u64 = 1 << 14;
const PRECISE_SHIFT: u32 = 15;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SIGTRAP: u64 = 1 << 37;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const BREAKPOINT: u32 = 5;
const READ_WRITE: u32 = 3;
/// `PERF_REG_X86_IP` and `PERF_REG_ARM64_PC`.
const USER_IP: u64 = 1 << if cfg!(target_arch = "x86_64") { 8 } else { 32 };
/// User branches of any kind.
const BRANCHES: u64 = 1 | 1 << 3;

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_REFRESH: libc::c_ulong = 0x2402;
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;
const IOC_MODIFY_ATTRIBUTES: libc::c_ulong = 0x4008_240B;

/// Where watchpoints that watch nothing yet point: nothing is ever mapped in the first page.
const NOWHERE: u64 = 8;

/// An open event.
#[derive(Debug)]
pub(super) struct OpenEvent {
    file: File,
    attributes: Box<Attributes>,
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:#x}", self.kind, self.config)
    }
}

impl OpenEvent {
    /// Opens an event of thread `thread` (0 for the calling one).
    pub fn open(thread: Tid, opening: &Opening, leader: Option<RawFd>) -> io::Result<Self> {
        let mut attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            period: opening.period,
            sample_type: if opening.period > 0 { opening.layout.sample_type() } else { 0 },
            read_format: Layout::READ_FORMAT,
            flags: if opening.everywhere { 0 } else { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR }
                | if opening.enabled { 0 } else { DISABLED }
                | if leader.is_none() && opening.stops { PINNED } else { 0 }
                | if opening.stops { SIGTRAP } else { 0 }
                | if opening.stops || opening.source == Source::Watchpoint { REMOVE_ON_EXEC } else { 0 }
                | u64::from(opening.precise) << PRECISE_SHIFT
                | WATERMARK,
            wakeup: u32::MAX, // bytes: nobody waits for records, and waking nobody is an interrupt, too
            branch_sample_type: if opening.layout.branches { BRANCHES } else { 0 },
            sample_regs_user: if opening.layout.user_ip { USER_IP } else { 0 },
            ..Attributes::default()
        };
        match opening.source {
            Source::Counter { kind, config, config1 } => {
                (attributes.kind, attributes.config, attributes.config1) = (kind, config, config1);
            }
            Source::Watchpoint => {
                (attributes.kind, attributes.watch_type) = (BREAKPOINT, READ_WRITE);
                (attributes.config1, attributes.config2) = (NOWHERE, 8);
            }
        }
        Self::open_raw(attributes, thread, leader)
    }

    /// Opens a watchpoint of so many bytes of the calling thread, only to see whether the processor can.
    pub fn try_watch(bytes: u64) -> io::Result<()> {
        let attributes = Attributes {
            kind: BREAKPOINT,
            size: size_of::<Attributes>() as u32,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | DISABLED,
            watch_type: READ_WRITE,
            config1: 1 << 12,
            config2: bytes,
            ..Attributes::default()
        };
        Self::open_raw(attributes, 0, None).map(drop)
    }

    fn open_raw(attributes: Attributes, thread: Tid, leader: Option<RawFd>) -> io::Result<Self> {
        let mut attributes = Box::new(attributes);
        // SAFETY: the attributes outlive the call and are nobody else's. It reads the `size` bytes they say they have, and
        // where it refuses them as too long (`E2BIG`) writes to `size` what the kernel knows.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw mut *attributes,
                thread,
                -1,
                leader.unwrap_or(-1),
                CLOSE_ON_EXEC,
            )
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel just made for us and nobody else knows.
        let file = unsafe { File::from_raw_fd(descriptor as RawFd) };
        Ok(Self { file, attributes })
    }

    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The event's number in records.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0_u64;
        self.control(IOC_ID, (&raw mut id) as libc::c_ulong)?;
        Ok(id)
    }

    /// Sends this event's records to the ring of another.
    pub fn write_to(&self, leader: RawFd) -> io::Result<()> {
        self.control(IOC_SET_OUTPUT, leader as libc::c_ulong)
    }

    pub fn change(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Enable => self.control(IOC_ENABLE, 0),
            Change::Disable => self.control(IOC_DISABLE, 0),
            Change::Period(period) => self.control(IOC_PERIOD, (&raw const period) as libc::c_ulong),
            Change::Watch { address, bytes, touch, spent } => {
                let stops = self.attributes.flags & SIGTRAP != 0;
                // Reports once, and is off when it has.
                let once = spent && !stops;
                // Also forgets a touch that was counted towards the last report. Where every touch is reported there is none,
                // nor where it was off since. The kernel takes new attributes only where all others are as it has them.
                if self.attributes.period != touch || touch > 1 && !once {
                    self.control(IOC_PERIOD, (&raw const touch) as libc::c_ulong)?;
                    self.attributes.period = touch;
                }
                self.attributes.config1 = address;
                self.attributes.config2 = u64::from(bytes);
                // Turns it off, and on again unless the attributes say otherwise.
                self.attributes.flags = self.attributes.flags & !DISABLED | if once { DISABLED } else { 0 };
                let attributes = (&raw mut *self.attributes) as libc::c_ulong;
                self.control(IOC_MODIFY_ATTRIBUTES, attributes)?;
                // Enables it until it has reported.
                if once { self.control(IOC_REFRESH, 1) } else { Ok(()) }
            }
        }
    }

    /// `argument` is a number, or the address of a value that lives during the call and has the type that the
    /// request reads or writes: the callers above.
    fn control(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: see above; the descriptor is open.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, argument) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads the group this event leads.
    pub fn read(&mut self) -> io::Result<Reading> {
        let mut bytes = [0_u8; 8 * (3 + 2 * 32)];
        let length = self.file.read(&mut bytes)?;
        let words = bytes[..length].chunks_exact(8);
        let mut words = words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let (Some(events), Some(enabled), Some(running)) = (words.next(), words.next(), words.next()) else {
            return Err(io::ErrorKind::UnexpectedEof.into()); // a pinned group that does not fit
        };
        let mut values = Vec::with_capacity(words.len() / 2);
        while let (Some(value), Some(id), true) = (words.next(), words.next(), values.len() < events as usize)
        {
            values.push((id, value));
        }
        Ok(Reading { enabled, running, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 128);
        assert_eq!(std::mem::offset_of!(Attributes, signal_data), 120);
        assert_eq!(std::mem::offset_of!(Attributes, config1), 56);
        assert_eq!(std::mem::offset_of!(Attributes, branch_sample_type), 72);
    }
}
