//! A process that outlives this one, sets the target free and puts back what was changed.
//!
//! Destructors run on return and on panic, but not on SIGKILL, on an abort or on a signal that nobody handles.
//! So before a target is first suspended a small process is forked that waits on a pipe. When this process
//! ends, for whatever reason, the kernel closes the pipe's other end, and the guardian gives the target its
//! processors back and lets it continue (and asks it to end, if this process had started it).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sched::sched_setaffinity;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, write};

use super::target::Pinned;
use crate::error::PirateError;
use crate::resctrl::{Step, Undo};

/// What the guardian does when this process is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Duty {
    /// Process, or process group where negative; nobody if `None`.
    pub signal_to: Option<i32>,
    /// Whether it is to end as well.
    pub terminate: bool,
    /// A file to write first, to thaw a frozen cgroup: descriptor and text.
    pub thaw: Option<(RawFd, &'static [u8])>,
    /// Where the target's threads ran before.
    pub pinned: Option<Pinned>,
    /// What else is to be put back.
    pub undo: Option<PreparedUndo>,
}

/// [`Undo`] with whole paths, such that performing it needs no memory.
#[derive(Clone, Debug)]
pub(super) struct PreparedUndo {
    steps: Vec<PreparedStep>,
    journal: CString,
}

#[derive(Clone, Debug)]
enum PreparedStep {
    Write { path: CString, line: Vec<u8> },
    Move { from: CString, to: CString },
    RemoveFolder { path: CString },
}

impl PreparedUndo {
    pub(super) fn new(root: &Path, undo: &Undo) -> Self {
        // Paths and texts of the kernel hold no 0.
        let whole =
            |path: &str| CString::new(root.join(path).into_os_string().into_vec()).unwrap_or_default();
        let prepare = |step: &Step| match step {
            Step::Write { path, line } => {
                PreparedStep::Write { path: whole(path), line: format!("{line}\n").into_bytes() }
            }
            Step::Move { from, to } => PreparedStep::Move { from: whole(from), to: whole(to) },
            Step::RemoveFolder { path } => PreparedStep::RemoveFolder { path: whole(path) },
        };
        Self { steps: undo.steps.iter().map(prepare).collect(), journal: whole(&undo.journal) }
    }

    /// Takes the steps, and forgets the journal if none failed.
    fn perform(&self) {
        let mut done = true;
        for step in &self.steps {
            done &= match step {
                PreparedStep::Write { path, line } => write_to(path, line),
                PreparedStep::Move { from, to } => move_all(from, to),
                // SAFETY: the path ends with a 0.
                PreparedStep::RemoveFolder { path } => fine(unsafe { libc::rmdir(path.as_ptr()) } as isize),
            };
        }
        if done {
            // SAFETY: as above.
            unsafe { libc::unlink(self.journal.as_ptr()) };
        }
    }
}

/// Whether a call worked, or what it was about has gone.
fn fine(result: isize) -> bool {
    result >= 0 || matches!(Errno::last(), Errno::ENOENT | Errno::ESRCH)
}

fn write_to(path: &CStr, text: &[u8]) -> bool {
    // SAFETY: the path ends with a 0; the text is read as far as it goes.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_TRUNC);
        if file < 0 {
            return fine(-1);
        }
        let written = fine(libc::write(file, text.as_ptr().cast(), text.len()));
        libc::close(file);
        written
    }
}

/// Moves the numbers in `from` to `to` until none are left: what is moved vanishes from a list that is being read.
fn move_all(from: &CStr, to: &CStr) -> bool {
    for _ in 0..64 {
        match move_numbers(from, to) {
            (done, 0) => return done,
            (false, _) => return false,
            _ => {}
        }
    }
    true
}

/// Writes each line of one file to another, in a call of its own. Whether all were taken, and how many there were.
fn move_numbers(from: &CStr, to: &CStr) -> (bool, u32) {
    let mut lines = 0;
    let (mut line, mut length) = ([0_u8; 24], 0);
    let mut done = true;
    // SAFETY: the path ends with a 0; the buffer is as large as is said.
    unsafe {
        let file = libc::open(from.as_ptr(), libc::O_RDONLY);
        if file < 0 {
            return (fine(-1), 0);
        }
        let mut block = [0_u8; 1024];
        loop {
            let got = libc::read(file, block.as_mut_ptr().cast(), block.len());
            let Some(read) = usize::try_from(got).ok().and_then(|got| block.get(..got)) else { break };
            if read.is_empty() {
                break;
            }
            for &byte in read {
                if let Some(place) = line.get_mut(length) {
                    *place = byte;
                    length += 1;
                }
                if byte == b'\n' {
                    done &= write_to(to, line.get(..length).unwrap_or(&[]));
                    lines += 1;
                    length = 0;
                }
            }
        }
        libc::close(file);
    }
    (done, lines)
}

