//! The machine's own `resctrl`, and a target of this machine confined by it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use super::{
    NativeTestbed,
    guardian::{Duty, Guardian, PreparedUndo},
};
use crate::resctrl::ResctrlFiles;
#[cfg(target_os = "linux")]
use crate::{
    error::PirateError,
    resctrl::{Confined, Partition},
    testbed::Testbed,
};

/// No file of the kernel that is read here is longer.
const LONGEST: u64 = 16 << 20;

/// Text of a file that ends. A pipe or a device, which would be waited for, is refused.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    check_regular(path)?;
    let mut text = String::new();
    if File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)? as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not end within 16 MiB"));
    }
    Ok(text)
}

fn check_regular(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// The files below a folder.
#[derive(Clone, Debug)]
pub struct RootFiles(PathBuf);

impl RootFiles {
    /// Those below `root`: `/`, or a copy for tests.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self(root.to_owned())
    }
}

impl ResctrlFiles for RootFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        read_text(&self.0.join(path))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // Never made here, and in one call: the kernel judges each by itself.
        let path = self.0.join(path);
        check_regular(&path)?;
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        match file.write(text.as_bytes())? {
            written if written == text.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(self.0.join(path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(folders)
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.0.join(path))
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.0.join(path))
    }

    fn make_file(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = File::create_new(self.0.join(path))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(path))
    }
}

/// Confines the target of `testbed` by the `resctrl` below `root` ("/" but in tests).
///
/// The target is not confined any more once the value is dropped, or this process has ended in any way: a guardian
/// process sees to that.
///
/// # Errors
/// As [`Partition::prepare`] and [`Partition::begin`]; [`PirateError::System`] if the guardian cannot be started.
#[cfg(target_os = "linux")]
pub fn confine(
    testbed: NativeTestbed,
    root: &Path,
) -> Result<Confined<NativeTestbed, RootFiles>, PirateError> {
    let cpu = testbed.processors().0;
    let owner = std::process::id() as i32;
    let partition = Partition::prepare(RootFiles::below(root), testbed.cache(), cpu, testbed.pid(), owner)?;
    let undo = Some(PreparedUndo::new(root, partition.undo()));
    let guardian = Guardian::post(&Duty { undo, ..Duty::default() })?;
    Confined::new(testbed, partition, Some(Box::new(guardian)))
}
