//! What `perf record` writes: samples of executed instructions, of branches and of memory accesses.
//!
//! The file is read as a stream, from its beginning to the end of its data: pipes (`perf record -o -`) and files alike.
//! It is parsed here and not by a library because those that there are skip branch stacks and what kind of access a
//! sample is of, and trust sizes that the file states.
//!
//! | file | why it is not read |
//! |---|---|
//! | of the other byte order | read it on a machine of that kind |
//! | recorded with `-z` | record it without compression |
//! | with data before the descriptions of its events | no version of perf writes one |

mod attributes;
mod file;
mod order;
mod sample;
mod windows;
#[cfg(test)]
mod writing;

pub use windows::{PerfWindowOptions, PerfWindows};

use std::io::Read;

use crate::{AccessKind, SamplerError};
use file::{File, Record};
use order::InOrder;

const FORMAT: &str = "perf-data";

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerfSample {
    /// When it was taken, in nanoseconds of the clock that perf used; 0 if the file does not say.
    pub time: u64,
    /// The thread, by the system's number; 0 if the file does not say.
    pub thread: u32,
    /// The instruction, 0 if the file does not say. Where the hardware is not precise, one shortly after it.
    pub pc: u64,
    /// The memory accessed, where the event is one of memory.
    pub address: Option<u64>,
    /// Load or store, if the file says.
    pub kind: Option<AccessKind>,
    /// How many events it stands for; 1 if the file does not say.
    pub period: u64,
    /// Which event, by its place in [`PerfDataReader::events`].
    pub event: usize,
    /// Whether it is of the kernel or a hypervisor and not of the program.
    pub in_kernel: bool,
    /// Branches taken before it, the latest first: from where, to where.
    pub branches: Vec<(u64, u64)>,
}

/// Reads the samples of a `perf.data` file, by time.
///
/// perf writes what each processor recorded in pieces, and says when all pieces up to some time are there. Samples are
/// held back until then, at most 2^18 of them: what comes later than that is returned late.
///
/// # Errors
/// [`SamplerError::BinaryTrace`] for a file that is not perf's, compressed by `perf record -z`, of the other
/// byte order, or malformed; [`SamplerError::Io`] if the input cannot be read.
///
/// ```no_run
/// use reuse_sampler::trace::PerfDataReader;
///
/// let mut reader = PerfDataReader::new(std::fs::File::open("perf.data")?);
/// while let Some(sample) = reader.next_sample()? {
///     println!("{} ns: thread {} at {:#x}", sample.time, sample.thread, sample.pc);
/// }
/// println!("of {:?}, {} samples lost", reader.events()?, reader.lost());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Linux, `tools/perf/Documentation/perf.data-file-format.txt`; `perf_event_open(2)`, "MMAP layout".
#[derive(Debug)]
pub struct PerfDataReader<R> {
    file: File<R>,
    waiting: InOrder,
    lost: u64,
    ended: bool,
}

impl<R: Read> PerfDataReader<R> {
    /// A reader that has read nothing yet.
    pub fn new(input: R) -> Self {
        Self { file: File::new(input), waiting: InOrder::default(), lost: 0, ended: false }
    }

    /// Names of the events that were recorded, such as `cycles` or `cpu-clock`; raw ones as `type:config`. In a pipe,
    /// those described so far.
    ///
    /// # Errors
    /// As [`next_sample`](Self::next_sample).
    pub fn events(&mut self) -> Result<Vec<String>, SamplerError> {
        self.file.begin()?;
        Ok(self.file.events().iter().map(attributes::Attributes::name).collect())
    }

    /// Samples that the kernel says were lost, so far: the program was faster than perf.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The next sample, or `None` at the end.
    ///
    /// # Errors
    /// See above. After an error there is nothing more.
    pub fn next_sample(&mut self) -> Result<Option<PerfSample>, SamplerError> {
        loop {
            if let Some(sample) = self.waiting.next() {
                return Ok(Some(sample));
            }
            if self.ended {
                return Ok(None);
            }
            match self.file.next_record() {
                Ok(Some(Record::Sample(sample))) => self.waiting.push(sample),
                Ok(Some(Record::Lost(count))) => self.lost = self.lost.saturating_add(count),
                Ok(Some(Record::RoundFinished)) => self.waiting.finish_round(),
                Ok(None) => {
                    self.ended = true;
                    self.waiting.finish();
                }
                Err(error) => {
                    // What came before it was read correctly, but a file is taken as a whole.
                    self.ended = true;
                    self.waiting = InOrder::default();
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
