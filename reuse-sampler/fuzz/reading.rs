//! Laws that hold for every trace reader and every input.

use std::io::{self, Read};

use reuse_sampler::SamplerError;
use reuse_sampler::replay::{Event, EventSource};
use reuse_sampler::trace::{TraceFormat, TraceReader};

/// Gives what it holds a few bytes at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.min(buffer.len()).min(self.rest.len());
        let (now, later) = self.rest.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.rest = later;
        Ok(count)
    }
}

/// Everything a reader says until it ends or fails.
pub fn read(format: TraceFormat, input: impl Read) -> (Vec<Event>, Option<SamplerError>) {
    let mut reader = TraceReader::new(format, input);
    let mut events = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(event),
            end => {
                assert!(matches!(reader.next_event(), Ok(None)), "goes on after its end");
                return (events, end.err());
            }
        }
    }
}

/// Whether the records of `input` are compressed: USF says so behind its magic word, the header's length and version.
fn is_compressed(format: TraceFormat, input: &[u8]) -> bool {
    format == TraceFormat::Usf && input.get(11).is_some_and(|&compression| compression != 0)
}

/// Reads all of `input`, checks that it reads the same in small pieces, and that a trace is either refused or
/// has an access in it.
pub fn check(format: TraceFormat, input: &[u8]) -> Vec<Event> {
    let (events, error) = read(format, input);
    let piece = 1 + input.first().map_or(0, |&byte| usize::from(byte) % 7);
    let (again, again_error) = read(format, Pieces { rest: input, piece });
    if is_compressed(format, input) && error.is_some() {
        // A decompressor may tell of damage before or after it has handed out what it made last.
        assert!(again_error.is_some() && (events.starts_with(&again) || again.starts_with(&events)));
    } else {
        assert_eq!(events, again);
        assert_eq!(error.as_ref().map(ToString::to_string), again_error.as_ref().map(ToString::to_string));
    }
    let accesses = events.iter().filter(|event| matches!(event, Event::Access(_))).count();
    assert!(error.is_some() || accesses > 0);
    events
}
