//! Trace files: plain or compressed (recognised by their first bytes), read as a stream.
//!
//! The parsers themselves are [`reuse_sampler::trace`]; here is what a command line needs around them: the file
//! or standard input, decompression, the guess of a format from a name, and how far reading has come.

mod compression;
mod running;
mod sources;
mod traced;
mod zstd;

pub use compression::{Compression, decompress};
pub use running::{STRETCH, notes_on, trace_program};
pub use sources::{Limits, RunEnd, Source, SourceArgs, Windows};
pub use traced::{Merged, Traced};

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reuse_sampler::trace::{TraceFormat, TraceReader};

use crate::cli::Failure;

/// A trace that is about to be read.
pub type TraceStream = TraceReader<Box<dyn Read + Send>>;

/// The format by the extension of a file's name, without that of a compression: `trace.din.xz` is din, and
/// `trace.oracleGeneral.bin.zst` is oracle-general.
///
/// # Errors
/// [`Failure::Usage`] if the extension is of no format.
pub fn format_of(path: &Path) -> Result<TraceFormat, Failure> {
    let mut plain = path.to_owned();
    if has_extension(path, &["bz2", "gz", "xz", "zst"]) {
        plain.set_extension("");
    }
    if has_extension(&plain, &["bin"]) {
        plain.set_extension("");
    }
    if has_extension(&plain, &["oracleGeneral"]) {
        return Ok(TraceFormat::OracleGeneral);
    }
    let extension = plain.extension().and_then(|extension| extension.to_str());
    extension.and_then(TraceFormat::named).ok_or_else(|| {
        let names: Vec<&str> = TraceFormat::ALL.iter().map(|format| format.name()).collect();
        let (path, formats) = (path.display(), one_of(&names));
        Failure::Usage(format!(
            "cannot determine the format of {path} from its name: give --format {formats}"
        ))
    })
}

/// What an input file is called.
pub fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// `a, b or c`.
fn one_of(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

fn has_extension(path: &Path, any: &[&str]) -> bool {
    path.extension().is_some_and(|extension| any.iter().any(|one| extension == *one))
}

/// How much of a trace file was read, in bytes as they are on disk. Shared with whoever reads it.
#[derive(Clone, Debug, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    /// Bytes so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file that was found readable, decompressed if its first bytes say so.
pub struct InputFile {
    /// Its content.
    pub reader: Box<dyn Read + Send>,
    /// How far it was read.
    pub read: BytesRead,
    /// Its size in bytes, where it has one: pipes have none.
    pub bytes: Option<u64>,
}

impl InputFile {
    /// Opens `path`, or standard input for `-`.
    ///
    /// # Errors
    /// [`Failure::Run`] if it cannot be opened, or is compressed in a way that is not read.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Run(format!("{}: {error}", path.display()));
        let (input, bytes): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(failed)?;
            let about = file.metadata().map_err(failed)?;
            if about.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            (Box::new(file), about.is_file().then_some(about.len()))
        };
        let read = BytesRead::default();
        let counted = Counted { input, count: read.clone() };
        let mut input = BufReader::with_capacity(1 << 18, counted);
        let mut head = Vec::new();
        input.by_ref().take(compression::HEAD).read_to_end(&mut head).map_err(failed)?;
        let compression = Compression::of(&head);
        let refused = |what| {
            let remedy = "decompress it first (gzip, bzip2, xz and zstd are read)";
            Failure::Run(format!("{}: {what} is not read: {remedy}", path.display()))
        };
        let reader = decompress(compression, Cursor::new(head).chain(input)).map_err(refused)?;
        Ok(Self { reader, read, bytes })
    }
}

/// A trace file that was found readable.
pub struct TraceFile {
    /// Its events.
    pub stream: TraceStream,
    /// How far it was read.
    pub read: BytesRead,
    /// Its size in bytes, where it has one: pipes have none.
    pub bytes: Option<u64>,
}

impl TraceFile {
    /// Opens `path`, or standard input for `-`, as a trace in `format`.
    ///
    /// # Errors
    /// As [`InputFile::open`].
    pub fn open(path: &Path, format: TraceFormat) -> Result<Self, Failure> {
        let InputFile { reader, read, bytes } = InputFile::open(path)?;
        Ok(Self { stream: TraceReader::new(format, reader), read, bytes })
    }
}

struct Counted<R> {
    input: R,
    count: BytesRead,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.count.0.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use reuse_sampler::Access;
    use reuse_sampler::replay::{Event, EventSource};

    use super::*;

    #[test]
    fn names_give_formats() {
        for (name, format) in [
            ("a.din", TraceFormat::Din),
            ("a.b/c.lackey.gz", TraceFormat::Lackey),
            ("x.din.xz", TraceFormat::Din),
            ("x.lackey.zst", TraceFormat::Lackey),
            ("x.csv.bz2", TraceFormat::Csv),
            ("w92.oracleGeneral.bin.zst", TraceFormat::OracleGeneral),
            ("w92.oracleGeneral", TraceFormat::OracleGeneral),
            ("w92.oracle-general.gz", TraceFormat::OracleGeneral),
        ] {
            assert_eq!(format_of(Path::new(name)).unwrap(), format);
        }
        for name in ["-", "din", "a.txt", "a.gz", "a.bz2", "a.bin", ""] {
            let error = format_of(Path::new(name)).unwrap_err().to_string();
            assert!(error.contains("--format csv, din, lackey, oracle-general or usf"), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_and_counted() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0 40\n").unwrap();
        let mut trace = TraceFile::open(file.path(), TraceFormat::Din).unwrap();
        assert_eq!(trace.bytes, Some(5));
        assert_eq!(trace.stream.next_event().unwrap(), Some(Event::Access(Access::load(64, 0))));
        assert_eq!(trace.stream.next_event().unwrap(), None);
        assert_eq!(trace.read.get(), 5);
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let open = |path: &Path| TraceFile::open(path, TraceFormat::Din).err().unwrap().to_string();
        let folder = tempfile::tempdir().unwrap();
        assert!(open(folder.path()).contains("directory"));
        assert!(open(&folder.path().join("missing.din")).contains("missing.din: No such file"));
        let zip = folder.path().join("a.din.zip");
        std::fs::write(&zip, b"PK\x03\x04").unwrap();
        assert!(open(&zip).contains("a.din.zip: a zip archive is not read: decompress it first"));
    }
}
