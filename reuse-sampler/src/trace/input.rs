//! The bytes of a trace: read a buffer at a time, handed out as slices.

use std::io::{ErrorKind, Read};

use super::source::Source;
use crate::SamplerError;

/// Bytes read at a time, and the longest record there can be.
pub(super) const BUFFER: usize = 256 << 10;

/// A buffered byte stream that knows how far it was consumed.
#[derive(Debug)]
pub(super) struct Input<R> {
    pub(super) format: &'static str,
    source: Source<R>,
    buffer: Vec<u8>, // BUFFER long once something was read
    start: usize,    // <= end: bytes before were consumed
    end: usize,      // <= buffer.len()
    before: u64,     // bytes consumed before buffer[0]
    exhausted: bool, // the input has ended, or must not be read any more
}

impl<R: Read> Input<R> {
    pub(super) const fn new(format: &'static str, source: R) -> Self {
        Self {
            format,
            source: Source::Plain(source),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            before: 0,
            exhausted: false,
        }
    }

    /// The bytes that were read and not consumed.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes `count` of the unread bytes.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Bytes consumed since the beginning.
    pub(super) const fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Reads more behind the unread bytes, of which there are less than [`BUFFER`]. `false` if there is no more.
    #[cold]
    pub(super) fn refill(&mut self) -> Result<bool, SamplerError> {
        if self.buffer.is_empty() && !self.exhausted {
            self.buffer.resize(BUFFER, 0);
        }
        self.before = self.offset();
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while !self.exhausted {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.exhausted = true,
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    if let Some(problem) = self.source.blame(&source) {
                        return Err(self.malformed(problem));
                    }
                    self.stop();
                    let object = format!("{} trace", self.format);
                    return Err(SamplerError::Io { operation: "read", object, source });
                }
            }
        }
        Ok(false)
    }

    /// What follows is compressed with bzip2; offsets go on counting what it decompresses to.
    #[cfg(feature = "bzip2")]
    pub(super) fn decompress(&mut self) {
        let unread = self.unread().to_vec();
        self.end = self.start;
        self.source.decompress(unread);
    }

    /// The input counts as ended, and what is unread as consumed.
    pub(super) fn stop(&mut self) {
        self.exhausted = true;
        self.start = self.end;
    }

    /// Whether the input has ended and everything was consumed.
    pub(super) const fn has_ended(&self) -> bool {
        self.exhausted && self.start == self.end
    }

    /// The next `N` bytes, or `None` at the end of the input.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self) -> Result<Option<[u8; N]>, SamplerError> {
        loop {
            if let Some(&record) = self.unread().first_chunk::<N>() {
                self.consume(N);
                return Ok(Some(record));
            }
            if !self.refill()? {
                return if self.unread().is_empty() { Ok(None) } else { Err(self.truncated()) };
            }
        }
    }

    /// The next `N` bytes, which must be there: a record has begun.
    #[inline]
    pub(super) fn need<const N: usize>(&mut self) -> Result<[u8; N], SamplerError> {
        match self.take()? {
            Some(bytes) => Ok(bytes),
            None => Err(self.truncated()),
        }
    }

    /// Something is wrong with what was read last. The input counts as ended.
    #[cold]
    pub(super) fn malformed(&mut self, problem: &'static str) -> SamplerError {
        let offset = self.offset();
        self.stop();
        SamplerError::BinaryTrace { format: self.format, offset, problem }
    }

    #[cold]
    fn truncated(&mut self) -> SamplerError {
        self.malformed("the file ends within a record: it is truncated, or not of this format")
    }
}