/// The guardian, as seen from the process it watches.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Pid,
    pipe: OwnedFd,
}

impl Guardian {
    pub(super) fn post(duty: &Duty) -> Result<Self, PirateError> {
        let what = "the process that frees the target if this one dies";
        let refused = |errno: Errno| PirateError::system("start", what, errno, "");
        let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(refused)?;
        // SAFETY: the child makes only system calls and neither allocates nor takes a lock, whatever other threads
        // held at the time of the fork; what it reads was prepared before and is its own copy.
        match unsafe { fork() }.map_err(refused)? {
            ForkResult::Child => watch(read.as_raw_fd(), duty),
            ForkResult::Parent { child } => Ok(Self { process: child, pipe: write }),
        }
    }
}

impl Drop for Guardian {
    /// Dismisses it. The target must be running by now.
    fn drop(&mut self) {
        // If it has died there is nobody to dismiss.
        let _ = write(&self.pipe, b"d");
        while waitpid(self.process, None) == Err(Errno::EINTR) {}
    }
}

/// The guardian's whole life.
fn watch(pipe: RawFd, duty: &Duty) -> ! {
    // SAFETY: system calls on descriptors and process numbers; memory is passed only as buffers on the stack, a
    // static text and what the duty holds. All are async-signal-safe.
    unsafe {
        // Out of reach of the terminal's signals.
        libc::setsid();
        let keep = duty.thaw.map(|(file, _)| file);
        // Among them the pipe's other end, which must be closed here to notice that it is closed there.
        for descriptor in 0..4096 {
            if descriptor != pipe && Some(descriptor) != keep {
                libc::close(descriptor);
            }
        }
        let mut order = 0_u8;
        loop {
            let got = libc::read(pipe, (&raw mut order).cast(), 1);
            if got == 1 {
                libc::_exit(0);
            }
            if got == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break;
            }
        }
        if let Some(pinned) = &duty.pinned {
            unpin(pinned);
        }
        if let Some((file, text)) = duty.thaw {
            libc::write(file, text.as_ptr().cast(), text.len());
        }
        if let Some(undo) = &duty.undo {
            undo.perform();
        }
        if let Some(target) = duty.signal_to {
            if duty.terminate {
                libc::kill(target, libc::SIGTERM);
            }
            libc::kill(target, libc::SIGCONT);
        }
        libc::_exit(0)
    }
}

/// Gives every thread of the target its processors back, also those that began meanwhile.
fn unpin(pinned: &Pinned) {
    // SAFETY: the path ends with a 0; the buffer is large enough for what the kernel is allowed to write.
    unsafe {
        let folder = libc::open(pinned.folder.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        let mut entries = [0_u8; 4096];
        loop {
            let got = libc::syscall(libc::SYS_getdents64, folder, entries.as_mut_ptr(), entries.len());
            let Ok(got) = usize::try_from(got) else { break };
            let mut rest = entries.get(..got).unwrap_or(&[]);
            if rest.is_empty() {
                break;
            }
            // `struct linux_dirent64`: the entry's length at byte 16, its name from byte 19 on.
            while let (Some(&[low, high]), Some(name)) = (rest.get(16..18), rest.get(19..)) {
                let thread = name.iter().take_while(|c| c.is_ascii_digit());
                let thread = thread.fold(0_i32, |n, c| n.wrapping_mul(10).wrapping_add(i32::from(c - b'0')));
                if thread > 0 {
                    // A thread that has ended needs nothing.
                    let _ = sched_setaffinity(Pid::from_raw(thread), pinned.of(thread));
                }
                rest = rest.get(usize::from(u16::from_ne_bytes([low, high])).max(1)..).unwrap_or(&[]);
            }
        }
    }
}
