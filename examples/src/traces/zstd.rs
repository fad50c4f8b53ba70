//! A whole `.zst` file: any number of frames, skippable ones among them, each checked against its checksum.

use std::io::{self, ErrorKind, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Decoded bytes that are asked of a frame at a time.
const STEP: usize = 128 << 10;

/// Reads the content of all frames.
pub struct ZstdReader<R> {
    input: R,
    frame: FrameDecoder,
    in_frame: bool,
}

impl<R: Read> ZstdReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, frame: FrameDecoder::new(), in_frame: false }
    }

    /// Begins the next frame, if there is one.
    fn begin(&mut self) -> io::Result<bool> {
        let mut first = [0];
        while self.input.read(&mut first)? > 0 {
            let header = (&first[..]).chain(&mut self.input);
            match self.frame.reset(header) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.input.by_ref().take(length), &mut io::sink())? < length {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }

    fn end(&self) -> io::Result<()> {
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(stored), Some(calculated)) if stored != calculated => {
                Err(io::Error::new(ErrorKind::InvalidData, "the checksum does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.in_frame {
                if !self.begin()? {
                    break;
                }
                self.in_frame = true;
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                self.frame
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBytes(STEP))
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            }
            let count = self.frame.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.in_frame = false;
            self.end()?;
        }
        Ok(0)
    }
}
