//! libCacheSim's binary format `oracleGeneral`: requests for objects, each with the time of the next one.

use std::io::Read;
use std::ops::ControlFlow;

use super::input::Input;
use crate::replay::{Event, EventSource};
use crate::{Access, SamplerError};

/// Reads libCacheSim's `oracleGeneral`.
///
/// A record is 24 bytes, little-endian and without padding: time (u32, seconds), object (u64), size (u32, bytes)
/// and the number of the next request for the same object (i64, negative for none). Requests become loads of 1
/// byte whose address is the object's number: observe them at a line size of 1, so that a line is an object and
/// a cache of n lines holds n objects, whatever their size. [`next_request`](Self::next_request) gives the size, too. Time
/// and next request are not used.
///
/// # Errors
/// [`SamplerError::BinaryTrace`] if the file ends within a record, [`SamplerError::EmptyTrace`] if there is
/// none, [`SamplerError::Io`] if the input cannot be read. A file of another format is not recognised otherwise.
///
/// ```
/// use reuse_sampler::Access;
/// use reuse_sampler::replay::{Event, EventSource};
/// use reuse_sampler::trace::OracleGeneralReader;
///
/// let mut record = [0; 24];
/// record[4] = 42; // the lowest byte of the object's number
/// let mut trace = OracleGeneralReader::new(&record[..]);
/// assert_eq!(trace.next_event()?, Some(Event::Access(Access::load(42, 1))));
/// # Ok::<(), reuse_sampler::SamplerError>(())
/// ```
///
/// # References
/// Yang, *libCacheSim*, trace type `oracleGeneral`.
#[derive(Debug)]
pub struct OracleGeneralReader<R> {
    input: Input<R>,
    empty: bool, // no record so far
}

const FORMAT: &str = "oracle-general";
const RECORD: usize = 24;

impl<R: Read> OracleGeneralReader<R> {
    /// A reader that has read nothing yet.
    pub const fn new(input: R) -> Self {
        Self { input: Input::new(FORMAT, input), empty: true }
    }
}

/// A request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectRequest {
    /// The object's number.
    pub object: u64,
    /// Its size in bytes.
    pub bytes: u32,
}

impl ObjectRequest {
    /// A request for an object of so many bytes.
    #[must_use]
    pub const fn new(object: u64, bytes: u32) -> Self {
        Self { object, bytes }
    }
}

impl<R: Read> OracleGeneralReader<R> {
    /// The next request, with its object's size; `None` at the end.
    ///
    /// # Errors
    /// Those of reading the trace.
    pub fn next_request(&mut self) -> Result<Option<ObjectRequest>, SamplerError> {
        let first = std::mem::take(&mut self.empty);
        match self.input.take::<RECORD>()? {
            Some(record) => Ok(Some(ObjectRequest::new(object(&record), bytes(&record)))),
            None if first => Err(SamplerError::EmptyTrace { format: FORMAT }),
            None => Ok(None),
        }
    }
}

impl<R: Read> EventSource for OracleGeneralReader<R> {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, SamplerError> {
        let request = self.next_request()?;
        Ok(request.map(|request| Event::Access(Access::load(request.object, 1))))
    }

    /// Whole buffers at a time: a record is less work than asking for one.
    fn drive<B>(&mut self, mut take: impl FnMut(Event) -> ControlFlow<B>) -> Result<Option<B>, SamplerError> {
        loop {
            let mut consumed = 0;
            let mut broken = None;
            for record in self.input.unread().chunks_exact(RECORD) {
                consumed += RECORD;
                if let ControlFlow::Break(value) = take(Event::Access(Access::load(object(record), 1))) {
                    broken = Some(value);
                    break;
                }
            }
            self.input.consume(consumed);
            self.empty &= consumed == 0;
            if broken.is_some() {
                return Ok(broken);
            }
            // What is left begins a record that goes on in the next buffer, or there is nothing.
            match self.next_event()? {
                Some(event) => {
                    if let ControlFlow::Break(value) = take(event) {
                        return Ok(Some(value));
                    }
                }
                None => return Ok(None),
            }
        }
    }
}

#[inline]
fn object(record: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&record[4..12]);
    u64::from_le_bytes(number)
}

fn bytes(record: &[u8]) -> u32 {
    let mut size = [0; 4];
    size.copy_from_slice(&record[12..16]);
    u32::from_le_bytes(size)
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    fn record(object: u64) -> Vec<u8> {
        // Time, size and next request are all ones, so that a byte taken from the wrong place shows.
        [&[0xff; 4][..], &object.to_le_bytes(), &[0xff; 12]].concat()
    }

    quickcheck! {
        fn objects_come_in_order(objects: Vec<u64>) -> bool {
            let bytes: Vec<u8> = objects.iter().flat_map(|&object| record(object)).collect();
            let mut reader = OracleGeneralReader::new(&bytes[..]);
            let in_order = objects.iter().all(|&object| {
                matches!(reader.next_event(), Ok(Some(Event::Access(a))) if a == Access::load(object, 1))
            });
            let end = reader.next_event();
            in_order && if objects.is_empty() { end.is_err() } else { matches!(end, Ok(None)) }
        }

        fn driving_is_asking_for_one_event_after_the_other(objects: Vec<u64>, repeat: u8, stop: u16) -> bool {
            // Beyond the buffer, now and then, and stopped and resumed somewhere.
            let repeat = usize::from(repeat) * 40;
            let objects: Vec<u64> = objects.iter().copied().cycle().take(objects.len() * repeat).collect();
            let bytes: Vec<u8> = objects.iter().flat_map(|&object| record(object)).collect();
            let mut reader = OracleGeneralReader::new(&bytes[..]);
            let mut driven = Vec::new();
            let end = loop {
                let driving = reader.drive(|event| {
                    if let Event::Access(access) = event {
                        driven.push(access.address);
                    }
                    if driven.len() % (usize::from(stop) + 1) == 0 {
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                });
                match driving {
                    Ok(Some(())) => {}
                    end => break end,
                }
            };
            driven == objects && end.is_err() == objects.is_empty()
        }
    }

    #[test]
    fn requests_carry_their_size() {
        let bytes = [&[0; 4][..], &7_u64.to_le_bytes(), &513_u32.to_le_bytes(), &[0xff; 8]].concat();
        let mut reader = OracleGeneralReader::new(&bytes[..]);
        assert!(matches!(reader.next_request(), Ok(Some(ObjectRequest { object: 7, bytes: 513 }))));
        assert!(matches!(reader.next_request(), Ok(None)));
    }

    #[test]
    fn a_file_that_ends_within_a_record_says_where() {
        let bytes = [record(1), record(2)].concat();
        let mut reader = OracleGeneralReader::new(&bytes[..47]);
        assert!(matches!(reader.next_event(), Ok(Some(_))));
        let error = reader.next_event().unwrap_err();
        assert_eq!(
            error.to_string(),
            "oracle-general trace, byte 24: the file ends within a record: it is truncated, or not of this format"
        );
        assert!(matches!(reader.next_event(), Ok(None)));
    }
}
