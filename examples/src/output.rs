//! Where results are written: found unusable before the run, whole or absent after it.
//!
//! Files are written aside and renamed at the end, all files of a run under one lock. Two runs into one directory
//! leave the files of one of them, never some of each.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cli::Failure;

/// A directory that can be written to. Files appear in it with [`publish`](Self::publish).
#[derive(Debug)]
pub struct OutputDir {
    path: PathBuf,
    staging: PathBuf, // below `path`; removed when this is dropped
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}

/// A name that no other run and no other call uses.
fn unique(prefix: &str) -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}

impl OutputDir {
    /// Creates the directory if necessary, and a place below it for files that are not complete yet.
    ///
    /// # Errors
    /// [`Failure::Usage`] if either fails.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let remedy = "give a directory that can be written to";
        let failed = |error| Failure::Usage(format!("--out {}: {error}; {remedy}", path.display()));
        let staging = path.join(unique(".partial"));
        fs::create_dir_all(path).and_then(|()| fs::create_dir(&staging)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), staging })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file aside.
    ///
    /// # Errors
    /// [`Failure`] if that fails.
    pub fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let partial = self.staging.join(name);
        let written = File::create(&partial).and_then(|file| {
            let mut file = BufWriter::new(file);
            content(&mut file)?;
            file.flush()
        });
        written.map_err(|error| {
            // A partial file must not be published.
            let _ = fs::remove_file(&partial);
            failed(&self.path.join(name), &error)
        })
    }

    /// Moves all files that were written into the directory.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be moved.
    pub fn publish(&self) -> Result<(), Failure> {
        let staged = |error: io::Error| failed(&self.staging, &error);
        let _lock = lock(&self.path).map_err(|error| failed(&self.path, &error))?;
        for entry in fs::read_dir(&self.staging).map_err(staged)? {
            let entry = entry.map_err(staged)?;
            let to = self.path.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(|error| failed(&to, &error))?;
        }
        Ok(())
    }
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        // What is left there was not published. A directory that cannot be removed harms nobody.
        let _ = fs::remove_dir_all(&self.staging);
    }
}

/// An exclusive lock of a directory, held until the value is dropped.
#[cfg(target_os = "linux")]
fn lock(folder: &Path) -> io::Result<impl Sized + use<>> {
    use nix::fcntl::{Flock, FlockArg};
    match Flock::lock(File::open(folder)?, FlockArg::LockExclusive) {
        Ok(lock) => Ok(Some(lock)),
        // Some network file systems have no locks.
        Err((_, nix::errno::Errno::EOPNOTSUPP | nix::errno::Errno::ENOLCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn lock(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// The file of `-o`.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    partial: Option<PathBuf>, // none where `path` is a device or a pipe, which is written in place
}

impl OutputFile {
    /// Creates a file beside `path`, which proves that it can be written.
    ///
    /// # Errors
    /// [`Failure::Usage`] if that fails.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::usage(failed(path, &error));
        let partial = match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(failed(io::Error::other("is a directory; give -o a file, or use --out DIR")));
            }
            Ok(found) if !found.is_file() => None,
            _ => {
                let name = path.file_name().ok_or_else(|| failed(io::Error::other("is not a file name")))?;
                let partial = path.with_file_name(unique(&format!(".{}", name.to_string_lossy())));
                File::create_new(&partial).map_err(failed)?;
                Some(partial)
            }
        };
        Ok(Self { path: path.to_owned(), partial })
    }

    /// Writes the content, and renames the file to its name.
    ///
    /// # Errors
    /// [`Failure`] if that fails.
    pub fn write(self, content: &[u8]) -> Result<(), Failure> {
        self.write_with(|file| file.write_all(content))
    }

    /// The same piece by piece.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_with(self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let place = self.partial.as_deref().unwrap_or(&self.path);
        let written = File::create(place).and_then(|file| {
            let mut file = BufWriter::new(file);
            content(&mut file)?;
            file.flush()
        });
        let renamed = written.and_then(|()| match &self.partial {
            Some(partial) => fs::rename(partial, &self.path),
            None => Ok(()),
        });
        renamed.map_err(|error| failed(&self.path, &error))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // It is gone if it was renamed.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

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
        out.publish().unwrap();
        let path = out.path().to_owned();
        drop(out);
        assert_eq!(names(&path), ["good"]);
    }

    #[test]
    fn two_runs_into_one_directory_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for run in 0..8 {
                let path = folder.path();
                scope.spawn(move || {
                    for _ in 0..20 {
                        let out = OutputDir::prepare(path).unwrap();
                        for file in 0..20 {
                            out.write(&format!("{file}"), |w| write!(w, "{run}")).unwrap();
                        }
                        out.publish().unwrap();
                    }
                });
            }
        });
        assert_eq!(names(folder.path()).len(), 20);
        let content = |file: i32| fs::read_to_string(folder.path().join(file.to_string())).unwrap();
        assert!((0..20).all(|file| content(file) == content(0)));
    }

    #[test]
    fn what_was_not_published_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("curve.csv"), "old").unwrap();
        let out = OutputDir::prepare(folder.path()).unwrap();
        out.write("curve.csv", |w| w.write_all(b"new")).unwrap();
        drop(out);
        assert_eq!(names(folder.path()), ["curve.csv"]);
        assert_eq!(fs::read_to_string(folder.path().join("curve.csv")).unwrap(), "old");
    }

    #[test]
    fn an_unusable_directory_is_found_before_anything_is_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = OutputDir::prepare(file.path()).unwrap_err().to_string();
        assert!(error.starts_with("--out ") && error.contains("can be written to"), "{error}");
    }

    #[test]
    fn the_file_of_one_result_is_whole_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curve.json");
        drop(OutputFile::prepare(&path).unwrap());
        assert!(names(folder.path()).is_empty());
        OutputFile::prepare(&path).unwrap().write(b"{}").unwrap();
        assert_eq!(
            (names(folder.path()), fs::read(&path).unwrap()),
            (vec!["curve.json".into()], b"{}".into())
        );
        OutputFile::prepare(Path::new("/dev/null")).unwrap().write(b"lost").unwrap();
        for refused in [folder.path(), &path.join("below"), Path::new("..")] {
            assert!(OutputFile::prepare(refused).is_err(), "{refused:?}");
        }
    }
}
