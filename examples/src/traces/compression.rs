//! Decompression chosen by content. All of a file must be there: data that end early or do not match their
//! checksum are an error, never a shorter trace.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::zstd::ZstdReader;

/// First bytes that identify every compression.
pub(super) const HEAD: u64 = 6;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// None, by its first bytes.
    None,
    /// `.gz`, any number of members.
    Gzip,
    /// `.bz2`, any number of streams.
    Bzip2,
    /// `.xz`, any number of streams.
    Xz,
    /// `.zst`, any number of frames.
    Zstd,
    /// Recognised, and not read.
    Other(&'static str),
}

impl Compression {
    /// What a file is that begins with `head`.
    pub const fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [b'P', b'K', 3, 4, ..] => Self::Other("a zip archive"),
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Self::Other("a 7z archive"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Other("lz4"),
            _ => Self::None,
        }
    }
}

/// The decompressed content of `input`.
///
/// # Errors
/// The name of a compression that is not read.
pub fn decompress<R: Read + Send + 'static>(
    compression: Compression,
    input: R,
) -> Result<Box<dyn Read + Send>, &'static str> {
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(Whole::new("gzip", input, MultiGzDecoder::new)),
        Compression::Bzip2 => Box::new(Whole::new("bzip2", input, MultiBzDecoder::new)),
        Compression::Xz => Box::new(Whole::new("xz", input, |input| XzReader::new(input, true))),
        Compression::Zstd => Box::new(Whole::new("zstd", input, ZstdReader::new)),
        Compression::Other(name) => return Err(name),
    })
}

/// A decoder whose errors say what is wrong with the file.
struct Whole<D> {
    name: &'static str,
    decoder: D,
    seen: Arc<Seen>,
    failed: bool,
}

/// What the decoder met below it.
#[derive(Debug, Default)]
struct Seen {
    end: AtomicBool,
    failure: AtomicBool,
}

impl<D> Whole<D> {
    fn new<R>(name: &'static str, input: R, decoder: impl FnOnce(Source<R>) -> D) -> Self {
        let seen = Arc::new(Seen::default());
        Self { name, decoder: decoder(Source { input, seen: seen.clone() }), seen, failed: false }
    }

    fn explain(&self, error: io::Error) -> io::Error {
        if self.seen.failure.load(Ordering::Relaxed) {
            return error; // not the data's fault
        }
        let name = self.name;
        if self.seen.end.load(Ordering::Relaxed) {
            let what = format!("{name} data end early: the file is truncated");
            io::Error::new(ErrorKind::UnexpectedEof, what)
        } else {
            io::Error::new(ErrorKind::InvalidData, format!("corrupt {name} data: {error}"))
        }
    }
}

impl<D: Read> Read for Whole<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed {
            return Ok(0); // a decoder is in no state to be asked again after an error
        }
        match self.decoder.read(buffer) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                self.failed = true;
                Err(self.explain(error))
            }
            result => result,
        }
    }
}

/// The compressed data: gives as many bytes as are asked for while there are any, which decoders rely on, and
/// remembers when a decoder wanted more than there are.
struct Source<R> {
    input: R,
    seen: Arc<Seen>,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => {
                    self.seen.end.store(true, Ordering::Relaxed);
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.seen.failure.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same 3,000 records in two parts, compressed by the reference tools of each format; between the parts
    /// lie stream padding (xz) and a skippable frame (zstd).
    const FILES: [(&str, &[u8]); 4] = [
        ("bzip2", include_bytes!("../../tests/data/trace.din.bz2")),
        ("gzip", include_bytes!("../../tests/data/trace.din.gz")),
        ("xz", include_bytes!("../../tests/data/trace.din.xz")),
        ("zstd", include_bytes!("../../tests/data/trace.din.zst")),
    ];

    fn record(i: u64) -> String {
        format!("{} {:x}\n", i % 3 % 2, (i * i * 64) % (1 << 20))
    }

    fn decompressed(file: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        let compression = Compression::of(&file[..file.len().min(HEAD as usize)]);
        decompress(compression, io::Cursor::new(file.to_vec())).unwrap().read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn all_parts_of_a_file_are_read() {
        let expected: String = (0..3000).map(record).collect();
        for (name, file) in FILES {
            assert_eq!(decompressed(file).unwrap(), expected, "{name}");
        }
        assert_eq!(decompressed(b"0 10\n").unwrap(), "0 10\n");
        assert_eq!(decompressed(b"").unwrap(), "");
    }

    #[test]
    fn a_truncated_file_is_an_error_that_says_so() {
        let first_part: String = (0..1000).map(record).collect();
        for (name, file) in FILES {
            let mut whole_parts = 0;
            for length in (HEAD as usize..file.len()).step_by(4) {
                match decompressed(&file[..length]) {
                    // A file that ends with its first part looks like one that has only that part.
                    Ok(text) => {
                        assert_eq!(text, first_part, "{name}, {length} bytes");
                        whole_parts += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{name}, {length} bytes: {error}");
                        let text = error.to_string();
                        assert_eq!(text, format!("{name} data end early: the file is truncated"));
                    }
                }
            }
            // The end of the part, and every byte of the padding.
            assert!(whole_parts <= 9, "{name}: {whole_parts}");
        }
    }

    #[test]
    fn a_damaged_file_never_passes_for_another_trace() {
        let expected: String = (0..3000).map(record).collect();
        for (name, file) in FILES {
            let mut found = 0;
            for place in (HEAD as usize..file.len()).step_by(3) {
                let mut damaged = file.to_vec();
                damaged[place] ^= 1 << (place % 8);
                match decompressed(&damaged) {
                    Ok(text) => assert!(text == expected, "{name}, byte {place}"), // a time stamp, say
                    Err(_) => found += 1,
                }
            }
            assert!(found > file.len() / 3 - 20, "{name}: {found}");
        }
    }

    #[test]
    fn a_failing_disk_is_not_called_a_damaged_file() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("disk on fire"))
            }
        }
        for (name, file) in FILES {
            let input = io::Cursor::new(file[..500].to_vec()).chain(Failing);
            let compression = Compression::of(&file[..HEAD as usize]);
            let error = io::copy(&mut decompress(compression, input).unwrap(), &mut io::sink()).unwrap_err();
            assert!(error.to_string().contains("disk on fire"), "{name}: {error}");
        }
    }
}
