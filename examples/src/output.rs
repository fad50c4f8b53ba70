//! The output directory: found unusable before the run, never holding half a file after it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A directory that can be written to.
#[derive(Debug)]
pub struct OutputDir {
    path: PathBuf,
}

/// Why a directory cannot take the results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// It cannot be created or written to.
    #[error("--out {path}: {source}; give a directory that can be written to", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file in it cannot be written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl OutputDir {
    /// Creates the directory if need be, and proves by a file that it can be written to.
    ///
    /// # Errors
    /// [`OutputError::Directory`] if it cannot.
    pub fn prepare(path: &Path) -> Result<Self, OutputError> {
        let failed = |source| OutputError::Directory { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed)?;
        let probe = path.join(format!(".probe-{}", std::process::id()));
        fs::File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(failed)?;
        Ok(Self { path: path.to_owned() })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file as a whole or not at all: under another name first, then renamed.
    ///
    /// # Errors
    /// [`OutputError::File`] if any of that fails.
    pub fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let path = self.path.join(name);
        let partial = self.path.join(format!(".{name}.partial"));
        let written = (|| {
            let mut file = io::BufWriter::new(fs::File::create(&partial)?);
            content(&mut file)?;
            file.flush()?;
            fs::rename(&partial, &path)
        })();
        written.map_err(|source| {
            // The first failure is the one worth telling; a left-over is not mistaken for a result.
            let _ = fs::remove_file(&partial);
            OutputError::File { path, source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let out = OutputDir::prepare(&folder.path().join("a/b")).unwrap();
        out.write("good", |w| w.write_all(b"all of it")).unwrap();
        let failing = out.write("bad", |w| {
            w.write_all(b"half of it")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failing.unwrap_err().to_string().ends_with("bad: disk full"));
        let names: Vec<_> = fs::read_dir(out.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["good"]);
    }

    #[test]
    fn an_unusable_directory_is_found_before_anything_is_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = OutputDir::prepare(file.path()).unwrap_err().to_string();
        assert!(error.starts_with("--out ") && error.contains("can be written to"), "{error}");
    }
}
