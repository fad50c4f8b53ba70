//! Two ways to make processes stand still: signals, and the cgroup freezer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::PirateError;

/// A cgroup with a target in it.
#[derive(Debug)]
pub(super) struct Freezer {
    folder: PathBuf,
    switch: File,
    version: Version,
    home: PathBuf, // where the processes came from
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Freezer {
    /// Makes a group below `root` and moves `pid` into it.
    pub(super) fn new(root: &Path, pid: i32) -> Result<Self, PirateError> {
        let folder = root.join(format!("cache-pirate-{pid}"));
        let remedy = "name the freezer's mount point or a writable cgroup, or suspend by signals";
        let refused =
            |source| PirateError::system("make the cgroup", folder.to_string_lossy(), source, remedy);
        fs::create_dir(&folder).map_err(refused)?;
        let made = (|| {
            let (version, file) = [(Version::Two, "cgroup.freeze"), (Version::One, "freezer.state")]
                .into_iter()
                .find(|(_, file)| folder.join(file).exists())
                .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
            let switch = OpenOptions::new().write(true).open(folder.join(file))?;
            let home = home_of(root, pid, version);
            fs::write(folder.join("cgroup.procs"), pid.to_string())?;
            Ok(Self { folder: folder.clone(), switch, version, home })
        })();
        made.map_err(|error| {
            // Empty, so it can go; if not, the error below is the one to report.
            let _ = fs::remove_dir(&folder);
            refused(error)
        })
    }

    /// What a guardian needs to thaw it.
    pub(super) fn thaw_by(&self) -> (RawFd, &'static [u8]) {
        (self.switch.as_raw_fd(), self.text(false))
    }

    pub(super) fn freeze(&mut self) -> Result<(), PirateError> {
        self.turn(true)?;
        let deadline = Instant::now() + Duration::from_secs(2);
        while !self.frozen() {
            if Instant::now() > deadline {
                return Err(self.refused("freeze", io::Error::from(io::ErrorKind::TimedOut)));
            }
            thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    pub(super) fn thaw(&mut self) -> Result<(), PirateError> {
        self.turn(false)
    }

    fn turn(&mut self, frozen: bool) -> Result<(), PirateError> {
        let text = self.text(frozen);
        self.switch.write_all(text).map_err(|source| self.refused("write to", source))
    }

    const fn text(&self, frozen: bool) -> &'static [u8] {
        match (self.version, frozen) {
            (Version::One, true) => b"FROZEN",
            (Version::One, false) => b"THAWED",
            (Version::Two, true) => b"1",
            (Version::Two, false) => b"0",
        }
    }

    fn frozen(&self) -> bool {
        let (file, text) = match self.version {
            Version::One => ("freezer.state", "FROZEN"),
            Version::Two => ("cgroup.events", "frozen 1"),
        };
        fs::read_to_string(self.folder.join(file)).is_ok_and(|state| state.lines().any(|line| line == text))
    }

    fn refused(&self, operation: &'static str, source: io::Error) -> PirateError {
        let object = self.folder.display().to_string();
        PirateError::system(operation, object, source, "suspend by signals")
    }
}

impl Drop for Freezer {
    /// Thaws, sends everybody back where the target came from, and removes the group.
    fn drop(&mut self) {
        // Each step is tried whatever became of the one before; a group that stays behind is empty and thawed.
        let _ = self.turn(false);
        if let Ok(members) = fs::read_to_string(self.folder.join("cgroup.procs")) {
            for pid in members.lines() {
                let _ = fs::write(self.home.join("cgroup.procs"), pid);
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The cgroup that a process is in: `root` itself if that is unknown or not below it.
fn home_of(root: &Path, pid: i32, version: Version) -> PathBuf {
    let lines = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = lines.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let ours = match version {
            Version::One => controllers.split(',').any(|c| c == "freezer"),
            Version::Two => controllers.is_empty(),
        };
        ours.then(|| path.trim_start_matches('/').to_owned())
    });
    let home = root.join(path.unwrap_or_default());
    if home.join("cgroup.procs").exists() { home } else { root.to_owned() }
}
