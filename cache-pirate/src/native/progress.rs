//! How far the target has come, where instructions cannot be counted.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use crate::error::PirateError;

/// What the target's work is counted in.
#[non_exhaustive]
pub enum Progress {
    /// Instructions, by a hardware counter; time is then in cycles, and memory counters come with it where the
    /// processor has them.
    Instructions,
    /// Nanoseconds of processor time. The length of an interval, but not how fast the target is: its CPI is
    /// 1 at every size. For memory counters of one's own and for the pirate's side alone.
    TaskClock,
    /// Anything that grows as the target gets on with its work: requests served, bytes compressed, elements
    /// visited. Time is in nanoseconds of processor time.
    Counter(Box<dyn ProgressCounter + Send>),
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Instructions => "Instructions",
            Self::TaskClock => "TaskClock",
            Self::Counter(_) => "Counter",
        })
    }
}

/// A counter that the target moves.
pub trait ProgressCounter {
    /// Its value. One that is less than the last begins anew from 0, as when the program finds the counter of an
    /// earlier run and clears it; it is counted on.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self) -> io::Result<u64>;
}

impl<F: FnMut() -> io::Result<u64>> ProgressCounter for F {
    fn read(&mut self) -> io::Result<u64> {
        self()
    }
}

/// A counter that goes on where it begins anew.
pub(super) struct Rising {
    counter: Box<dyn ProgressCounter + Send>,
    last: u64,
    before: u64, // what it had counted each time it began anew
}

impl Rising {
    pub(super) fn new(counter: Box<dyn ProgressCounter + Send>) -> Self {
        Self { counter, last: 0, before: 0 }
    }

    pub(super) fn read(&mut self) -> io::Result<u64> {
        let count = self.counter.read()?;
        if count < self.last {
            self.before = self.before.saturating_add(self.last);
        }
        self.last = count;
        Ok(self.before.saturating_add(count))
    }
}

/// A counter in a file that the target maps or writes: its first 8 bytes, an unsigned number in the machine's
/// byte order, written in place. Best on a tmpfs such as `/dev/shm`. While the file is shorter than that, as
/// when the target replaces its contents, the last value stands.
#[derive(Debug)]
pub struct FileCounter {
    file: File,
    last: u64,
}

impl FileCounter {
    /// Makes the file, at 0, if it is not there, and opens it.
    ///
    /// # Errors
    /// [`PirateError::System`] if it cannot be made or opened.
    pub fn open(path: &Path) -> Result<Self, PirateError> {
        let (object, remedy) = (path.display().to_string(), "name a file that can be read and written");
        let refused = |source| PirateError::system("open the progress counter", &object, source, remedy);
        let length = fs::metadata(path).map_or(0, |data| data.len());
        if length < 8 {
            fs::write(path, [0; 8]).map_err(refused)?;
        }
        File::open(path).map(|file| Self { file, last: 0 }).map_err(refused)
    }
}

impl ProgressCounter for FileCounter {
    fn read(&mut self) -> io::Result<u64> {
        let mut word = [0; 8];
        self.file.rewind()?;
        match self.file.read_exact(&mut word) {
            Ok(()) => self.last = u64::from_ne_bytes(word),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
        Ok(self.last)
    }
}

/// Bytes that a process, and the children that it waited for, read and wrote by system calls, from `/proc/PID/io`: the
/// natural progress of a compressor, a filter or a server.
#[derive(Debug)]
pub struct IoBytes {
    path: PathBuf,
    file: Option<File>, // only root can open that of a process that has ended, but whoever has it open can read it
    last: u64,
}

impl IoBytes {
    /// Of a process.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        let path = PathBuf::from(format!("/proc/{pid}/io"));
        Self { file: File::open(&path).ok(), path, last: 0 }
    }
}

impl ProgressCounter for IoBytes {
    /// The last value once the process is gone.
    fn read(&mut self) -> io::Result<u64> {
        let mut text = String::new();
        let read = match &mut self.file {
            Some(file) => file.rewind().and_then(|()| file.read_to_string(&mut text)).map(drop),
            None => fs::read_to_string(&self.path).map(|all| text = all),
        };
        match read {
            Ok(()) => {
                let field = |name: &str| {
                    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
                    value.trim().parse::<u64>().ok()
                };
                if let (Some(read), Some(written)) = (field("rchar:"), field("wchar:")) {
                    self.last = self.last.max(read.saturating_add(written));
                }
                Ok(self.last)
            }
            // Gone: its last value stands. Not allowed to look is another matter.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
            Err(_) => Ok(self.last),
        }
    }
}
