//! Where the bytes of a trace come from: the input as it is, or decompressed from some byte on.

use std::fmt;
use std::io::{self, Read};

#[cfg(feature = "bzip2")]
type Compressed<R> = bzip2::read::MultiBzDecoder<io::Chain<io::Cursor<Vec<u8>>, R>>;

/// An input whose rest may turn out to be compressed.
pub(super) enum Source<R> {
    Plain(R),
    #[cfg(feature = "bzip2")]
    Bzip2(Box<Compressed<R>>),
    /// While one becomes the other.
    #[cfg(feature = "bzip2")]
    Taken,
}

impl<R: Read> Source<R> {
    /// From here on, `unread` first, the input is compressed with bzip2.
    #[cfg(feature = "bzip2")]
    pub(super) fn decompress(&mut self, unread: Vec<u8>) {
        *self = match std::mem::replace(self, Self::Taken) {
            Self::Plain(input) => {
                Self::Bzip2(Box::new(Compressed::new(io::Cursor::new(unread).chain(input))))
            }
            other => other,
        };
    }

    /// What is wrong with the compressed data, if an error is theirs and not the input's.
    #[cfg_attr(not(feature = "bzip2"), allow(unused_variables))] // plain input is never to blame
    pub(super) fn blame(&self, error: &io::Error) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            #[cfg(feature = "bzip2")]
            _ => match error.kind() {
                io::ErrorKind::UnexpectedEof => Some("the bzip2 data end early: the file is truncated"),
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Some("corrupt bzip2 data"),
                _ => None,
            },
        }
    }
}

impl<R: Read> Read for Source<R> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            #[cfg(feature = "bzip2")]
            Self::Bzip2(decoder) => decoder.read(buffer),
            #[cfg(feature = "bzip2")]
            Self::Taken => Ok(0),
        }
    }
}

impl<R> fmt::Debug for Source<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            #[cfg(feature = "bzip2")]
            _ => "Bzip2",
        })
    }
}
