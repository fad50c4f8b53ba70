//! Phase profiles as files: JSON for people and, with the feature `parquet`, Parquet for fleets. Both hold the same.

#[cfg(feature = "parquet")]
mod columns;

use std::fs;
use std::path::Path;

use reuse_sampler::file::{FileError, PhaseProfile};

use crate::cli::Failure;

/// What a Parquet file begins with.
const MAGIC: &[u8] = b"PAR1";

/// Reads a profile, whichever of the two the file is.
///
/// # Errors
/// [`Failure::Run`], which names the file and what is wrong with it.
pub fn read(path: &Path) -> Result<PhaseProfile, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("{}: {error}", path.display()));
    let content = fs::read(path).map_err(|error| failed(&error))?;
    parse(path, &content).map_err(|error| failed(&error))
}

/// Writes a profile, as Parquet if the file's name ends so.
///
/// # Errors
/// As [`read`].
pub fn write(profile: &PhaseProfile, path: &Path) -> Result<(), Failure> {
    let written = encode(profile, is_parquet(path)).and_then(|content| Ok(fs::write(path, content)?));
    written.map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
}

/// The profile in a file's content.
pub(crate) fn parse(path: &Path, content: &[u8]) -> Result<PhaseProfile, FileError> {
    if !content.starts_with(MAGIC) {
        return PhaseProfile::read(content);
    }
    from_columns(path)
}

/// Whether a profile goes to this file as Parquet, by the file's ending.
pub(crate) fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
}

/// A profile as it is in a Parquet file, or as JSON.
pub(crate) fn encode(profile: &PhaseProfile, parquet: bool) -> Result<Vec<u8>, FileError> {
    if parquet {
        return to_columns(profile);
    }
    let mut text = Vec::new();
    profile.write(&mut text)?;
    Ok(text)
}

#[cfg(feature = "parquet")]
fn from_columns(path: &Path) -> Result<PhaseProfile, FileError> {
    columns::read(fs::File::open(path)?)
}

#[cfg(feature = "parquet")]
fn to_columns(profile: &PhaseProfile) -> Result<Vec<u8>, FileError> {
    columns::write(profile)
}

#[cfg(not(feature = "parquet"))]
fn from_columns(_: &Path) -> Result<PhaseProfile, FileError> {
    Err(without("a Parquet file: read it with a program built with --features parquet"))
}

#[cfg(not(feature = "parquet"))]
fn to_columns(_: &PhaseProfile) -> Result<Vec<u8>, FileError> {
    Err(without("Parquet is written by a program built with --features parquet"))
}

#[cfg(not(feature = "parquet"))]
fn without(what: &str) -> FileError {
    FileError::Io(std::io::Error::new(std::io::ErrorKind::Unsupported, what))
}
