//! Files that live in memory: the plugin, and the mapping shared with it.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::shared::layout::{Header, REGION_SIZE, REGIONS, SIZE, region_at};
use super::shared::ring::Ring;
use crate::SamplerError;
use crate::backends::alive::Alive;
use crate::backends::processes::lengthen;

/// A file without a name that holds `content`. It closes at `execve` unless asked otherwise.
pub(super) fn file_with(name: &'static CStr, content: &[u8]) -> Result<File, SamplerError> {
    let failed = |source| SamplerError::Io {
        operation: "make a file in memory for",
        object: name.to_string_lossy().into_owned(),
        source,
    };
    let mut file = match memfd_create(name, MFdFlags::MFD_CLOEXEC) {
        Ok(descriptor) => File::from(descriptor),
        // An old kernel, or one that is set to refuse.
        Err(_) => temporary().map_err(failed)?,
    };
    file.write_all(content).map_err(failed)?;
    Ok(file)
}

/// A private file in the directory for temporary files, its name already removed.
fn temporary() -> io::Result<File> {
    let directory = std::env::temp_dir();
    for attempt in 0..100 {
        let path = directory.join(format!("reuse-sampler-{}-{attempt}", std::process::id()));
        let opened = File::options().read(true).write(true).create_new(true).mode(0o700).open(&path);
        match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The memory shared with the plugin.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<c_void>,
    file: File,
    alive: Option<Alive>,
}

// SAFETY: the mapping is used through its ring only, which may be shared.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory full of zeroes.
    pub(super) fn new() -> Result<Self, SamplerError> {
        let failed = |source| SamplerError::Io {
            operation: "map",
            object: "memory to share with the plugin".into(),
            source,
        };
        let file = file_with(c"reuse-sampler-channel", &[])?;
        lengthen(&file, SIZE as u64).map_err(failed)?;
        let size = NonZeroUsize::new(SIZE).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let base = unsafe { mmap(None, size, protection, MapFlags::MAP_SHARED, &file, 0) }
            .map_err(|errno| failed(errno.into()))?;
        let mut mapping = Self { base, file, alive: None };
        // SAFETY: the mapping stays until it is dropped, and gives up the word before.
        let alive = unsafe { Alive::own(&raw const mapping.header().alive) };
        mapping.alive = Some(alive.map_err(failed)?);
        Ok(mapping)
    }

    /// Where other processes of the same user can open it.
    pub(super) fn path(&self) -> String {
        path_of(&self.file)
    }

    /// What the whole tree shares.
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, whose fields are atomics, and lives as long as `self`.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// The sampler's end of the ring of region `index`.
    pub(super) fn ring(&self, index: usize) -> Ring {
        debug_assert!(index < REGIONS);
        // SAFETY: the mapping is long enough, began as zeroes, and rings are used only while `self` lives.
        unsafe { Ring::new(self.base.as_ptr().cast(), index) }
    }

    /// Makes region `index`, which nobody uses any more, zero again; whether that succeeded.
    pub(super) fn clear(&self, index: usize) -> bool {
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let (from, length) = (region_at(index) as i64, REGION_SIZE as i64);
        fallocate(&self.file, mode, from, length).is_ok()
    }
}

/// Where other processes of the same user can open a file of this process.
pub(super) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

impl Drop for Mapping {
    fn drop(&mut self) {
        drop(self.alive.take());
        // SAFETY: mapped in `new` with this size; the ring is lent only while `self` lives.
        let _ = unsafe { munmap(self.base, SIZE) };
    }
}
