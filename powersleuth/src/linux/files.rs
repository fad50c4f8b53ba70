//! Reading and writing the kernel's files, wherever they are.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Error;

/// A tree of files. Paths are relative to its root, with `/` between their parts.
pub trait Files {
    /// Content of a file.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Overwrites a file that exists.
    ///
    /// # Errors
    /// Whatever keeps it from being written.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Names of the entries of a directory.
    ///
    /// # Errors
    /// Whatever keeps it from being listed.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;
}

impl<F: Files + ?Sized> Files for &F {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        (**self).read(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        (**self).write(path, text)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        (**self).list(directory)
    }
}

/// The files below a directory.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The files below `root`: `/` for those of this machine.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Files for Tree {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.root.join(path);
        check_regular(&path)?;
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
        if read as u64 > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not end within 16 MiB"));
        }
        Ok(bytes)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // Without creating: a file that the kernel does not have must stay an error.
        let path = self.root.join(path);
        check_regular(&path)?;
        let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.root.join(directory))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

/// Refuses what is no file: a pipe or a device would be waited for.
fn check_regular(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// No file of the kernel that is read here is longer.
const LONGEST: u64 = 16 << 20;

/// What to do about a file that cannot be read.
pub(super) const READABLE: &str = "run as root, or make the file readable";

/// Text of a file without the line's end. An empty file, or bytes that are no text, are errors: a file that says nothing
/// is not a file that says none.
pub(super) fn text(files: &impl Files, path: &str, remedy: &'static str) -> Result<String, Error> {
    let bytes = files.read(path).map_err(failed("read", path, remedy))?;
    let text = String::from_utf8_lossy(&bytes);
    let trimmed = text.trim_matches(['\0', '\n', ' ']);
    // What is borrowed was text as it stood.
    match text {
        Cow::Borrowed(_) if !trimmed.is_empty() => Ok(trimmed.to_owned()),
        Cow::Borrowed(_) => Err(malformed(path, "", "text")),
        Cow::Owned(ref bad) => Err(malformed(path, bad.chars().take(40).collect::<String>(), "text")),
    }
}

pub(super) fn failed(
    operation: &'static str,
    path: impl Into<String>,
    remedy: &'static str,
) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { operation, path: path.into(), source, remedy }
}

pub(super) fn malformed(
    path: impl Into<String>,
    content: impl Into<String>,
    expected: &'static str,
) -> Error {
    Error::Malformed { path: path.into(), content: content.into(), expected }
}

/// The same, or `None` if there is no such file.
pub(super) fn optional(files: &impl Files, path: &str) -> Result<Option<String>, Error> {
    match text(files, path, READABLE) {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Names in a directory in natural order: numbers by their value. `None` if there is no such directory.
pub(super) fn names(files: &impl Files, directory: &str) -> Result<Option<Vec<String>>, Error> {
    match files.list(directory) {
        Ok(mut names) => {
            names.sort_by_key(|name| {
                (name.trim_end_matches(|c: char| c.is_ascii_digit()).len(), name.len(), name.clone())
            });
            Ok(Some(names))
        }
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed("list", directory, READABLE)(source)),
    }
}

/// The number a file holds.
pub(super) fn number(files: &impl Files, path: &str, remedy: &'static str) -> Result<u64, Error> {
    let content = text(files, path, remedy)?;
    parse(path, content)
}

pub(super) fn parse(path: &str, content: String) -> Result<u64, Error> {
    content.parse().map_err(|_| malformed(path, content, "a number"))
}
