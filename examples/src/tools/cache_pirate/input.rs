//! Standard input for a program that runs several times.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

/// Where standard input began, if it is a file: each run reads it from there. What comes through a pipe only the first
/// run reads.
pub(super) struct Input(Option<(File, u64)>);

impl Input {
    pub(super) fn of_this_process() -> Self {
        #[cfg(unix)]
        let file = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned().ok().map(File::from);
        #[cfg(not(unix))]
        let file: Option<File> = None;
        let file = file.filter(|file| file.metadata().is_ok_and(|data| data.is_file()));
        Self(file.and_then(|mut file| file.stream_position().ok().map(|began| (file, began))))
    }

    /// Back to where it began.
    pub(super) fn rewind(&self) -> io::Result<()> {
        let Some((file, began)) = &self.0 else { return Ok(()) };
        let mut file: &File = file;
        file.seek(SeekFrom::Start(*began)).map(drop)
    }
}
